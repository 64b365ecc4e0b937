/* A session of the model of an SQL server. A packet takes a moment to begin. Packet 1 locks the rows that nobody else has locked, and
 * reads the server's clock after that; a foreign session waits for its row, for a second at most, or until the server finds a
 * deadlock. A commit goes to the disk and to the replica before anybody sees it or hears of it, as in semi-synchronous replication
 * (AFTER_SYNC); if the server dies meanwhile, chance decides whether it got there. A transaction that is idle for too long ends
 * with its connection. */
#include <stdlib.h>
#include <string.h>

#include "sim/sql_model.h"

int64_t sql_now_ms(const sim *s)
{
    return store_now(s).epoch_us / 1000;
}

/* --- rows ------------------------------------------------------------------------------------------------- */

sql_row *sql_row_find(sql_state *state, const char *mutex)
{
    for (unsigned i = 0; i < state->rows; i++)
        if (strcmp(state->row[i].mutex, mutex) == 0)
            return &state->row[i];
    return NULL;
}

sql_row *sql_row_of(sql_state *state, const char *mutex)
{
    sql_row *row = sql_row_find(state, mutex);
    if (row)
        return row;
    row = &state->row[state->rows++];
    *row = (sql_row){0};
    strcpy(row->mutex, mutex);
    return row;
}

/* --- what is granted -------------------------------------------------------------------------------------- */

typedef struct lock {
    bool held;
    uint64_t token, nonce; /* 0: a JVM contender's */
} lock;

bool sql_row_is_held(const sql_row *row, int64_t now_ms)
{
    return row->owner_id[0] != '\0' && row->transition_at >= now_ms;
}

static lock look_at(const sql_row *row, int64_t now_ms)
{
    const bool ours = row->nonce_version == row->version;
    return (lock){sql_row_is_held(row, now_ms), ours ? row->version : 0, ours ? row->nonce : 0};
}

/* The handle that asks under this nonce right now. */
static unsigned grantee_of(const sim *s, unsigned mutex, const sql_row *row)
{
    for (unsigned i = 0; i < s->plan->contenders; i++) {
        const sim_handle *handle = &s->handle[i];
        if (handle->mutex == mutex && handle->running && handle->candidate.handle.request &&
            handle->candidate.machine.nonce == row->nonce && strcmp(handle->id, row->owner_id) == 0)
            return i;
    }
    return SIM_NOBODY;
}

static void remember(sim *s, const sql_row *row)
{
    sql_state *state = sql_state_of(s);
    if (s->plan->broken != SIM_BROKEN_LOST_WRITES)
        return;
    if (!state->past && !(state->past = calloc(SQL_PAST, sizeof *state->past)))
        abort();
    state->past[state->pasts++ % SQL_PAST] = (sql_past){s->now, *row};
}

static unsigned mutex_of(const sql_row *row)
{
    unsigned m = 0;
    while (m < SIM_MUTEXES - 1 && strcmp(row->mutex, sim_mutex_name(m)) != 0)
        m++;
    return m;
}

void sql_row_changed(sim *s, const sql_row *before, const sql_row *after, int64_t now_ms)
{
    const unsigned mutex = mutex_of(after);
    const lock was = look_at(before, now_ms), is = look_at(after, now_ms);
    const unsigned grantee = is.held && is.token > 0 ? grantee_of(s, mutex, after) : SIM_NOBODY;
    const bool is_other =
        was.token != is.token || was.nonce != is.nonce || strcmp(before->owner_id, after->owner_id) != 0;
    if (before->version == after->version && before->transition_at == after->transition_at)
        return;
    sim_tell(s, "%s: %s \"%s\" version %llu until %lld", after->mutex, is.held ? "held by" : "free", after->owner_id,
             (unsigned long long)after->version, (long long)after->transition_at);
    remember(s, before);
    if (is.held && is_other) {
        if (was.held && after->version > before->version + 1)
            check_freed(s, mutex); /* one transaction gives it back and grants it */
        else if (was.held)
            check_broken(s, "S1", "mutex %u was granted to %s while %s had it", mutex, after->owner_id,
                         before->owner_id);
        check_granted(s, mutex, grantee, is.token, grantee == SIM_NOBODY);
    } else if (is.held && grantee == SIM_NOBODY) {
        s->checks.straggled[mutex] = true;
    } else if (was.held && !is.held) {
        check_freed(s, mutex);
    }
}

/* --- life ------------------------------------------------------------------------------------------------- */

