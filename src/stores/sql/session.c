/* A session is a connection that is ready: it was opened, and schema.c of the dialect has looked at the table. It has one ask under
 * way. While there is no server, it opens again after 20 ms, then twice as long each time, up to 500 ms; requests get the latest error
 * meanwhile. */
#include "stores/sql/sql.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/saturate.h"

#define FIRST_PAUSE_MS 20
#define LONGEST_PAUSE_MS 500
/* A session that nobody waits for may be about to answer. Giving it up makes a slow server slower. */
#define GRACE_NS (250 * SIMBA__NS_PER_MS)
#define TIMEOUT_NS (4000 * SIMBA__NS_PER_MS) /* if no request waits: with polls, a rollback */
#define LOOK_NS (2000 * SIMBA__NS_PER_MS)    /* with each statement of schema.c before the session is ready */

static simba_local now_of(const simba__sql_session *session)
{
    return session->store->host->now(session->store->host);
}

/* It is shut. The next time it is opened not before a pause is over. */
static void refuse(simba__sql_session *session, const simba__sql_failure *why)
{
    const int64_t pause_ms =
        simba__min64(FIRST_PAUSE_MS << (session->failures < 5 ? session->failures : 5), LONGEST_PAUSE_MS);
    session->failures++;
    session->why = *why;
    session->not_before.ns = now_of(session).ns + pause_ms * SIMBA__NS_PER_MS;
}

static void shut(simba__sql_session *session, bool abrupt)
{
    if (session->state == SIMBA__SQL_SHUT || session->state == SIMBA__SQL_ENDING)
        return;
    const bool is_over = session->store->dialect->close(session->conn, abrupt);
    session->state = is_over ? SIMBA__SQL_SHUT : SIMBA__SQL_ENDING;
    session->ask = NULL;
}

/* Whoever has asked, or waits for the session, hears why there will be no answer. */
static void fail(simba__sql_session *session, const simba__sql_failure *why)
{
    void (*answered)(simba__sql_session *, const simba__sql_failure *) = session->answered;
    session->answered = NULL;
    session->ask = NULL;
    simba__sql_waiting_lost(session->store, session);
    if (answered)
        answered(session, why);
    simba__sql_settled(session);
}

/* --- opening --------------------------------------------------------------------------------------------- */

bool simba__sql_session_open(simba__sql_session *session, bool is_asked)
{
    /* A lack of memory in this process is no fault of the server: a request tries at once. */
    const bool pauses = session->failures > 0 && !(is_asked && session->why.error.code == SIMBA_ENOMEM);
    if (session->state != SIMBA__SQL_SHUT)
        return true;
    if (pauses && now_of(session).ns < session->not_before.ns)
        return false;
    session->state = SIMBA__SQL_OPENING;
    session->store->dialect->open(session->conn);
    return true;
}

static void could_not_open(simba__sql_session *session, const simba__sql_failure *why)
{
    const simba__sql_failure told = *why;
    shut(session, false);
    refuse(session, &told);
    fail(session, &told);
}

static void become_ready(simba__sql_session *session)
{
    session->state = SIMBA__SQL_READY;
    session->unusable.error.code = 0;
    session->failures = 0;
    if (session->store->dialect->check(session->conn, &session->table, &session->unusable) == 0)
        session->unusable.error.code = 0;
}

/* The next statement of schema.c, as an ask. */
static void look(simba__sql_session *session, bool begins, const simba__sql_failure *before)
{
    simba__sql_failure why = {0};
    if (before)
        why = *before;
    const char *text = session->store->dialect->look(session->conn, session->purpose, begins, &why);
    const bool opens = session->purpose == SIMBA__SQL_TO_OPEN;
    if (text) {
        if (opens) {
            session->wanted = 0;
            session->overdue.ns = now_of(session).ns + LOOK_NS;
            simba__sql_arm_timeout(session->store, session->overdue);
        }
        session->looking = (simba__sql_ask){.kind = SIMBA__SQL_TEXT, .text = text};
        session->store->dialect->ask(session->conn, &session->looking);
        return;
    }
    if (why.error.code < 0 && opens) {
        could_not_open(session, &why);
        return;
    }
    become_ready(session);
    void (*answered)(simba__sql_session *, const simba__sql_failure *) = session->answered;
    session->answered = NULL;
    if (opens)
        simba__sql_waiting_opened(session->store, session);
    else
        answered(session, why.error.code < 0 ? &why : NULL);
    simba__sql_settled(session);
}

void simba__sql_opened(simba__sql_session *session)
{
    SIMBA__ASSERT(session->state == SIMBA__SQL_OPENING);
    session->state = SIMBA__SQL_LOOKING;
    session->purpose = SIMBA__SQL_TO_OPEN;
    look(session, true, NULL);
}

