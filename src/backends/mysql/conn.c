/* See conn.h. */
#include "backends/mysql/conn.h"

#include <errmsg.h>
#include <errno.h>
#include <fcntl.h>
#include <mysqld_error.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/mysql/connect.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/random.h"

#define FIRST_PAUSE_NS (20 * SIMBA__NS_PER_MS)
#define LONGEST_PAUSE_NS (500 * SIMBA__NS_PER_MS)
enum { ROW_BYTES = 512 }; /* the most that a row takes in a packet: name, id, numbers */

static const char settings_sql[] =
    "set sql_mode = 'STRICT_ALL_TABLES', autocommit = 1, completion_type = 0, innodb_lock_wait_timeout = 1, "
    "lock_wait_timeout = 1, sql_select_limit = 18446744073709551615"
    "/*M!100300 , idle_transaction_timeout = 2 */ /*!50700 , wait_timeout = 60 */";
static const char isolation_sql[] = "set session transaction isolation level repeatable read";

void simba__my_conn_init(simba__my_conn *conn, simba_host *host, const simba__my_options *options)
{
    conn->host = host;
    conn->options = options;
    conn->fd = -1;
    conn->open_by.ns = INT64_MAX;
    conn->most_rows = SIMBA__MY_ROWS_MAX;
    pthread_mutex_init(&conn->lock, NULL);
    atomic_init(&conn->over, false);
}

void simba__my_conn_fini(simba__my_conn *conn)
{
    simba__my_conn_end(conn);
    simba__free(conn->binds);
    pthread_mutex_destroy(&conn->lock);
}

/* --- errors ----------------------------------------------------------------------------------------- */

/* The library has one number for whatever ends a TLS handshake. That the connection was lost on the way is no matter of who
 * may, and passes; only the text tells, by what OpenSSL says or by the system's number at its end. */
static bool is_lost_handshake(unsigned number, const char *text)
{
    const char *open = strrchr(text, '(');
    const long cause = open ? strtol(open + 1, NULL, 10) : 0;
    return number == CR_SSL_CONNECTION_ERROR && (strstr(text, "unexpected eof") || cause == ETIMEDOUT ||
                                                 cause == ECONNRESET || cause == ECONNABORTED || cause == EPIPE);
}

/* Texts of the server and of the library name users and hosts, never passwords. */
int simba__my_conn_fail(simba__my_conn *conn, unsigned number, const char *text, simba_error *err)
{
    conn->number = number;
    int code = simba__my_error_code(number, &conn->remedy);
    if (is_lost_handshake(number, text))
        code = SIMBA_EUNAVAILABLE;
    if (number == ER_NO_SUCH_TABLE)
        return simba__fail(err, code, "mysql %s: the table %s is gone; run `simba init`", conn->options->where,
                           conn->options->table);
    /* The library's text has the number of the wrong error in it. */
    if (number == CR_CONNECTION_ERROR || number == CR_CONN_HOST_ERROR)
        text = "there is no server, or it cannot be reached";
    return simba__fail(err, code, "mysql %s: %s (%u)", conn->options->where, text, number);
}

static int fail_mysql(simba__my_conn *conn, simba_error *err)
{
    return simba__my_conn_fail(conn, mysql_errno(conn->mysql), mysql_error(conn->mysql), err);
}

static int fail_statement(simba__my_conn *conn, MYSQL_STMT *statement, simba_error *err)
{
    /* What goes wrong between the rows of a result is known to the connection alone. */
    if (mysql_stmt_errno(statement) == 0)
        return fail_mysql(conn, err);
    return simba__my_conn_fail(conn, mysql_stmt_errno(statement), mysql_stmt_error(statement), err);
}

static int out_of_memory(simba__my_conn *conn, simba_error *err)
{
    conn->number = CR_OUT_OF_MEMORY;
    conn->remedy = SIMBA__MY_TELL;
    return simba__fail(err, SIMBA_ENOMEM, "mysql: out of memory");
}

/* --- opening and closing ------------------------------------------------------------------------------ */

/* In place of the one before, which is closed. */
static void set_fd(simba__my_conn *conn, int fd)
{
    pthread_mutex_lock(&conn->lock);
    const int before = conn->fd;
    conn->fd = fd;
    conn->is_open = false;
    if (fd >= 0 && atomic_load(&conn->over))
        shutdown(fd, SHUT_RDWR); /* it was interrupted before it was known */
    pthread_mutex_unlock(&conn->lock);
    if (before >= 0)
        close(before);
}

