/* See dialect.h. */
#include "backends/postgresql/dialect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/assert.h"
#include "util/clock.h"
#include "util/table.h"

#define FIRST_PAUSE_NS (20 * SIMBA__NS_PER_MS)
#define LONGEST_PAUSE_NS (500 * SIMBA__NS_PER_MS)

/* --- the end of a step ------------------------------------------------------------------------------------- */

static void finish(simba__pg_session *session, int rc, const simba__sql_failure *why)
{
    simba__sql_lane *lane = session->lane;
    session->task = SIMBA__PG_NO_TASK;
    session->step = NULL;
    session->lane = NULL;
    simba__sql_carried_out(lane, rc, why);
}

static void finish_failed(simba__pg_session *session, const simba__sql_failure *why)
{
    const simba__sql_failure told = *why; /* it may be the connection's */
    finish(session, told.error.code, &told);
}

/* A READY that failed leaves no connection. Many requests may come while there is no server: they do not all try. */
static void refuse(simba__pg_session *session, const simba__sql_failure *why)
{
    simba_host *host = session->conn.host;
    const int64_t pause_ns = FIRST_PAUSE_NS << (session->failures < 5 ? session->failures : 5);
    session->failures++;
    session->refusal = *why;
    session->not_before.ns = host->now(host).ns + (pause_ns < LONGEST_PAUSE_NS ? pause_ns : LONGEST_PAUSE_NS);
    simba__pg_conn_close(&session->conn);
    finish_failed(session, &session->refusal);
}

static void ask(simba__pg_session *session, simba__pg_task task, simba__pg_statement statement)
{
    simba__sql_failure why;
    session->task = task;
    if (simba__pg_params_done(&session->params)) {
        simba__pg_conn_ask(&session->conn, session->shared->texts[statement], session->params.count,
                           session->params.values);
    } else {
        simba__pg_out_of_memory(&why);
        finish_failed(session, &why);
    }
}

static void ask_plainly(simba__pg_session *session, simba__pg_task task, simba__pg_statement statement)
{
    simba__pg_params_clear(&session->params);
    ask(session, task, statement);
}

/* --- rows ---------------------------------------------------------------------------------------------------- */

static int64_t take_number(const PGresult *result, int row, int column, simba__sql_columns *c)
{
    char *end;
    c->is_null[column] = (char)PQgetisnull(result, row, column);
    errno = 0;
    const long long number = strtoll(PQgetvalue(result, row, column), &end, 10);
    c->is_cut[column] = !c->is_null[column] && (errno != 0 || *end != '\0');
    return number;
}

static void take_text(const PGresult *result, int row, int column, simba__sql_columns *c, char *out, size_t size,
                      unsigned long *ret_length)
{
    const size_t length = (size_t)PQgetlength(result, row, column);
    c->is_null[column] = (char)PQgetisnull(result, row, column);
    c->is_cut[column] = length > size;
    *ret_length = length;
    memcpy(out, PQgetvalue(result, row, column), length < size ? length : size);
}

static const char *take_row(const PGresult *result, int row, simba__sql_columns *c)
{
    take_text(result, row, SIMBA__SQL_MUTEX, c, c->mutex, sizeof c->mutex - 1, &c->mutex_length);
    take_text(result, row, SIMBA__SQL_OWNER_ID, c, c->owner_id, sizeof c->owner_id, &c->owner_length);
    c->acquired_at = take_number(result, row, SIMBA__SQL_ACQUIRED_AT, c);
    c->ttl_at = take_number(result, row, SIMBA__SQL_TTL_AT, c);
    c->transition_at = take_number(result, row, SIMBA__SQL_TRANSITION_AT, c);
    const int64_t version = take_number(result, row, SIMBA__SQL_VERSION, c);
    c->is_cut[SIMBA__SQL_VERSION] |= version < 0;
    c->version = (uint64_t)version;
    c->nonce = (uint64_t)take_number(result, row, SIMBA__SQL_NONCE, c);
    c->nonce_version = (uint64_t)take_number(result, row, SIMBA__SQL_NONCE_VERSION, c);
    c->revoked_version = (uint64_t)take_number(result, row, SIMBA__SQL_REVOKED_VERSION, c);
    c->now_ms = take_number(result, row, SIMBA__SQL_NOW, c);
    return simba__sql_columns_mutex(c);
}

