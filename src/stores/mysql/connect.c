/* Connecting to the server, within one time limit and without giving a password away.
 *
 * The client library's blocking call does neither: it waits for each byte anew, its descriptor is not known until it is
 * done, it authenticates in whatever way the server asks for, and with verify=no it goes on without TLS if the server says
 * that it has none. So we use its non-blocking calls:
 *   - we wait for the descriptor ourselves, with one deadline over all steps, and show it to the thread that may interrupt us.
 *     Only the TLS handshake waits inside the library; the store cuts the descriptor when the deadline has passed;
 *   - if TLS is wanted, we read the server's greeting before the library does, and end the connection if it offers none;
 *   - if an attempt to reach the server has had no answer for 250 ms, or for half as long as we have tried, we give it up and
 *     make another. The kernel would repeat a lost packet only after a second.
 *
 * How the server may ask for the password:
 *   mysql_native_password, client_ed25519   always: the password itself is not sent
 *   caching_sha2_password                   over TLS, through a socket file, if the server's public key is known, or if there
 *                                           is no password. Otherwise the server may have it sent encrypted with a key that
 *                                           the server itself brings along, so that any server could read it
 *   mysql_clear_password                    over TLS with a server whose certificate or fingerprint was checked
 *   all others                              never; dialog would print the server's text and read our standard input */

#include <errmsg.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/tcp.h"
#include "stores/mysql/greeting.h"
#include "stores/mysql/library.h"
#include "stores/mysql/mysql.h"
#include "util/clock.h"
#include "util/descriptors.h"

#define LEAST_REACH_NS (250 * SIMBA__NS_PER_MS)
/* The library runs its call on a stack of its own; the system's resolver and OpenSSL want some room there. */
static const size_t stack_bytes = 256 * 1024;
/* The most that one packet may have, in either direction: what we send is far smaller, and so is a row. */
static const size_t packet_bytes = 16 * 1024 * 1024;

/* --- options ------------------------------------------------------------------------------------------- */

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

static bool is_verified(const simba__my_options *options)
{
    return options->tls && (options->verify || options->fingerprint);
}

/* The table is in connect.h. */
static void restrict_plugins(MYSQL *mysql, const simba__my_options *options)
{
    const bool keeps_secret = options->tls || options->socket || options->public_key || !options->password;
    char plugins[128];
    snprintf(plugins, sizeof plugins, "mysql_native_password,client_ed25519%s%s",
             keeps_secret ? ",caching_sha2_password" : "", is_verified(options) ? ",mysql_clear_password" : "");
    mysql_optionsv(mysql, MARIADB_OPT_RESTRICTED_AUTH, plugins);
    /* Begin with this one, whatever the server's default is: the server says so if the account is of another kind. */
    if (!keeps_secret)
        mysql_optionsv(mysql, MYSQL_DEFAULT_AUTH, "mysql_native_password");
    if (options->public_key)
        mysql_optionsv(mysql, MYSQL_SERVER_PUBLIC_KEY, options->public_key);
}

static void set_options(MYSQL *mysql, const simba__my_options *options)
{
    const unsigned protocol = options->socket ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    const unsigned connect_timeout_s = (options->connect_timeout_ms + 999) / 1000;
    const unsigned timeout_s =
        (options->timeout_ms + 999) / 1000; /* of what is left of an answer when the connection is closed */
    const unsigned no = 0;
    const my_bool never = 0;
    mysql_options(mysql, MYSQL_OPT_NONBLOCK, &stack_bytes);
    mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect_timeout_s);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &timeout_s);
    mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &timeout_s);
    mysql_options(mysql, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet_bytes); /* a server must not send us more, */
    mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &no);                 /* nor ask us for files */
    mysql_options(mysql, MYSQL_OPT_RECONNECT, &never);                 /* behind our back, without the settings */
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    set_tls(mysql, options);
    restrict_plugins(mysql, options);
}

