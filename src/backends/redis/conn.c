/* See conn.h. Attempts to connect come at growing intervals, and not in step with everybody else.
 *
 * Whatever the owner is told, it may give the connection up over it, and even begin another. So each has a number, its
 * life: who has called the owner looks whether that is still the same before it goes on. */
#include "backends/redis/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/redis/reply.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

enum { BACKOFF_FIRST_MS = 20, BACKOFF_DOUBLINGS = 5 };

/* --- failing and trying again --------------------------------------------------------------------- */

static void drop_socket(redis_conn *conn)
{
    if (conn->socket.fd < 0)
        return;
    conn->host->watch_remove(conn->host, &conn->socket);
    close(conn->socket.fd);
    conn->socket.fd = -1;
}

static void let_go(redis_conn *conn)
{
    conn->life++;
    if (conn->lookup)
        simba__lookup_give_up(conn->lookup);
    conn->lookup = NULL;
    if (conn->addresses)
        freeaddrinfo(conn->addresses);
    conn->addresses = conn->next_address = NULL;
    drop_socket(conn);
    simba__redis_reader_free(conn->reader);
    conn->reader = NULL;
    simba__redis_tls_free(conn->tls);
    conn->tls = NULL;
    conn->wire.length = conn->out.length = 0;
    conn->wire.failed = conn->out.failed = false;
    conn->greeting = 0;
    conn->refused = 0;
}

static int64_t backoff_ns(redis_conn *conn)
{
    int64_t ms = BACKOFF_FIRST_MS;
    for (unsigned i = 1; i < conn->failures && i <= BACKOFF_DOUBLINGS; i++)
        ms *= 2;
    return (ms * 3 / 4) * SIMBA__NS_PER_MS +
           (int64_t)(conn->host->random(conn->host) % (uint64_t)(ms * SIMBA__NS_PER_MS / 2));
}

static void fail(redis_conn *conn, const simba_error *error)
{
    if (conn->state != REDIS_CONNECTING && conn->state != REDIS_UP)
        return;
    conn->error = *error;
    conn->failures++;
    conn->state = REDIS_WAITING;
    let_go(conn);
    const simba_local now = conn->host->now(conn->host);
    conn->host->timer_set(conn->host, &conn->timer, (simba_local){now.ns + backoff_ns(conn)});
    conn->events->down(conn);
}

void simba__redis_conn_fail(redis_conn *conn, int code, const char *format, ...)
{
    simba_error error = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    fail(conn, &error);
}

static void fail_to_connect(redis_conn *conn, const char *why)
{
    simba__redis_conn_fail(conn, SIMBA_EUNAVAILABLE, "redis %s: cannot connect: %s", conn->at.where, why);
}

static bool is_transient(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static void fail_lost(redis_conn *conn, const char *why)
{
    simba__redis_conn_fail(conn, SIMBA_EUNAVAILABLE, "redis %s: connection lost: %s", conn->at.where, why);
}

/* --- reading -------------------------------------------------------------------------------------- */

/* The answer to ROLE: who it is that we reached, whatever we were told. */
static void take_role(redis_conn *conn, const redisReply *reply)
{
    const redisReply *role = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 ? reply->element[0] : NULL;
    if (!role || role->type != REDIS_REPLY_STRING || strcmp(role->str, "master") != 0)
        simba__redis_conn_fail(conn, SIMBA_EUNAVAILABLE, "redis %s: this is no master", conn->at.where);
}

static void take_greeting(redis_conn *conn, const redisReply *reply)
{
    conn->greeting--;
    if (reply->type == REDIS_REPLY_ERROR) {
        simba_error error;
        bool drop;
        simba__redis_error(&conn->at, reply->str, &error, &drop);
        fail(conn, &error);
    } else if (conn->greeting == 0 && conn->login->to_master) {
        take_role(conn, reply);
    }
}

/* Whole replies, as far as there are any. The owner may give the connection up over one. */
static void take_replies(redis_conn *conn)
{
    const unsigned life = conn->life;
    while (conn->life == life) {
        redisReply *reply = NULL;
        if (simba__redis_reader_next(conn->reader, &reply) < 0) {
            simba__redis_conn_fail(conn, SIMBA_EUNAVAILABLE, "redis %s: what came is not Redis's protocol",
                                   conn->at.where);
            return;
        }
        if (!reply)
            return;
        const bool greets = conn->greeting > 0;
        if (greets)
            take_greeting(conn, reply);
        else
            conn->events->answer(conn, reply);
        /* Not for the greeting alone: a server that is none for us may be so for a while, and greet us all the same. */
        if (!greets && conn->life == life && reply->type != REDIS_REPLY_ERROR)
            conn->failures = conn->hurries = 0;
        freeReplyObject(reply);
    }
}

static void come_up(redis_conn *conn);

static bool feed_reader(redis_conn *conn, const char *data, size_t length)
{
    const int rc = simba__redis_reader_feed(conn->reader, data, length);
    if (rc == SIMBA_ENOMEM)
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, "redis %s: out of memory", conn->at.where);
    else if (rc < 0)
        simba__redis_conn_fail(conn, SIMBA_EUNAVAILABLE, "redis %s: an answer is larger than any that was asked for",
                               conn->at.where);
    return rc == 0;
}

