/* The servers of a model etcd. There is one truth, what most servers have agreed on; a server takes part in it while it reaches a leader
 * that most servers follow. A leader that the others have replaced, and that does not know it yet, goes on confirming keep-alives by
 * itself, and agrees on nothing. The leader counts leases by its clock; a new one prolongs them all. */
#include <stdlib.h>
#include <string.h>

#include "sim/etcd_model.h"

#define TICK_NS (100 * SIM_MS)
#define ELECTION_NS (ETCD_PROTOCOL_S * SIM_S)
#define TROUBLE_NS (4 * SIM_S) /* by then there is a leader again, and clients have found it */

etcd_state *etcd_of(const sim *s)
{
    return s->servers;
}

/* --- who reaches whom --------------------------------------------------------------------------------- */

bool etcd_runs(const sim *s, unsigned server)
{
    const etcd_server *one = &etcd_of(s)->server[server];
    return s->now >= one->down_until && s->now >= one->frozen_until;
}

bool etcd_reaches(const sim *s, unsigned a, unsigned b)
{
    const etcd_server *server = etcd_of(s)->server;
    return etcd_runs(s, a) && etcd_runs(s, b) &&
           (a == b || (s->now >= server[a].isolated_until && s->now >= server[b].isolated_until));
}

static bool is_followed(const sim *s)
{
    const etcd_state *state = etcd_of(s);
    unsigned count = 0;
    for (unsigned i = 0; state->leader != SIM_NOBODY && i < state->servers; i++)
        count += etcd_reaches(s, i, state->leader);
    return 2 * count > state->servers;
}

bool etcd_can_commit(const sim *s, unsigned server)
{
    return is_followed(s) && etcd_reaches(s, server, etcd_of(s)->leader);
}

int64_t etcd_hop(sim *s)
{
    return sim_pick(s, SIM_MS / 10, 3 * SIM_MS);
}

/* --- leaders ------------------------------------------------------------------------------------------ */

void etcd_plan_expiry(sim *s)
{
    etcd_state *state = etcd_of(s);
    int64_t first = INT64_MAX;
    for (unsigned i = 0; i < EKV_LEASES; i++)
        if (state->lease[i].id && state->lease[i].expires_at < first)
            first = state->lease[i].expires_at;
    state->expire_version++;
    if (first == INT64_MAX)
        return;
    const int64_t at = sim_clock_when(&s->store.clock, first);
    sim_plan_event(s, EV_SERVER, ETCD_EV_EXPIRE, at > s->now ? at : s->now + TICK_NS / 2, state->expire_version, 0);
}

/* A real leader looks twice a second, and ends leases a little later than that. This one is as quick as it may be. */
static void expire(sim *s)
{
    etcd_state *state = etcd_of(s);
    for (unsigned i = 0; i < EKV_LEASES && is_followed(s); i++)
        if (state->lease[i].id && state->lease[i].expires_at <= store_clock(s))
            ekv_revoke(s, state->lease[i].id);
    etcd_plan_expiry(s);
}

/* The one that led goes on to believe so: until it hears of the new term, or notices that nobody follows it. */
static void depose(sim *s, unsigned index)
{
    etcd_server *server = &etcd_of(s)->server[index];
    sim_tell(s, "server %u is deposed", index);
    memcpy(server->lease, etcd_of(s)->lease, sizeof server->lease);
    server->leads_until = sim_chance(s, 500) ? INT64_MAX : s->now + sim_pick(s, 0, ELECTION_NS);
}

static void elect(sim *s)
{
    etcd_state *state = etcd_of(s);
    unsigned candidate[SIM_SERVERS], count = 0;
    for (unsigned i = 0; i < state->servers; i++)
        if (etcd_runs(s, i) && s->now >= state->server[i].isolated_until)
            candidate[count++] = i;
    if (2 * count <= state->servers)
        return;
    const unsigned before = state->leader, now = candidate[sim_pick(s, 0, (int64_t)count - 1)];
    if (before != SIM_NOBODY && before != now)
        depose(s, before);
    state->leader = now;
    state->lost_at = 0;
    state->server[now].leads = true;
    state->server[now].leads_until = INT64_MAX;
    state->server[now].term = ++state->term;
    sim_tell(s, "server %u leads in term %u", now, state->term);
    for (unsigned i = 0; i < EKV_LEASES; i++)
        state->lease[i].expires_at = store_clock(s) + (state->lease[i].ttl_s + ETCD_PROTOCOL_S) * SIM_S;
    etcd_plan_expiry(s);
}

