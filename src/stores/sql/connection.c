/* One of the two connections of a store, from opening to its end. It is ready when schema.c of the dialect has looked at the
 * table. It has one ask under way. While there is no server, it opens again after 20 ms, then twice as long each time, up to
 * 500 ms; requests get the latest error meanwhile. */
#include "stores/sql/sql.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/saturate.h"

#define FIRST_PAUSE_MS 20
#define LONGEST_PAUSE_MS 500
/* A connection that nobody waits for may be about to answer. Giving it up makes a slow server slower. */
#define GRACE_NS (250 * SIMBA__NS_PER_MS)
#define TIMEOUT_NS (4000 * SIMBA__NS_PER_MS) /* if no request waits: with polls, a rollback */
#define LOOK_NS (2000 * SIMBA__NS_PER_MS)    /* with each statement of schema.c before the connection is ready */

static simba_local now_of(const simba__sql_connection *connection)
{
    return connection->store->host->now(connection->store->host);
}

/* It is shut. The next time it is opened not before a pause is over. */
static void refuse(simba__sql_connection *connection, const simba__sql_failure *why)
{
    const int64_t pause_ms =
        simba__min64(FIRST_PAUSE_MS << (connection->failures < 5 ? connection->failures : 5), LONGEST_PAUSE_MS);
    connection->failures++;
    connection->why = *why;
    connection->not_before.ns = now_of(connection).ns + pause_ms * SIMBA__NS_PER_MS;
}

static void shut(simba__sql_connection *connection, bool abrupt)
{
    if (connection->state == SIMBA__SQL_SHUT || connection->state == SIMBA__SQL_ENDING)
        return;
    const bool is_over = connection->store->dialect->close(connection->conn, abrupt);
    connection->state = is_over ? SIMBA__SQL_SHUT : SIMBA__SQL_ENDING;
    connection->ask = NULL;
}

/* Whoever has asked, or waits for the connection, hears why there will be no answer. */
static void fail(simba__sql_connection *connection, const simba__sql_failure *why)
{
    void (*answered)(simba__sql_connection *, const simba__sql_failure *) = connection->answered;
    connection->answered = NULL;
    connection->ask = NULL;
    simba__sql_waiting_lost(connection->store, connection);
    if (answered)
        answered(connection, why);
    simba__sql_settled(connection);
}

/* --- opening --------------------------------------------------------------------------------------------- */

bool simba__sql_connection_open(simba__sql_connection *connection, bool is_asked)
{
    /* A lack of memory in this process is no fault of the server: a request tries at once. */
    const bool pauses = connection->failures > 0 && !(is_asked && connection->why.error.code == SIMBA_ENOMEM);
    if (connection->state != SIMBA__SQL_SHUT)
        return true;
    if (pauses && now_of(connection).ns < connection->not_before.ns)
        return false;
    connection->state = SIMBA__SQL_OPENING;
    connection->store->dialect->open(connection->conn);
    return true;
}

static void could_not_open(simba__sql_connection *connection, const simba__sql_failure *why)
{
    const simba__sql_failure told = *why;
    shut(connection, false);
    refuse(connection, &told);
    fail(connection, &told);
}

static void become_ready(simba__sql_connection *connection)
{
    connection->state = SIMBA__SQL_READY;
    connection->unusable.error.code = 0;
    connection->failures = 0;
    if (connection->store->dialect->check(connection->conn, &connection->table, &connection->unusable) == 0)
        connection->unusable.error.code = 0;
}

/* The next statement of schema.c, as an ask. */
static void look(simba__sql_connection *connection, bool begins, const simba__sql_failure *before)
{
    simba__sql_failure why = {0};
    if (before)
        why = *before;
    const char *text = connection->store->dialect->look(connection->conn, connection->purpose, begins, &why);
    const bool opens = connection->purpose == SIMBA__SQL_TO_OPEN;
    if (text) {
        if (opens) {
            connection->wanted = 0;
            connection->overdue.ns = now_of(connection).ns + LOOK_NS;
            simba__sql_arm_timeout(connection->store, connection->overdue);
        }
        connection->looking = (simba__sql_ask){.kind = SIMBA__SQL_TEXT, .text = text};
        connection->store->dialect->ask(connection->conn, &connection->looking);
        return;
    }
    if (why.error.code < 0 && opens) {
        could_not_open(connection, &why);
        return;
    }
    become_ready(connection);
    void (*answered)(simba__sql_connection *, const simba__sql_failure *) = connection->answered;
    connection->answered = NULL;
    if (opens)
        simba__sql_waiting_opened(connection->store, connection);
    else
        answered(connection, why.error.code < 0 ? &why : NULL);
    simba__sql_settled(connection);
}

void simba__sql_opened(simba__sql_connection *connection)
{
    SIMBA__ASSERT(connection->state == SIMBA__SQL_OPENING);
    connection->state = SIMBA__SQL_LOOKING;
    connection->purpose = SIMBA__SQL_TO_OPEN;
    look(connection, true, NULL);
}

