/* A session of the model of an SQL server. A statement takes a moment to begin, and reads the server's clock then.
 * It takes the locks that it needs, one row after the other, and waits for those that another session has: for a
 * second at most, or until the server finds a deadlock. A commit goes to the disk and to the replica before anybody
 * sees it or hears of it, as in semi-synchronous replication (AFTER_SYNC); if the server dies meanwhile, chance
 * decides whether it got there. */
#include <stdlib.h>
#include <string.h>

#include "sim/sql_model.h"

int64_t sql_now_ms(const sim *s)
{
    return store_now(s).epoch_us / 1000;
}

/* --- what is granted -------------------------------------------------------------------------------------- */

typedef struct lock {
    bool held;
    uint64_t token, nonce; /* 0: a JVM contender's */
} lock;

bool sql_row_is_held(const model_sql_row *row, int64_t now_ms)
{
    return row->owner_id[0] != '\0' && row->transition_at >= now_ms;
}

static lock look_at(const model_sql_row *row, int64_t now_ms)
{
    const bool ours = row->nonce_version == row->version;
    return (lock){sql_row_is_held(row, now_ms), ours ? row->version : 0, ours ? row->nonce : 0};
}

/* The party that asks under this nonce right now. */
static unsigned grantee_of(const sim *s, unsigned mutex, const model_sql_row *row)
{
    for (unsigned i = 0; i < s->plan->members; i++) {
        const sim_party *party = &s->party[i];
        if (party->mutex == mutex && party->running && party->candidate.handle.request &&
            party->candidate.machine.nonce == row->nonce && strcmp(party->id, row->owner_id) == 0)
            return i;
    }
    return SIM_NOBODY;
}

static void remember(sim *s, const model_sql_row *row)
{
    sql_state *state = sql_state_of(s);
    if (s->plan->broken != SIM_BROKEN_LOST_WRITES)
        return;
    if (!state->past && !(state->past = calloc(SQL_PAST, sizeof *state->past)))
        abort();
    state->past[state->pasts++ % SQL_PAST] = (sql_past){s->now, *row};
}

