/* The connection to ZooKeeper: drives the library, sends beats, and tells the host how long the session is known to live,
 * which liveness.c finds out. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "backends/zookeeper/zookeeper.h"
#include "util/clock.h"
#include "util/mem.h"

#define MS SIMBA__NS_PER_MS

enum {
    SOON_MS = 5,              /* the least pause between two tries of something that has failed */
    AGAIN_MS = 100,           /* to what there was no memory for, and to servers of which none could be reached */
    IN_VAIN_MAX = 8,          /* connections that were lost before anything was proven by them */
    PAUSES = 60,              /* the pause when all servers were tried is a part of the timeout */
    SESSION_MIN_MS = 10,      /* no server grants less than this, */
    SESSION_MAX_MS = 1 << 29, /* nor more than a week */
};

struct closing {
    simba_job job; /* first */
    zk_store *store;
    zhandle_t *zh;
};

static void pump(zk_store *self);

static simba_local after(simba_local at, int64_t ns)
{
    return (simba_local){at.ns + ns};
}

/* --- the end of a handle ---------------------------------------------------------------------------- */

static void run_close(simba_job *job)
{
    zookeeper_close(((struct closing *)(void *)job)->zh);
}

static void handle_closed(simba_job *job)
{
    struct closing *closing = (struct closing *)(void *)job;
    zk_store *self = closing->store;
    simba__free(closing);
    self->pending--;
    simba__zk_maybe_closed(self);
}

/* It may take seconds: it waits for the server to say good-bye. */
static void close_handle(zk_store *self)
{
    struct closing *closing = simba__calloc(1, sizeof *closing);
    zhandle_t *zh = self->session.zh;
    self->session.zh = NULL;
    if (!closing) {
        zookeeper_close(zh);
        return;
    }
    *closing = (struct closing){{.run = run_close, .done = handle_closed, .length = SIMBA_JOB_PATIENT}, self, zh};
    self->pending++;
    self->host->work(self->host, &closing->job);
}

/* --- the socket ------------------------------------------------------------------------------------- */

/* The library sends the length of a request and the request itself as two packets, and then those of the next request. A
 * server that wakes up for each of them is half as fast. So the socket is corked for good, and what has gathered is pushed
 * out: setting TCP_NODELAY again does that in one system call, also under a cork. */
static void set_option(const zk_store *self, int option, int value)
{
    setsockopt(self->session.socket.fd, IPPROTO_TCP, option, &value, sizeof value);
}

void simba__zk_session_gather(zk_store *self)
{
    zk_session *session = &self->session;
    session->gathered = true;
    if (session->corked || session->socket.fd < 0)
        return;
    session->corked = true;
    set_option(self, TCP_CORK, 1);
}

static void push_out(zk_store *self)
{
    if (self->session.gathered && self->session.corked)
        set_option(self, TCP_NODELAY, 1);
    self->session.gathered = false;
}

static void drop_socket(zk_store *self)
{
    zk_session *session = &self->session;
    if (session->socket.fd < 0)
        return;
    if (session->corked)
        set_option(self, TCP_CORK, 0); /* the library is going to say good-bye */
    session->corked = false;
    self->host->watch_remove(self->host, &session->socket);
    close(session->socket.fd);
    session->socket.fd = -1;
}

static void on_socket(simba_watch *socket, unsigned events);

/* False: not yet. The library closes sockets behind our back, and the next one, or something of the application's, may have
 * the number of the last. So we watch and set options by a descriptor of our own, until a connection is over. */
static bool listen_to(zk_store *self, int fd, int interest)
{
    simba_watch *socket = &self->session.socket;
    const unsigned wanted =
        (interest & ZOOKEEPER_READ ? SIMBA_READABLE : 0) | (interest & ZOOKEEPER_WRITE ? SIMBA_WRITABLE : 0);
    if (socket->fd >= 0)
        return socket->interest == wanted || self->host->watch_change(self->host, socket, wanted) == 0;
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return false;
    *socket = (simba_watch){.ready = on_socket, .fd = own, .interest = wanted, .answers = true};
    if (self->host->watch_add(self->host, socket) == 0)
        return true;
    socket->fd = -1;
    close(own);
    return false;
}

/* --- the states of a session ------------------------------------------------------------------------- */

static void note_failure(zk_store *self, int error)
{
    zk_session *session = &self->session;
    session->failures++;
    snprintf(session->cause, sizeof session->cause, "%s", error ? strerror(error) : "connection lost");
}

