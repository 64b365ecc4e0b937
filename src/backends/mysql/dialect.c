/* See dialect.h. */
#include "backends/mysql/dialect.h"

#include <string.h>

#include "backends/mysql/library.h"

enum { ROW_BYTES = 512 }; /* the most that a row takes in a packet: name, id, numbers */

static bool has_nonce(const simba__my_session *session)
{
    return session->schema.layout != SIMBA__MY_BARE;
}

/* --- parameters --------------------------------------------------------------------------------------- */

static void bind_text(MYSQL_BIND *bind, const char *text)
{
    bind->buffer_type = MYSQL_TYPE_STRING;
    bind->buffer = (char *)text; // NOLINT: the library only reads it
    bind->buffer_length = strlen(text);
    bind->length = &bind->buffer_length;
}

static void bind_number(MYSQL_BIND *bind, const uint64_t *number)
{
    bind->buffer_type = MYSQL_TYPE_LONGLONG;
    bind->buffer = (uint64_t *)number; // NOLINT: likewise
    bind->is_unsigned = 1;
}

static void bind_time(MYSQL_BIND *bind, const int64_t *ms)
{
    bind_number(bind, (const uint64_t *)ms);
    bind->is_unsigned = 0;
}

static void bind_row(MYSQL_BIND *binds, const simba__sql_row *row, size_t params)
{
    bind_text(&binds[0], row->mutex);
    if (params == 1)
        return;
    bind_time(&binds[1], &row->row.owner.acquired_at_ms);
    bind_time(&binds[2], &row->row.owner.ttl_at_ms);
    bind_time(&binds[3], &row->row.owner.transition_at_ms);
    bind_text(&binds[4], row->row.owner.id);
    bind_number(&binds[5], &row->version);
    if (params == SIMBA__SQL_SHARED_COLUMNS)
        return;
    bind_number(&binds[6], &row->row.nonce);
    bind_number(&binds[7], &row->nonce_version);
    bind_number(&binds[8], &row->row.revoked_token);
}

/* --- many rows ---------------------------------------------------------------------------------------- */

/* The smallest size that has room for so many rows. */
static size_t size_for(size_t rows)
{
    size_t size = 0;
    while ((size_t)1 << size < rows)
        size++;
    return size;
}

/* A statement for the rows of the step; the last row is repeated. */
static int execute(simba__my_session *session, simba__my_statement which, const simba__sql_step *step,
                   MYSQL_STMT **ret_statement, simba__sql_failure *why)
{
    const size_t size = size_for(step->count);
    const size_t params = simba__my_statement_params(which, session->schema.layout);
    MYSQL_BIND *binds = simba__my_session_binds(session, params << size);
    if (!binds)
        return simba__my_out_of_memory(why);
    for (size_t i = 0; i < (size_t)1 << size; i++)
        bind_row(binds + i * params, step->rows[i < step->count ? i : step->count - 1], params);
    return simba__my_session_execute(session, which, size, ret_statement, why);
}

/* If none of the rows exists, the server does not tell its time, and ours has to do. */
static int64_t our_now_ms(const simba__my_session *session)
{
    return session->conn.host->epoch_us(session->conn.host) / 1000;
}

static int get_rows(simba__my_session *session, simba__sql_action action, const simba__sql_step *step,
                    simba__sql_failure *why)
{
    MYSQL_STMT *statement = NULL;
    simba__sql_step_clear_rows(step, our_now_ms(session));
    int rc = execute(session, action, step, &statement, why);
    if (rc < 0)
        return rc;
    while ((rc = simba__my_session_fetch(session, statement, why)) == 1) {
        /* A name that only the column takes for one of ours is not found here. */
        simba__sql_row *row = simba__sql_step_find_row(step, simba__sql_columns_mutex(&session->columns));
        if (row)
            simba__sql_row_decode(row, &session->columns, session->schema.version_max);
    }
    return rc;
}