/* --- the descriptor ------------------------------------------------------------------------------------ */

/* From now on this is the socket to interrupt; the library closes its own at any time. -1: there is none. False: there are no
 * descriptors left. */
static bool show(simba__my_conn *conn, int fd)
{
    const int own = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_lock(&conn->lock);
    const int before = conn->fd;
    conn->fd = own;
    if (own >= 0 && atomic_load(&conn->over))
        shutdown(own, SHUT_RDWR); /* it was interrupted before it was known */
    pthread_mutex_unlock(&conn->lock);
    if (before >= 0)
        close(before);
    return fd < 0 || own >= 0;
}

void simba__my_interrupt(simba__my_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    atomic_store(&conn->over, true);
    if (conn->fd >= 0)
        shutdown(conn->fd, SHUT_RDWR);
    pthread_mutex_unlock(&conn->lock);
}

/* --- one attempt ------------------------------------------------------------------------------------------- */

typedef enum phase {
    REACHING,   /* no address of the server has accepted the connection yet */
    LOGGING_IN, /* one has */
} phase;

typedef struct attempt {
    simba__my_conn *conn;
    int64_t reach_ns; /* an address that has not accepted by then is given up */
    phase phase;
    bool is_unreached; /* one was */
    bool lacks_tls;    /* it was ended because the server offers no TLS, */
    bool is_broken;    /* or because it is none of MySQL's */
} attempt;

static int wait_ms(const simba__my_conn *conn, simba_local until)
{
    const int64_t left_ns = until.ns - conn->host->now(conn->host).ns;
    return left_ns <= 0 ? 0 : (int)((left_ns + SIMBA__NS_PER_MS - 1) / SIMBA__NS_PER_MS);
}

/* Wait for the descriptor, until that moment or an interruption. False: one of the two has come. */
static bool await_fd(const simba__my_conn *conn, int fd, short events, simba_local until)
{
    struct pollfd wanted = {.fd = fd, .events = events};
    for (;;) {
        const int ms = wait_ms(conn, until);
        if (ms == 0 || atomic_load(&conn->over))
            return false;
        const int ready = poll(&wanted, 1, ms);
        if (ready > 0)
            return !atomic_load(&conn->over);
        if (ready < 0 && errno != EINTR && errno != EAGAIN)
            return false;
    }
}

static bool has_hung_up(int fd)
{
    struct pollfd gone = {.fd = fd, .events = POLLRDHUP};
    return poll(&gone, 1, 0) > 0;
}

/* Read the greeting, and leave it there for the library to read. With SO_RCVLOWAT the descriptor is readable when more has
 * come than we have seen; where there is no such thing we look again in a millisecond. PARTIAL: it has not come in time, or the
 * server has hung up. */
static simba__my_greeting peek_greeting(const simba__my_conn *conn, int fd)
{
    unsigned char bytes[SIMBA__MY_GREETING_BYTES];
    simba__my_greeting found = SIMBA__MY_GREETING_PARTIAL;
    int enough = 1;
    while (found == SIMBA__MY_GREETING_PARTIAL && await_fd(conn, fd, POLLIN, conn->open_by)) {
        const ssize_t size = recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
        if (size < enough && (size < 0 || has_hung_up(fd)))
            break;
        if (size < enough)
            (void)poll(NULL, 0, 1);
        found = simba__my_greeting_read(bytes, (size_t)size);
        enough = (int)size + 1;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &enough, sizeof enough);
    }
    enough = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &enough, sizeof enough);
    return found;
}

static bool is_connected(int fd)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &size) == 0;
}

static short events_of(int wanted)
{
    return (short)((wanted & MYSQL_WAIT_READ ? POLLIN : 0) | (wanted & MYSQL_WAIT_WRITE ? POLLOUT : 0) |
                   (wanted & MYSQL_WAIT_EXCEPT ? POLLPRI : 0));
}

