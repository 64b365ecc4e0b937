/* See dialect.h. */
#include "backends/postgresql/dialect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/assert.h"
#include "util/table.h"

/* Bytes of a LIST: some million mutexes. */
enum { LIST_MOST = 1 << 30 };

static bool gets_ready(const simba__sql_step *step)
{
    return step->action == SIMBA__SQL_READY || step->action == SIMBA__SQL_READY_BARE;
}

/* --- the end of a step ----------------------------------------------------------------------------------------- */

static void finish(simba__pg_session *session, const simba__sql_failure *why)
{
    session->task = SIMBA__PG_NO_TASK;
    simba__sql_carried_out(session->lane, why ? why->error.code : 0, why);
}

/* A READY that fails leaves no connection. */
static void fail(simba__pg_session *session, const simba__sql_failure *why)
{
    const simba__sql_failure told = *why; /* it may be the connection's */
    if (gets_ready(session->step)) {
        simba__sql_refusal_note(&session->refusal, &told, session->conn.host->now(session->conn.host));
        simba__pg_conn_close(&session->conn);
    }
    finish(session, &told);
}

static void fail_memory(simba__pg_session *session)
{
    simba__sql_failure why;
    simba__pg_out_of_memory(&why);
    fail(session, &why);
}

static void ask(simba__pg_session *session, simba__pg_task task, simba__pg_statement statement, const char *first,
                const char *second)
{
    const char *const values[] = {first, second};
    session->task = task;
    simba__pg_conn_ask(&session->conn, session->shared->texts[statement],
                       !first    ? 0
                       : !second ? 1
                                 : 2,
                       values, statement == SIMBA__PG_LIST ? LIST_MOST : SIMBA__PG_ANSWER_MOST);
}