/* After packets were lost the kernel repeats the last one in pauses that double. For a connection with so little to say it
 * may do so in equal ones, for a while: 200 ms, where the server is near. Fails where there is no TCP, and nobody minds. */
static void repeat_evenly(int fd)
{
#ifdef TCP_THIN_LINEAR_TIMEOUTS
    const int yes = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &yes, sizeof yes);
#else
    (void)fd;
#endif
}

bool simba__my_conn_show(simba__my_conn *conn, int fd)
{
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    repeat_evenly(fd);
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    set_fd(conn, own);
    return own >= 0;
}

static void set_open_by(simba__my_conn *conn, int64_t ns)
{
    pthread_mutex_lock(&conn->lock);
    conn->open_by.ns = ns;
    pthread_mutex_unlock(&conn->lock);
}

/* How long the next step of opening may take. */
static void allow_ms(simba__my_conn *conn, int64_t ms)
{
    set_open_by(conn, conn->host->now(conn->host).ns + ms * SIMBA__NS_PER_MS);
}

static void set_open(simba__my_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    conn->is_open = true;
    conn->open_by.ns = INT64_MAX;
    pthread_mutex_unlock(&conn->lock);
}

/* With the lock. */
static void interrupt(simba__my_conn *conn)
{
    atomic_store(&conn->over, true);
    if (conn->fd >= 0)
        shutdown(conn->fd, SHUT_RDWR);
}

void simba__my_conn_interrupt(simba__my_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    interrupt(conn);
    pthread_mutex_unlock(&conn->lock);
}

bool simba__my_conn_cut(simba__my_conn *conn, simba_local now)
{
    pthread_mutex_lock(&conn->lock);
    const bool may = conn->is_open || conn->open_by.ns <= now.ns;
    if (may)
        interrupt(conn);
    pthread_mutex_unlock(&conn->lock);
    return may;
}

void simba__my_conn_resume(simba__my_conn *conn)
{
    atomic_store(&conn->over, false);
}

void simba__my_conn_end(simba__my_conn *conn)
{
    if (!conn->mysql)
        return;
    set_fd(conn, -1);
    mysql_close(conn->mysql);
    /* After it: a statement without a connection is closed without a word to the server. */
    for (size_t which = 0; which < SIMBA__MY_STATEMENTS; which++)
        for (size_t size = 0; size < SIMBA__MY_SIZES; size++)
            if (conn->statements[which][size]) {
                mysql_stmt_close(conn->statements[which][size]);
                conn->statements[which][size] = NULL;
            }
    conn->mysql = NULL;
    conn->reused = false;
}

static int connect_and_set_up(simba__my_conn *conn, simba_error *err)
{
    allow_ms(conn, conn->options->connect_timeout_ms);
    int rc = simba__my_connect(conn, err);
    allow_ms(conn, conn->options->timeout_s * INT64_C(1000));
    if (rc == 0 && !simba__my_conn_show(conn, (int)mysql_get_socket(conn->mysql)))
        rc = simba__my_conn_fail(conn, CR_SERVER_LOST, "interrupted", err);
    if (rc == 0)
        rc = simba__my_conn_say(conn, settings_sql, err);
    return rc < 0 ? rc : simba__my_conn_say(conn, isolation_sql, err);
}

static int look_at_table(simba__my_conn *conn, simba_error *err)
{
    const int rc =
        conn->options->create ? simba__my_schema_prepare(conn, err) : simba__my_schema_look(conn, &conn->schema, err);
    if (rc < 0)
        return rc;
    const uint64_t fits = conn->schema.max_packet / ROW_BYTES;
    while (conn->most_rows > 1 && conn->most_rows > fits)
        conn->most_rows /= 2;
    return 0;
}

static int open_conn(simba__my_conn *conn, simba_error *err)
{
    int rc = connect_and_set_up(conn, err);
    if (rc == 0)
        rc = look_at_table(conn, err);
    if (rc < 0) {
        simba__my_conn_end(conn);
        set_open_by(conn, INT64_MAX);
    } else {
        set_open(conn);
    }
    return rc;
}