void etcd_hear_leader(sim *s, unsigned index)
{
    etcd_state *state = etcd_of(s);
    state->server[index].leads = index == state->leader;
    state->server[index].term = state->term;
    state->server[index].leaderless_since = 0;
}

static void tick_server(sim *s, unsigned index)
{
    etcd_state *state = etcd_of(s);
    etcd_server *server = &state->server[index];
    if (!etcd_runs(s, index))
        return;
    if (etcd_can_commit(s, index)) {
        etcd_hear_leader(s, index);
        if (server->applied < state->events)
            sim_plan_event(s, EV_SERVER, ETCD_EV_APPLY, s->now + etcd_hop(s), index, (uint32_t)state->events);
        return;
    }
    if (index != state->leader && s->now >= server->leads_until)
        server->leads = false;
    if (!server->leaderless_since)
        server->leaderless_since = s->now;
    else if (s->now - server->leaderless_since > 3 * ELECTION_NS && !server->leads)
        egate_no_leader(s, index);
}

static void tick(sim *s)
{
    etcd_state *state = etcd_of(s);
    for (unsigned i = 0; i < state->servers; i++)
        tick_server(s, i);
    if (is_followed(s)) {
        state->lost_at = 0;
    } else if (!state->lost_at) {
        state->lost_at = s->now;
        state->elect_at = s->now + sim_pick(s, ELECTION_NS, 2 * ELECTION_NS);
    } else if (s->now >= state->elect_at) {
        elect(s);
    }
    if (!s->healed && sim_chance(s, 5))
        state->compacted = state->revision - (state->revision > 4 ? sim_pick(s, 0, 4) : 0);
    sim_plan_event(s, EV_SERVER, ETCD_EV_TICK, s->now + TICK_NS, 0, 0);
}

void etcd_agreed(sim *s)
{
    const etcd_state *state = etcd_of(s);
    for (unsigned i = 0; i < state->servers; i++) {
        const int64_t lag = !s->healed && sim_chance(s, 10) ? sim_pick(s, 0, SIM_S) : 0;
        if (lag)
            check_trouble(s, SIM_PROCESSES, s->now, s->now + lag);
        sim_plan_event(s, EV_SERVER, ETCD_EV_APPLY, s->now + etcd_hop(s) + lag, i, (uint32_t)state->events);
    }
}

static void event(sim *s, const sim_event *event)
{
    switch (event->who) {
    case ETCD_EV_TICK:
        tick(s);
        break;
    case ETCD_EV_EXPIRE:
        if (event->version == etcd_of(s)->expire_version)
            expire(s);
        break;
    case ETCD_EV_TASK:
        egate_task(s, event);
        break;
    case ETCD_EV_APPLY:
        if (etcd_can_commit(s, event->version))
            egate_apply(s, event->version, event->arg);
        break;
    default:
        ego_event(s, event->arg);
    }
}

/* --- what goes wrong ---------------------------------------------------------------------------------- */

static void restart(sim *s, unsigned index, int64_t until)
{
    etcd_state *state = etcd_of(s);
    etcd_server *server = &state->server[index];
    server->down_until = until;
    server->boot++;
    server->leads = false;
    if (state->leader == index)
        state->leader = SIM_NOBODY;
    egate_drop_all(s, index);
}

static void lose_writes(sim *s, int64_t lost_ms)
{
    etcd_state *state = etcd_of(s);
    ekv_forget_since(s, s->now - lost_ms * SIM_MS);
    for (unsigned i = 0; i < state->servers; i++) {
        if (state->server[i].applied > state->events)
            state->server[i].applied = state->events;
        restart(s, i, s->now);
    }
}

static void fault(sim *s, const sim_item *item, int64_t until)
{
    etcd_state *state = etcd_of(s);
    if (item->kind == SIM_ITEM_FAIL_OVER && item->arg == 0 &&
        sim_chance(s, 500)) /* until leases have ended on the other side */
        until += sim_pick(s, SIM_S, 2 * s->plan->session_ns);
    const unsigned any = (unsigned)((uint64_t)item->at_ns / 1000 % state->servers);
    const unsigned chosen = item->who % 2 || state->leader == SIM_NOBODY ? any : state->leader;
    etcd_server *server = &state->server[chosen];
    if (item->kind == SIM_ITEM_STORE_EPOCH)
        return; /* nothing is judged by it */
    check_trouble(s, SIM_PROCESSES, s->now, until + TROUBLE_NS);
    if (item->kind == SIM_ITEM_FREEZE) {
        *(item->who % 3 == 2 ? &server->sick_until : &server->frozen_until) = until;
    } else if (item->kind == SIM_ITEM_RESTART) {
        for (unsigned i = 0; i < state->servers; i++)
            if (item->who == 0 || i == chosen)
                restart(s, i, until);
    } else if (item->kind == SIM_ITEM_FAIL_OVER && item->arg > 0) {
        lose_writes(s, item->arg);
    } else if (item->kind == SIM_ITEM_FAIL_OVER) { /* cut off from the other servers, and not from its clients */
        server->isolated_until = until;
        server->with_it = (uint32_t)sim_pick(s, 0, (1 << SIM_PROCESSES) - 1);
    }
}