static int list_rows(simba__my_session *session, simba__sql_item *item, simba__sql_failure *why)
{
    MYSQL_STMT *statement = NULL;
    int rc = simba__my_session_execute(session, SIMBA__SQL_LIST, 0, &statement, why);
    if (rc < 0)
        return rc;
    int failed = 0;
    while ((rc = simba__my_session_fetch(session, statement, why)) == 1) {
        if (failed < 0)
            continue; /* to the end, or the connection could not be used again */
        simba__sql_row row = {.mutex = simba__sql_columns_mutex(&session->columns)};
        simba__sql_row_decode(&row, &session->columns, session->schema.version_max);
        failed = simba__sql_item_list(item, &row, &session->columns);
    }
    return rc == 0 && failed < 0 ? simba__my_out_of_memory(why) : rc;
}

/* --- one mutex by itself -------------------------------------------------------------------------------- */

/* With the parameters that are bound: did it match the row? */
static int execute_one(simba__my_session *session, simba__sql_step *step, MYSQL_STMT **ret_statement,
                       simba__sql_failure *why)
{
    const int rc = simba__my_session_execute(session, step->action, 0, ret_statement, why);
    if (rc == 0)
        step->matched = mysql_stmt_affected_rows(*ret_statement) > 0;
    return rc;
}

static int acquire(simba__my_session *session, simba__sql_step *step, simba__sql_failure *why)
{
    const simba_request *ask = &step->item->ask;
    const uint64_t *floor = &step->item->floor;
    const int64_t lease_ms = ask->ttl_ms + ask->transition_ms;
    MYSQL_STMT *statement;
    MYSQL_BIND *bind = simba__my_session_binds(session, 9);
    if (!bind)
        return simba__my_out_of_memory(why);
    bind_time(bind++, &ask->ttl_ms);
    bind_time(bind++, &lease_ms);
    bind_text(bind++, ask->id);
    if (has_nonce(session)) {
        bind_number(bind++, floor);
        bind_number(bind++, &ask->nonce);
    }
    bind_number(bind++, floor);
    bind_text(bind++, ask->mutex);
    bind_number(bind++, floor);
    bind_number(bind++, &session->schema.version_max);
    int rc = execute_one(session, step, &statement, why);
    if (rc == 0)
        rc = get_rows(session, SIMBA__SQL_GET, step, why);
    if (rc == 0 && step->rows[0]->found)
        step->token = session->columns.extra;
    return rc;
}

/* The parameters that name a grant. */
static void bind_grant(const simba__my_session *session, MYSQL_BIND *binds, const simba_request *request)
{
    bind_text(&binds[0], request->mutex);
    bind_number(&binds[1], &request->token);
    bind_text(&binds[2], request->id);
    if (has_nonce(session))
        bind_number(&binds[3], &request->nonce);
}

static int renew(simba__my_session *session, simba__sql_step *step, simba__sql_failure *why)
{
    const simba_request *ask = &step->item->ask;
    const int64_t lease_ms = ask->ttl_ms + ask->transition_ms;
    MYSQL_STMT *statement;
    MYSQL_BIND *binds = simba__my_session_binds(session, 7);
    if (!binds)
        return simba__my_out_of_memory(why);
    bind_time(&binds[0], &ask->ttl_ms);
    bind_time(&binds[1], &lease_ms);
    bind_grant(session, binds + 2, ask);
    bind_time(&binds[has_nonce(session) ? 6 : 5], &lease_ms);
    const int rc = execute_one(session, step, &statement, why);
    return rc == 0 && step->matched ? get_rows(session, SIMBA__SQL_GET, step, why) : rc;
}

static int release(simba__my_session *session, simba__sql_step *step, simba__sql_failure *why)
{
    MYSQL_STMT *statement;
    MYSQL_BIND *binds = simba__my_session_binds(session, 4);
    if (!binds)
        return simba__my_out_of_memory(why);
    bind_grant(session, binds, &step->item->ask);
    const int rc = execute_one(session, step, &statement, why);
    if (rc < 0 || !step->matched)
        return rc;
    step->rows[0]->now_ms = (int64_t)mysql_stmt_insert_id(statement);
    return step->rows[0]->now_ms == 0 ? get_rows(session, SIMBA__SQL_GET, step, why) : 0; /* there is a trigger */
}