/* Come back when there is something to do for the session. */
static void set_beat(zk_store *self)
{
    zk_session *session = &self->session;
    const simba_local next = simba__zk_live_next(&session->live);
    const simba_local soon = after(self->host->now(self->host), SOON_MS * MS); /* what could not be done before */
    if (next.ns == INT64_MAX)
        self->host->timer_clear(self->host, &session->beat);
    else
        self->host->timer_set(self->host, &session->beat, next.ns > soon.ns ? next : soon);
}

static void connected(zk_store *self)
{
    zk_session *session = &self->session;
    simba_host *host = self->host;
    const int64_t timeout_ms = zoo_recv_timeout(session->zh);
    simba__zk_live_connect(&session->live, host->now(host), timeout_ms);
    session->inside = false;
    session->failures = 0;
    host->session(host, session->live.proven, timeout_ms);
    if (timeout_ms < self->options.session_ms)
        host->log(host, SIMBA_LOG_WARN, "zookeeper %s: the server grants a session timeout of %lld ms, not %d",
                  self->options.where, (long long)timeout_ms, self->options.session_ms);
    set_beat(self);
    simba__zk_ops_connected(self);
    if (session->lost) {
        session->lost = false;
        simba__zk_topics_connected(self);
        host->push(host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_BACK});
    }
}

/* A connection has ended, or could not be made. */
static void disconnected(zk_store *self)
{
    zk_session *session = &self->session;
    if (simba__zk_is_connected(session)) {
        session->in_vain++;
        simba__zk_queues_forget(self);
        /* A call that cannot send closes the socket and leaves all calls in flight without an answer, beats too. The next
         * connection's end brings them back. */
        session->purge = session->expected.count > 0;
    }
    simba__zk_live_lose(&session->live);
}

static const char *end_of(int state)
{
    if (state == ZOO_AUTH_FAILED_STATE)
        return "authentication failed";
    return state < 0 ? "the session has expired"
                     : "each connection of this session is broken off; are there too many watches for the server?";
}

/* The server says that the session is over, or it is of no use. */
static void over(zk_store *self, int state)
{
    zk_session *session = &self->session;
    simba_host *host = self->host;
    host->log(host, SIMBA_LOG_WARN, "zookeeper %s: %s", self->options.where, end_of(state));
    simba__zk_live_lose(&session->live);
    session->lost = true;
    self->sessions_over++;
    drop_socket(self);
    close_handle(self);
    simba__zk_nodes_drop(self);
    simba__zk_queues_forget(self);
    simba__zk_watches_drop(self);
    simba__zk_ops_session_over(self);
    host->push(host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_LOST});
    /* Not at once, should the server refuse us each time. */
    host->timer_set(host, &session->timer, after(host->now(host), state == ZOO_AUTH_FAILED_STATE ? 1000 * MS : 0));
}

/* With each connection the library sends all watches in one packet, and a server that finds it too large closes the
 * connection. It keeps the session nevertheless, for it has heard of it; so that would go on for ever, and what the session has
 * made would stay. When nobody can hold anything by it any more, another session is better: that has no watches yet. */
static bool is_of_no_use(zk_store *self)
{
    const zk_session *session = &self->session;
    const zk_liveness *live = &session->live;
    return live->has_session && session->in_vain >= IN_VAIN_MAX &&
           self->host->now(self->host).ns - live->proven.ns > live->timeout_ns && session->expected.count == 0;
}

/* A server that can be worked with is one that can write, and grants a time that makes sense. */
static bool is_server_of_use(const zk_session *session)
{
    const int timeout_ms = zoo_recv_timeout(session->zh);
    return zoo_state(session->zh) == ZOO_CONNECTED_STATE && timeout_ms >= SESSION_MIN_MS &&
           timeout_ms <= SESSION_MAX_MS;
}

/* The library has a connection whose handshake was answered. False: there is no handle any more. */
static bool welcomed(zk_store *self)
{
    zk_session *session = &self->session;
    if (session->live.link == ZK_CONNECTING)
        simba__zk_live_greet(&session->live, self->host->now(self->host));
    if (is_of_no_use(self)) {
        over(self, ZOO_CONNECTED_STATE);
        return false;
    }
    if (is_server_of_use(session))
        connected(self);
    else if (session->socket.fd >= 0)
        simba__zk_dissolve(session->socket.fd);
    return true;
}

/* What has become of the connection in the last call? False: there is no handle any more. */
static bool look_at_state(zk_store *self)
{
    zk_session *session = &self->session;
    const int state = zoo_state(session->zh);
    if (state < 0) {
        over(self, state);
        return false;
    }
    if (state == ZOO_CONNECTED_STATE || state == ZOO_READONLY_STATE)
        return simba__zk_is_connected(session) || welcomed(self);
    if (state == ZOO_ASSOCIATING_STATE && session->live.link == ZK_CONNECTING)
        simba__zk_live_greet(&session->live, self->host->now(self->host));
    else if (state != ZOO_ASSOCIATING_STATE && state != ZOO_CONNECTING_STATE && session->live.link != ZK_APART)
        disconnected(self);
    return true;
}

