/* See conn.h. */
#include "backends/mysql/conn.h"

#include <errmsg.h>
#include <errno.h>
#include <fcntl.h>
#include <mysqld_error.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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
static int fail(simba__my_conn *conn, unsigned number, const char *text, simba_error *err)
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
    return fail(conn, mysql_errno(conn->mysql), mysql_error(conn->mysql), err);
}

static int fail_statement(simba__my_conn *conn, MYSQL_STMT *statement, simba_error *err)
{
    /* What goes wrong between the rows of a result is known to the connection alone. */
    if (mysql_stmt_errno(statement) == 0)
        return fail_mysql(conn, err);
    return fail(conn, mysql_stmt_errno(statement), mysql_stmt_error(statement), err);
}

static int out_of_memory(simba__my_conn *conn, simba_error *err)
{
    conn->number = CR_OUT_OF_MEMORY;
    conn->remedy = SIMBA__MY_TELL;
    return simba__fail(err, SIMBA_ENOMEM, "mysql: out of memory");
}

/* --- opening and closing ------------------------------------------------------------------------------ */

static void set_fd(simba__my_conn *conn, int fd)
{
    pthread_mutex_lock(&conn->lock);
    conn->fd = fd;
    conn->open = false;
    if (fd >= 0 && atomic_load(&conn->over))
        shutdown(fd, SHUT_RDWR); /* it was interrupted while it connected */
    pthread_mutex_unlock(&conn->lock);
}

static void set_open(simba__my_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    conn->open = true;
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

bool simba__my_conn_cut(simba__my_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    const bool open = conn->open;
    if (open)
        interrupt(conn);
    pthread_mutex_unlock(&conn->lock);
    return open;
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

static void set_tls(MYSQL *mysql, const simba__my_options *options)
{
    const my_bool yes = 1;
    const my_bool verify = options->verify;
    if (!options->tls)
        return;
    mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &yes);
    mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    const struct {
        enum mysql_option option;
        const char *value;
    } texts[] = {{MYSQL_OPT_SSL_CA, options->ca},
                 {MYSQL_OPT_SSL_CAPATH, options->capath},
                 {MYSQL_OPT_SSL_CERT, options->cert},
                 {MYSQL_OPT_SSL_KEY, options->key},
                 {MYSQL_OPT_SSL_CIPHER, options->cipher},
                 {MARIADB_OPT_TLS_VERSION, options->tls_version},
                 {MARIADB_OPT_TLS_PEER_FP, options->fingerprint}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].value)
            mysql_optionsv(mysql, texts[i].option, texts[i].value);
}

static void set_options(MYSQL *mysql, const simba__my_options *options)
{
    const unsigned protocol = options->socket ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    const unsigned no = 0;
    const my_bool never = 0;
    mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &options->connect_timeout_s);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &options->timeout_s);
    mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &options->timeout_s);
    mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &no); /* a server must not ask us for files */
    mysql_options(mysql, MYSQL_OPT_RECONNECT, &never); /* behind our back, without the settings */
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    set_tls(mysql, options);
}

static int connect_mysql(simba__my_conn *conn, simba_error *err)
{
    const simba__my_options *options = conn->options;
    conn->mysql = mysql_init(NULL);
    if (!conn->mysql)
        return out_of_memory(conn, err);
    set_options(conn->mysql, options);
    if (!mysql_real_connect(conn->mysql, options->host, options->user, options->password, options->database,
                            options->port, options->socket, CLIENT_FOUND_ROWS))
        return fail_mysql(conn, err);
    const int fd = (int)mysql_get_socket(conn->mysql);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    set_fd(conn, fd);
    const int rc = simba__my_conn_say(conn, settings_sql, err);
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
    int rc = connect_mysql(conn, err);
    if (rc == 0)
        rc = look_at_table(conn, err);
    if (rc < 0)
        simba__my_conn_end(conn);
    else
        set_open(conn);
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
    if (rc == 0 || rc == MYSQL_DATA_TRUNCATED) /* see mutex_cut and owner_cut */
        return 1;
    if (rc == MYSQL_NO_DATA) {
        mysql_stmt_free_result(statement);
        return 0;
    }
    return fail_statement(conn, statement, err);
}