void simba__sql_lost(simba__sql_connection *connection, const simba__sql_failure *why)
{
    const simba__sql_state before = connection->state;
    connection->state = SIMBA__SQL_SHUT;
    if (before == SIMBA__SQL_OPENING) {
        const simba__sql_failure told = *why;
        refuse(connection, &told);
        fail(connection, &told);
        return;
    }
    if (before == SIMBA__SQL_READY) /* an idle connection that the server closed is not an event */
        simba__sql_waiting_lost(connection->store, connection);
    simba__sql_settled(connection);
}

/* --- asking ---------------------------------------------------------------------------------------------- */

static void begin(simba__sql_connection *connection, simba__sql_state state, size_t wanted)
{
    SIMBA__ASSERT(connection->state == SIMBA__SQL_READY);
    connection->state = state;
    connection->asked_at = now_of(connection);
    connection->wanted = wanted;
    connection->has_rows = false;
    connection->overdue.ns = wanted > 0 ? INT64_MAX : connection->asked_at.ns + TIMEOUT_NS;
    if (wanted == 0)
        simba__sql_arm_timeout(connection->store, connection->overdue);
}

void simba__sql_connection_ask(simba__sql_connection *connection, const simba__sql_ask *ask, size_t wanted,
                               void (*row)(simba__sql_connection *, unsigned, const simba__sql_cell *, unsigned),
                               void (*answered)(simba__sql_connection *, const simba__sql_failure *))
{
    begin(connection, SIMBA__SQL_ASKED, wanted);
    connection->ask = ask;
    connection->row = row;
    connection->answered = answered;
    connection->store->dialect->ask(connection->conn, ask);
}

void simba__sql_connection_look(simba__sql_connection *connection, simba__sql_purpose purpose, size_t wanted,
                                void (*answered)(simba__sql_connection *, const simba__sql_failure *))
{
    begin(connection, SIMBA__SQL_LOOKING, wanted);
    connection->purpose = purpose;
    connection->answered = answered;
    look(connection, true, NULL);
}

void simba__sql_took_row(simba__sql_connection *connection, unsigned result, const simba__sql_cell *cells,
                         unsigned count)
{
    if (connection->state == SIMBA__SQL_LOOKING) {
        connection->store->dialect->learn(connection->conn, cells, count);
        return;
    }
    connection->has_rows = true;
    if (connection->row)
        connection->row(connection, result, cells, count);
}

/* While it looks, the dialect decides what a failure means, unless the connection is gone. */
static void looked(simba__sql_connection *connection, const simba__sql_failure *why)
{
    const bool is_over = why && (why->effect == SIMBA__SQL_LOST || why->effect == SIMBA__SQL_AWAY);
    if (!is_over) {
        look(connection, false, why);
    } else if (connection->purpose == SIMBA__SQL_TO_OPEN) {
        could_not_open(connection, why);
    } else {
        const simba__sql_failure told = *why;
        shut(connection, false);
        fail(connection, &told);
    }
}

void simba__sql_answered(simba__sql_connection *connection, const simba__sql_failure *why)
{
    if (connection->state == SIMBA__SQL_LOOKING) {
        looked(connection, why);
        return;
    }
    SIMBA__ASSERT(connection->state == SIMBA__SQL_ASKED);
    if (why && (why->effect == SIMBA__SQL_LOST || why->effect == SIMBA__SQL_AWAY)) {
        const simba__sql_failure told = *why;
        shut(connection, false);
        if (told.effect == SIMBA__SQL_AWAY)
            refuse(connection, &told);
        fail(connection, &told);
        return;
    }
    void (*answered)(simba__sql_connection *, const simba__sql_failure *) = connection->answered;
    connection->state = SIMBA__SQL_READY;
    connection->answered = NULL;
    connection->ask = NULL;
    connection->is_repeated &= why != NULL;
    answered(connection, why);
    if (connection->state == SIMBA__SQL_READY)
        simba__sql_settled(connection);
}

void simba__sql_notified(simba__sql_connection *connection, const char *payload)
{
    if (connection == &connection->store->reader)
        simba__sql_waiting_heard(connection->store, payload);
    /* Otherwise it belongs to another client that shares the pooler's connection. */
}

/* --- ending ---------------------------------------------------------------------------------------------- */

void simba__sql_connection_drop(simba__sql_connection *connection)
{
    simba__sql_failure why;
    if (connection->state != SIMBA__SQL_ASKED && connection->state != SIMBA__SQL_LOOKING)
        return;
    (void)simba__sql_fail(&why, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE,
                          "%s %s: no answer in time; the connection was given up", connection->store->place.store,
                          connection->store->place.where);
    const bool opens = connection->state == SIMBA__SQL_LOOKING && connection->purpose == SIMBA__SQL_TO_OPEN;
    shut(connection, true);
    if (opens)
        refuse(connection, &why);
    fail(connection, &why);
}

void simba__sql_connection_close(simba__sql_connection *connection)
{
    shut(connection, connection->state == SIMBA__SQL_ASKED || connection->state == SIMBA__SQL_LOOKING);
    connection->answered = NULL;
}

void simba__sql_connection_expired(simba__sql_connection *connection)
{
    if (connection->wanted == 0 || --connection->wanted > 0)
        return;
    connection->overdue.ns = now_of(connection).ns + GRACE_NS;
    simba__sql_arm_timeout(connection->store, connection->overdue);
}