/* --- driving the library ---------------------------------------------------------------------------- */

static bool is_down(const zk_session *session)
{
    const int state = zoo_state(session->zh);
    return state != ZOO_CONNECTED_STATE && state != ZOO_CONNECTING_STATE && state != ZOO_ASSOCIATING_STATE;
}

/* All servers were tried: whoever waits gets to know. Their names may mean something else by now. */
static void look_at_failures(zk_store *self)
{
    zk_session *session = &self->session;
    if (simba__zk_is_connected(session) || session->failures < session->addresses)
        return;
    session->failures = 0;
    session->rest_until = after(self->host->now(self->host), AGAIN_MS * MS);
    simba__zk_ops_unavailable(self);
    if (!session->resolver)
        simba__zk_resolve(self);
}

/* Connections that are lost as soon as they are made are not worth making at full speed. */
static int64_t pause_ns(const zk_session *session)
{
    return session->in_vain < 2 ? 0 : session->in_vain < IN_VAIN_MAX ? session->in_vain * 10 * MS : AGAIN_MS * MS;
}

/* Ask the library what it waits for, which is also when it connects and notices that it waited too long. */
static void pump(zk_store *self)
{
    zk_session *session = &self->session;
    if (!session->zh || self->closing)
        return;
    if (!look_at_state(self))
        return; /* another thread may have read of its end */
    const simba_local now = self->host->now(self->host);
    const bool down = is_down(session);
    simba_local next = after(session->live.attempt, pause_ns(session));
    if (session->rest_until.ns > next.ns)
        next = session->rest_until;
    if (down && now.ns < next.ns) {
        drop_socket(self);
        self->host->timer_set(self->host, &session->timer, next);
        return;
    }
    int fd = -1;
    int interest = 0;
    struct timeval wait = {0};
    errno = 0;
    const int rc = zookeeper_interest(session->zh, &fd, &interest, &wait);
    if (down && !is_down(session)) {
        simba__zk_live_attempt(&session->live, now);
        fcntl(fd, F_SETFD, FD_CLOEXEC); /* the library may be built not to */
    }
    if (rc != ZOK)
        note_failure(self, errno);
    if (down || rc != ZOK)
        drop_socket(self);
    if (!look_at_state(self))
        return;
    if (session->purge && rc == ZOK && fd >= 0) {
        session->purge = false;
        simba__zk_dissolve(fd);
    }
    int64_t wait_ns = wait.tv_sec * INT64_C(1000000000) + wait.tv_usec * INT64_C(1000);
    if (rc == ZOK && fd >= 0 && !listen_to(self, fd, interest) && wait_ns > AGAIN_MS * MS)
        wait_ns = AGAIN_MS * MS;
    /* The library pauses for a part of the timeout that the last server named, whatever that was. */
    if (fd < 0 && wait_ns > self->options.session_ms * MS / PAUSES)
        wait_ns = self->options.session_ms * MS / PAUSES;
    self->host->timer_set(self->host, &session->timer, after(now, wait_ns > MS ? wait_ns : MS));
    session->gathered = true; /* the library may have had something to say itself */
    push_out(self);
    set_beat(self);
    look_at_failures(self);
}

/* One call takes one message off the socket. All that there are, but not for ever, should the server send more than we can
 * take: then what is left is reported anew. */
static void process(zk_store *self, int events)
{
    enum { MOST = 1000 };
    int rc = ZOK;
    for (int i = 0; i < MOST && rc == ZOK && self->session.zh && !self->closing; i++) {
        errno = 0;
        rc = simba__zk_take_in(self, self->session.socket.fd, events);
        if (rc != ZOK && rc != ZNOTHING)
            note_failure(self, errno);
        if (!look_at_state(self))
            return;
        events = ZOOKEEPER_READ;
    }
    simba_watch *socket = &self->session.socket;
    if (rc == ZOK && socket->fd >= 0)
        (void)self->host->watch_change(self->host, socket, socket->interest);
}

/* There may be requests that the socket did not take, and only the library knows. Fewer than these it takes. */
enum { MANY_CALLS = 16 };

static void on_socket(simba_watch *socket, unsigned events)
{
    zk_store *self = (zk_store *)(void *)((char *)socket - offsetof(zk_store, session.socket));
    process(self, (events & SIMBA_READABLE ? ZOOKEEPER_READ : 0) | (events & SIMBA_WRITABLE ? ZOOKEEPER_WRITE : 0));
    if (events & SIMBA_WRITABLE || !simba__zk_is_connected(&self->session))
        pump(self);
    else
        simba__zk_session_flush(self);
}

