/* The faults of model Redis servers, and the table by which the simulator knows the model. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim/redis_model.h"
#include "stores/redis/redis.h"

#define HESITATES_NS (2 * SIM_S) /* a master of a cluster that was restarted */
#define SYNC_NS (200 * SIM_MS)

sim_redis_state *redis_state_of(const sim *s)
{
    return s->servers;
}

sim_server *redis_master_of(const sim *s, unsigned mutex)
{
    sim_redis_state *state = redis_state_of(s);
    return &state->server[state->shard[state->shard_of[mutex]].master];
}

bool redis_is_away(const sim *s, const sim_server *server)
{
    return s->now < server->down_until || s->now < server->frozen_until;
}

void redis_plan(sim *s, sim_redis_event kind, unsigned index, int64_t at, uint32_t version, uint32_t arg)
{
    sim_plan_event(s, EV_SERVER, (unsigned)kind << 4 | index, at, version, arg);
}

static void event(sim *s, const sim_event *event)
{
    static void (*const happen[])(sim * s, const sim_event *event) = {
        [REDIS_REPLICATE] = replicas_event, [REDIS_WAIT_OVER] = server_wait_over, [REDIS_JVM] = jvms_event,
        [REDIS_PROMOTE] = failover_promote, [REDIS_RETURN] = failover_return,     [REDIS_SYNC] = replicas_sync,
        [REDIS_HEAR] = views_event,         [REDIS_MOVE_KEY] = cluster_move_key,  [REDIS_MOVED] = cluster_moved,
    };
    happen[event->who >> 4](s, event);
}

/* --- what goes wrong --------------------------------------------------------------------------------- */

/* One of the servers: often the master of a mutex, sometimes a replica, or a sentinel. */
static sim_server *choose(sim *s, const sim_item *item)
{
    sim_redis_state *state = redis_state_of(s);
    if (item->who % 3 != 0)
        return redis_master_of(s, item->who % s->plan->mutexes);
    return &state->server[(uint64_t)item->at_ns / 1000 % (state->first + state->servers)];
}

/* A server that does not answer is trouble for processes that need it: nobody needs one of three sentinels, nor a replica
 * that has nothing to confirm. */
static void trouble(sim *s, const sim_server *server, int64_t until)
{
    if (!sentinel_is(s, server->index) && (server->master == SIM_NOBODY || s->plan->replicas > 0))
        check_trouble(s, SIM_PROCESSES, s->now, until);
}

/* It has kept nothing, and for one lease and a second it grants nothing new. */
static void start_empty(sim *s, sim_server *server, int64_t until)
{
    const int64_t lease_ns = (s->plan->timing.ttl_ms + s->plan->timing.transition_ms) * SIM_MS;
    locks_forget_all(server);
    server->started_us = server_now_us(server) + (until - s->now) / 1000;
    trouble(s, server, until + lease_ns + lease_ns / 50 + 2 * SIM_S);
}

static void restart(sim *s, sim_server *server, int64_t until)
{
    if (s->plan->forgets)
        start_empty(s, server, until);
    if (s->plan->topology == SIM_SINGLE)
        s->store.down_until = until;
    else if (s->now < server->down_until)
        return;
    server->down_until = until;
    server->loaded = 0;
    redis_drop_all(s, server);
    if (server->master != SIM_NOBODY) {
        replicas_follow(s, server, &redis_state_of(s)->server[server->master], until - s->now + SYNC_NS);
        trouble(s, server, until + SYNC_NS);
    } else if (s->plan->topology == SIM_CLUSTER) {
        server->hesitates_until = until + HESITATES_NS;
        trouble(s, server, server->hesitates_until);
    } else {
        trouble(s, server, until);
    }
}

static void freeze(sim *s, sim_server *server, int64_t until)
{
    if (s->now < server->down_until)
        return;
    trouble(s, server, until);
    server->frozen_until = until;
    server->stuck_until = until; /* as a replica */
    if (s->plan->topology == SIM_SINGLE)
        s->store.frozen_until = until;
}

static void fail_over(sim *s, const sim_item *item, int64_t until)
{
    const sim_redis_state *state = redis_state_of(s);
    if (s->plan->topology != SIM_SINGLE) {
        failover_begin(s, item->who % state->shards, item, until);
        return;
    }
    check_trouble(s, SIM_PROCESSES, s->now, until);
    locks_forget(redis_master_of(s, 0), item->arg);
    failover_of_single(s);
    restart(s, redis_master_of(s, 0), until);
}

static void fault(sim *s, const sim_item *item, int64_t until)
{
    sim_server *chosen = s->plan->topology == SIM_SINGLE ? redis_master_of(s, 0) : choose(s, item);
    switch ((sim_item_kind)item->kind) {
    case SIM_ITEM_FREEZE:
        freeze(s, chosen, until);
        return;
    case SIM_ITEM_STORE_EPOCH:
        replicas_stick(s, until);
        return;
    case SIM_ITEM_MOVE_SLOT:
        if (s->plan->topology == SIM_CLUSTER)
            cluster_move(s, (unsigned)item->arg, until);
        return;
    case SIM_ITEM_FAIL_OVER:
        fail_over(s, item, until);
        return;
    default:
        restart(s, chosen, until);
    }
}

