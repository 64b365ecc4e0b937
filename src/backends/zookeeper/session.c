/* The connection to ZooKeeper, and what it proves about the session.
 *
 * The server ends a session when it has not heard of it for the session timeout. We count the same span from signs of life
 * that were answered, from the moment at which they were sent. What counts is what most servers of the ensemble have agreed to:
 *
 *   - The handshake that makes a session.
 *   - A beat: a write that changes nothing, because it asks for a version that there is not. Once one is answered, the
 *     handshake of its connection counts too, to which only the leader said yes. But it is the server that we are connected
 *     to which tells the leader who has been heard of, about twice per tick; should it die in between, the leader never
 *     learns. So a beat itself counts only when one that was sent a quarter of the timeout later has been answered too: a
 *     timeout is two ticks at least, and what the server had to tell by then went to the leader before that later beat.
 *
 * An answer to anything else proves little. A server that has lost its leader goes on answering reads for a while; and a
 * leader that the others have replaced without its knowledge answers a sync, or another handshake, by itself. */
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
    AGAIN_MS = 100,           /* to what there was no memory for */
    IN_VAIN_MAX = 8,          /* connections that were lost before anything was proven by them */
    PAUSES = 60,              /* the pause when all servers were tried is a part of the timeout */
    MESSAGES_AT_ONCE = 64,    /* then others have their turn */
    SESSION_MIN_MS = 10,      /* no server grants less than this, */
    SESSION_MAX_MS = 1 << 29, /* nor more than a week */
};

struct zk_poller {
    uv_poll_t poll;
    simba_input input; /* while there is a session: answers are read by whoever waits for them */
    bool has_input;
    zk_store *store;
    int fd;
    int events;
};

struct closing {
    uv_work_t work;
    zk_store *store;
    zhandle_t *zh;
};

static void pump(zk_store *self);

static simba_local after(simba_local at, int64_t ns)
{
    return (simba_local){at.ns + ns};
}

/* --- the end of a handle ---------------------------------------------------------------------------- */

static void close_off_loop(uv_work_t *work)
{
    zookeeper_close(((struct closing *)(void *)work)->zh);
}

static void handle_closed(uv_work_t *work, int status)
{
    struct closing *closing = (struct closing *)(void *)work;
    zk_store *self = closing->store;
    simba_host *host = self->host;
    (void)status;
    simba__free(closing);
    host->enter(host);
    self->pending--;
    simba__zk_maybe_closed(self);
    host->leave(host);
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
    closing->store = self;
    closing->zh = zh;
    self->pending++;
    if (uv_queue_work(self->host->loop, &closing->work, close_off_loop, handle_closed) != 0) {
        self->pending--;
        simba__free(closing);
        zookeeper_close(zh);
    }
}

/* --- the socket ------------------------------------------------------------------------------------- */

static void poller_gone(uv_handle_t *handle)
{
    zk_poller *poller = (zk_poller *)(void *)handle;
    zk_store *self = poller->store;
    simba_host *host = self->host;
    simba__free(poller);
    host->enter(host);
    self->pending--;
    simba__zk_maybe_closed(self);
    host->leave(host);
}

/* The library sends the length of a request and the request itself as two packets, and then those of the next request. A
 * server that wakes up for each of them is half as fast. So the socket is corked for good, and what has gathered is pushed
 * out: setting TCP_NODELAY again does that in one system call, also under a cork. */
static void set_option(const zk_store *self, int option, int value)
{
    setsockopt(self->session.poller->fd, IPPROTO_TCP, option, &value, sizeof value);
}