static void begin(zk_store *self)
{
    if (self->session.resolver || self->closing)
        return;
    if (!simba__zk_resolve(self))
        self->host->timer_set(self->host, &self->session.timer, after(self->host->now(self->host), AGAIN_MS * MS));
}

static void on_timer(simba_timer *timer, simba_local now)
{
    zk_store *self = (zk_store *)(void *)((char *)timer - offsetof(zk_store, session.timer));
    (void)now;
    if (self->session.zh)
        pump(self);
    else
        begin(self);
}

/* --- signs of life ----------------------------------------------------------------------------------- */

/* The library waits for two thirds of the timeout before it tries another server. That is too long for us. */
static void give_up_connection(zk_store *self)
{
    if (simba__zk_is_connected(&self->session))
        self->host->log(self->host, SIMBA_LOG_INFO, "zookeeper %s: the server is silent, trying another",
                        self->options.where);
    if (self->session.socket.fd < 0)
        return;
    simba__zk_dissolve(self->session.socket.fd);
    process(self, ZOOKEEPER_READ | ZOOKEEPER_WRITE);
}

static void on_beat_due(simba_timer *timer, simba_local now)
{
    zk_store *self = (zk_store *)(void *)((char *)timer - offsetof(zk_store, session.beat));
    if (!self->session.zh || self->closing)
        return;
    switch (simba__zk_live_advise(&self->session.live, now)) {
    case ZK_WAIT:
        break;
    case ZK_SEND_BEAT:
        simba__zk_send_beat(self, now);
        break;
    case ZK_GIVE_UP:
        give_up_connection(self);
        break;
    }
    pump(self); /* and sets the timer */
}

/* --- beginning and end -------------------------------------------------------------------------------- */

/* Its log is written to standard error, through buffers that all threads share. What matters in it is told in our words. */
static void silence_library(void)
{
    zoo_set_debug_level((ZooLogLevel)0);
}

static void ignore_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)type, (void)state, (void)path, (void)context; /* see look_at_state */
}

void simba__zk_session_resolved(zk_store *self, const char *servers, size_t count, const char *cause)
{
    zk_session *session = &self->session;
    simba_host *host = self->host;
    if (self->closing) {
        simba__zk_maybe_closed(self);
        return;
    }
    if (servers && session->zh) {
        session->addresses = count;
        zoo_set_servers(session->zh, servers);
    } else if (servers) {
        session->addresses = count;
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        pthread_once(&once, silence_library);
        session->zh = zookeeper_init(servers, ignore_event, self->options.session_ms, NULL, NULL, ZOO_NO_LOG_CLIENTENV);
        cause = "out of memory";
        simba__zk_live_begin(&session->live, self->options.session_ms);
        session->in_vain = 0;
        session->expected.count = 0;
        if (session->zh && self->options.digest)
            zoo_add_auth(session->zh, "digest", self->options.digest, (int)strlen(self->options.digest), NULL, NULL);
    }
    if (!session->zh) {
        snprintf(session->cause, sizeof session->cause, "%s", cause);
        simba__zk_ops_unavailable(self);
        host->timer_set(host, &session->timer, after(host->now(host), 500 * MS));
        return;
    }
    zoo_set_servers_resolution_delay(session->zh, -1);
    pump(self);
}

void simba__zk_session_want(zk_store *self)
{
    if (self->session.wanted)
        return;
    self->session.wanted = true;
    begin(self);
}

void simba__zk_session_flush(zk_store *self)
{
    zk_session *session = &self->session;
    push_out(self);
    if (simba__zk_is_connected(session) &&
        (session->calls > MANY_CALLS || zoo_state(session->zh) != ZOO_CONNECTED_STATE))
        pump(self);
}

int simba__zk_session_init(zk_store *self)
{
    self->session.socket.fd = -1;
    self->session.timer.fire = on_timer;
    self->session.beat.fire = on_beat_due;
    const int rc = self->host->timer_add(self->host, &self->session.timer);
    return rc < 0 ? rc : self->host->timer_add(self->host, &self->session.beat);
}

void simba__zk_session_close(zk_store *self)
{
    zk_session *session = &self->session;
    self->host->timer_clear(self->host, &session->timer);
    self->host->timer_clear(self->host, &session->beat);
    if (session->zh)
        simba__zk_live_lose(&session->live);
    drop_socket(self);
    if (session->resolver)
        simba__zk_resolve_give_up(session->resolver);
    if (session->zh)
        close_handle(self);
}
