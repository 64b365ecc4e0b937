/* Replicas of model Redis servers. Each gets its master's writes in order, after a moment, or much later while its
 * link is stuck; WAIT counts the replicas that have them. What is sent is a snapshot of everything. Snapshots are
 * numbered, whichever server makes them, and a server's offset is the number of its latest one. */
#include <stdlib.h>

#include "sim/redis_model.h"

static sim_server *server_at(const sim *s, unsigned index)
{
    return &redis_state_of(s)->server[index];
}

static bool is_replica_of(const sim_server *replica, const sim_server *master)
{
    return replica->master == master->index && replica != master;
}

void replicas_begin(sim *s)
{
    sim_redis_state *state = redis_state_of(s);
    if (state->servers > 1 && !state->sent && !(state->sent = calloc(SIM_SENT, sizeof *state->sent)))
        abort();
    state->latest = 0;
}

static bool is_apart(const sim *s, const sim_server *server)
{
    return s->now < server->apart_until;
}

void replicas_feed(sim_server *server)
{
    sim *s = server->s;
    sim_redis_state *state = redis_state_of(s);
    if (state->servers == 1)
        return;
    server->offset = ++state->latest;
    state->sent[server->offset % SIM_SENT] = server->keys;
    for (unsigned i = state->first; i < state->first + state->servers; i++) {
        sim_server *replica = server_at(s, i);
        if (!is_replica_of(replica, server) || is_apart(s, server) || s->now < replica->down_until)
            continue; /* it catches up when they have found together again */
        int64_t at = s->now + sim_pick(s, SIM_MS / 10, 2 * SIM_MS);
        at = at > replica->stuck_until ? at : replica->stuck_until + 1;
        at = at > replica->latest ? at : replica->latest + 1;
        replica->latest = at;
        redis_plan(s, REDIS_REPLICATE, i, at, replica->link, server->offset);
    }
}

/* A snapshot that is gone is followed by a later one. */
static bool is_kept(const sim_redis_state *state, uint32_t number)
{
    return state->latest - number < SIM_SENT;
}

void replicas_event(sim *s, const sim_event *event)
{
    sim_redis_state *state = redis_state_of(s);
    sim_server *replica = server_at(s, event->who & 15);
    if (event->version != replica->link || event->arg <= replica->offset || !is_kept(state, event->arg))
        return;
    replica->offset = event->arg;
    replica->keys = state->sent[event->arg % SIM_SENT];
    server_look_at_waits(s);
}

unsigned replicas_with(const sim_server *master, uint32_t written)
{
    const sim_redis_state *state = redis_state_of(master->s);
    unsigned have = 0;
    for (unsigned i = state->first; i < state->first + state->servers; i++)
        have += is_replica_of(&state->server[i], master) && state->server[i].offset >= written;
    return have;
}

void replicas_unlink(sim_server *replica)
{
    replica->link++;
    replica->latest = 0;
}

void replicas_follow(sim *s, sim_server *replica, const sim_server *master, int64_t after_ns)
{
    replicas_unlink(replica);
    replica->master = master->index;
    replica->offset = 0; /* until it has everything it has nothing */
    redis_plan(s, REDIS_SYNC, replica->index, s->now + after_ns, replica->link, 0);
}

/* All that its master has, at once. */
void replicas_sync(sim *s, const sim_event *event)
{
    sim_server *replica = server_at(s, event->who & 15);
    if (event->version != replica->link || replica->master == SIM_NOBODY)
        return;
    const sim_server *master = server_at(s, replica->master);
    if (redis_is_away(s, replica) || redis_is_away(s, master) || is_apart(s, replica) || is_apart(s, master)) {
        redis_plan(s, REDIS_SYNC, replica->index, s->now + 500 * SIM_MS, replica->link, 0);
        return;
    }
    replica->keys = master->keys;
    replica->offset = master->offset;
    server_look_at_waits(s);
}

bool replicas_can_follow_up(const sim_server *replica, const sim_server *master)
{
    const sim_redis_state *state = redis_state_of(replica->s);
    return replica->offset >= (master->offset > 0) &&
           (replica->offset >= master->must_have || is_kept(state, master->must_have));
}

void replicas_catch_up(sim_server *replica, const sim_server *master)
{
    const sim_redis_state *state = redis_state_of(replica->s);
    if (replica->s->plan->replicas == 0) {
        replica->keys = master->keys;
        replica->offset = master->offset;
    } else if (replica->offset < master->must_have && is_kept(state, master->must_have)) {
        replica->keys = state->sent[master->must_have % SIM_SENT];
        replica->offset = master->must_have;
    }
}

void replicas_stick(sim *s, int64_t until)
{
    const sim_redis_state *state = redis_state_of(s);
    for (unsigned i = state->first; i < state->first + state->servers; i++)
        if (sim_chance(s, 700))
            server_at(s, i)->stuck_until = until;
}