static int by_name(const void *key, const void *element)
{
    return strcmp(key, (*(simba__sql_row *const *)element)->mutex);
}

static simba__sql_row *find_row(const simba__sql_step *step, const char *mutex)
{
    simba__sql_row **row = bsearch(mutex, step->rows, step->count, sizeof(simba__sql_row *), by_name);
    return row ? *row : NULL;
}

/* For rows that are not there the server does not tell its time, and ours has to do. */
static void clear_rows(const simba__pg_session *session)
{
    const int64_t now_ms = session->conn.host->epoch_us(session->conn.host) / 1000;
    for (size_t i = 0; i < session->step->count; i++)
        simba__sql_row_clear(session->step->rows[i], now_ms);
}

static void take_rows(simba__pg_session *session, const PGresult *result)
{
    clear_rows(session);
    for (int i = 0; i < PQntuples(result); i++) {
        simba__sql_row *row = find_row(session->step, take_row(result, i, &session->columns));
        if (row)
            simba__sql_row_decode(row, &session->columns, INT64_MAX);
    }
}

static void take_decisions(simba__pg_session *session, const PGresult *result)
{
    clear_rows(session);
    for (size_t i = 0; i < session->step->count; i++)
        session->step->rows[i]->deed = SIMBA__SQL_BUSY; /* unless the server says something else */
    for (int i = 0; i < PQntuples(result); i++) {
        simba__sql_row *row = find_row(session->step, take_row(result, i, &session->columns));
        if (!row)
            continue;
        const int64_t now_ms = session->columns.now_ms;
        if (session->columns.is_null[SIMBA__SQL_OWNER_ID]) /* there is no such row */
            simba__sql_row_clear(row, now_ms);
        else
            simba__sql_row_decode(row, &session->columns, INT64_MAX);
        const char deed = PQgetvalue(result, i, SIMBA__PG_DEED)[0];
        row->deed = deed == SIMBA__PG_DONE   ? SIMBA__SQL_DONE
                    : deed == SIMBA__PG_SEEN ? SIMBA__SQL_REFUSED
                                             : SIMBA__SQL_BUSY;
        row->place = strtoll(PQgetvalue(result, i, SIMBA__PG_PLACE), NULL, 10);
    }
}

static int list_rows(simba__pg_session *session, const PGresult *result, simba__sql_failure *why)
{
    for (int i = 0; i < PQntuples(result); i++) {
        simba__sql_row row = {.mutex = take_row(result, i, &session->columns)};
        simba__sql_row_decode(&row, &session->columns, INT64_MAX);
        if (simba__sql_item_list(session->step->item, &row) < 0)
            return simba__pg_out_of_memory(why);
    }
    return 0;
}

/* --- asking -------------------------------------------------------------------------------------------------- */

static char op_of(const simba__sql_item *item, bool has_line)
{
    switch (item->ask.op) {
    case SIMBA_OP_ACQUIRE:
        return item->held_here               ? SIMBA__PG_OP_LOOK
               : item->ask.queue && has_line ? SIMBA__PG_OP_QUEUE
                                             : SIMBA__PG_OP_ACQUIRE;
    case SIMBA_OP_RENEW:
        return SIMBA__PG_OP_RENEW;
    case SIMBA_OP_RELEASE:
        return SIMBA__PG_OP_RELEASE;
    default:
        SIMBA__ASSERT(item->ask.op == SIMBA_OP_FORCE_RELEASE);
        return SIMBA__PG_OP_FORCE;
    }
}

