/* Fail-over of model Redis servers, whoever arranges it: sentinels or the cluster. A master dies, or is cut off from all
 * other servers and does not know it. After a while one of its replicas is promoted, and those who watch hear of that one
 * after the other. In the end the old master comes back. It takes itself for a master until it is told, and is a replica
 * from then on.
 *
 * What was acknowledged is kept. With replicas=N a replica that is promoted has what it has confirmed, and the old master
 * may go on as it likes, because nobody confirms what it writes. Without, the old master must be dead and the promoted
 * replica must have everything; otherwise writes are lost, which --broken lost-writes is for. */
#include <stdlib.h>

#include "sim/redis_model.h"

#define DETECTED_NS (3 * SIM_S) /* at most, until a replica is promoted */
#define BELIEVES_NS (3 * SIM_S) /* at most, until a master that has come back is told that it is none */
#define SYNC_NS (200 * SIM_MS)

static bool keeps_writes(const sim *s)
{
    return s->plan->broken != SIM_BROKEN_LOST_WRITES;
}

/* May a master that was replaced answer as if nothing had happened? */
static bool may_linger(const sim *s)
{
    return s->plan->replicas > 0 || !keeps_writes(s);
}

static sim_server *master_of(const sim *s, unsigned shard)
{
    sim_redis_state *state = redis_state_of(s);
    return &state->server[state->shard[shard].master];
}

static bool is_fit(const sim *s, const sim_server *server, const sim_server *master)
{
    return server != master && server->master == master->index && !redis_is_away(s, server) &&
           replicas_can_follow_up(server, master);
}

/* NULL: no replica can take its place. */
static sim_server *choose(sim *s, const sim_server *master)
{
    sim_redis_state *state = redis_state_of(s);
    unsigned fit = 0;
    for (unsigned i = state->first; i < state->first + state->servers; i++)
        fit += is_fit(s, &state->server[i], master);
    int64_t chosen = fit > 0 ? sim_pick(s, 0, fit - 1) : 0;
    for (unsigned i = state->first; i < state->first + state->servers && fit > 0; i++)
        if (is_fit(s, &state->server[i], master) && chosen-- == 0)
            return &state->server[i];
    return NULL;
}

static void cut_off(sim *s, sim_server *master, int64_t until)
{
    sim_redis_state *state = redis_state_of(s);
    master->apart_until = until;
    /* Processes, and at most one sentinel. */
    master->with_it = (uint32_t)sim_pick(s, 0, (1 << SIM_PROCESSES) - 1);
    master->with_it |= 1U << (SIM_SIDE_OF_SENTINELS + (unsigned)sim_pick(s, 0, 2 * SIM_SENTINELS));
    for (unsigned i = state->first; i < state->first + state->servers; i++)
        if (state->server[i].master == master->index)
            replicas_unlink(&state->server[i]);
}

void failover_begin(sim *s, unsigned index, const sim_item *item, int64_t until)
{
    sim_shard *shard = &redis_state_of(s)->shard[index];
    sim_server *master = master_of(s, index);
    if (shard->fails_over || !choose(s, master))
        return;
    cluster_finish_move(s); /* a slot is not moved between servers that are not well */
    shard->fails_over = true;
    shard->since = s->now;
    shard->former = shard->master;
    shard->version++;
    int64_t promoted_at = s->now + sim_pick(s, SIM_MS, DETECTED_NS);
    int64_t back_at = until > promoted_at ? until : promoted_at + SIM_MS;
    if (!keeps_writes(s)) { /* nobody has noticed anything when the replica is promoted */
        promoted_at = s->now;
        back_at = until;
    }
    if (may_linger(s) && (!keeps_writes(s) || sim_chance(s, 500))) {
        cut_off(s, master, back_at);
    } else {
        master->down_until = back_at;
        master->loaded = 0;
        redis_drop_all(s, master);
    }
    const int64_t told_at = may_linger(s) ? back_at + sim_pick(s, 0, BELIEVES_NS) : back_at;
    shard->told_at = told_at;
    /* Where all replicas have to confirm, nothing is confirmed before the old master is one of them. */
    const int64_t over_at = s->plan->replicas > 0 ? told_at + SYNC_NS : promoted_at;
    redis_plan(s, REDIS_PROMOTE, index, promoted_at, shard->version, (uint32_t)item->arg);
    redis_plan(s, REDIS_RETURN, index, told_at, shard->version, 0);
    check_trouble(s, SIM_PROCESSES, s->now, over_at + SIM_HEARD_NS);
    sim_tell(s, "server %u %s", master->index, s->now < master->apart_until ? "is cut off" : "dies");
}