/* Through TLS: first the handshake, then what is in the records. */
static void take_records(redis_conn *conn)
{
    char plain[16384];
    const char *why = NULL;
    const unsigned life = conn->life;
    if (conn->state == REDIS_CONNECTING) {
        const int rc = simba__redis_tls_handshake(conn->tls, &why);
        if (rc < 0)
            simba__redis_conn_fail(conn, rc, "redis %s: cannot connect by TLS: %s", conn->at.where, why);
        else if (rc > 0)
            come_up(conn);
        else
            simba__redis_conn_flush(conn);
    }
    while (conn->life == life && conn->state == REDIS_UP) {
        const int length = simba__redis_tls_read(conn->tls, plain, sizeof plain);
        if (length == 0)
            break;
        if (length < 0)
            fail_lost(conn, "TLS has ended");
        else if (feed_reader(conn, plain, (size_t)length))
            take_replies(conn);
    }
}

static void take_bytes(redis_conn *conn, const char *data, size_t length)
{
    if (!conn->tls) {
        if (feed_reader(conn, data, length))
            take_replies(conn);
    } else if (simba__redis_tls_feed(conn->tls, data, length)) {
        take_records(conn);
    } else {
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, "redis %s: out of memory", conn->at.where);
    }
}

/* All that there is, but not for ever, should a server talk faster than we listen: then what is left is reported anew. */
static void read_socket(redis_conn *conn)
{
    enum { MOST = 64 };
    char bytes[16384];
    const unsigned life = conn->life;
    for (int i = 0; i < MOST && conn->life == life; i++) {
        const ssize_t length = recv(conn->socket.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (length > 0)
            take_bytes(conn, bytes, (size_t)length);
        else if (length == 0)
            fail_lost(conn, "the server closed it");
        else if (!is_transient(errno))
            fail_lost(conn, strerror(errno));
        else
            return;
    }
    if (conn->life == life && conn->host->watch_change(conn->host, &conn->socket, conn->socket.interest) < 0)
        fail_lost(conn, "out of memory");
}

/* --- writing -------------------------------------------------------------------------------------- */

static bool is_blocked(const redis_conn *conn)
{
    return conn->socket.interest & SIMBA_WRITABLE;
}

/* As far as the socket takes it, which is nearly always all. The rest goes when it can be written to. */
static void send_wire(redis_conn *conn)
{
    redis_buffer *wire = &conn->wire;
    const ssize_t sent = send(conn->socket.fd, wire->data, wire->length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && !is_transient(errno)) {
        fail_lost(conn, strerror(errno));
        return;
    }
    if (sent > 0) {
        wire->length -= (size_t)sent;
        memmove(wire->data, wire->data + sent, wire->length);
    }
    const unsigned interest = SIMBA_READABLE | (wire->length > 0 ? SIMBA_WRITABLE : 0);
    if (interest != conn->socket.interest && conn->host->watch_change(conn->host, &conn->socket, interest) < 0)
        fail_lost(conn, "out of memory");
}

/* What goes to the socket next, into conn->wire. False: it cannot be made. */
static bool fill_wire(redis_conn *conn)
{
    if (conn->tls) {
        if (conn->state == REDIS_UP && conn->out.length > 0 &&
            !simba__redis_tls_write(conn->tls, conn->out.data, conn->out.length))
            return false;
        if (conn->state == REDIS_UP)
            conn->out.length = 0;
        simba__redis_tls_take(conn->tls, &conn->wire);
    } else if (conn->state == REDIS_UP) {
        const redis_buffer empty = conn->wire;
        conn->wire = conn->out;
        conn->out = empty;
    }
    return !conn->wire.failed;
}

void simba__redis_conn_flush(redis_conn *conn)
{
    if (!conn->reader || is_blocked(conn) || (conn->state != REDIS_UP && !conn->tls))
        return;
    if (conn->out.failed || !fill_wire(conn))
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, "redis %s: out of memory", conn->at.where);
    else if (conn->wire.length > 0)
        send_wire(conn);
}