/* The transaction is over, with its locks. */
static void unlock(sim *s, sql_session *session)
{
    sql_state *state = sql_state_of(s);
    for (unsigned i = 0; i < state->rows; i++)
        if (state->row[i].locked_by == session)
            state->row[i].locked_by = NULL;
    session->in_transaction = false;
}

static void wake(sim *s);

static void forget(sim *s, sql_session *session)
{
    unlock(s, session);
    session->phase = SQL_FREE_SLOT;
    session->stamp = 0;
}

void sql_session_end(sim *s, sql_session *session)
{
    forget(s, session);
    wake(s);
}

static void plan(sim *s, sql_session *session, unsigned what, int64_t after_ns)
{
    session->stamp = ++sql_state_of(s)->stamps;
    sim_plan_event(s, EV_SERVER, what, s->now + after_ns, session->stamp,
                   (uint32_t)(session - sql_state_of(s)->session));
}

/* --- answers ---------------------------------------------------------------------------------------------- */

static void become_idle(sim *s, sql_session *session)
{
    session->phase = SQL_IDLE;
    session->stamp = 0;
    session->waits_for = NULL;
    if (session->kind == SQL_CLIENT && session->wire == 0)
        sql_session_end(s, session);
    else if (session->kind == SQL_CLIENT && session->channel[0] == '\0')
        plan(s, session, SQL_EV_TIMEOUT, session->in_transaction ? SQL_IDLE_TRANSACTION_NS : SQL_IDLE_NS);
}

sql_session *sql_session_new(sim *s, sql_kind kind, unsigned foreign, unsigned wire)
{
    sql_state *state = sql_state_of(s);
    unsigned i = 0;
    while (i < state->sessions && state->session[i].phase != SQL_FREE_SLOT)
        i++;
    if (i == SQL_SESSIONS)
        abort();
    if (i == state->sessions)
        state->sessions++;
    state->session[i] = (sql_session){.kind = kind, .foreign = foreign, .wire = wire};
    become_idle(s, &state->session[i]);
    return &state->session[i];
}

static void answer(sim *s, sql_session *session, const sql_answer *what)
{
    if (session->kind == SQL_CLIENT && session->wire)
        wire_answer(s, session->wire, (const char *)what, sizeof *what);
    become_idle(s, session);
    if (session->kind != SQL_CLIENT)
        sql_foreign_answered(s, session, what->code == 0);
}

static void fail(sim *s, sql_session *session, simba__sql_effect effect, const char *why)
{
    sim_tell(s, "session %u: %s", (unsigned)(session - sql_state_of(s)->session), why);
    unlock(s, session);
    answer(s, session, &(sql_answer){.code = SIMBA_ESTORE, .effect = effect});
    wake(s);
}

/* --- packets ---------------------------------------------------------------------------------------------- */

/* A client that stops between its packets keeps its rows, until the server's timeout is over. */
static void excuse_lock(sim *s, const sql_row *row)
{
    if (s->now - row->locked_at > 4 * s->plan->latency_ns + 10 * SIM_MS)
        check_row_locked(s, mutex_of(row), row->locked_at, row->locked_at + SQL_IDLE_TRANSACTION_NS + 100 * SIM_MS);
}

static void lock_rows(sim *s, sql_session *session)
{
    sql_state *state = sql_state_of(s);
    const sql_call *call = &session->call;
    sql_answer result = {0};
    session->in_transaction = true;
    for (unsigned i = 0; i < call->names; i++) {
        sql_row *row = sql_row_find(state, call->name[i]);
        if (row && row->locked_by && row->locked_by != session) {
            excuse_lock(s, row);
        } else if (row) {
            row->locked_at = row->locked_by ? row->locked_at : s->now;
            row->locked_by = session;
            result.row[result.rows++] = *row;
        }
    }
    for (unsigned i = 0; i < state->waiters; i++)
        for (unsigned k = 0; k < call->waited; k++)
            if (strcmp(state->queue[i].mutex, call->waited_name[k]) == 0)
                result.waiter[result.waiters++] = state->queue[i];
    result.now_ms = sql_now_ms(s);
    answer(s, session, &result);
}

static void read_rows(sim *s, sql_session *session)
{
    sql_answer result = {.now_ms = session->began_ms};
    for (unsigned i = 0; i < session->call.names; i++) {
        const sql_row *row = sql_row_find(sql_state_of(s), session->call.name[i]);
        if (row)
            result.row[result.rows++] = *row;
    }
    answer(s, session, &result);
}

