/* Replicas of a model Redis server. Each gets what was written in order, after a moment, or much later while its link is
 * stuck; WAIT counts those that have got it. A replica that is promoted has what it has got, and nothing else. */
#include <stdlib.h>

#include "sim/redis_model.h"

static unsigned count(const sim *s)
{
    return (unsigned)s->plan->replicas;
}

void replicas_begin(sim *s)
{
    sim_redis_state *state = redis_state_of(s);
    if (count(s) > 0 && !state->sent && !(state->sent = calloc(SIM_SENT, sizeof *state->sent)))
        abort();
    for (unsigned i = 0; i < SIM_REPLICAS; i++)
        state->replica[i] = (sim_replica){0};
}

void replicas_feed(sim_server *server)
{
    sim *s = server->s;
    sim_redis_state *state = redis_state_of(s);
    if (count(s) == 0)
        return;
    state->sent[server->writes % SIM_SENT] = server->keys;
    for (unsigned i = 0; i < count(s); i++) {
        sim_replica *replica = &state->replica[i];
        int64_t at = s->now + sim_pick(s, SIM_MS / 10, 2 * SIM_MS);
        at = at > replica->stuck_until ? at : replica->stuck_until + 1;
        at = at > replica->latest ? at : replica->latest + 1;
        replica->latest = at;
        sim_plan_event(s, EV_SERVER, i, at, 0, server->writes);
    }
}

void replicas_event(sim *s, const sim_event *event)
{
    sim_redis_state *state = redis_state_of(s);
    sim_replica *replica = &state->replica[event->who];
    /* What was under way when the server was replaced is gone. */
    if (event->arg > state->server[0].writes || event->arg <= replica->writes)
        return;
    replica->writes = event->arg;
    if (state->server[0].writes - event->arg < SIM_SENT)
        replica->keys = state->sent[event->arg % SIM_SENT];
    server_look_at_waits(s);
}

unsigned replicas_with(const sim *s, uint32_t written)
{
    unsigned have = 0;
    for (unsigned i = 0; i < count(s); i++)
        have += redis_state_of(s)->replica[i].writes >= written;
    return have;
}

/* The others follow it from where it is. */
void replicas_promote(sim *s)
{
    sim_redis_state *state = redis_state_of(s);
    if (count(s) == 0)
        return;
    const sim_replica chosen = state->replica[sim_pick(s, 0, count(s) - 1)];
    sim_server *server = &state->server[0];
    server->keys = chosen.keys;
    server->writes += SIM_SENT; /* what is still under way means nothing to them */
    state->sent[server->writes % SIM_SENT] = server->keys;
    for (unsigned i = 0; i < count(s); i++)
        state->replica[i] = (sim_replica){.writes = server->writes, .keys = server->keys};
}

void replicas_stick(sim *s, int64_t until)
{
    for (unsigned i = 0; i < count(s); i++)
        if (sim_chance(s, 700))
            redis_state_of(s)->replica[i].stuck_until = until;
}