/* Wait for the server to accept. The library reads and sends as soon as it learns that the server did so, so look at the
 * greeting now: a connect without blocking, over TCP, never succeeds at once. Over a unix socket it does, and the library may
 * read the greeting before we can; who may serve there is a matter of the permissions of files. */
static bool reach(attempt *a, int fd, short events)
{
    simba__my_conn *conn = a->conn;
    const int64_t now_ns = conn->host->now(conn->host).ns;
    const int64_t left_ns = conn->open_by.ns - now_ns;
    const simba_local until = {now_ns + (a->reach_ns < left_ns ? a->reach_ns : left_ns)};
    a->is_unreached = !await_fd(conn, fd, events, until);
    if (a->is_unreached)
        return false;
    if (!is_connected(fd))
        return true; /* refused: the library finds out */
    a->phase = LOGGING_IN;
    const simba__my_greeting found = peek_greeting(conn, fd);
    a->lacks_tls = conn->options->tls && found == SIMBA__MY_GREETING_PLAIN;
    a->is_broken = found == SIMBA__MY_GREETING_BROKEN;
    if (found == SIMBA__MY_GREETING_PARTIAL)
        return !atomic_load(&conn->over) && has_hung_up(fd); /* nothing more comes: the library finds out */
    return !a->lacks_tls && !a->is_broken;
}

/* Wait for what the library wants, and return what to tell it. MYSQL_WAIT_TIMEOUT ends the present attempt: the
 * library goes on to the next address, if there is one, and otherwise fails. */
static int await_library(attempt *a, int wanted)
{
    const int fd = (int)mysql_get_socket(a->conn->mysql);
    const short events = events_of(wanted);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!show(a->conn, fd))
        return MYSQL_WAIT_TIMEOUT;
    const bool is_ready = a->phase == REACHING ? reach(a, fd, events) : await_fd(a->conn, fd, events, a->conn->open_by);
    return is_ready ? wanted & ~MYSQL_WAIT_TIMEOUT : MYSQL_WAIT_TIMEOUT;
}

/* True: connected. */
static bool try_once(attempt *a)
{
    MYSQL *mysql = a->conn->mysql;
    const simba__my_options *options = a->conn->options;
    MYSQL *connected = NULL;
    simba__descriptors_hold();
    int wanted = mysql_real_connect_start(&connected, mysql, options->host, options->user, options->password,
                                          options->database, options->port, options->socket, CLIENT_MULTI_STATEMENTS);
    while (wanted != 0)
        wanted = mysql_real_connect_cont(&connected, mysql, await_library(a, wanted));
    mysql_optionsv(mysql, MYSQL_SERVER_PUBLIC_KEY, NULL); /* which the library forgets to free */
    return connected != NULL;
}

/* --- all of them ------------------------------------------------------------------------------------------- */

/* The library does not say which plugin it was: its text names the one of the greeting. */
static int fail_plugin(const simba__my_options *options, simba__sql_failure *why)
{
    if (is_verified(options))
        return simba__sql_fail(why, SIMBA__SQL_AWAY, SIMBA_EPERM,
                               "mysql %s: the server wants another way to log in than simba has; give this user "
                               "ed25519, mysql_native_password or caching_sha2_password",
                               options->where);
    return simba__sql_fail(why, SIMBA__SQL_AWAY, SIMBA_EPERM,
                           "mysql %s: the server wants the password in a way that may show it to whoever answers "
                           "there; put tls=yes and ca=FILE into the URL%s",
                           options->where, options->tls ? "" : ", or for caching_sha2_password server-public-key=FILE");
}