void simba__zk_session_gather(zk_store *self)
{
    zk_session *session = &self->session;
    session->gathered = true;
    if (session->corked || !session->poller)
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

static void drop_poller(zk_store *self)
{
    zk_poller *poller = self->session.poller;
    if (!poller)
        return;
    if (self->session.corked)
        set_option(self, TCP_CORK, 0); /* the library is going to say good-bye */
    self->session.poller = NULL;
    self->session.corked = false;
    self->host->input_remove(self->host, &poller->input);
    uv_close((uv_handle_t *)&poller->poll, poller_gone);
    close(poller->fd);
}

static void on_socket(uv_poll_t *poll, int status, int events);

/* The library closes sockets behind our back, and the next one may have the number of the last. So libuv watches a
 * descriptor of our own, until a connection is over. */
static bool make_poller(zk_store *self, int fd)
{
    zk_poller *poller = simba__calloc(1, sizeof *poller);
    if (!poller)
        return false;
    poller->store = self;
    poller->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (poller->fd < 0 || uv_poll_init(self->host->loop, &poller->poll, poller->fd) != 0) {
        if (poller->fd >= 0)
            close(poller->fd);
        simba__free(poller);
        return false;
    }
    self->pending++;
    self->session.poller = poller;
    return true;
}

/* False: not yet. */
static bool listen_to(zk_store *self, int fd, int interest)
{
    if (!self->session.poller && !make_poller(self, fd))
        return false;
    zk_poller *poller = self->session.poller;
    const int readable = interest & ZOOKEEPER_READ && !poller->has_input ? UV_READABLE : 0;
    const int events = readable | (interest & ZOOKEEPER_WRITE ? UV_WRITABLE : 0);
    if (poller->events == events)
        return true;
    const int rc = events ? uv_poll_start(&poller->poll, events, on_socket) : uv_poll_stop(&poller->poll);
    if (rc == 0)
        poller->events = events;
    return rc == 0;
}

/* --- the states of a session ------------------------------------------------------------------------- */

static void note_failure(zk_store *self, int error)
{
    zk_session *session = &self->session;
    session->failures++;
    snprintf(session->cause, sizeof session->cause, "%s", error ? strerror(error) : "connection lost");
}

static void set_beat(zk_store *self, simba_local now)
{
    const zk_session *session = &self->session;
    const int64_t timeout_ms = session->connected ? session->timeout_ms : self->options.session_ms;
    self->host->timer_set(self->host, &self->session.beat, after(now, timeout_ms * MS / 8));
}

static void on_input(simba_input *input);

/* Should there be no memory for that, the loop thread goes on reading. */
static void share_reading(zk_store *self)
{
    zk_poller *poller = self->session.poller;
    if (!poller || poller->has_input)
        return;
    poller->input.fd = poller->fd;
    poller->input.ready = on_input;
    poller->has_input = self->host->input_add(self->host, &poller->input) == 0;
}

/* A server that can be worked with is one that can write, and grants a time that makes sense. */
static bool is_server_of_use(zk_store *self)
{
    const zk_session *session = &self->session;
    const int timeout_ms = zoo_recv_timeout(session->zh);
    return zoo_state(session->zh) == ZOO_CONNECTED_STATE && timeout_ms >= SESSION_MIN_MS &&
           timeout_ms <= SESSION_MAX_MS;
}

static void connected(zk_store *self)
{
    zk_session *session = &self->session;
    simba_host *host = self->host;
    session->connected = true;
    session->inside = false;
    session->low_water = 1;
    share_reading(self);
    session->failures = 0;
    session->sent = session->answered = 0;
    session->timeout_ms = zoo_recv_timeout(session->zh);
    if (session->is_new)
        session->proven = session->attempt;
    host->session(host, session->proven, session->timeout_ms);
    if (session->timeout_ms < self->options.session_ms)
        host->log(host, SIMBA_LOG_WARN, "zookeeper %s: the server grants a session timeout of %lld ms, not %d",
                  self->options.where, (long long)session->timeout_ms, self->options.session_ms);
    if (session->is_new)
        set_beat(self, host->now(host));
    else
        host->timer_set(host, &session->beat, host->now(host)); /* the sooner it is proven, the better */
    session->is_new = false;
    simba__zk_ops_connected(self);
    if (session->lost) {
        session->lost = false;
        simba__zk_topics_connected(self);
        host->push(host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_BACK});
    }
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
    session->connected = false;
    session->lost = true;
    drop_poller(self);
    close_handle(self);
    simba__zk_nodes_drop(self);
    simba__zk_queues_forget(self);
    simba__zk_watches_drop(self);
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
    const int64_t since_ns = self->host->now(self->host).ns - session->proven.ns;
    return !session->is_new && session->in_vain >= IN_VAIN_MAX && since_ns > session->timeout_ms * MS &&
           session->calls == 0 && session->sent == session->answered;
}