static void look(simba__pg_session *session)
{
    ask(session, SIMBA__PG_LOOKS, SIMBA__PG_LOOK, NULL, NULL);
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static const char *op_of(const simba__sql_item *item, bool has_line)
{
    if (!item || item->held_here)
        return SIMBA__PG_SEE;
    switch (item->ask.op) {
    case SIMBA_OP_ACQUIRE:
        return item->ask.queue && has_line ? SIMBA__PG_QUEUE : SIMBA__PG_ACQUIRE;
    case SIMBA_OP_RENEW:
        return SIMBA__PG_RENEW;
    case SIMBA_OP_RELEASE:
        return SIMBA__PG_RELEASE;
    case SIMBA_OP_WRITE_NOTE:
        return SIMBA__PG_WRITE_NOTE;
    case SIMBA_OP_FORGET:
        return SIMBA__PG_FORGET;
    default:
        SIMBA__ASSERT(item->ask.op == SIMBA_OP_FORCE_RELEASE);
        return SIMBA__PG_FORCE;
    }
}

static void put(simba__buffer *out, const char *text)
{
    simba__buffer_put(out, text, strlen(text));
}

/* As an element of an array, with a backslash before quotes and backslashes. */
static void put_quoted(simba__buffer *out, const char *text)
{
    put(out, ",\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            put(out, "\\");
        simba__buffer_put(out, text, 1);
    }
    put(out, "\"");
}

static void put_hex(simba__buffer *out, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    put(out, ",\"");
    for (size_t i = 0; i < size; i++) {
        simba__buffer_put(out, &digits[bytes[i] >> 4], 1);
        simba__buffer_put(out, &digits[bytes[i] & 15], 1);
    }
    put(out, "\"");
}

/* The request about each row, as an array of arrays: {{"a","mutex","id",…},…}. */
static void decide(simba__pg_session *session)
{
    static const simba__sql_item nothing;
    const char *channel = simba__pg_listener_channel(session->shared->listener);
    simba__buffer *out = &session->asks;
    out->length = 0;
    out->failed = false;
    for (size_t i = 0; i < session->step->count; i++) {
        const simba__sql_row *row = session->step->rows[i];
        const simba__sql_item *item = session->step->action == SIMBA__SQL_DECIDE ? row->item : NULL;
        const simba_request *request = item ? &item->ask : &nothing.ask;
        char numbers[160];
        put(out, i ? "},{" : "{{");
        put(out, op_of(item, channel[0] != '\0'));
        put_quoted(out, row->mutex);
        put_quoted(out, request->id ? request->id : "");
        snprintf(numbers, sizeof numbers, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64,
                 (int64_t)request->nonce, (int64_t)request->token, request->ttl_ms,
                 request->ttl_ms + request->transition_ms, (int64_t)(item ? item->floor : 0));
        put(out, numbers);
        put_hex(out, request->note, request->note_size);
        snprintf(numbers, sizeof numbers, ",%" PRId64, (int64_t)request->note_number);
        put(out, numbers);
    }
    simba__buffer_put(out, "}}", sizeof "}}");
    if (out->failed)
        fail_memory(session);
    else
        ask(session, SIMBA__PG_ASKS, SIMBA__PG_DECIDE, out->data, channel);
}

/* --- rows ---------------------------------------------------------------------------------------------------------- */

static const char *take_row(const PGresult *result, int row, simba__sql_columns *columns)
{
    for (int i = 0; i <= SIMBA__SQL_NOW; i++)
        simba__sql_columns_set(columns, i, PQgetisnull(result, row, i) ? NULL : PQgetvalue(result, row, i),
                               (size_t)PQgetlength(result, row, i));
    return simba__sql_columns_mutex(columns);
}

static simba__sql_deed deed_of(const PGresult *result, int row)
{
    switch (PQgetvalue(result, row, SIMBA__PG_DEED)[0]) {
    case SIMBA__PG_DONE:
        return SIMBA__SQL_DONE;
    case SIMBA__PG_REFUSED:
        return SIMBA__SQL_REFUSED;
    default:
        return SIMBA__SQL_BUSY;
    }
}

/* False: this is no answer to the question. */
static bool take_decisions(simba__pg_session *session, const PGresult *result)
{
    const simba__sql_step *step = session->step;
    simba__sql_columns *columns = &session->columns;
    if (PQnfields(result) != SIMBA__PG_COLUMNS || (size_t)PQntuples(result) != step->count)
        return false;
    for (int i = 0; i < (int)step->count; i++) {
        simba__sql_row *row = step->rows[i];
        if (strcmp(take_row(result, i, columns), row->mutex) != 0)
            return false;
        simba__sql_row_clear(row, columns->now_ms);
        row->flaw = simba__sql_columns_clock_flaw(columns);
        if (!columns->is_null[SIMBA__SQL_OWNER_ID])
            simba__sql_row_decode(row, columns, INT64_MAX);
        row->deed = deed_of(result, i);
        row->place = strtoll(PQgetvalue(result, i, SIMBA__PG_PLACE), NULL, 10);
    }
    return true;
}

static int digit_of(char digit)
{
    const char *const digits = "0123456789abcdef";
    const char *at = digit ? strchr(digits, digit) : NULL;
    return at ? (int)(at - digits) : 0;
}

static void take_note(const PGresult *result, int row, simba__sql_columns *columns)
{
    const char *hex = PQgetvalue(result, row, SIMBA__SQL_NOTE);
    columns->is_null[SIMBA__SQL_NOTE] = PQgetisnull(result, row, SIMBA__SQL_NOTE);
    columns->note_length = (unsigned long)PQgetlength(result, row, SIMBA__SQL_NOTE) / 2;
    for (size_t i = 0; i < columns->note_length && i < sizeof columns->note; i++)
        columns->note[i] = (char)(digit_of(hex[2 * i]) << 4 | digit_of(hex[2 * i + 1]));
    simba__sql_columns_set(columns, SIMBA__SQL_NOTE_WRITTEN_AT,
                           PQgetisnull(result, row, SIMBA__SQL_NOTE_WRITTEN_AT)
                               ? NULL
                               : PQgetvalue(result, row, SIMBA__SQL_NOTE_WRITTEN_AT),
                           0);
}

/* SIMBA_ENOMEM; SIMBA_ECORRUPT: this is no answer to the question. */
static int list_rows(simba__pg_session *session, const PGresult *result)
{
    simba__sql_item *item = session->step->item;
    simba__sql_columns *columns = &session->columns;
    if (PQnfields(result) != SIMBA__SQL_NOTE_WRITTEN_AT + 1)
        return SIMBA_ECORRUPT;
    for (int i = 0; i < PQntuples(result); i++) {
        simba__sql_row row = {.mutex = take_row(result, i, columns)};
        take_note(result, i, columns);
        simba__sql_row_decode(&row, columns, INT64_MAX);
        const int rc = session->step->action == SIMBA__SQL_LIST ? simba__sql_item_list(item, &row, columns)
                                                                : simba__sql_item_note(item, columns);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- getting ready ------------------------------------------------------------------------------------------------- */

static void get_ready(simba__pg_session *session)
{
    simba__sql_failure why;
    if (!simba__pg_conn_is_open(&session->conn)) {
        if (simba__sql_refusal_stands(&session->refusal, session->conn.host->now(session->conn.host))) {
            finish(session, &session->refusal.why);
            return;
        }
        session->task = SIMBA__PG_OPENS;
        simba__pg_conn_open(&session->conn);
    } else if (session->step->action == SIMBA__SQL_READY &&
               simba__pg_schema_check(&session->schema, session->shared->options, &why) < 0) {
        fail(session, &why); /* the next one looks anew */
    } else {
        *session->table = (simba__sql_table){.has_nonce = true,
                                             .has_notes = true,
                                             .is_exact = true,
                                             .mutex_chars = SIMBA_MUTEX_BYTES,
                                             .id_chars = SIMBA_ID_MAX,
                                             .rows_max = SIMBA__SQL_ROWS_MAX};
        session->refusal.failures = 0;
        simba__pg_listener_wake(session->shared->listener, &session->conn);
        finish(session, NULL);
    }
}

static void make(simba__pg_session *session)
{
    const bool has_schema = session->schema.has_schema;
    session->has_made = session->schema.has_schema = true;
    ask(session, has_schema ? SIMBA__PG_FILLS : SIMBA__PG_CREATES, has_schema ? SIMBA__PG_MAKE : SIMBA__PG_MAKE_SCHEMA,
        NULL, NULL);
}

static void looked(simba__pg_session *session, const PGresult *result)
{
    const simba__pg_options *options = session->shared->options;
    const simba__pg_schema *schema = &session->schema;
    const simba__sql_action action = session->step->action;
    simba__sql_failure why;
    if (!simba__pg_schema_take(result, &session->schema)) {
        simba__sql_fail(&why, SIMBA__SQL_RECONNECT, SIMBA_ECORRUPT, "postgresql %s: this is no PostgreSQL server",
                        options->where);
        fail(session, &why);
        return;
    }
    const bool is_to_make = action == SIMBA__SQL_PREPARE || (gets_ready(session->step) && options->create);
    if (is_to_make && !session->has_made && !(schema->has_table && (!schema->has_columns || schema->has_function))) {
        make(session);
    } else if (action == SIMBA__SQL_PREPARE) {
        const bool is_fine = simba__pg_schema_check(schema, options, &why) == 0 &&
                             simba__pg_schema_check_rights(schema, options, &why) == 0;
        finish(session, is_fine ? NULL : &why);
    } else if (action == SIMBA__SQL_EXAMINE) {
        simba__pg_schema_examine(schema, options, session->step->item);
        finish(session, NULL);
    } else {
        get_ready(session);
    }
}

/* --- answers --------------------------------------------------------------------------------------------------------- */

static void stepped(simba__pg_session *session, const PGresult *result)
{
    simba__pg_listener *listener = session->shared->listener;
    simba__sql_failure why;
    const bool lists = session->step->action == SIMBA__SQL_LIST || session->step->action == SIMBA__SQL_READ_NOTE;
    const int listed = lists ? list_rows(session, result) : 0;
    if (listed == SIMBA_ENOMEM) {
        fail_memory(session);
    } else if (lists && listed == 0) {
        finish(session, NULL);
    } else if (lists || !take_decisions(session, result)) {
        simba__sql_fail(&why, SIMBA__SQL_RECONNECT, SIMBA_ECORRUPT,
                        "postgresql %s: the function %s_decide_4 is not ours", session->shared->options->where,
                        session->shared->options->table);
        fail(session, &why);
    } else if (session->step->action == SIMBA__SQL_GET && listener->listening.hearing == SIMBA__SQL_LISTENS) {
        ask(session, SIMBA__PG_NOTIFIES, SIMBA__PG_NOTIFY, listener->channel, "0");
    } else {
        finish(session, NULL);
    }
}

static void on_answered(simba__pg_conn *conn, const PGresult *result, const simba__sql_failure *why)
{
    simba__pg_session *session = SIMBA__OF_NODE(conn, simba__pg_session, conn);
    if (why) {
        fail(session, why);
        return;
    }
    switch (session->task) {
    case SIMBA__PG_LOOKS:
        looked(session, result);
        break;
    case SIMBA__PG_CREATES:
        make(session);
        break;
    case SIMBA__PG_FILLS:
        look(session);
        break;
    case SIMBA__PG_NOTIFIES:
        simba__sql_listening_tested(&session->shared->listener->listening);
        finish(session, NULL);
        break;
    default:
        stepped(session, result);
    }
}

static void on_opened(simba__pg_conn *conn)
{
    simba__pg_session *session = SIMBA__OF_NODE(conn, simba__pg_session, conn);
    simba__sql_listening_doubt(&session->shared->listener->listening);
    look(session);
}

/* If nobody has asked for anything, the next READY opens it again. */
static void on_lost(simba__pg_conn *conn, const simba__sql_failure *why)
{
    simba__pg_session *session = SIMBA__OF_NODE(conn, simba__pg_session, conn);
    simba__sql_listening_lost(&session->shared->listener->listening);
    if (session->task == SIMBA__PG_OPENS)
        fail(session, why);
}

/* It belongs to another client that shares the pooler's connection with us. */
static void on_notified(simba__pg_conn *conn, const char *payload)
{
    (void)conn;
    (void)payload;
}

/* --- the dialect ------------------------------------------------------------------------------------------------------- */

static void start(void *conn, simba__sql_lane *lane, simba__sql_step *step, simba__sql_table *table)
{
    simba__pg_session *session = conn;
    simba__sql_failure lost;
    session->lane = lane;
    session->step = step;
    session->table = table;
    session->has_made = false;
    if (gets_ready(step)) {
        get_ready(session);
    } else if (step->action == SIMBA__SQL_CLOSE) {
        simba__pg_conn_close(&session->conn);
        simba__sql_listening_lost(&session->shared->listener->listening);
        finish(session, NULL);
    } else if (!simba__pg_conn_is_open(&session->conn)) {
        simba__sql_fail(&lost, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE, "postgresql %s: the connection is lost",
                        session->shared->options->where);
        fail(session, &lost);
    } else if (step->action == SIMBA__SQL_LIST) {
        ask(session, SIMBA__PG_ASKS, SIMBA__PG_LIST, NULL, NULL);
    } else if (step->action == SIMBA__SQL_READ_NOTE) {
        ask(session, SIMBA__PG_ASKS, SIMBA__PG_READ_NOTE, step->item->ask.mutex, NULL);
    } else if (step->action == SIMBA__SQL_DECIDE || step->action == SIMBA__SQL_GET) {
        decide(session);
    } else {
        SIMBA__ASSERT(step->action == SIMBA__SQL_EXAMINE || step->action == SIMBA__SQL_PREPARE);
        look(session);
    }
}

/* While a name is looked up, `lost` follows when the name server has answered. */
static void interrupt(void *conn)
{
    simba__pg_session *session = conn;
    simba__sql_failure why;
    const bool is_over = session->conn.state != SIMBA__PG_RESOLVING;
    if (session->conn.state == SIMBA__PG_ASKED)
        session->conn.first++; /* another host may answer: an old primary that waits for its standby does not */
    simba__pg_conn_close(&session->conn);
    if (!is_over || session->task == SIMBA__PG_NO_TASK)
        return;
    simba__sql_fail(&why, SIMBA__SQL_RECONNECT, SIMBA_ETIMEDOUT, "postgresql %s: no answer in time",
                    session->shared->options->where);
    fail(session, &why);
}

static bool cut(void *conn, simba_local now)
{
    const simba__pg_session *session = conn;
    if (session->task == SIMBA__PG_OPENS && now.ns < session->conn.open_by.ns)
        return false;
    interrupt(conn);
    return true;
}

const simba__sql_dialect simba__pg_dialect = {.decides = true, .start = start, .interrupt = interrupt, .cut = cut};

int simba__pg_session_init(simba__pg_session *session, simba_host *host, const simba__pg_shared *shared)
{
    static const simba__pg_conn_events events = {on_opened, on_answered, on_lost, on_notified};
    session->shared = shared;
    return simba__pg_conn_init(&session->conn, host, shared->options, &events);
}

void simba__pg_session_fini(simba__pg_session *session)
{
    SIMBA__ASSERT(session->conn.state == SIMBA__PG_SHUT);
    simba__buffer_free(&session->asks);
}