/* --- notes ---------------------------------------------------------------------------------------------- */

static int read_note(simba__my_session *session, simba__sql_item *item, simba__sql_failure *why)
{
    MYSQL_STMT *statement = NULL;
    MYSQL_BIND *binds = simba__my_session_binds(session, 1);
    if (!binds)
        return simba__my_out_of_memory(why);
    bind_text(binds, item->ask.mutex);
    int rc = simba__my_session_execute(session, SIMBA__SQL_READ_NOTE, 0, &statement, why);
    if (rc < 0)
        return rc;
    int failed = 0;
    item->ask.reply.now_ms = our_now_ms(session); /* unless there is a row */
    while ((rc = simba__my_session_fetch(session, statement, why)) == 1)
        failed = failed < 0 ? failed : simba__sql_item_note(item, &session->columns);
    return rc == 0 && failed < 0 ? simba__my_out_of_memory(why) : rc;
}

static int write_note(simba__my_session *session, const simba_request *ask, MYSQL_STMT **ret_statement,
                      simba__sql_failure *why)
{
    MYSQL_BIND *binds = simba__my_session_binds(session, 8);
    if (!binds)
        return simba__my_out_of_memory(why);
    binds[0].buffer_type = ask->note_size > 0 ? MYSQL_TYPE_BLOB : MYSQL_TYPE_NULL;
    binds[0].buffer = (void *)ask->note; // NOLINT: the library only reads it
    binds[0].buffer_length = ask->note_size;
    binds[0].length = &binds[0].buffer_length;
    bind_number(&binds[1], &ask->token);
    bind_number(&binds[2], &ask->note_number);
    bind_grant(session, binds + 3, ask);
    bind_number(&binds[7], &ask->note_number);
    return simba__my_session_execute(session, SIMBA__MY_WRITE_NOTE, 0, ret_statement, why);
}

static int forget(simba__my_session *session, const simba_request *ask, MYSQL_STMT **ret_statement,
                  simba__sql_failure *why)
{
    MYSQL_BIND *binds = simba__my_session_binds(session, 2);
    if (!binds)
        return simba__my_out_of_memory(why);
    bind_text(&binds[0], ask->mutex);
    bind_text(&binds[1], ask->mutex);
    return simba__my_session_execute(session, SIMBA__MY_FORGET, 0, ret_statement, why);
}

/* Each request is one statement, which the server commits before it answers. Then one statement reads all rows. */
static int decide(simba__my_session *session, const simba__sql_step *step, simba__sql_failure *why)
{
    simba__sql_deed deeds[SIMBA__SQL_ROWS_MAX];
    for (size_t i = 0; i < step->count; i++) {
        const simba_request *ask = &step->rows[i]->item->ask;
        MYSQL_STMT *statement = NULL;
        const int rc = ask->op == SIMBA_OP_FORGET ? forget(session, ask, &statement, why)
                                                  : write_note(session, ask, &statement, why);
        if (rc < 0)
            return rc;
        deeds[i] = mysql_stmt_affected_rows(statement) > 0 ? SIMBA__SQL_DONE : SIMBA__SQL_REFUSED;
    }
    const int rc = get_rows(session, SIMBA__SQL_GET, step, why);
    for (size_t i = 0; i < step->count; i++)
        step->rows[i]->deed = deeds[i];
    return rc;
}

/* --- the table ------------------------------------------------------------------------------------------ */

/* MySQL 8.0.1 and MariaDB 10.6 know SKIP LOCKED. */
static bool knows_skip_locked(MYSQL *mysql)
{
    return mysql_get_server_version(mysql) >= (mariadb_connection(mysql) ? 100600U : 80001U);
}