static int64_t nonce_of(const simba_request *ask)
{
    return (int64_t)ask->nonce;
}

static int64_t token_of(const simba_request *ask)
{
    return (int64_t)ask->token;
}

static int64_t ttl_of(const simba_request *ask)
{
    return ask->ttl_ms;
}

static int64_t lease_of(const simba_request *ask)
{
    return ask->ttl_ms + ask->transition_ms;
}

static void put_mutexes(simba__pg_session *session)
{
    simba__pg_params_begin(&session->params);
    for (size_t i = 0; i < session->step->count; i++)
        simba__pg_params_add_text(&session->params, session->step->rows[i]->mutex);
    simba__pg_params_end(&session->params);
}

static void decide(simba__pg_session *session)
{
    static int64_t (*const numbers[])(const simba_request *ask) = {nonce_of, token_of, ttl_of, lease_of};
    const simba__sql_step *step = session->step;
    simba__pg_params *params = &session->params;
    const char *channel = simba__pg_listener_channel(session->shared->listener);
    char ops[SIMBA__SQL_ROWS_MAX + 1] = "";
    for (size_t i = 0; i < step->count; i++)
        ops[i] = op_of(step->rows[i]->item, channel[0] != '\0');
    simba__pg_params_clear(params);
    simba__pg_params_text(params, ops);
    put_mutexes(session);
    simba__pg_params_begin(params);
    for (size_t i = 0; i < step->count; i++)
        simba__pg_params_add_text(params, step->rows[i]->item->ask.id ? step->rows[i]->item->ask.id : "");
    simba__pg_params_end(params);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        simba__pg_params_begin(params);
        for (size_t i = 0; i < step->count; i++)
            simba__pg_params_add_number(params, numbers[n](&step->rows[i]->item->ask));
        simba__pg_params_end(params);
    }
    simba__pg_params_begin(params);
    for (size_t i = 0; i < step->count; i++)
        simba__pg_params_add_number(params, (int64_t)step->rows[i]->item->floor);
    simba__pg_params_end(params);
    simba__pg_params_text(params, channel);
    ask(session, SIMBA__PG_ASKS, SIMBA__PG_DECIDE);
}

static void get(simba__pg_session *session)
{
    const char *channel = simba__pg_listener_channel(session->shared->listener);
    simba__pg_listener_wake(session->shared->listener, &session->conn);
    simba__pg_params_clear(&session->params);
    put_mutexes(session);
    if (channel[0] != '\0')
        simba__pg_params_text(&session->params, channel);
    ask(session, SIMBA__PG_ASKS, channel[0] != '\0' ? SIMBA__PG_KEEP : SIMBA__PG_GET);
}

static void send_test(simba__pg_session *session)
{
    simba__pg_params_clear(&session->params);
    simba__pg_params_text(&session->params, simba__pg_listener_channel(session->shared->listener));
    simba__pg_params_text(&session->params, "0");
    ask(session, SIMBA__PG_NOTIFIES, SIMBA__PG_NOTIFY);
}

/* --- getting ready ------------------------------------------------------------------------------------------- */

static void get_ready(simba__pg_session *session)
{
    simba_host *host = session->conn.host;
    session->has_made = false;
    if (simba__pg_conn_is_open(&session->conn)) {
        const bool bare = session->step->action == SIMBA__SQL_READY_BARE;
        simba__sql_failure why;
        if (!bare && simba__pg_schema_check(&session->schema, session->shared->options, &why) < 0)
            refuse(session, &why); /* the next one looks anew */
        else
            finish(session, 0, NULL);
    } else if (session->failures > 0 && host->now(host).ns < session->not_before.ns) {
        finish_failed(session, &session->refusal);
    } else {
        session->task = SIMBA__PG_OPENS;
        simba__pg_conn_open(&session->conn);
    }
}