static void on_talk(simba_watch *socket, unsigned events)
{
    redis_conn *conn = (redis_conn *)(void *)((char *)socket - offsetof(redis_conn, socket));
    const unsigned life = conn->life;
    if (events & SIMBA_WRITABLE)
        send_wire(conn);
    if (conn->life == life && events & SIMBA_READABLE)
        read_socket(conn);
    if (conn->life == life)
        simba__redis_conn_flush(conn);
}

/* --- connecting ----------------------------------------------------------------------------------- */

static void put_greeting(redis_conn *conn)
{
    const redis_login *login = conn->login;
    if (login->password && login->user) {
        simba__redis_put(&conn->out, 3, (const char *const[]){"AUTH", login->user, login->password});
        conn->greeting++;
    } else if (login->password) {
        simba__redis_put(&conn->out, 2, (const char *const[]){"AUTH", login->password});
        conn->greeting++;
    }
    if (login->db != 0) {
        char db[24];
        snprintf(db, sizeof db, "%ld", login->db);
        simba__redis_put(&conn->out, 2, (const char *const[]){"SELECT", db});
        conn->greeting++;
    }
    if (login->to_master) {
        simba__redis_put(&conn->out, 1, (const char *const[]){"ROLE"});
        conn->greeting++;
    }
}

static void come_up(redis_conn *conn)
{
    conn->state = REDIS_UP;
    conn->host->timer_clear(conn->host, &conn->timer);
    put_greeting(conn);
    conn->events->up(conn);
    simba__redis_conn_flush(conn);
}

static void begin_to_talk(redis_conn *conn)
{
    conn->reader = simba__redis_reader_new();
    if (conn->reader && conn->options->tls)
        conn->tls = simba__redis_tls_new(conn->all->tls, conn->at.host);
    conn->socket.ready = on_talk;
    if (!conn->reader || (conn->options->tls && !conn->tls) ||
        conn->host->watch_change(conn->host, &conn->socket, SIMBA_READABLE) < 0)
        fail_to_connect(conn, "out of memory");
    else if (conn->tls)
        take_records(conn);
    else
        come_up(conn);
}

static void try_next_address(redis_conn *conn, int error);