static int get_ready(simba__my_session *session, bool bare, simba__sql_table *ret_table, simba__sql_failure *why)
{
    const int rc = simba__my_session_ready(session, bare, why);
    const simba__my_schema *schema = &session->schema;
    if (rc == 0)
        *ret_table = (simba__sql_table){.has_nonce = has_nonce(session),
                                        .has_notes = schema->layout == SIMBA__MY_NOTES,
                                        .is_exact = schema->is_exact,
                                        .make_exact = "make it utf8mb4_bin",
                                        .mutex_chars = schema->mutex_chars,
                                        .id_chars = schema->id_chars,
                                        .rows_max = schema->max_packet / ROW_BYTES,
                                        .skips_locked = knows_skip_locked(session->conn.mysql)};
    return rc;
}

/* The session keeps its knowledge of the table: its statements were prepared for that. */
static int examine(simba__my_session *session, simba__sql_item *item, simba__sql_failure *why)
{
    simba__my_schema schema;
    const int rc = simba__my_schema_look(&session->conn, &schema, why);
    if (rc == 0)
        simba__my_schema_examine(&session->conn, &schema, item);
    return rc;
}

static int prepare(simba__my_session *session, simba__sql_failure *why)
{
    int rc = simba__my_schema_prepare(&session->conn, &session->schema, why);
    if (rc == 0)
        rc = simba__my_schema_check(&session->schema, session->conn.options, why);
    return rc < 0 ? rc : simba__my_schema_check_rights(&session->conn, why);
}

/* --- the dialect ---------------------------------------------------------------------------------------- */

static int carry_out(simba__my_session *session, simba__sql_step *step, simba__sql_table *table,
                     simba__sql_failure *why)
{
    MYSQL_STMT *statement;
    switch (step->action) {
    case SIMBA__SQL_READY:
    case SIMBA__SQL_READY_BARE:
        return get_ready(session, step->action == SIMBA__SQL_READY_BARE, table, why);
    case SIMBA__SQL_BEGIN:
        return simba__my_conn_say(&session->conn, "begin", why);
    case SIMBA__SQL_COMMIT:
        return simba__my_conn_say(&session->conn, "commit", why);
    case SIMBA__SQL_ROLLBACK:
        return simba__my_conn_say(&session->conn, "rollback", why);
    case SIMBA__SQL_GET:
    case SIMBA__SQL_LOCK:
    case SIMBA__SQL_LOCK_FREE:
        return get_rows(session, step->action, step, why);
    case SIMBA__SQL_MAKE:
    case SIMBA__SQL_PUT:
        return execute(session, step->action, step, &statement, why);
    case SIMBA__SQL_ACQUIRE:
        return acquire(session, step, why);
    case SIMBA__SQL_RENEW:
        return renew(session, step, why);
    case SIMBA__SQL_RELEASE:
        return release(session, step, why);
    case SIMBA__SQL_DECIDE:
        return decide(session, step, why);
    case SIMBA__SQL_LIST:
        return list_rows(session, step->item, why);
    case SIMBA__SQL_READ_NOTE:
        return read_note(session, step->item, why);
    case SIMBA__SQL_EXAMINE:
        return examine(session, step->item, why);
    case SIMBA__SQL_PREPARE:
        return prepare(session, why);
    case SIMBA__SQL_CLOSE:
        simba__my_session_end(session);
        return 0;
    default:
        return 0;
    }
}

static int carry_out_guarded(void *conn, simba__sql_step *step, simba__sql_table *table, simba__sql_failure *why)
{
    simba__my_session *session = conn;
    simba__my_sigpipe guarded;
    if (!session->conn.options->tls)
        return carry_out(session, step, table, why);
    simba__my_sigpipe_block(&guarded);
    const int rc = carry_out(session, step, table, why);
    simba__my_sigpipe_restore(&guarded);
    return rc;
}

const simba__sql_dialect simba__my_dialect = {
    .carry_out = carry_out_guarded,
    .interrupt = simba__my_conn_interrupt,
    .resume = simba__my_conn_resume,
    .cut = simba__my_conn_cut,
};