void simba__sql_lost(simba__sql_session *session, const simba__sql_failure *why)
{
    const simba__sql_state before = session->state;
    session->state = SIMBA__SQL_SHUT;
    if (before == SIMBA__SQL_OPENING) {
        const simba__sql_failure told = *why;
        refuse(session, &told);
        fail(session, &told);
        return;
    }
    if (before == SIMBA__SQL_READY) /* an idle connection that the server closed is not an event */
        simba__sql_waiting_lost(session->store, session);
    simba__sql_settled(session);
}

/* --- asking ---------------------------------------------------------------------------------------------- */

static void begin(simba__sql_session *session, simba__sql_state state, size_t wanted)
{
    SIMBA__ASSERT(session->state == SIMBA__SQL_READY);
    session->state = state;
    session->asked_at = now_of(session);
    session->wanted = wanted;
    session->has_rows = false;
    session->overdue.ns = wanted > 0 ? INT64_MAX : session->asked_at.ns + TIMEOUT_NS;
    if (wanted == 0)
        simba__sql_arm_timeout(session->store, session->overdue);
}

void simba__sql_session_ask(simba__sql_session *session, const simba__sql_ask *ask, size_t wanted,
                            void (*row)(simba__sql_session *, unsigned, const simba__sql_cell *, unsigned),
                            void (*answered)(simba__sql_session *, const simba__sql_failure *))
{
    begin(session, SIMBA__SQL_ASKED, wanted);
    session->ask = ask;
    session->row = row;
    session->answered = answered;
    session->store->dialect->ask(session->conn, ask);
}

void simba__sql_session_look(simba__sql_session *session, simba__sql_purpose purpose, size_t wanted,
                             void (*answered)(simba__sql_session *, const simba__sql_failure *))
{
    begin(session, SIMBA__SQL_LOOKING, wanted);
    session->purpose = purpose;
    session->answered = answered;
    look(session, true, NULL);
}

void simba__sql_took_row(simba__sql_session *session, unsigned result, const simba__sql_cell *cells, unsigned count)
{
    if (session->state == SIMBA__SQL_LOOKING) {
        session->store->dialect->learn(session->conn, cells, count);
        return;
    }
    session->has_rows = true;
    if (session->row)
        session->row(session, result, cells, count);
}

/* While it looks, the dialect decides what a failure means, unless the connection is gone. */
static void looked(simba__sql_session *session, const simba__sql_failure *why)
{
    const bool is_over = why && (why->effect == SIMBA__SQL_LOST || why->effect == SIMBA__SQL_AWAY);
    if (!is_over) {
        look(session, false, why);
    } else if (session->purpose == SIMBA__SQL_TO_OPEN) {
        could_not_open(session, why);
    } else {
        const simba__sql_failure told = *why;
        shut(session, false);
        fail(session, &told);
    }
}

void simba__sql_answered(simba__sql_session *session, const simba__sql_failure *why)
{
    if (session->state == SIMBA__SQL_LOOKING) {
        looked(session, why);
        return;
    }
    SIMBA__ASSERT(session->state == SIMBA__SQL_ASKED);
    if (why && (why->effect == SIMBA__SQL_LOST || why->effect == SIMBA__SQL_AWAY)) {
        const simba__sql_failure told = *why;
        shut(session, false);
        if (told.effect == SIMBA__SQL_AWAY)
            refuse(session, &told);
        fail(session, &told);
        return;
    }
    void (*answered)(simba__sql_session *, const simba__sql_failure *) = session->answered;
    session->state = SIMBA__SQL_READY;
    session->answered = NULL;
    session->ask = NULL;
    session->is_repeated &= why != NULL;
    answered(session, why);
    if (session->state == SIMBA__SQL_READY)
        simba__sql_settled(session);
}

void simba__sql_notified(simba__sql_session *session, const char *payload)
{
    if (session == &session->store->reader)
        simba__sql_waiting_heard(session->store, payload);
    /* Otherwise it belongs to another client that shares the pooler's connection. */
}

/* --- ending ---------------------------------------------------------------------------------------------- */

void simba__sql_session_drop(simba__sql_session *session)
{
    simba__sql_failure why;
    if (session->state != SIMBA__SQL_ASKED && session->state != SIMBA__SQL_LOOKING)
        return;
    (void)simba__sql_fail(&why, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE,
                          "%s %s: no answer in time; the connection was given up", session->store->place.store,
                          session->store->place.where);
    const bool opens = session->state == SIMBA__SQL_LOOKING && session->purpose == SIMBA__SQL_TO_OPEN;
    shut(session, true);
    if (opens)
        refuse(session, &why);
    fail(session, &why);
}

void simba__sql_session_close(simba__sql_session *session)
{
    shut(session, session->state == SIMBA__SQL_ASKED || session->state == SIMBA__SQL_LOOKING);
    session->answered = NULL;
}

void simba__sql_session_expired(simba__sql_session *session)
{
    if (session->wanted == 0 || --session->wanted > 0)
        return;
    session->overdue.ns = now_of(session).ns + GRACE_NS;
    simba__sql_arm_timeout(session->store, session->overdue);
}