static void on_connected(simba_watch *socket, unsigned events)
{
    redis_conn *conn = (redis_conn *)(void *)((char *)socket - offsetof(redis_conn, socket));
    struct sockaddr_storage peer;
    socklen_t peer_length = sizeof peer;
    int error = 0;
    socklen_t length = sizeof error;
    (void)events;
    if (getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (!error && getpeername(socket->fd, (struct sockaddr *)&peer, &peer_length) < 0 && errno == ENOTCONN)
        return; /* this was about the socket before this one */
    if (error)
        try_next_address(conn, error);
    else
        begin_to_talk(conn);
}

/* 0, or the system's error: then there is no socket. */
static int connect_to(redis_conn *conn, const struct sockaddr *address, socklen_t length)
{
    drop_socket(conn);
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    conn->socket = (simba_watch){.ready = on_connected, .fd = fd, .interest = SIMBA_WRITABLE, .answers = true};
    int error = 0;
    if (connect(fd, address, length) < 0 && errno != EINPROGRESS)
        error = errno;
    else if (conn->host->watch_add(conn->host, &conn->socket) < 0)
        error = ENOMEM;
    if (error)
        drop_socket(conn);
    return error;
}

static int connect_to_file(redis_conn *conn, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return ENAMETOOLONG;
    strcpy(address.sun_path, path);
    return connect_to(conn, (const struct sockaddr *)(const void *)&address, sizeof address);
}

/* A name may have several addresses, and the first need not be the one that answers. */
static void try_next_address(redis_conn *conn, int error)
{
    while (conn->next_address) {
        const struct addrinfo *address = conn->next_address;
        conn->next_address = address->ai_next;
        error = connect_to(conn, address->ai_addr, address->ai_addrlen);
        if (error == 0)
            return;
    }
    fail_to_connect(conn, strerror(error));
}

static void on_looked_up(simba__lookup *lookup)
{
    redis_conn *conn = lookup->owner;
    conn->all->lookups--;
    if (conn->lookup == lookup) {
        conn->lookup = NULL;
        conn->addresses = conn->next_address = lookup->found;
        lookup->found = NULL;
        if (conn->addresses)
            try_next_address(conn, 0);
        else
            fail_to_connect(conn, lookup->why);
    }
    conn->all->looked_up(conn->all);
}

static int begin(redis_conn *conn)
{
    simba__address address;
    if (conn->at.port == 0)
        return connect_to_file(conn, conn->at.host);
    if (simba__address_parse(conn->at.host, conn->at.port, &address))
        return connect_to(conn, (const struct sockaddr *)&address.at, address.length);
    conn->lookup = simba__lookup_start(conn->host, conn->at.host, conn->at.port, on_looked_up, conn);
    if (!conn->lookup)
        return ENOMEM;
    conn->all->lookups++;
    return 0;
}

void simba__redis_conn_open(redis_conn *conn)
{
    if (conn->state == REDIS_CONNECTING || conn->state == REDIS_UP)
        return;
    conn->state = REDIS_CONNECTING;
    conn->host->timer_clear(conn->host, &conn->timer);
    if (conn->find)
        conn->find(conn);
    else
        simba__redis_conn_found(conn);
}

/* In an outage the first packet of a connection gets lost, and the kernel repeats it after a second. A new attempt does not
 * wait for that. The first few attempts are given little time; then one has to be left alone, or a server that is far away
 * would never be reached. */
void simba__redis_conn_hurry(redis_conn *conn)
{
    enum { FIRST_MS = 100, MORE_MS = 50, MOST = 4 };
    const int64_t patience_ns = (FIRST_MS + MORE_MS * (int64_t)conn->hurries) * SIMBA__NS_PER_MS;
    const simba_local now = conn->host->now(conn->host);
    if (conn->state != REDIS_WAITING && conn->state != REDIS_CONNECTING)
        return;
    if (conn->hurries >= MOST || now.ns - conn->begun_at.ns < patience_ns)
        return;
    conn->hurries++;
    let_go(conn);
    conn->state = REDIS_WAITING;
    simba__redis_conn_open(conn);
}

bool simba__redis_conn_seeks(const redis_conn *conn)
{
    return conn->state == REDIS_CONNECTING && !conn->lookup && conn->socket.fd < 0 && !conn->refused;
}

/* Who asks for a connection is not told inside of that call that there is none: the timer says so. */
void simba__redis_conn_found(redis_conn *conn)
{
    if (!simba__redis_conn_seeks(conn))
        return;
    const simba_local now = conn->host->now(conn->host);
    conn->begun_at = now;
    conn->refused = begin(conn);
    conn->host->timer_set(conn->host, &conn->timer,
                          (simba_local){now.ns + (conn->refused ? 0 : conn->connect_timeout_ns)});
}

/* --- lifetime ------------------------------------------------------------------------------------- */

static void on_timer(simba_timer *timer, simba_local now)
{
    redis_conn *conn = (redis_conn *)(void *)((char *)timer - offsetof(redis_conn, timer));
    switch (conn->state) {
    case REDIS_CONNECTING:
        fail_to_connect(conn, conn->refused ? strerror(conn->refused) : "no answer");
        break;
    case REDIS_UP:
        conn->events->tick(conn, now);
        break;
    case REDIS_WAITING:
        simba__redis_conn_open(conn);
        break;
    case REDIS_CLOSED:
        break;
    }
}

int simba__redis_conn_init(redis_conn *conn, redis_conns *all, const redis_conn_events *events, void *owner)
{
    conn->host = all->host;
    conn->all = all;
    conn->options = all->options;
    conn->login = &all->options->login;
    conn->connect_timeout_ns = all->options->connect_timeout_ns;
    conn->events = events;
    conn->owner = owner;
    conn->socket.fd = -1;
    conn->timer.fire = on_timer;
    return conn->host->timer_add(conn->host, &conn->timer);
}

void simba__redis_conn_close(redis_conn *conn)
{
    conn->state = REDIS_CLOSED;
    conn->host->timer_clear(conn->host, &conn->timer);
    let_go(conn);
}

void simba__redis_conn_fini(redis_conn *conn)
{
    SIMBA__ASSERT(!conn->lookup && !conn->reader);
    simba__redis_buffer_free(&conn->out);
    simba__redis_buffer_free(&conn->wire);
}