static void make_rows(sim *s, const sql_call *call)
{
    for (unsigned i = 0; i < call->names; i++)
        (void)sql_row_of(sql_state_of(s), call->name[i]);
}

static void put_row(sim *s, const sql_session *session, unsigned n)
{
    const sql_call *call = &session->call;
    const sql_row *from = &call->row[n];
    sql_row *row = sql_row_find(sql_state_of(s), from->mutex);
    if (!row || row->locked_by != session)
        abort(); /* rows are locked until they are written */
    const sql_row before = *row;
    if (call->is_forgotten[n]) {
        row->note_size = 0;
        row->note_token = row->note_number = 0;
        row->forgotten_version = from->forgotten_version;
    }
    if (call->has_lease[n]) {
        strcpy(row->owner_id, from->owner_id);
        row->acquired_at = from->acquired_at;
        row->ttl_at = from->ttl_at;
        row->transition_at = from->transition_at;
        row->version = from->version;
        row->nonce = from->nonce;
        row->nonce_version = from->nonce_version;
        row->revoked_version = from->revoked_version;
    }
    if (call->has_note[n]) {
        memcpy(row->note, from->note, sizeof row->note);
        row->note_size = from->note_size;
        row->note_token = from->note_token;
        row->note_number = from->note_number;
        row->note_written_at = from->note_written_at;
    }
    sql_row_changed(s, &before, row, sql_now_ms(s));
}

static void put_waiter(sql_state *state, const sql_waiter *from)
{
    unsigned i = 0;
    while (i < state->waiters &&
           (state->queue[i].nonce != from->nonce || strcmp(state->queue[i].mutex, from->mutex) != 0))
        i++;
    if (from->is_gone && i < state->waiters)
        state->queue[i] = state->queue[--state->waiters];
    else if (!from->is_gone && i < SQL_WAITERS) {
        state->queue[i] = *from;
        state->waiters += i == state->waiters;
    }
}

/* All sessions that listen there are told. */
static void notify(sim *s, const char *channel, const char *payload)
{
    sql_state *state = sql_state_of(s);
    sql_answer news = {0};
    strcpy(news.payload, payload);
    sim_tell(s, "notify %s: %s", channel, payload);
    for (unsigned i = 0; i < state->sessions && !state->is_pooled; i++) {
        const sql_session *session = &state->session[i];
        if (session->phase != SQL_FREE_SLOT && session->wire && strcmp(session->channel, channel) == 0)
            wire_answer(s, session->wire, (const char *)&news, sizeof news);
    }
}

/* It is on the disk. */
static void commit(sim *s, sql_session *session)
{
    const sql_call *call = &session->call;
    for (unsigned i = 0; i < call->rows; i++)
        put_row(s, session, i);
    for (unsigned i = 0; i < call->waiters; i++)
        put_waiter(sql_state_of(s), &call->waiter[i]);
    make_rows(s, call);
    unlock(s, session);
    for (unsigned i = 0; i < call->notices; i++)
        notify(s, call->notice[i].channel, call->notice[i].payload);
    answer(s, session, &(sql_answer){0});
    wake(s);
}

/* --- foreign sessions -------------------------------------------------------------------------------------- */

static sql_session *holder_of(sim *s, const sql_row *row)
{
    for (unsigned i = 0; i < sql_state_of(s)->sessions; i++)
        if (row && row->locked_by == &sql_state_of(s)->session[i])
            return &sql_state_of(s)->session[i];
    return NULL;
}

/* A session for which this one waits also waits for this one. */
static bool is_deadlock(sim *s, const sql_session *session)
{
    const sql_session *other = holder_of(s, session->waits_for);
    for (unsigned n = 0; other && other->phase == SQL_WAITS && n < sql_state_of(s)->sessions; n++) {
        other = holder_of(s, other->waits_for);
        if (other == session)
            return true;
    }
    return false;
}

static void take_lock(sim *s, sql_session *session)
{
    sql_row *row = sql_row_of(sql_state_of(s), session->call.name[0]);
    if (!row->locked_by || row->locked_by == session) {
        row->locked_at = row->locked_by ? row->locked_at : s->now;
        row->locked_by = session;
        session->in_transaction = true;
        answer(s, session, &(sql_answer){0});
        return;
    }
    const bool is_new = session->phase != SQL_WAITS;
    session->waits_for = row;
    if (is_new)
        plan(s, session, SQL_EV_TIMEOUT, SQL_LOCK_WAIT_NS);
    session->phase = SQL_WAITS;
    if (is_new && is_deadlock(s, session))
        fail(s, sim_chance(s, 500) ? session : holder_of(s, row), SIMBA__SQL_AGAIN, "deadlock");
}