/* Many requests may come while there is no server: they do not all try. */
static void note_failure(simba__my_conn *conn, const simba_error *why)
{
    int64_t pause_ns = FIRST_PAUSE_NS << (conn->failures < 5 ? conn->failures : 5);
    if (pause_ns > LONGEST_PAUSE_NS)
        pause_ns = LONGEST_PAUSE_NS;
    conn->failures++;
    conn->refusal = *why;
    conn->not_before = (simba_local){conn->host->now(conn->host).ns + pause_ns};
}

int simba__my_conn_ready(simba__my_conn *conn, bool bare, simba_error *err)
{
    simba_error why = {0};
    if (!conn->mysql) {
        if (conn->failures > 0 && conn->host->now(conn->host).ns < conn->not_before.ns) {
            conn->remedy = SIMBA__MY_TELL;
            return simba__fail(err, conn->refusal.code, "%s", conn->refusal.text);
        }
        const int rc = open_conn(conn, &why);
        if (rc < 0) {
            note_failure(conn, &why);
            *err = why;
            return rc;
        }
        conn->failures = 0;
    }
    const int rc = bare ? 0 : simba__my_schema_check(conn, err);
    if (rc < 0) {
        conn->remedy = SIMBA__MY_TELL;
        simba__my_conn_end(conn); /* the next one looks anew */
    }
    return rc;
}

/* --- statements --------------------------------------------------------------------------------------- */

int simba__my_conn_say(simba__my_conn *conn, const char *sql, simba_error *err)
{
    return mysql_real_query(conn->mysql, sql, strlen(sql)) == 0 ? 0 : fail_mysql(conn, err);
}

int simba__my_conn_query(simba__my_conn *conn, const char *sql, MYSQL_RES **ret_result, simba_error *err)
{
    const int rc = simba__my_conn_say(conn, sql, err);
    if (rc < 0)
        return rc;
    *ret_result = mysql_store_result(conn->mysql);
    return *ret_result ? 0 : fail_mysql(conn, err);
}

MYSQL_BIND *simba__my_conn_binds(simba__my_conn *conn, size_t count)
{
    if (count > conn->bind_capacity) {
        MYSQL_BIND *binds = simba__realloc(conn->binds, count * sizeof *binds);
        if (!binds)
            return NULL;
        conn->binds = binds;
        conn->bind_capacity = count;
    }
    memset(conn->binds, 0, count * sizeof *conn->binds);
    return conn->binds;
}

static int prepare(simba__my_conn *conn, simba__my_statement which, size_t size, simba_error *err)
{
    char *text = simba__my_statement_text(which, size, conn->options->table, &conn->schema);
    MYSQL_STMT *statement = text ? mysql_stmt_init(conn->mysql) : NULL;
    if (!statement) {
        simba__free(text);
        return out_of_memory(conn, err);
    }
    int rc = mysql_stmt_prepare(statement, text, strlen(text)) == 0 ? 0 : fail_statement(conn, statement, err);
    simba__free(text);
    if (rc == 0 && simba__my_statement_has_result(which)) {
        MYSQL_BIND binds[SIMBA__MY_COLUMNS];
        simba__my_columns_bind(&conn->columns, binds);
        if (mysql_stmt_bind_result(statement, binds) != 0)
            rc = fail_statement(conn, statement, err);
    }
    if (rc < 0)
        mysql_stmt_close(statement);
    else
        conn->statements[which][size] = statement;
    return rc;
}

int simba__my_conn_execute(simba__my_conn *conn, simba__my_statement which, size_t size, MYSQL_STMT **ret_statement,
                           simba_error *err)
{
    if (!conn->statements[which][size]) {
        const int rc = prepare(conn, which, size, err);
        if (rc < 0)
            return rc;
    }
    MYSQL_STMT *statement = conn->statements[which][size];
    if (conn->binds && mysql_stmt_param_count(statement) > 0 && mysql_stmt_bind_param(statement, conn->binds) != 0)
        return fail_statement(conn, statement, err);
    if (mysql_stmt_execute(statement) != 0)
        return fail_statement(conn, statement, err);
    *ret_statement = statement;
    return 0;
}

int simba__my_conn_fetch(simba__my_conn *conn, MYSQL_STMT *statement, simba_error *err)
{
    const int rc = mysql_stmt_fetch(statement);
    if (rc == 0 || rc == MYSQL_DATA_TRUNCATED) /* see is_cut */
        return 1;
    if (rc == MYSQL_NO_DATA) {
        mysql_stmt_free_result(statement);
        return 0;
    }
    return fail_statement(conn, statement, err);
}
