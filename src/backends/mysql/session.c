/* See session.h. */
#include "backends/mysql/session.h"

#include <errmsg.h>
#include <string.h>

#include "backends/mysql/connect.h"
#include "backends/mysql/value.h"
#include "util/clock.h"
#include "util/mem.h"

static const char settings_sql[] =
    "set sql_mode = 'STRICT_ALL_TABLES', autocommit = 1, completion_type = 0, innodb_lock_wait_timeout = 1, "
    "lock_wait_timeout = 1, sql_select_limit = 18446744073709551615"
    "/*M!100300 , idle_transaction_timeout = 2 */ /*!50700 , wait_timeout = 60 */";
static const char isolation_sql[] = "set session transaction isolation level repeatable read";

void simba__my_session_fini(simba__my_session *session)
{
    simba__my_session_end(session);
    simba__my_conn_fini(&session->conn);
    simba__free(session->binds);
}

void simba__my_session_end(simba__my_session *session)
{
    simba__my_conn_end(&session->conn);
    /* After it: a statement without a connection is closed without a word to the server. */
    for (size_t which = 0; which < SIMBA__MY_STATEMENTS; which++)
        for (size_t size = 0; size < SIMBA__MY_SIZES; size++)
            if (session->statements[which][size]) {
                mysql_stmt_close(session->statements[which][size]);
                session->statements[which][size] = NULL;
            }
}

/* --- getting ready ------------------------------------------------------------------------------------ */

static int connect_and_set_up(simba__my_conn *conn, simba__sql_failure *why)
{
    simba__my_conn_allow_ms(conn, conn->options->connect_timeout_ms);
    int rc = simba__my_connect(conn, why);
    simba__my_conn_allow_ms(conn, conn->options->timeout_s * INT64_C(1000));
    if (rc == 0 && !simba__my_conn_show(conn, (int)mysql_get_socket(conn->mysql)))
        rc = simba__my_conn_fail(conn, CR_SERVER_LOST, "interrupted", why);
    if (rc == 0)
        rc = simba__my_conn_say(conn, settings_sql, why);
    return rc < 0 ? rc : simba__my_conn_say(conn, isolation_sql, why);
}

/* An existing table can be used even if this user may not add the columns that it lacks. */
static int make_table(simba__my_session *session, simba__sql_failure *why)
{
    simba__my_schema made;
    const bool is_there = session->schema.exists;
    const int rc = simba__my_schema_prepare(&session->conn, &made, why);
    if (rc == 0)
        session->schema = made;
    return rc < 0 && is_there && why->error.code == SIMBA_EPERM ? 0 : rc;
}

static int open_session(simba__my_session *session, simba__sql_failure *why)
{
    simba_host *host = session->conn.host;
    if (simba__sql_refusal_stands(&session->refusal, host->now(host))) {
        *why = session->refusal.why;
        return why->error.code;
    }
    int rc = connect_and_set_up(&session->conn, why);
    if (rc == 0)
        rc = simba__my_schema_look(&session->conn, &session->schema, why);
    if (rc == 0 && session->conn.options->create && session->schema.layout != SIMBA__MY_NOTES)
        rc = make_table(session, why);
    if (rc < 0)
        simba__my_session_end(session);
    simba__my_conn_opened(&session->conn, rc == 0);
    if (rc < 0)
        simba__sql_refusal_note(&session->refusal, why, host->now(host));
    else
        session->refusal.failures = 0;
    return rc;
}

int simba__my_session_ready(simba__my_session *session, bool bare, simba__sql_failure *why)
{
    int rc = session->conn.mysql ? 0 : open_session(session, why);
    if (rc < 0 || bare)
        return rc;
    rc = simba__my_schema_check(&session->schema, session->conn.options, why);
    if (rc < 0)
        simba__my_session_end(session); /* the next one looks anew */
    return rc;
}

/* --- statements --------------------------------------------------------------------------------------- */

static int fail_statement(simba__my_session *session, MYSQL_STMT *statement, simba__sql_failure *why)
{
    /* Only the connection knows of an error between the rows of a result. */
    if (mysql_stmt_errno(statement) == 0)
        return simba__my_conn_fail_latest(&session->conn, why);
    return simba__my_conn_fail(&session->conn, mysql_stmt_errno(statement), mysql_stmt_error(statement), why);
}