static void make(simba__pg_session *session)
{
    const bool has_schema = session->schema.has_schema;
    session->has_made |= has_schema;
    session->schema.has_schema = true;
    ask_plainly(session, has_schema ? SIMBA__PG_FILLS : SIMBA__PG_CREATES,
                has_schema ? SIMBA__PG_MAKE : SIMBA__PG_MAKE_SCHEMA);
}

static void be_ready(simba__pg_session *session)
{
    session->failures = 0;
    *session->table = (simba__sql_table){.has_nonce = true,
                                         .is_exact = true,
                                         .mutex_chars = SIMBA_MUTEX_BYTES,
                                         .id_chars = SIMBA_ID_MAX,
                                         .rows_max = SIMBA__SQL_ROWS_MAX};
    simba__pg_listener_wake(session->shared->listener, &session->conn);
    get_ready(session);
}

static void finish_prepare(simba__pg_session *session)
{
    simba__sql_failure why;
    int rc = simba__pg_schema_check(&session->schema, session->shared->options, &why);
    if (rc == 0)
        rc = simba__pg_schema_check_rights(&session->schema, session->shared->options, &why);
    finish(session, rc, &why);
}

static void looked(simba__pg_session *session, const PGresult *result)
{
    simba__sql_failure why;
    const simba__sql_action action = session->step->action;
    if (!simba__pg_schema_take(result, &session->schema)) {
        simba__sql_fail(&why, SIMBA__SQL_RECONNECT, SIMBA_ECORRUPT, "postgresql %s: this is no PostgreSQL server",
                        session->shared->options->where);
        refuse(session, &why);
        return;
    }
    const bool is_to_make =
        action == SIMBA__SQL_PREPARE || (action != SIMBA__SQL_EXAMINE && session->shared->options->create);
    if (is_to_make && !session->has_made && !simba__pg_schema_is_whole(&session->schema) &&
        (session->schema.has_columns || !session->schema.has_table)) {
        make(session);
    } else if (action == SIMBA__SQL_PREPARE) {
        finish_prepare(session);
    } else if (action == SIMBA__SQL_EXAMINE) {
        const int rc = simba__pg_schema_examine(&session->schema, session->shared->options, simba__sql_item_find,
                                                session->step->item);
        finish(session, rc < 0 ? simba__pg_out_of_memory(&why) : 0, &why);
    } else {
        be_ready(session);
    }
}

/* --- answers ------------------------------------------------------------------------------------------------- */

static void stepped(simba__pg_session *session, const PGresult *result)
{
    simba__sql_failure why;
    int rc = 0;
    switch (session->step->action) {
    case SIMBA__SQL_DECIDE:
        take_decisions(session, result);
        break;
    case SIMBA__SQL_GET:
        take_rows(session, result);
        if (simba__pg_listener_wants_test(session->shared->listener)) {
            send_test(session);
            return;
        }
        break;
    default:
        rc = list_rows(session, result, &why);
    }
    finish(session, rc, &why);
}

static void on_answered(simba__pg_conn *conn, const PGresult *result, const simba__sql_failure *why)
{
    simba__pg_session *session = SIMBA__OF_NODE(conn, simba__pg_session, conn);
    const bool gets_ready = session->step->action == SIMBA__SQL_READY || session->step->action == SIMBA__SQL_READY_BARE;
    if (why && gets_ready) {
        refuse(session, why);
        return;
    }
    if (why) {
        finish_failed(session, why);
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
        ask_plainly(session, SIMBA__PG_LOOKS, SIMBA__PG_LOOK);
        break;
    case SIMBA__PG_NOTIFIES:
        simba__pg_listener_tested(session->shared->listener);
        finish(session, 0, NULL);
        break;
    default:
        stepped(session, result);
    }
}

static void on_opened(simba__pg_conn *conn)
{
    ask_plainly(SIMBA__OF_NODE(conn, simba__pg_session, conn), SIMBA__PG_LOOKS, SIMBA__PG_LOOK);
}