/* What has become of it in the last call? False: there is no handle any more. */
static bool look_at_state(zk_store *self)
{
    zk_session *session = &self->session;
    const int state = zoo_state(session->zh);
    const bool up = state == ZOO_CONNECTED_STATE;
    if (state < 0 || (up && !session->connected && is_of_no_use(self))) {
        over(self, state);
        return false;
    }
    if ((up || state == ZOO_READONLY_STATE) && !session->connected) {
        if (is_server_of_use(self))
            connected(self);
        else if (session->poller)
            simba__zk_dissolve(session->poller->fd);
    } else if (!up && session->connected) {
        session->connected = false;
        session->in_vain++;
        simba__zk_queues_forget(self);
        /* A call that cannot send closes the socket and leaves all calls in flight without an answer, beats too. The next
         * connection's end brings them back. */
        session->purge = session->calls > 0 || session->sent > session->answered;
    }
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
    if (session->connected || session->failures < session->addresses)
        return;
    session->failures = 0;
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
    const simba_local now = self->host->now(self->host);
    const bool down = is_down(session);
    const simba_local next = after(session->attempt, pause_ns(session));
    if (down && now.ns < next.ns) {
        drop_poller(self);
        self->host->timer_set(self->host, &session->timer, next);
        return;
    }
    int fd = -1;
    int interest = 0;
    struct timeval wait = {0};
    errno = 0;
    const int rc = zookeeper_interest(session->zh, &fd, &interest, &wait);
    if (down && !is_down(session)) {
        session->attempt = now;
        set_beat(self, now);
        fcntl(fd, F_SETFD, FD_CLOEXEC); /* the library may be built not to */
    }
    if (rc != ZOK)
        note_failure(self, errno);
    if (down || rc != ZOK)
        drop_poller(self);
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
    look_at_failures(self);
}

/* One call takes one message off the socket. Should there be more of them, the descriptor stays readable. */
static void process(zk_store *self, int events)
{
    int rc = ZOK;
    for (int left = MESSAGES_AT_ONCE; left > 0 && rc == ZOK && self->session.zh && !self->closing; left--) {
        errno = 0;
        rc = simba__zk_take_in(self, self->session.poller->fd, events);
        if (rc != ZOK && rc != ZNOTHING)
            note_failure(self, errno);
        if (!look_at_state(self))
            return;
        events = ZOOKEEPER_READ;
    }
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    zk_store *self = ((zk_poller *)(void *)poll)->store;
    simba_host *host = self->host;
    const int both = ZOOKEEPER_READ | ZOOKEEPER_WRITE;
    host->enter(host);
    process(self, status < 0
                      ? both
                      : (events & UV_READABLE ? ZOOKEEPER_READ : 0) | (events & UV_WRITABLE ? ZOOKEEPER_WRITE : 0));
    pump(self);
    host->leave(host);
}

/* There may be requests that the socket did not take, and only the library knows. Fewer than these it takes. */
enum { MANY_CALLS = 16 };

void simba__zk_session_send(zk_store *self)
{
    zk_session *session = &self->session;
    push_out(self);
    if (!session->zh || (session->calls <= MANY_CALLS && zoo_state(session->zh) == ZOO_CONNECTED_STATE))
        return;
    session->for_loop = true;
    self->host->wake(self->host);
}