/* Rows may have been unlocked: foreign sessions that wait look again. */
static void wake(sim *s)
{
    for (unsigned i = 0; i < sql_state_of(s)->sessions; i++) {
        sql_session *session = &sql_state_of(s)->session[i];
        if (session->phase == SQL_WAITS && session->waits_for->locked_by == NULL)
            take_lock(s, session);
    }
}

/* --- events ----------------------------------------------------------------------------------------------- */

static void begin(sim *s, sql_session *session)
{
    const sql_call *call = &session->call;
    session->began_ms = sql_now_ms(s);
    if (call->verb == SQL_FOREIGN) {
        take_lock(s, session);
        return;
    }
    if (call->verb == SQL_READY) {
        answer(s, session, &(sql_answer){.is_exact = sql_state_of(s)->is_exact});
        return;
    }
    switch (call->kind) {
    case SIMBA__SQL_LOCK:
        lock_rows(s, session);
        break;
    case SIMBA__SQL_MAKE:
        unlock(s, session);
        wake(s);
        session->phase = SQL_COMMITS;
        plan(s, session, SQL_EV_COMMITTED, sim_pick(s, 1000, sql_state_of(s)->commit_ns));
        break;
    case SIMBA__SQL_WRITE:
        session->phase = SQL_COMMITS;
        plan(s, session, SQL_EV_COMMITTED, sim_pick(s, 1000, sql_state_of(s)->commit_ns));
        break;
    case SIMBA__SQL_ROLLBACK:
        unlock(s, session);
        answer(s, session, &(sql_answer){0});
        wake(s);
        break;
    case SIMBA__SQL_LISTEN:
        strcpy(session->channel, call->channel);
        answer(s, session, &(sql_answer){0});
        break;
    case SIMBA__SQL_NOTIFY:
        notify(s, call->channel, "0");
        answer(s, session, &(sql_answer){0});
        break;
    default:
        read_rows(s, session);
    }
}

void sql_session_call(sim *s, sql_session *session, const sql_call *call)
{
    const sql_state *state = sql_state_of(s);
    int64_t after_ns = sim_pick(s, 10000, SIM_MS);
    if (session->phase != SQL_IDLE)
        abort();
    if (s->now < state->slow_until) {
        after_ns += sim_pick(s, 0, state->slow_ns);
        if (session->wire) /* the sender waits for it, even if the server is quick again meanwhile */
            check_trouble(s, wire_process(s, session->wire), s->now, s->now + after_ns);
    }
    session->call = *call;
    session->phase = SQL_BEGINS;
    plan(s, session, SQL_EV_BEGIN, after_ns);
}

void sql_session_leave(sim *s, sql_session *session)
{
    session->wire = 0;
    if (session->phase == SQL_IDLE)
        sql_session_end(s, session);
}

void sql_sessions_crash(sim *s)
{
    sql_state *state = sql_state_of(s);
    for (unsigned i = 0; i < state->sessions; i++)
        if (state->session[i].phase != SQL_FREE_SLOT && state->session[i].phase != SQL_COMMITS)
            forget(s, &state->session[i]);
    for (unsigned i = 0; i < state->sessions; i++) {
        sql_session *session = &state->session[i];
        if (session->phase == SQL_FREE_SLOT)
            continue;
        session->wire = 0;
        if (sim_chance(s, 500))
            commit(s, session); /* and nobody hears of it */
        else
            forget(s, session);
    }
}

void sql_session_event(sim *s, const sim_event *event)
{
    sql_session *session = &sql_state_of(s)->session[event->arg];
    if (session->phase == SQL_FREE_SLOT || session->stamp != event->version)
        return;
    if (event->who == SQL_EV_BEGIN)
        begin(s, session);
    else if (event->who == SQL_EV_COMMITTED)
        commit(s, session);
    else if (session->phase == SQL_WAITS)
        fail(s, session, SIMBA__SQL_AGAIN, "the row stays locked");
    else if (session->wire) { /* nothing was said for too long */
        const unsigned wire = session->wire;
        sql_session_end(s, session);
        wire_drop(s, wire);
    }
}