MYSQL_BIND *simba__my_session_binds(simba__my_session *session, size_t count)
{
    if (count > session->bind_capacity) {
        MYSQL_BIND *binds = simba__realloc(session->binds, count * sizeof *binds);
        if (!binds)
            return NULL;
        session->binds = binds;
        session->bind_capacity = count;
    }
    memset(session->binds, 0, count * sizeof *session->binds);
    return session->binds;
}

/* The library calls this for each value of a row; without a place, the value is null. It never looks beyond the library's
 * buffer, which is as long as the longest packet so far: what lies there behind this one is an older one of the same server. */
static void take_value(void *user, unsigned column, unsigned char **row)
{
    simba__my_session *session = user;
    const MYSQL_FIELD *field = &session->fetched->fields[column];
    const NET *net = &session->conn.mysql->net;
    if (session->is_broken)
        return;
    session->columns.is_cut[column] = false;
    session->columns.is_null[column] = !row || field->type == MYSQL_TYPE_NULL;
    if (session->columns.is_null[column])
        return;
    const unsigned char *at = *row;
    session->is_broken = at < net->buff || at > net->buff_end ||
                         !simba__my_value_take(&session->columns, column, field->type,
                                               (field->flags & UNSIGNED_FLAG) != 0, &at, net->buff_end);
    if (!session->is_broken)
        *row = (unsigned char *)at; // NOLINT: it was not constant before
}

/* Does the server know the statement as the one that we have sent? The library believes its numbers. */
static bool is_as_sent(const simba__my_session *session, simba__my_statement which, size_t size, MYSQL_STMT *statement)
{
    const size_t params = simba__my_statement_params(which, session->schema.layout) << size;
    const unsigned columns = simba__my_statement_has_result(which) ? SIMBA__SQL_COLUMNS : 0;
    return mysql_stmt_param_count(statement) == params && mysql_stmt_field_count(statement) == columns;
}

static int fail_not_as_sent(const simba__my_session *session, simba__sql_failure *why)
{
    return simba__my_conn_fail_broken(&session->conn,
                                      "the server takes a statement for one with other parameters or columns", why);
}

static int prepare(simba__my_session *session, simba__my_statement which, size_t size, simba__sql_failure *why)
{
    char *text = simba__my_statement_text(which, size, session->conn.options->table, session->schema.layout);
    MYSQL_STMT *statement = text ? mysql_stmt_init(session->conn.mysql) : NULL;
    if (!statement) {
        simba__free(text);
        return simba__my_out_of_memory(why);
    }
    int rc = mysql_stmt_prepare(statement, text, strlen(text)) == 0 ? 0 : fail_statement(session, statement, why);
    simba__free(text);
    if (rc == 0 && !is_as_sent(session, which, size, statement)) {
        rc = fail_not_as_sent(session, why);
        simba__my_conn_end(&session->conn); /* so that closing the statement does not speak with it */
    }
    if (rc < 0) {
        mysql_stmt_close(statement);
        return rc;
    }
    mysql_stmt_attr_set(statement, STMT_ATTR_CB_USER_DATA, session);
    mysql_stmt_attr_set(statement, STMT_ATTR_CB_RESULT, (const void *)(uintptr_t)take_value); // NOLINT: so it wants it
    session->statements[which][size] = statement;
    return 0;
}

int simba__my_session_execute(simba__my_session *session, simba__my_statement which, size_t size,
                              MYSQL_STMT **ret_statement, simba__sql_failure *why)
{
    if (!session->statements[which][size]) {
        const int rc = prepare(session, which, size, why);
        if (rc < 0)
            return rc;
    }
    MYSQL_STMT *statement = session->statements[which][size];
    if (session->binds && mysql_stmt_param_count(statement) > 0 &&
        mysql_stmt_bind_param(statement, session->binds) != 0)
        return fail_statement(session, statement, why);
    if (mysql_stmt_execute(statement) != 0)
        return fail_statement(session, statement, why);
    *ret_statement = statement;
    return is_as_sent(session, which, size, statement) ? 0 : fail_not_as_sent(session, why);
}

int simba__my_session_fetch(simba__my_session *session, MYSQL_STMT *statement, simba__sql_failure *why)
{
    session->fetched = statement;
    session->is_broken = false;
    const int rc = mysql_stmt_fetch(statement);
    if (session->is_broken)
        return simba__my_conn_fail_broken(&session->conn, "a row does not have the columns that were announced", why);
    if (rc == 0 || rc == MYSQL_DATA_TRUNCATED)
        return 1;
    if (rc == MYSQL_NO_DATA) {
        mysql_stmt_free_result(statement);
        return 0;
    }
    return fail_statement(session, statement, why);
}