static void compare(sim *s, unsigned mutex, const model_sql_row *before, const model_sql_row *after, int64_t now_ms)
{
    const lock was = look_at(before, now_ms), is = look_at(after, now_ms);
    const unsigned grantee = is.held && is.token > 0 ? grantee_of(s, mutex, after) : SIM_NOBODY;
    const bool is_other =
        was.token != is.token || was.nonce != is.nonce || strcmp(before->owner_id, after->owner_id) != 0;
    if (before->version == after->version && before->transition_at == after->transition_at)
        return;
    sim_tell(s, "%s: %s \"%s\" version %llu until %lld", after->mutex, is.held ? "held by" : "free", after->owner_id,
             (unsigned long long)after->version, (long long)after->transition_at);
    remember(s, before);
    /* A renewal goes by the time at which it began. When it had to wait for the row, the lease may have ended meanwhile. */
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

void sql_rows_before(sim *s, model_sql_row before[SIM_MUTEXES])
{
    memset(before, 0, SIM_MUTEXES * sizeof *before);
    for (unsigned m = 0; m < sql_state_of(s)->server.count; m++)
        before[m] = sql_state_of(s)->server.rows[m];
}

void sql_rows_compare(sim *s, const model_sql_row before[SIM_MUTEXES], int64_t now_ms)
{
    const model_sql *server = &sql_state_of(s)->server;
    for (unsigned i = 0; i < server->count; i++)
        for (unsigned m = 0; m < s->plan->mutexes; m++)
            if (strcmp(server->rows[i].mutex, sim_mutex_name(m)) == 0)
                compare(s, m, &before[i], &server->rows[i], now_ms);
}

/* --- life ------------------------------------------------------------------------------------------------- */

static void forget(sql_session *session)
{
    model_sql_roll_back(&session->conn);
    session->phase = SQL_FREE_SLOT;
    session->stamp = 0;
}

void sql_session_end(sim *s, sql_session *session)
{
    forget(session);
    sql_sessions_wake(s);
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
    else if (session->kind == SQL_CLIENT && session->channel == 0)
        plan(s, session, SQL_EV_TIMEOUT, session->conn.in_transaction ? SQL_IDLE_TRANSACTION_NS : SQL_IDLE_NS);
}

sql_session *sql_session_new(sim *s, sql_kind kind, unsigned guest, unsigned wire)
{
    sql_state *state = sql_state_of(s);
    unsigned i = 0;
    while (i < state->sessions && state->session[i].phase != SQL_FREE_SLOT)
        i++;
    if (i == SQL_SESSIONS)
        abort();
    if (i == state->sessions)
        state->sessions++;
    state->session[i] = (sql_session){.kind = kind, .guest = guest, .wire = wire, .conn.server = &state->server};
    become_idle(s, &state->session[i]);
    return &state->session[i];
}

static void answer(sim *s, sql_session *session, const sql_answer *what)
{
    if (session->kind == SQL_CLIENT && session->wire)
        wire_answer(s, session->wire, (const char *)what, sizeof *what);
    become_idle(s, session);
    if (session->kind != SQL_CLIENT)
        sql_guest_answered(s, session, what->code == 0);
}

static void fail(sim *s, sql_session *session, simba__sql_remedy remedy, const char *why)
{
    sim_tell(s, "session %u: %s", (unsigned)(session - sql_state_of(s)->session), why);
    if (remedy == SIMBA__SQL_RETRY || !session->conn.in_transaction)
        model_sql_roll_back(&session->conn);
    answer(s, session, &(sql_answer){.code = SIMBA_ESTORE, .remedy = remedy});
    sql_sessions_wake(s);
}

/* --- statements ------------------------------------------------------------------------------------------- */

/* The statement as model_sql.c takes it. */
typedef struct sql_statement {
    simba__sql_step step;
    simba__sql_row *rows[SIM_MUTEXES];
    simba__sql_item items[SIM_MUTEXES];
} sql_statement;

static void prepare(sql_session *session, sql_statement *ret)
{
    sql_call *call = &session->call;
    for (unsigned i = 0; i < SIM_MUTEXES; i++) {
        sql_ask *ask = &call->ask[i];
        ret->items[i] = (simba__sql_item){.ask = ask->request, .floor = ask->floor, .held_here = ask->held_here};
        ret->items[i].ask.mutex = call->mutex[i];
        ret->items[i].ask.id = ask->id;
        ret->items[i].ask.note = ask->note;
    }
    for (unsigned i = 0; i < call->count; i++) {
        call->row[i].mutex = call->mutex[i];
        call->row[i].item = &ret->items[i];
        ret->rows[i] = &call->row[i];
    }
    ret->step = (simba__sql_step){.action = call->action, .rows = ret->rows, .count = call->count, .item = ret->items};
}

static bool commits(const sql_session *session)
{
    switch (session->call.action) {
    case SIMBA__SQL_COMMIT:
    case SIMBA__SQL_MAKE:
    case SIMBA__SQL_ACQUIRE:
    case SIMBA__SQL_RENEW:
    case SIMBA__SQL_RELEASE:
    case SIMBA__SQL_DECIDE:
        return true;
    default:
        return false;
    }
}

/* PostgreSQL's function keeps the queue, too. */
static void keep_queue(sim *s, sql_session *session)
{
    const sql_call *call = &session->call;
    for (unsigned i = 0; i < call->count; i++) {
        const simba__sql_row *row = &call->row[i];
        if (call->action == SIMBA__SQL_DECIDE)
            sql_queue_decided(s, &session->call.row[i], call->channel);
        else if (call->action == SIMBA__SQL_GET)
            sql_queue_keep(s, row->mutex, call->channel, row->row.owner.transition_at_ms, row->now_ms);
    }
}

/* It has its locks. */
static void carry_out(sim *s, sql_session *session)
{
    sql_state *state = sql_state_of(s);
    sql_statement statement;
    model_sql_row before[SIM_MUTEXES];
    simba__sql_failure why = {0};
    sql_answer result = {0};
    prepare(session, &statement);
    state->server.now_ms = session->began_ms;
    session->latest_ms = session->began_ms > session->latest_ms ? session->began_ms : session->latest_ms;
    sql_rows_before(s, before);
    result.code = model_sql_carry_out(&session->conn, &statement.step, &result.table, &why);
    sql_rows_compare(s, before, session->latest_ms > sql_now_ms(s) ? session->latest_ms : sql_now_ms(s));
    if (!session->conn.in_transaction)
        session->latest_ms = 0;
    keep_queue(s, session);
    result.remedy = why.remedy;
    result.matched = statement.step.matched;
    result.token = statement.step.token;
    memcpy(result.row, session->call.row, sizeof result.row);
    session->conn.log[0] = '\0';
    answer(s, session, &result);
    sql_sessions_wake(s);
}

static void go_on(sim *s, sql_session *session)
{
    if (session->kind == SQL_CLIENT && commits(session)) {
        session->phase = SQL_COMMITS;
        plan(s, session, SQL_EV_COMMITTED, sim_pick(s, 1000, sql_state_of(s)->commit_ns));
    } else {
        carry_out(s, session);
    }
}

/* --- locks ------------------------------------------------------------------------------------------------ */

static sql_session *holder_of(sim *s, const model_sql_row *row)
{
    for (unsigned i = 0; i < sql_state_of(s)->sessions; i++)
        if (row && row->locked_by == &sql_state_of(s)->session[i].conn)
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

static void wait(sim *s, sql_session *session, const model_sql_row *row)
{
    const bool is_new = session->phase != SQL_WAITS || session->waits_for != row;
    session->waits_for = row;
    if (session->phase != SQL_WAITS)
        plan(s, session, SQL_EV_TIMEOUT, SQL_LOCK_WAIT_NS);
    session->phase = SQL_WAITS;
    if (!is_new)
        return;
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        if (strcmp(row->mutex, sim_mutex_name(m)) == 0)
            check_row_locked(s, m, s->now, s->now + SQL_LOCK_WAIT_NS);
    if (is_deadlock(s, session))
        fail(s, sim_chance(s, 500) ? session : holder_of(s, row), SIMBA__SQL_RETRY, "deadlock");
}

static void take_locks(sim *s, sql_session *session)
{
    sql_statement statement;
    prepare(session, &statement);
    sql_state_of(s)->server.now_ms = session->began_ms;
    const model_sql_row *row = model_sql_lock(&session->conn, &statement.step);
    if (row)
        wait(s, session, row);
    else
        go_on(s, session);
}

void sql_sessions_wake(sim *s)
{
    for (unsigned i = 0; i < sql_state_of(s)->sessions; i++) {
        sql_session *session = &sql_state_of(s)->session[i];
        if (session->phase == SQL_WAITS && session->waits_for->locked_by == NULL)
            take_locks(s, session);
    }
}

/* --- events ----------------------------------------------------------------------------------------------- */

static void carry_out_verb(sim *s, sql_session *session)
{
    if (session->call.verb == SQL_LISTEN)
        session->channel = session->call.channel;
    else if (session->call.verb == SQL_NOTIFY)
        sql_notify(s, session->call.channel, "0");
    answer(s, session, &(sql_answer){0});
}

static void read_note(sim *s, sql_session *session)
{
    const model_sql *server = &sql_state_of(s)->server;
    sql_answer found = {.now_ms = session->began_ms};
    for (size_t i = 0; i < server->count; i++)
        if (strcmp(server->rows[i].mutex, session->call.mutex[0]) == 0)
            found.stored = server->rows[i];
    answer(s, session, &found);
}

static void begin(sim *s, sql_session *session)
{
    session->began_ms = sql_now_ms(s);
    if (session->call.verb != SQL_STEP) {
        carry_out_verb(s, session);
        return;
    }
    if (session->call.action == SIMBA__SQL_READY)
        answer(s, session, &(sql_answer){.table = sql_state_of(s)->server.table});
    else if (session->call.action == SIMBA__SQL_READ_NOTE)
        read_note(s, session);
    else if (session->call.action == SIMBA__SQL_LOCK_FREE && sql_state_of(s)->is_old)
        fail(s, session, SIMBA__SQL_TELL, "what is SKIP LOCKED?");
    else
        take_locks(s, session);
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
    for (unsigned i = 0; i < sql_state_of(s)->sessions; i++)
        if (state->session[i].phase != SQL_FREE_SLOT && state->session[i].phase != SQL_COMMITS)
            forget(&state->session[i]);
    for (unsigned i = 0; i < sql_state_of(s)->sessions; i++) {
        sql_session *session = &state->session[i];
        if (session->phase == SQL_FREE_SLOT)
            continue;
        session->wire = 0;
        if (sim_chance(s, 500))
            carry_out(s, session); /* and nobody hears of it */
        else
            forget(session);
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
        carry_out(s, session);
    else if (session->phase == SQL_WAITS)
        fail(s, session, SIMBA__SQL_LOCKED, "the row stays locked");
    else if (session->wire) /* nothing was said for too long */
        wire_drop(s, session->wire);
}