static bool accepts(const sim *s, unsigned server)
{
    const sim_redis_state *state = redis_state_of(s);
    const bool exists = s->plan->topology == SIM_SINGLE ? server == 0 : server < state->first + state->servers;
    return exists && s->now >= state->server[server].down_until;
}

static int64_t frozen_until(const sim *s, unsigned server)
{
    const sim_server *frozen = &redis_state_of(s)->server[server];
    return s->now < frozen->down_until ? 0 : frozen->frozen_until;
}

/* A fault of a process: the server closes its subscription connection, or the two ends have lost each other. */
static void lose_subscriptions(sim *s, unsigned process)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        const sim_peer *peer = wire_peer(s, wire);
        if (wire_process(s, wire) != process || peer->channels == 0)
            continue;
        if (sim_chance(s, 500))
            wire_drop(s, wire);
        else
            wire_silence(s, wire);
    }
}

static void healed(sim *s)
{
    wires_notice(s);
    if (s->now == s->plan->horizon_ns)
        jvms_leave(s);
    cluster_finish_move(s);
    failover_heal(s);
    views_heal(s);
}

/* --- life -------------------------------------------------------------------------------------------- */

static void *state_new(void)
{
    sim_redis_state *state = calloc(1, sizeof *state);
    if (!state)
        abort();
    state->scripts = scripts_new();
    return state;
}

static void state_free(void *servers)
{
    sim_redis_state *state = servers;
    scripts_free(state->scripts);
    free(state->past);
    free(state->sent);
    free(state);
}

/* How many servers have data, how many of them are masters, and which is the first. */
static void lay_out(sim *s)
{
    sim_redis_state *state = redis_state_of(s);
    const unsigned replicas = (unsigned)s->plan->replicas;
    state->first = s->plan->topology == SIM_SENTINEL ? SIM_SENTINELS : 0;
    state->shards = s->plan->topology == SIM_CLUSTER ? s->plan->servers : 1;
    assert(state->shards > 0 && state->shards <= SIM_SHARDS);
    state->servers = s->plan->topology == SIM_CLUSTER    ? 2 * state->shards
                     : s->plan->topology == SIM_SENTINEL ? 1 + (replicas ? replicas : s->plan->servers)
                                                         : 1 + replicas;
    for (unsigned i = 0; i < state->servers; i++) {
        sim_server *server = &state->server[state->first + i];
        server->master = i < state->shards ? SIM_NOBODY : state->first + (i - state->shards) % state->shards;
    }
    for (unsigned i = 0; i < state->shards; i++)
        state->shard[i] = (sim_shard){.master = (uint8_t)(state->first + i)};
    for (unsigned m = 0; m < SIM_MUTEXES; m++)
        state->shard_of[m] = (uint8_t)(m % state->shards);
}

static void begin(sim *s)
{
    sim_redis_state *state = redis_state_of(s);
    memset(state->server, 0, sizeof state->server);
    memset(&state->move, 0, sizeof state->move);
    state->pasts = 0;
    for (unsigned i = 0; i < SIM_HOSTS; i++) {
        state->server[i].s = s;
        state->server[i].index = i;
        state->server[i].master = SIM_NOBODY;
        state->server[i].started_us = -(int64_t)1000000 * 1000000; /* long ago */
    }
    lay_out(s);
    views_begin(s);
    replicas_begin(s);
    jvms_begin(s);
}

static void end(sim *s)
{
    for (unsigned i = 0; i < SIM_HOSTS; i++)
        redis_drop_all(s, &redis_state_of(s)->server[i]);
}

static void url(const sim *s, char *out, size_t size)
{
    static const char *const forms[] = {
        [SIM_SINGLE] = "redis://10.0.0.1",
        [SIM_SENTINEL] = "redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/main",
        [SIM_CLUSTER] = "redis+cluster://10.0.0.1,10.0.0.2",
    };
    snprintf(out, size, "%s?replicas=%ld&restart-wait=%s", forms[s->plan->topology], (long)s->plan->replicas,
             s->plan->forgets ? "yes" : "no");
}

const sim_model sim_redis = {
    .backend = &simba__backend_redis,
    .new = state_new,
    .free = state_free,
    .begin = begin,
    .end = end,
    .url = url,
    .event = event,
    .opened = redis_opened,
    .bytes = redis_bytes,
    .closed = redis_closed,
    .force_release = locks_force_release,
    .accepts = accepts,
    .frozen_until = frozen_until,
    .cut_until = views_cut_until,
    .fault = fault,
    .lose_subscriptions = lose_subscriptions,
    .healed = healed,
    .owner = locks_owner,
};
