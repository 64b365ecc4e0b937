/* See conn.h. */
#include "backends/mysql/conn.h"

#include <errmsg.h>
#include <errno.h>
#include <fcntl.h>
#include <mysqld_error.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/mysql/error.h"
#include "net/tcp.h"
#include "util/clock.h"

void simba__my_conn_init(simba__my_conn *conn, simba_host *host, const simba__my_options *options)
{
    conn->host = host;
    conn->options = options;
    conn->fd = -1;
    pthread_mutex_init(&conn->lock, NULL);
    atomic_init(&conn->over, false);
}

void simba__my_conn_fini(simba__my_conn *conn)
{
    simba__my_conn_end(conn);
    pthread_mutex_destroy(&conn->lock);
}

/* --- errors ----------------------------------------------------------------------------------------- */

/* The library has one number for everything that ends a TLS handshake. A connection that was lost on the way is not
 * a matter of permission, and passes; only the text tells, by OpenSSL's words or by the system's number at its end. */
static bool is_lost_handshake(unsigned number, const char *text)
{
    const char *open = strrchr(text, '(');
    const long cause = open ? strtol(open + 1, NULL, 10) : 0;
    return number == CR_SSL_CONNECTION_ERROR && (strstr(text, "unexpected eof") || cause == ETIMEDOUT ||
                                                 cause == ECONNRESET || cause == ECONNABORTED || cause == EPIPE);
}

/* Texts of the server and of the library name users and hosts, never passwords. */
int simba__my_conn_fail(const simba__my_conn *conn, unsigned number, const char *text, simba__sql_failure *why)
{
    simba__sql_remedy remedy;
    int code = simba__my_error_code(number, &remedy);
    if (is_lost_handshake(number, text))
        code = SIMBA_EUNAVAILABLE;
    if (number == ER_NO_SUCH_TABLE)
        return simba__sql_fail(why, remedy, code, "mysql %s: the table %s is gone; run `simba init`",
                               conn->options->where, conn->options->table);
    /* The library's text has the number of the wrong error in it. */
    if (number == CR_CONNECTION_ERROR || number == CR_CONN_HOST_ERROR)
        text = "there is no server, or it cannot be reached";
    return simba__sql_fail(why, remedy, code, "mysql %s: %s (%u)%s", conn->options->where, text, number,
                           number == ER_BAD_DB_ERROR ? "; create it, or correct the URL" : "");
}

int simba__my_conn_fail_latest(const simba__my_conn *conn, simba__sql_failure *why)
{
    return simba__my_conn_fail(conn, mysql_errno(conn->mysql), mysql_error(conn->mysql), why);
}

int simba__my_conn_fail_broken(const simba__my_conn *conn, const char *text, simba__sql_failure *why)
{
    return simba__my_conn_fail(conn, CR_MALFORMED_PACKET, text, why);
}

int simba__my_out_of_memory(simba__sql_failure *why)
{
    return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ENOMEM, "mysql: out of memory");
}

/* --- opening and closing ------------------------------------------------------------------------------ */

/* Replaces the connection before, which is closed. */
static void set_fd(simba__my_conn *conn, int fd)
{
    pthread_mutex_lock(&conn->lock);
    const int before = conn->fd;
    conn->fd = fd;
    if (conn->state == SIMBA__MY_OPEN)
        conn->state = SIMBA__MY_SHUT; /* while it is being opened there may be another attempt */
    if (fd >= 0 && atomic_load(&conn->over))
        shutdown(fd, SHUT_RDWR); /* it was interrupted before it was known */
    pthread_mutex_unlock(&conn->lock);
    if (before >= 0)
        close(before);
}

/* Routers forget connections that are idle for minutes, and do not say so. The kernel probes an idle one after 10 s: so it
 * is not forgotten, and one that has died is known before a renewal needs it. Fails without TCP, which does not matter. */
static void keep_alive(int fd)
{
    const int yes = 1;
    const int idle_s = 10;
    const int interval_s = 5;
    const int probes = 3;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

bool simba__my_conn_show(simba__my_conn *conn, int fd)
{
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    simba__tcp_repeat_evenly(fd);
    keep_alive(fd);
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    set_fd(conn, own);
    return own >= 0;
}

static void set_state(simba__my_conn *conn, simba__my_conn_state state, int64_t open_by_ns)
{
    pthread_mutex_lock(&conn->lock);
    conn->state = state;
    conn->open_by.ns = open_by_ns;
    pthread_mutex_unlock(&conn->lock);
}

void simba__my_conn_allow_ms(simba__my_conn *conn, int64_t ms)
{
    set_state(conn, SIMBA__MY_OPENING, conn->host->now(conn->host).ns + ms * SIMBA__NS_PER_MS);
}

void simba__my_conn_opened(simba__my_conn *conn, bool is_open)
{
    set_state(conn, is_open ? SIMBA__MY_OPEN : SIMBA__MY_SHUT, 0);
}

/* With the lock. */
static void interrupt(simba__my_conn *conn)
{
    atomic_store(&conn->over, true);
    if (conn->fd >= 0)
        shutdown(conn->fd, SHUT_RDWR);
}

void simba__my_conn_interrupt(void *any)
{
    simba__my_conn *conn = any;
    pthread_mutex_lock(&conn->lock);
    interrupt(conn);
    pthread_mutex_unlock(&conn->lock);
}

bool simba__my_conn_cut(void *any, simba_local now)
{
    simba__my_conn *conn = any;
    pthread_mutex_lock(&conn->lock);
    const bool may = conn->state == SIMBA__MY_OPEN || (conn->state == SIMBA__MY_OPENING && conn->open_by.ns <= now.ns);
    if (may)
        interrupt(conn);
    pthread_mutex_unlock(&conn->lock);
    return may;
}

void simba__my_conn_resume(void *any)
{
    simba__my_conn *conn = any;
    atomic_store(&conn->over, false);
}

void simba__my_conn_end(simba__my_conn *conn)
{
    if (!conn->mysql)
        return;
    set_fd(conn, -1);
    mysql_close(conn->mysql);
    conn->mysql = NULL;
}

/* --- statements --------------------------------------------------------------------------------------- */

/* Say it, and read the answer. */
static int say(simba__my_conn *conn, const char *sql, unsigned columns, simba__sql_failure *why)
{
    if (mysql_real_query(conn->mysql, sql, strlen(sql)) != 0)
        return simba__my_conn_fail_latest(conn, why);
    return mysql_field_count(conn->mysql) == columns
               ? 0
               : simba__my_conn_fail_broken(conn, "the answer has another number of columns than was asked for", why);
}

int simba__my_conn_say(simba__my_conn *conn, const char *sql, simba__sql_failure *why)
{
    return say(conn, sql, 0, why);
}

int simba__my_conn_query(simba__my_conn *conn, const char *sql, unsigned columns, MYSQL_RES **ret_result,
                         simba__sql_failure *why)
{
    const int rc = say(conn, sql, columns, why);
    if (rc < 0)
        return rc;
    *ret_result = mysql_store_result(conn->mysql);
    return *ret_result ? 0 : simba__my_conn_fail_latest(conn, why);
}