static void on_lost(simba__pg_conn *conn, const simba__sql_failure *why)
{
    simba__pg_session *session = SIMBA__OF_NODE(conn, simba__pg_session, conn);
    if (session->task == SIMBA__PG_OPENS)
        refuse(session, why); /* otherwise nobody has asked for anything, and the next READY opens it again */
}

static void on_notified(simba__pg_conn *conn, const char *payload)
{
    (void)conn; /* somebody else's, who shares the pooler's connection with us */
    (void)payload;
}

/* --- the dialect --------------------------------------------------------------------------------------------- */

static void start(void *conn, simba__sql_lane *lane, simba__sql_step *step, simba__sql_table *table)
{
    simba__pg_session *session = conn;
    session->lane = lane;
    session->step = step;
    session->table = table;
    simba__sql_failure lost;
    const bool connects = step->action == SIMBA__SQL_READY || step->action == SIMBA__SQL_READY_BARE;
    if (!connects && step->action != SIMBA__SQL_CLOSE && !simba__pg_conn_is_open(&session->conn)) {
        simba__sql_fail(&lost, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE, "postgresql %s: the connection is lost",
                        session->shared->options->where);
        finish_failed(session, &lost);
        return;
    }
    switch (step->action) {
    case SIMBA__SQL_READY:
    case SIMBA__SQL_READY_BARE:
        get_ready(session);
        break;
    case SIMBA__SQL_DECIDE:
        decide(session);
        break;
    case SIMBA__SQL_GET:
        get(session);
        break;
    case SIMBA__SQL_LIST:
        ask_plainly(session, SIMBA__PG_ASKS, SIMBA__PG_LIST);
        break;
    case SIMBA__SQL_EXAMINE:
    case SIMBA__SQL_PREPARE:
        session->has_made = false;
        ask_plainly(session, SIMBA__PG_LOOKS, SIMBA__PG_LOOK);
        break;
    default:
        SIMBA__ASSERT(step->action == SIMBA__SQL_CLOSE);
        simba__pg_conn_close(&session->conn);
        finish(session, 0, NULL);
    }
}

static void interrupt(void *conn)
{
    simba__pg_session *session = conn;
    simba__sql_failure why;
    if (session->conn.state == SIMBA__PG_RESOLVING) {
        simba__pg_conn_close(&session->conn); /* `lost` follows when the name server has answered */
        return;
    }
    simba__pg_conn_close(&session->conn);
    if (session->task == SIMBA__PG_NO_TASK)
        return;
    simba__sql_fail(&why, SIMBA__SQL_RECONNECT, SIMBA_ETIMEDOUT, "postgresql %s: no answer in time",
                    session->shared->options->where);
    finish_failed(session, &why);
}

static bool cut(void *conn, simba_local now)
{
    const simba__pg_session *session = conn;
    const bool is_opening = session->conn.state == SIMBA__PG_RESOLVING || session->conn.state == SIMBA__PG_CONNECTING;
    if (is_opening && now.ns < session->conn.open_by.ns)
        return false;
    interrupt(conn);
    return true;
}

const simba__sql_dialect simba__pg_dialect = {
    .decides = true,
    .start = start,
    .interrupt = interrupt,
    .cut = cut,
};

int simba__pg_session_init(simba__pg_session *session, simba_host *host, simba__pg_shared *shared)
{
    static const simba__pg_conn_events events = {
        .opened = on_opened, .answered = on_answered, .lost = on_lost, .notified = on_notified};
    session->shared = shared;
    return simba__pg_conn_init(&session->conn, host, shared->options, &events, true);
}

void simba__pg_session_close(simba__pg_session *session)
{
    SIMBA__ASSERT(session->task == SIMBA__PG_NO_TASK);
    simba__pg_conn_close(&session->conn);
}

void simba__pg_session_fini(simba__pg_session *session)
{
    simba__pg_conn_fini(&session->conn);
    simba__pg_params_free(&session->params);
}
