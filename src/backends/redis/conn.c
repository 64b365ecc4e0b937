/* One connection to the server: finds its address, connects, says who we are, hands whole replies to its owner, and when
 * it breaks says so and tries again by itself, at growing intervals and not in step with everybody else.
 *
 * A `link` is one attempt and what came of it. libuv gives memory back only when a handle has closed and a name lookup
 * has returned, so a link outlives the moment it is given up; the connection goes on with another one.
 *
 * libuv connects and closes, and writes what the socket does not take at once. That is for the loop thread, and put aside
 * for simba__redis_catch_up. All the rest is done on whatever thread is in a turn. */
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/redis/tls.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

enum { BACKOFF_FIRST_MS = 20, BACKOFF_DOUBLINGS = 5 };

struct redis_link {
    redis_conn *conn; /* NULL: given up */
    simba_host *host;
    redis_store *store;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } u;
    bool has_handle, resolving;
    bool closing; /* the loop thread has seen that it is given up: it is in the store's list no more */
    bool blocked; /* the socket did not take all of `wire`: libuv is to write the rest, */
    bool writing; /* or does */
    simba_input input;
    redis_link *abandoned_next;
    uv_getaddrinfo_t resolver;
    uv_connect_t connect;
    uv_write_t write;
    redisReader *reader;
    redis_tls *tls;    /* NULL: plain */
    redis_buffer wire; /* handed to libuv */
    char bytes[16384];
};

/* --- links ---------------------------------------------------------------------------------------- */

static redis_link *link_new(redis_conn *conn)
{
    redis_link *link = simba__calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->reader = redisReaderCreate();
    if (!link->reader) {
        simba__free(link);
        return NULL;
    }
    link->conn = conn;
    link->host = conn->host;
    link->store = conn->store;
    link->resolver.data = link;
    link->connect.data = link;
    link->write.data = link;
    link->store->links++;
    return link;
}

/* In a turn. */
static void link_free(redis_link *link)
{
    if (!link->closing || link->has_handle || link->resolving)
        return;
    redisReaderFree(link->reader);
    simba__redis_tls_free(link->tls);
    simba__redis_buffer_free(&link->wire);
    link->store->links--;
    simba__redis_link_gone(link->store);
    simba__free(link);
}

static void on_closed(uv_handle_t *handle)
{
    redis_link *link = handle->data;
    simba_host *host = link->host;
    host->enter(host);
    link->has_handle = false;
    link_free(link);
    host->leave(host);
}

static void link_abandon(redis_link *link)
{
    redis_store *store = link->store;
    link->host->input_remove(link->host, &link->input);
    link->conn = NULL;
    link->abandoned_next = store->abandoned;
    store->abandoned = link;
    link->host->wake(link->host);
}

/* On the loop thread. */
static void link_close(redis_link *link)
{
    link->closing = true;
    if (link->resolving)
        uv_cancel((uv_req_t *)&link->resolver);
    if (link->has_handle)
        uv_close(&link->u.handle, on_closed);
    else
        link_free(link);
}

/* Have simba__redis_catch_up look at it. */
static void want_loop(redis_conn *conn)
{
    redis_store *store = conn->store;
    conn->host->wake(conn->host);
    if (conn->wants_loop)
        return;
    conn->wants_loop = true;
    conn->loop_next = store->for_loop;
    store->for_loop = conn;
}

/* --- failing and trying again --------------------------------------------------------------------- */

