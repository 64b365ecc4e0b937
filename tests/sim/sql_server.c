/* A model SQL server, as MySQL is, or one that notifies, as PostgreSQL does: its
 * connections and its faults. It restarts, promotes a replica, sets its clock back, runs statements slowly, locks
 * rows, and ends connections. */
#include <stdlib.h>
#include <string.h>

#include "sim/sql_model.h"

/* --- wires ------------------------------------------------------------------------------------------------ */

static void opened(sim *s, unsigned wire)
{
    wire_set_peer(s, wire, sql_session_new(s, SQL_CLIENT, 0, wire));
}

static void bytes(sim *s, unsigned wire, const char *data, size_t length)
{
    sql_call call;
    memcpy(&call, data, sizeof call);
    sim_tell(s, "process %u wire %u: ask %d, %u names, %s", wire_process(s, wire), wire, (int)call.kind, call.names,
             call.names ? call.name[0] : "");
    sql_session_call(s, wire_peer(s, wire), &call);
}

static void closed(sim *s, unsigned wire)
{
    sql_session *session = wire_peer(s, wire);
    if (session->wire == wire)
        sql_session_leave(s, session);
}

/* While the server is frozen it ends no session, and clients come again and again. Other users of the table need some, too. */
static bool is_full(const sim *s)
{
    const sql_state *state = sql_state_of(s);
    unsigned used = 0;
    for (unsigned i = 0; i < state->sessions; i++)
        used += state->session[i].phase != SQL_FREE_SLOT;
    return used >= SQL_CLIENTS;
}

static bool accepts(const sim *s, unsigned server)
{
    return s->now >= s->store.down_until && !is_full(s);
}

static int64_t frozen_until(const sim *s, unsigned server)
{
    return s->now < s->store.down_until ? 0 : s->store.frozen_until;
}

static int64_t cut_until(const sim *s, unsigned process, unsigned server)
{
    return 0;
}

static void event(sim *s, const sim_event *event)
{
    if (event->who >= SQL_EV_JVM)
        sql_foreign_event(s, event);
    else if (s->now < frozen_until(s, 0))
        sim_plan_event(s, EV_SERVER, event->who, s->store.frozen_until + sim_pick(s, 1, 100000), event->version,
                       event->arg);
    else
        sql_session_event(s, event);
}

/* --- what goes wrong -------------------------------------------------------------------------------------- */

/* A replica was promoted that had not got the latest writes. */
static void lose_writes(sim *s, int64_t lost_ms)
{
    sql_state *state = sql_state_of(s);
    for (unsigned n = 0; n < SQL_PAST && state->pasts > 0; n++, state->pasts--) {
        const sql_past *past = &state->past[(state->pasts - 1) % SQL_PAST];
        if (past->at <= s->now - lost_ms * SIM_MS)
            break;
        if (past->row.mutex[0]) {
            sql_row *row = sql_row_of(state, past->row.mutex);
            *row = past->row;
            row->locked_by = NULL;
        }
        s->checks.lost_writes = true;
    }
}

static void crash(sim *s, const sim_item *item, int64_t until)
{
    sql_sessions_crash(s);
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        wire_drop(s, wire);
    sql_foreign_disconnected(s);
    sql_state_of(s)->waiters = 0; /* the queue is not logged */
    lose_writes(s, item->arg);
    s->store.down_until = until;
}

static void fault(sim *s, const sim_item *item, int64_t until)
{
    sql_state *state = sql_state_of(s);
    switch ((sim_item_kind)item->kind) {
    case SIM_ITEM_FREEZE:
        s->store.frozen_until = until;
        break;
    case SIM_ITEM_STORE_EPOCH: /* a step forward would end leases early */
        s->store.epoch_ms -= item->arg > 0 ? item->arg % 2000 : -item->arg % 2000;
        break;
    case SIM_ITEM_LOCK_ROW:
        check_row_locked(s, (unsigned)item->arg, s->now, until);
        if (!store_is_away(s))
            sql_foreign_lock(s, (unsigned)item->arg, until);
        break;
    case SIM_ITEM_SLOW_STORE:
        state->slow_until = until;
        state->slow_ns = item->arg * SIM_MS;
        break;
    default:
        crash(s, item, until);
    }
}