/* On any thread: take what has come. Whatever else is to be done is for the loop thread. */
static void on_input(simba_input *input)
{
    zk_store *self = ((zk_poller *)(void *)((char *)input - offsetof(zk_poller, input)))->store;
    zk_session *session = &self->session;
    int rc = ZOK;
    errno = 0;
    /* As many messages as are expected, or one that is not. */
    for (unsigned left = session->calls ? session->calls : 1; left > 0 && rc == ZOK && !self->closing; left--)
        rc = simba__zk_take_in(self, input->fd, ZOOKEEPER_READ);
    if (rc != ZOK && rc != ZNOTHING)
        note_failure(self, errno);
    if (zoo_state(session->zh) != ZOO_CONNECTED_STATE)
        self->host->input_remove(self->host, input); /* it would be readable until the loop thread comes */
    simba__zk_session_send(self);
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

static simba_local beat(const zk_session *session, unsigned long long number)
{
    return session->beats[number % ZK_BEATS];
}

/* A beat that was sent long enough before one that is answered is known to the leader. */
static void on_beat(int rc, const struct Stat *stat, const void *data)
{
    (void)stat;
    zk_store *self = (zk_store *)(uintptr_t)data;
    zk_session *session = &self->session;
    if (rc == ZCLOSING)
        return; /* on the thread that closes the handle, while another session may be under way */
    simba__zk_expected_answered(&session->expected);
    if (zoo_state(session->zh) != ZOO_CONNECTED_STATE) {
        session->sent = session->answered; /* lost with the connection, as are all others */
        return;
    }
    session->in_vain = 0;
    const unsigned long long number = session->answered++;
    if (rc != ZBADVERSION && rc != ZNOAUTH)
        return; /* it was not even tried */
    const int64_t quarter_ns = session->timeout_ms * MS / 4;
    if (session->attempt.ns > session->proven.ns)
        session->proven = session->attempt;
    for (unsigned long long i = number; i > 0 && number - i < ZK_BEATS - 1; i--) {
        if (beat(session, i - 1).ns + quarter_ns > beat(session, number).ns)
            continue;
        if (beat(session, i - 1).ns > session->proven.ns)
            session->proven = beat(session, i - 1);
        break;
    }
    self->host->session(self->host, session->proven, session->timeout_ms);
}

/* The library waits for two thirds of the timeout before it tries another server. That is too long for us. */
static void give_up_connection(zk_store *self)
{
    self->host->log(self->host, SIMBA_LOG_INFO, "zookeeper %s: the server is silent, trying another",
                    self->options.where);
    if (self->session.poller)
        simba__zk_dissolve(self->session.poller->fd);
}

static bool send_beat(zk_store *self)
{
    zk_session *session = &self->session;
    if (!simba__zk_expect(&session->expected, ZK_REPLY_STAT))
        return false; /* the next one will do */
    simba__zk_library_lock();
    const int rc = zoo_aset(session->zh, "/", "", 0, INT32_MIN, on_beat, self);
    simba__zk_library_unlock();
    if (rc != ZOK)
        simba__zk_expect_not(&session->expected);
    return rc == ZOK;
}

static void on_beat_due(simba_timer *timer, simba_local now)
{
    zk_store *self = (zk_store *)(void *)((char *)timer - offsetof(zk_store, session.beat));
    zk_session *session = &self->session;
    if (!session->zh)
        return;
    if (!session->connected) {
        if (!is_down(session) && now.ns - session->attempt.ns > self->options.session_ms * MS / 5)
            give_up_connection(self);
    } else if (session->sent > session->answered &&
               now.ns - beat(session, session->answered).ns > session->timeout_ms * MS / 3) {
        give_up_connection(self);
    } else if (session->sent - session->answered < ZK_BEATS / 2) {
        session->beats[session->sent % ZK_BEATS] = now;
        session->sent += send_beat(self);
        pump(self);
    }
    if (session->zh)
        set_beat(self, now);
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
        session->is_new = true;
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
    if (self->session.zh && self->session.connected)
        pump(self);
}

bool simba__zk_session_direct(const zk_store *self)
{
    return self->session.connected && !self->session.for_loop && !self->closing;
}

int simba__zk_session_init(zk_store *self)
{
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
    session->connected = false;
    drop_poller(self);
    if (session->resolver)
        uv_cancel((uv_req_t *)session->resolver);
    if (session->zh)
        close_handle(self);
}