static void let_go(redis_conn *conn)
{
    redis_link *link = conn->link;
    conn->link = NULL;
    if (link)
        link_abandon(link);
    if (conn->addresses)
        uv_freeaddrinfo(conn->addresses);
    conn->addresses = conn->next_address = NULL;
    conn->out.length = 0;
    conn->out.failed = false;
    conn->greeting = 0;
    conn->found = false;
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

static const char *reason(int error)
{
    return uv_strerror(uv_translate_sys_error(error));
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

/* Whole replies, as far as there are any. The owner may give the link up over one. */
static void take_replies(redis_conn *conn, redis_link *link)
{
    while (conn->link == link) {
        void *object = NULL;
        if (redisReaderGetReply(link->reader, &object) != REDIS_OK) {
            simba__redis_conn_fail(conn, SIMBA_EUNAVAILABLE, "redis %s: what came is not Redis's protocol",
                                   conn->at.where);
            return;
        }
        if (!object)
            return;
        redisReply *reply = object;
        const bool greets = conn->greeting > 0;
        if (greets)
            take_greeting(conn, reply);
        else
            conn->events->answer(conn, reply);
        /* Not for the greeting alone: a server that is none for us may be so for a while, and greet us all the same. */
        if (!greets && conn->link == link && reply->type != REDIS_REPLY_ERROR)
            conn->failures = 0;
        freeReplyObject(reply);
    }
}

static void come_up(redis_conn *conn);

static bool feed_reader(redis_conn *conn, redis_link *link, const char *data, size_t length)
{
    if (redisReaderFeed(link->reader, data, length) == REDIS_OK)
        return true;
    simba__redis_conn_fail(conn, SIMBA_ENOMEM, "redis %s: out of memory", conn->at.where);
    return false;
}

/* Through TLS: first the handshake, then what is in the records. */
static void take_records(redis_conn *conn, redis_link *link)
{
    char plain[16384];
    const char *why = NULL;
    if (conn->state == REDIS_CONNECTING) {
        const int rc = simba__redis_tls_handshake(link->tls, &why);
        if (rc < 0)
            simba__redis_conn_fail(conn, rc, "redis %s: cannot connect by TLS: %s", conn->at.where, why);
        else if (rc > 0)
            come_up(conn);
        else
            simba__redis_conn_flush(conn);
    }
    while (conn->link == link && conn->state == REDIS_UP) {
        const int length = simba__redis_tls_read(link->tls, plain, sizeof plain);
        if (length == 0)
            break;
        if (length < 0)
            fail_lost(conn, "TLS has ended");
        else if (feed_reader(conn, link, plain, (size_t)length))
            take_replies(conn, link);
    }
}

static void take_bytes(redis_conn *conn, redis_link *link, const char *data, size_t length)
{
    if (!link->tls) {
        if (feed_reader(conn, link, data, length))
            take_replies(conn, link);
    } else if (simba__redis_tls_feed(link->tls, data, length)) {
        take_records(conn, link);
    } else {
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, "redis %s: out of memory", conn->at.where);
    }
}

static void on_ready(simba_input *input)
{
    redis_link *link = (redis_link *)(void *)((char *)input - offsetof(redis_link, input));
    redis_conn *conn = link->conn;
    const ssize_t length = recv(input->fd, link->bytes, sizeof link->bytes, MSG_DONTWAIT);
    if (length < 0 && is_transient(errno))
        return; /* another thread has read it */
    if (length <= 0)
        fail_lost(conn, length == 0 ? "the server closed it" : reason(errno));
    else
        take_bytes(conn, link, link->bytes, (size_t)length);
    if (conn->link == link)
        simba__redis_conn_flush(conn);
}

/* --- writing -------------------------------------------------------------------------------------- */

static void on_written(uv_write_t *write, int status)
{
    redis_link *link = write->data;
    simba_host *host = link->host;
    host->enter(host);
    link->writing = false;
    link->wire.length = 0;
    if (link->conn && status < 0)
        fail_lost(link->conn, uv_strerror(status));
    else if (link->conn)
        simba__redis_conn_flush(link->conn);
    host->leave(host);
}

/* As far as the socket takes it, which is nearly always all. */
static void send_wire(redis_conn *conn, redis_link *link)
{
    redis_buffer *wire = &link->wire;
    const ssize_t sent = send(link->input.fd, wire->data, wire->length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && !is_transient(errno)) {
        fail_lost(conn, reason(errno));
        return;
    }
    if (sent > 0) {
        wire->length -= (size_t)sent;
        memmove(wire->data, wire->data + sent, wire->length);
    }
    link->blocked = wire->length > 0;
    if (link->blocked)
        want_loop(conn);
}

/* On the loop thread. */
static void write_rest(redis_conn *conn, redis_link *link)
{
    const uv_buf_t buf = uv_buf_init(link->wire.data, (unsigned)link->wire.length);
    link->blocked = false;
    link->writing = true;
    const int rc = uv_write(&link->write, &link->u.stream, &buf, 1, on_written);
    if (rc < 0)
        fail_lost(conn, uv_strerror(rc));
}

/* What goes to the socket next, into link->wire. False: it cannot be made. */
static bool fill_wire(redis_conn *conn, redis_link *link)
{
    if (link->tls) {
        if (conn->state == REDIS_UP && conn->out.length > 0 &&
            !simba__redis_tls_write(link->tls, conn->out.data, conn->out.length))
            return false;
        if (conn->state == REDIS_UP)
            conn->out.length = 0;
        simba__redis_tls_take(link->tls, &link->wire);
    } else if (conn->state == REDIS_UP) {
        const redis_buffer empty = link->wire;
        link->wire = conn->out;
        conn->out = empty;
    }
    return !link->wire.failed;
}

void simba__redis_conn_flush(redis_conn *conn)
{
    redis_link *link = conn->link;
    if (!link || link->blocked || link->writing || (conn->state != REDIS_UP && !link->tls))
        return;
    if (conn->out.failed || !fill_wire(conn, link))
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, "redis %s: out of memory", conn->at.where);
    else if (link->wire.length > 0)
        send_wire(conn, link);
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

static void begin_to_talk(redis_conn *conn, redis_link *link)
{
    int rc = uv_fileno(&link->u.handle, &link->input.fd);
    link->input.ready = on_ready;
    if (rc == 0 && conn->host->input_add(conn->host, &link->input) < 0)
        rc = UV_ENOMEM;
    if (rc == 0 && conn->options->tls) {
        link->tls = simba__redis_tls_new(conn->store->tls, conn->at.host);
        rc = link->tls ? 0 : UV_ENOMEM;
    }
    if (rc < 0)
        fail_to_connect(conn, uv_strerror(rc));
    else if (link->tls)
        take_records(conn, link);
    else
        come_up(conn);
}

static void try_next_address(redis_conn *conn);

static void on_connected(uv_connect_t *connect, int status)
{
    redis_link *link = connect->data;
    simba_host *host = link->host;
    host->enter(host);
    link->store->loop_thread = pthread_self();
    link->store->has_loop_thread = true;
    redis_conn *conn = link->conn;
    if (conn && status < 0 && conn->next_address) {
        try_next_address(conn);
    } else if (conn && status < 0) {
        fail_to_connect(conn, uv_strerror(status));
    } else if (conn) {
        begin_to_talk(conn, link);
    }
    host->leave(host);
}

static int connect_to(redis_link *link, const struct sockaddr *address)
{
    int rc = uv_tcp_init(link->host->loop, &link->u.tcp);
    if (rc < 0)
        return rc;
    link->has_handle = true;
    link->u.handle.data = link;
    uv_tcp_nodelay(&link->u.tcp, 1);
    return uv_tcp_connect(&link->connect, &link->u.tcp, address, on_connected);
}

static int connect_to_socket(redis_link *link, const char *path)
{
    const int rc = uv_pipe_init(link->host->loop, &link->u.pipe, 0);
    if (rc < 0)
        return rc;
    link->has_handle = true;
    link->u.handle.data = link;
    uv_pipe_connect(&link->connect, &link->u.pipe, path, on_connected);
    return 0;
}

/* A name may have several addresses, and the first need not be the one that answers. */
static void try_next_address(redis_conn *conn)
{
    int rc = UV_ENOMEM;
    while (conn->next_address) {
        const struct addrinfo *address = conn->next_address;
        conn->next_address = address->ai_next;
        if (conn->link)
            link_abandon(conn->link);
        conn->link = link_new(conn);
        rc = conn->link ? connect_to(conn->link, address->ai_addr) : UV_ENOMEM;
        if (rc == 0)
            return;
    }
    fail_to_connect(conn, uv_strerror(rc));
}

static void on_resolved(uv_getaddrinfo_t *resolver, int status, struct addrinfo *addresses)
{
    redis_link *link = resolver->data;
    simba_host *host = link->host;
    host->enter(host);
    link->resolving = false;
    redis_conn *conn = link->conn;
    if (!conn) {
        uv_freeaddrinfo(addresses);
        link_free(link);
    } else if (status < 0) {
        fail_to_connect(conn, uv_strerror(status));
    } else {
        conn->addresses = conn->next_address = addresses;
        try_next_address(conn);
    }
    host->leave(host);
}

static int begin(redis_link *link, const simba__endpoint *at)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    if (at->port == 0)
        return connect_to_socket(link, at->host);
    if (uv_ip4_addr(at->host, at->port, &address.v4) == 0 || uv_ip6_addr(at->host, at->port, &address.v6) == 0)
        return connect_to(link, &address.any);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char port[8];
    snprintf(port, sizeof port, "%d", at->port);
    const int rc = uv_getaddrinfo(link->host->loop, &link->resolver, on_resolved, at->host, port, &hints);
    link->resolving = rc == 0;
    return rc;
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

void simba__redis_conn_found(redis_conn *conn)
{
    if (conn->state != REDIS_CONNECTING || conn->link)
        return;
    const simba_local now = conn->host->now(conn->host);
    conn->host->timer_set(conn->host, &conn->timer, (simba_local){now.ns + conn->connect_timeout_ns});
    conn->found = true;
    want_loop(conn);
}

/* On the loop thread. */
static void connect_now(redis_conn *conn)
{
    conn->found = false;
    conn->link = link_new(conn);
    const int rc = conn->link ? begin(conn->link, &conn->at) : UV_ENOMEM;
    if (rc < 0)
        fail_to_connect(conn, uv_strerror(rc));
}

void simba__redis_catch_up(redis_store *self)
{
    assert(!self->has_loop_thread || pthread_equal(self->loop_thread, pthread_self()));
    while (self->for_loop) {
        redis_conn *conn = self->for_loop;
        self->for_loop = conn->loop_next;
        conn->wants_loop = false;
        if (conn->found)
            connect_now(conn);
        else if (conn->link && conn->link->blocked)
            write_rest(conn, conn->link);
    }
    while (self->abandoned) {
        redis_link *link = self->abandoned;
        self->abandoned = link->abandoned_next;
        link_close(link);
    }
}

/* --- lifetime ------------------------------------------------------------------------------------- */

static void on_timer(simba_timer *timer, simba_local now)
{
    redis_conn *conn = (redis_conn *)(void *)((char *)timer - offsetof(redis_conn, timer));
    switch (conn->state) {
    case REDIS_CONNECTING:
        fail_to_connect(conn, "no answer");
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

int simba__redis_conn_init(redis_conn *conn, redis_store *store, const redis_conn_events *events, void *owner)
{
    conn->host = store->host;
    conn->store = store;
    conn->options = &store->options;
    conn->login = &store->options.login;
    conn->connect_timeout_ns = store->options.connect_timeout_ns;
    conn->events = events;
    conn->owner = owner;
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
    assert(!conn->link);
    simba__redis_buffer_free(&conn->out);
}