static int fail_attempt(const attempt *a, simba__sql_failure *why)
{
    simba__my_conn *conn = a->conn;
    if (a->lacks_tls)
        return simba__sql_fail(why, SIMBA__SQL_AWAY, SIMBA_ESTORE,
                               "mysql %s: the URL asks for TLS, and the server does not offer it; give it TLS, or take "
                               "that out of the URL if nobody can listen on the way",
                               conn->options->where);
    if (a->is_broken)
        return simba__my_fail_broken(conn, "what answers there is no server of MySQL's", why);
    if (mysql_errno(conn->mysql) == CR_PLUGIN_NOT_ALLOWED)
        return fail_plugin(conn->options, why);
    if (wait_ms(conn, conn->open_by) == 0)
        return simba__sql_fail(why, SIMBA__SQL_AWAY, SIMBA_EUNAVAILABLE, "mysql %s: no connection within %u ms",
                               conn->options->where, conn->options->connect_timeout_ms);
    return simba__my_fail_latest(conn, why);
}

/* If the library cannot read the file of the server's key, it asks the server for a key, and believes what it gets;
 * before this version (3.3.20) it asks in any case. */
enum { KEY_IS_USED_SINCE = 30320 };

static int check_public_key(const simba__my_conn *conn, simba__sql_failure *why)
{
    const simba__my_options *options = conn->options;
    if (!options->public_key || options->tls || options->socket)
        return 0;
    if (mysql_get_client_version() < KEY_IS_USED_SINCE)
        return simba__sql_fail(
            why, SIMBA__SQL_AWAY, SIMBA_EPERM,
            "mysql: server-public-key needs the client library 3.3.20 or later, this is %s; use tls=yes",
            mysql_get_client_info());
    if (access(options->public_key, R_OK) < 0)
        return simba__sql_fail(why, SIMBA__SQL_AWAY, SIMBA_EPERM, "mysql: server-public-key=%s cannot be read: %s",
                               options->public_key, strerrordesc_np(errno));
    return 0;
}

static void end_attempt(simba__my_conn *conn)
{
    show(conn, -1);
    mysql_close(conn->mysql);
    conn->mysql = NULL;
}

static int connect_in_time(simba__my_conn *conn, simba__sql_failure *why)
{
    const int rc = check_public_key(conn, why);
    if (rc < 0)
        return rc;
    const int64_t began_ns = conn->host->now(conn->host).ns;
    conn->open_by.ns = began_ns + conn->options->connect_timeout_ms * SIMBA__NS_PER_MS;
    atomic_store(&conn->interrupt_at_ns, conn->open_by.ns);
    for (;;) {
        const int64_t half_ns = (conn->host->now(conn->host).ns - began_ns) / 2;
        attempt a = {.conn = conn, .reach_ns = half_ns > LEAST_REACH_NS ? half_ns : LEAST_REACH_NS};
        conn->mysql = mysql_init(NULL);
        if (!conn->mysql)
            return simba__sql_fail(why, SIMBA__SQL_AWAY, SIMBA_ENOMEM, "mysql: out of memory");
        set_options(conn->mysql, conn->options);
        if (try_once(&a)) {
            if (conn->options->tls && !mysql_get_ssl_cipher(conn->mysql))
                return simba__my_fail(conn, CR_SSL_CONNECTION_ERROR, "the connection is not encrypted", why);
            return 0;
        }
        if (!a.is_unreached || wait_ms(conn, conn->open_by) == 0 || atomic_load(&conn->over))
            return fail_attempt(&a, why);
        end_attempt(conn);
    }
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

bool simba__my_connect(simba__my_conn *conn, simba__sql_failure *why)
{
    simba__my_sigpipe sigpipe;
    simba__my_sigpipe_block(&sigpipe);
    const bool works = connect_in_time(conn, why) == 0;
    if (works) {
        const int fd = (int)mysql_get_socket(conn->mysql);
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        simba__tcp_repeat_evenly(fd);
        keep_alive(fd);
        (void)show(conn, -1);
    } else if (conn->mysql) {
        end_attempt(conn);
    }
    simba__my_sigpipe_restore(&sigpipe);
    return works;
}
