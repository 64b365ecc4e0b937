/* What sentinels, and the servers of a cluster, believe about each other. When something changes, some know it at
 * once and the others hear of it one after the other, within two seconds. A server that is cut off or down hears of
 * it later. */
#include "sim/redis_model.h"

static sim_view truth(const sim *s)
{
    const sim_redis_state *state = redis_state_of(s);
    sim_view view = {0};
    for (unsigned i = 0; i < state->shards; i++)
        view.master[i] = state->shard[i].master;
    for (unsigned m = 0; m < SIM_MUTEXES; m++)
        view.shard[m] = state->shard_of[m];
    return view;
}

/* Those that have a view: sentinels, or all servers of a cluster. */
static unsigned count(const sim *s)
{
    switch (s->plan->topology) {
    case SIM_SENTINEL:
        return SIM_SENTINELS;
    case SIM_CLUSTER:
        return redis_state_of(s)->servers;
    default:
        return 0;
    }
}

void views_begin(sim *s)
{
    for (unsigned i = 0; i < count(s); i++)
        redis_state_of(s)->server[i].view = truth(s);
}

static void hear(sim *s, unsigned index)
{
    sim_server *server = &redis_state_of(s)->server[index];
    const unsigned former = server->view.master[0];
    server->view = truth(s);
    if (sentinel_is(s, index) && server->view.master[0] != former)
        sentinel_tell(server, former, server->view.master[0]);
}

void views_spread(sim *s, uint32_t at_once)
{
    if (s->plan->topology == SIM_SENTINEL) /* the one that has arranged it */
        at_once = 1U << sim_pick(s, 0, SIM_SENTINELS - 1);
    for (unsigned i = 0; i < count(s); i++)
        redis_plan(s, REDIS_HEAR, i, s->now + (at_once & 1U << i ? 0 : sim_pick(s, SIM_MS, SIM_HEARD_NS)), 0, 0);
}

/* --- sides ------------------------------------------------------------------------------------------- */

static bool server_is_with(const sim *s, const sim_server *apart, unsigned server)
{
    return apart->index == server ||
           (sentinel_is(s, server) && apart->with_it & 1U << (SIM_SIDE_OF_SENTINELS + server));
}

/* Until when the server is on another side than the others. */
static int64_t lonely_until(const sim *s, unsigned server)
{
    int64_t until = 0;
    for (unsigned i = 0; i < SIM_HOSTS; i++) {
        const sim_server *apart = &redis_state_of(s)->server[i];
        if (server_is_with(s, apart, server) && apart->apart_until > until)
            until = apart->apart_until;
    }
    return until;
}

int64_t views_cut_until(const sim *s, unsigned process, unsigned server)
{
    int64_t until = 0;
    for (unsigned i = 0; i < SIM_HOSTS; i++) {
        const sim_server *apart = &redis_state_of(s)->server[i];
        const bool is_with = apart->with_it & 1U << process;
        if (apart->apart_until > until && is_with != server_is_with(s, apart, server))
            until = apart->apart_until;
    }
    return until;
}

void views_event(sim *s, const sim_event *event)
{
    const unsigned index = event->who & 15;
    const sim_server *server = &redis_state_of(s)->server[index];
    const int64_t lonely = lonely_until(s, index);
    const int64_t until = lonely > server->down_until ? lonely : server->down_until;
    if (s->now < until)
        redis_plan(s, REDIS_HEAR, index, until + sim_pick(s, SIM_MS, 100 * SIM_MS), 0, 0);
    else
        hear(s, index);
}

void views_heal(sim *s)
{
    for (unsigned i = 0; i < count(s); i++)
        hear(s, i);
}