/* The replicas of the one follow the other from now on. */
static void let_follow(sim *s, const sim_server *former, const sim_server *master)
{
    sim_redis_state *state = redis_state_of(s);
    for (unsigned i = state->first; i < state->first + state->servers; i++)
        if (state->server[i].master == former->index)
            replicas_follow(s, &state->server[i], master, sim_pick(s, SIM_MS, SYNC_NS));
}

static void promote(sim *s, sim_server *chosen, sim_server *former, int64_t lost_ms)
{
    s->checks.stale_reads = true;
    if (keeps_writes(s)) {
        replicas_catch_up(chosen, former);
    } else {
        const sim_keys kept = former->keys;
        locks_forget(former, lost_ms);
        chosen->keys = former->keys;
        former->keys = kept;
    }
    replicas_unlink(chosen);
    chosen->master = SIM_NOBODY;
    chosen->must_have = 0;
    replicas_feed(chosen);
    let_follow(s, former, chosen);
}

void failover_promote(sim *s, const sim_event *event)
{
    sim_shard *shard = &redis_state_of(s)->shard[event->who & 15];
    sim_server *former = &redis_state_of(s)->server[shard->former];
    if (!shard->fails_over || event->version != shard->version)
        return;
    sim_server *chosen = choose(s, former);
    if (!chosen) { /* no replica is well: nothing works before the old master comes back as a master */
        check_trouble(s, SIM_PROCESSES, shard->since, shard->told_at + SIM_HEARD_NS);
        return;
    }
    sim_tell(s, "server %u is master instead of %u", chosen->index, former->index);
    shard->master = (uint8_t)chosen->index;
    promote(s, chosen, former, event->arg);
    views_spread(s, 1U << chosen->index);
}

static void demote(sim *s, unsigned index)
{
    sim_shard *shard = &redis_state_of(s)->shard[index];
    sim_server *former = &redis_state_of(s)->server[shard->former];
    shard->fails_over = false;
    former->apart_until = former->down_until = 0;
    if (shard->former == shard->master) {
        let_follow(s, former, former);
        return;
    }
    replicas_follow(s, former, master_of(s, index), sim_pick(s, SIM_MS, SYNC_NS));
    if (sim_chance(s, 700)) /* the one that tells it closes its connections, or does not */
        redis_drop_all(s, former);
    views_spread(s, 1U << former->index);
    sim_tell(s, "server %u is a replica", former->index);
}

void failover_return(sim *s, const sim_event *event)
{
    const sim_shard *shard = &redis_state_of(s)->shard[event->who & 15];
    if (shard->fails_over && event->version == shard->version)
        demote(s, event->who & 15);
}

void failover_heal(sim *s)
{
    sim_redis_state *state = redis_state_of(s);
    for (unsigned i = 0; i < state->shards; i++)
        if (state->shard[i].fails_over)
            demote(s, i);
    for (unsigned i = 0; i < SIM_HOSTS; i++) {
        sim_server *server = &state->server[i];
        server->apart_until = server->down_until = server->frozen_until = server->stuck_until = 0;
        server->hesitates_until = 0;
    }
}

void failover_of_single(sim *s)
{
    sim_redis_state *state = redis_state_of(s);
    sim_server *master = &state->server[0];
    const sim_server *chosen = choose(s, master);
    if (!chosen)
        return;
    s->checks.stale_reads = true;
    if (s->plan->replicas > 0)
        master->keys = chosen->keys;
    for (unsigned i = 1; i < state->servers; i++) { /* data that are under way mean nothing to them */
        replicas_unlink(&state->server[i]);
        state->server[i].keys = master->keys;
    }
    replicas_feed(master);
    for (unsigned i = 1; i < state->servers; i++)
        state->server[i].offset = master->offset;
}