static void force_release(sim *s, unsigned mutex)
{
    const ekv *first = ekv_first(s, mutex);
    if (!first || !is_followed(s))
        return;
    char name[EKV_NAME];
    strcpy(name, first->name);
    check_revoked(s, mutex, (uint64_t)first->created);
    ekv_delete(s, name);
}

static void lose_subscriptions(sim *s, unsigned process)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        if (wire_process(s, wire) == process)
            wire_drop(s, wire);
}

static void healed(sim *s)
{
    etcd_state *state = etcd_of(s);
    wires_notice(s);
    ego_leave(s);
    for (unsigned i = 0; i < state->servers; i++) {
        etcd_server *server = &state->server[i];
        server->isolated_until = server->sick_until = 0;
        server->frozen_until = server->frozen_until < s->now ? server->frozen_until : s->now;
        server->down_until = server->down_until < s->now ? server->down_until : s->now;
    }
}

static bool accepts(const sim *s, unsigned server)
{
    return server < etcd_of(s)->servers && s->now >= etcd_of(s)->server[server].down_until;
}

static int64_t frozen_until(const sim *s, unsigned server)
{
    return etcd_of(s)->server[server].frozen_until;
}

/* A server that is cut off from the others is so with those processes that are on its side. */
static int64_t cut_until(const sim *s, unsigned process, unsigned server)
{
    const etcd_state *state = etcd_of(s);
    int64_t until = 0;
    for (unsigned i = 0; i < state->servers; i++) {
        const etcd_server *one = &state->server[i];
        const bool with_it = one->with_it >> process & 1;
        if (s->now < one->isolated_until && with_it != (i == server) && one->isolated_until > until)
            until = one->isolated_until;
    }
    return until;
}

static bool owner(const sim *s, unsigned mutex, simba_owner *ret_owner)
{
    const ekv *first = ekv_first(s, mutex);
    memset(ret_owner, 0, sizeof *ret_owner);
    if (!first)
        return false;
    if (first->length)
        snprintf(ret_owner->id, sizeof ret_owner->id, "%.*s", (int)first->length, first->value);
    else /* Go's have no value */
        snprintf(ret_owner->id, sizeof ret_owner->id, "%s", strrchr(first->name, '/') + 1);
    ret_owner->token = (uint64_t)first->created;
    return true;
}

/* --- life --------------------------------------------------------------------------------------------- */

static void *state_new(void)
{
    etcd_state *state = calloc(1, sizeof *state);
    if (!state)
        abort();
    return state;
}

static void state_free(void *servers)
{
    etcd_state *state = servers;
    egate_free(state);
    free(state->event);
    free(state);
}

static void begin(sim *s)
{
    etcd_state *state = etcd_of(s);
    egate_free(state);
    ekv_event *const event_kept = state->event;
    const size_t capacity = state->event_capacity;
    memset(state, 0, sizeof *state);
    state->event = event_kept;
    state->event_capacity = capacity;
    state->servers = s->plan->servers;
    state->leader = SIM_NOBODY;
    state->revision = 1;
    elect(s);
    tick(s);
    ego_begin(s);
}

static void end(sim *s)
{
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        egate_drop_all(s, i);
}

static void url(const sim *s, char *out, size_t size)
{
    size_t length = (size_t)snprintf(out, size, "etcd://");
    for (unsigned i = 0; i < s->plan->servers; i++)
        length += (size_t)snprintf(out + length, size - length, "%s10.0.0.%u", i ? "," : "", i + 1);
    snprintf(out + length, size - length, "?session-timeout=%llds", (long long)(s->plan->session_ns / SIM_S));
}

const sim_model sim_etcd = {
    .backend = &simba__backend_etcd,
    .new = state_new,
    .free = state_free,
    .begin = begin,
    .end = end,
    .url = url,
    .event = event,
    .accepts = accepts,
    .frozen_until = frozen_until,
    .cut_until = cut_until,
    .opened = egate_opened,
    .bytes = egate_bytes,
    .closed = egate_closed,
    .fault = fault,
    .force_release = force_release,
    .lose_subscriptions = lose_subscriptions,
    .healed = healed,
    .owner = owner,
};