/* An administrator, after whose statement the row is nobody's. */
static void force_release(sim *s, unsigned mutex)
{
    sql_row *row = sql_row_of(sql_state_of(s), sim_mutex_name(mutex));
    const sql_row before = *row;
    if (row->locked_by || !sql_row_is_held(row, sql_now_ms(s)))
        return;
    if (row->nonce_version == row->version)
        check_revoked(s, mutex, row->version);
    row->owner_id[0] = '\0';
    row->acquired_at = row->ttl_at = row->transition_at = 0;
    row->revoked_version = row->version++;
    row->nonce_version = 0;
    sql_row_changed(s, &before, row, sql_now_ms(s));
}

/* Of a process: the server ends its connections, or they have lost each other. */
static void lose_connections(sim *s, unsigned process)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        if (wire_process(s, wire) != process)
            continue;
        if (sim_chance(s, 800))
            wire_drop(s, wire);
        else
            wire_silence(s, wire);
    }
}

static void healed(sim *s)
{
    wires_notice(s);
    wires_answer_again(s); /* clients that are idle do not ask by themselves whether they are still connected */
    sql_state_of(s)->slow_until = 0;
    if (s->now == s->plan->horizon_ns)
        sql_foreign_leave(s);
}

static bool owner(const sim *s, unsigned mutex, simba_owner *ret_owner)
{
    const sql_row *row = sql_row_of(sql_state_of(s), sim_mutex_name(mutex));
    memset(ret_owner, 0, sizeof *ret_owner);
    if (!sql_row_is_held(row, sql_now_ms(s)))
        return false;
    snprintf(ret_owner->id, sizeof ret_owner->id, "%s", row->owner_id);
    ret_owner->token = row->nonce_version == row->version ? row->version : 0;
    return true;
}

/* --- life ------------------------------------------------------------------------------------------------- */

static void *state_new(void)
{
    sql_state *state = calloc(1, sizeof *state);
    if (!state)
        abort();
    return state;
}

static void state_free(void *servers)
{
    free(((sql_state *)servers)->past);
    free(servers);
}

static void begin(sim *s)
{
    sql_state *state = sql_state_of(s);
    memset(state->row, 0, sizeof state->row);
    state->rows = state->sessions = state->stamps = state->lockers = state->pasts = state->waiters = 0;
    state->is_exact = !sim_chance(s, 150);
    state->slow_until = 0;
    state->is_pooled = false;
    s->checks.neighbour_ns = 0; /* nobody ever waits for somebody else's row */
    state->commit_ns = sim_pick(s, SIM_MS, 10 * SIM_MS);
    sql_foreign_begin(s);
}

static void begin_postgresql(sim *s)
{
    sql_state *state = sql_state_of(s);
    begin(s);
    state->is_exact = true;
    state->is_pooled = sim_chance(s, 150);
}

static void end(sim *s)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        wire_drop(s, wire);
}

static void url(const sim *s, char *out, size_t size)
{
    snprintf(out, size, "mysql://server/db");
}

#define FUNCTIONS                                                                                                      \
    .new = state_new, .free = state_free, .end = end, .url = url, .event = event, .opened = opened, .bytes = bytes,    \
    .closed = closed, .force_release = force_release, .accepts = accepts, .frozen_until = frozen_until,                \
    .cut_until = cut_until, .fault = fault, .lose_subscriptions = lose_connections, .healed = healed, .owner = owner

const sim_model sim_sql = {.backend = &sim_sql_backend, .begin = begin, FUNCTIONS};
const sim_model sim_postgresql = {.backend = &sim_postgresql_backend, .begin = begin_postgresql, FUNCTIONS};
