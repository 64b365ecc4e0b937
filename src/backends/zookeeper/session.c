#include "backends/zookeeper/session.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "util/clock.h"
#include "util/descriptors.h"
#include "util/mem.h"

#define MS SIMBA__NS_PER_MS

enum {
    SOON_MS = 5,              /* the least pause between two tries of something that has failed */
    AGAIN_MS = 100,           /* the pause before work that waits for memory, and after all servers were out of reach */
    IN_VAIN_MAX = 8,          /* how many connections may be lost before they have proven anything */
    PAUSES = 60,              /* when all servers were tried, the pause is this part of the timeout */
    SESSION_MIN_MS = 10,      /* no server grants less than this, */
    SESSION_MAX_MS = 1 << 29, /* nor more than a week */
};

struct closing {
    simba_job job; /* first */
    zk_session *session;
    zhandle_t *zh;
};

/* A beat under way: a write that changes nothing. */
struct beat {
    zk_session *session;
    unsigned connection;
};

static simba_local after(simba_local at, int64_t ns)
{
    return (simba_local){at.ns + ns};
}

/* --- the end of a handle ---------------------------------------------------------------------------- */

static void closed_if_over(zk_session *session)
{
    if (session->closing && session->ending == 0 && !session->resolver.at_work)
        session->events->closed(session);
}

/* It may take seconds: the library waits for the server to say good-bye. */
static bool run_close(simba_job *job, simba_local until)
{
    if (until.ns != INT64_MAX)
        return false;
    zookeeper_close(((struct closing *)(void *)job)->zh);
    return true;
}

static void handle_closed(simba_job *job)
{
    struct closing *closing = (struct closing *)(void *)job;
    zk_session *session = closing->session;
    simba__free(closing);
    session->ending--;
    closed_if_over(session);
}

static void close_handle(zk_session *session)
{
    struct closing *closing = simba__calloc(1, sizeof *closing);
    zhandle_t *zh = session->zh;
    session->zh = NULL;
    if (!closing) {
        zookeeper_close(zh);
        return;
    }
    *closing = (struct closing){{.run = run_close, .done = handle_closed}, session, zh};
    session->ending++;
    session->host->work(session->host, &closing->job);
}

/* --- the states of a session ------------------------------------------------------------------------- */

static void note_failure(zk_session *session, int error)
{
    session->failures++;
    snprintf(session->cause, sizeof session->cause, "%s", error ? strerror(error) : "connection lost");
}

/* Set the timer for the next thing to do for the session. */
static void set_beat(zk_session *session)
{
    const simba_local next = simba__zk_live_next(&session->live);
    const simba_local soon = after(session->host->now(session->host), SOON_MS * MS); /* if something has failed */
    if (next.ns == INT64_MAX)
        session->host->timer_clear(session->host, &session->beat);
    else
        session->host->timer_set(session->host, &session->beat, next.ns > soon.ns ? next : soon);
}

static void name_server(zk_session *session)
{
    simba__zk_addresses_lock();
    const char *server = zoo_get_current_server(session->zh);
    snprintf(session->server, sizeof session->server, "%s", server ? server : "");
    simba__zk_addresses_unlock();
}

static void connected(zk_session *session)
{
    simba_host *host = session->host;
    const int64_t timeout_ms = zoo_recv_timeout(session->zh);
    simba__zk_live_connect(&session->live, host->now(host), timeout_ms);
    session->wire.inside = false;
    session->failures = 0;
    session->heard = host->now(host);
    host->session(host, session->live.proven, timeout_ms);
    name_server(session);
    if (timeout_ms < session->options->session_ms)
        host->log(host, SIMBA_LOG_WARN, "zookeeper %s: the server grants a session timeout of %lld ms, not %d",
                  session->options->where, (long long)timeout_ms, session->options->session_ms);
    set_beat(session);
    const bool anew = session->anew;
    session->anew = false;
    session->events->connected(session, anew);
    if (anew)
        host->push(host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_BACK});
}

/* A connection has ended, or could not be made. */
static void disconnected(zk_session *session)
{
    if (simba__zk_is_connected(session)) {
        if (session->in_vain++ == 0)
            session->failures = 0; /* the connection was good, and no server has been tried since */
        session->events->disconnected(session);
        /* A call that cannot send closes the socket and leaves all calls in flight without an answer, beats included.
         * They get their answers when the next connection ends. */
        session->wire.stale = session->wire.expected.count > 0;
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

/* The server says that the session is over, or it can no longer be used. */
static void over(zk_session *session, int state)
{
    simba_host *host = session->host;
    /* A contender that led by the session reports its loss; a person should look at the other ends. */
    host->log(host, state == ZOO_EXPIRED_SESSION_STATE ? SIMBA_LOG_INFO : SIMBA_LOG_WARN, "zookeeper %s: %s",
              session->options->where, end_of(state));
    simba__zk_live_lose(&session->live);
    session->anew = true;
    session->over++;
    simba__zk_wire_drop(&session->wire);
    close_handle(session);
    session->events->over(session);
    host->push(host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_LOST});
    /* Do not reconnect at once, in case the server refuses each time. */
    host->timer_set(host, &session->timer, after(host->now(host), state == ZOO_AUTH_FAILED_STATE ? 1000 * MS : 0));
}

/* With each connection the library sends all watches in one packet, and a server that finds the packet too large closes
 * the connection. The server keeps the session, because it has heard from it. So that would go on for ever, and the
 * nodes of the session would stay. Once nobody can hold anything by this session any more, a new one is better: it has
 * no watches yet. */
static bool is_of_no_use(zk_session *session)
{
    const zk_liveness *live = &session->live;
    return live->has_session && session->in_vain >= IN_VAIN_MAX &&
           session->host->now(session->host).ns - live->proven.ns > live->timeout_ns &&
           session->wire.expected.count == 0;
}

/* We can use a server that can write and that grants a reasonable timeout. */
static bool is_server_of_use(const zk_session *session)
{
    const int timeout_ms = zoo_recv_timeout(session->zh);
    return zoo_state(session->zh) == ZOO_CONNECTED_STATE && timeout_ms >= SESSION_MIN_MS &&
           timeout_ms <= SESSION_MAX_MS;
}

/* The library has a connection whose handshake was answered. False: there is no handle any more. */
static bool welcomed(zk_session *session)
{
    if (session->live.link == ZK_CONNECTING)
        simba__zk_live_greet(&session->live, session->host->now(session->host));
    if (is_of_no_use(session)) {
        over(session, ZOO_CONNECTED_STATE);
        return false;
    }
    if (is_server_of_use(session))
        connected(session);
    else if (session->wire.socket.fd >= 0)
        simba__zk_dissolve(session->wire.socket.fd);
    return true;
}

/* Look at the connection after a call of the library. False: there is no handle any more. */
static bool look_at_state(zk_session *session)
{
    const int state = zoo_state(session->zh);
    if (state < 0) {
        over(session, state);
        return false;
    }
    if (state == ZOO_CONNECTED_STATE || state == ZOO_READONLY_STATE)
        return simba__zk_is_connected(session) || welcomed(session);
    if (state == ZOO_ASSOCIATING_STATE && session->live.link == ZK_CONNECTING)
        simba__zk_live_greet(&session->live, session->host->now(session->host));
    else if (state != ZOO_ASSOCIATING_STATE && state != ZOO_CONNECTING_STATE && session->live.link != ZK_APART)
        disconnected(session);
    return true;
}

/* --- driving the library ---------------------------------------------------------------------------- */

static bool is_down(const zk_session *session)
{
    const int state = zoo_state(session->zh);
    return state != ZOO_CONNECTED_STATE && state != ZOO_CONNECTING_STATE && state != ZOO_ASSOCIATING_STATE;
}

/* All servers were tried: fail the requests that wait. The names may stand for other addresses by now. */
static void look_at_failures(zk_session *session)
{
    if (simba__zk_is_connected(session) || session->failures < session->addresses)
        return;
    session->failures = 0;
    session->rest_until = after(session->host->now(session->host), AGAIN_MS * MS);
    session->events->unavailable(session);
    simba__resolver_start(&session->resolver);
}

/* Do not make connections at full speed if each is lost at once. */
static int64_t pause_ns(const zk_session *session)
{
    return session->in_vain < 2 ? 0 : session->in_vain < IN_VAIN_MAX ? session->in_vain * 10 * MS : AGAIN_MS * MS;
}

/* Ask the library what it waits for. In that call it also connects, and notices that it has waited too long. */
static void pump(zk_session *session)
{
    if (!session->zh || session->closing)
        return;
    if (!look_at_state(session))
        return; /* another thread may have read that the session is over */
    const simba_local now = session->host->now(session->host);
    const bool down = is_down(session);
    const simba_local paused = after(session->live.attempt, pause_ns(session));
    const simba_local next = paused.ns > session->rest_until.ns ? paused : session->rest_until;
    if (down && now.ns < next.ns) {
        simba__zk_wire_drop(&session->wire);
        session->host->timer_set(session->host, &session->timer, next);
        return;
    }
    int fd = -1;
    int interest = 0;
    struct timeval wait = {0};
    if (down)
        simba__descriptors_hold(); /* the library connects in there */
    simba__zk_addresses_lock();
    errno = 0;
    const int rc = zookeeper_interest(session->zh, &fd, &interest, &wait);
    simba__zk_addresses_unlock();
    if (down && !is_down(session)) {
        simba__zk_live_attempt(&session->live, now);
        fcntl(fd, F_SETFD, FD_CLOEXEC); /* the library may be built without that */
    }
    if (rc != ZOK)
        note_failure(session, errno);
    if (down || rc != ZOK)
        simba__zk_wire_drop(&session->wire);
    if (!look_at_state(session))
        return;
    if (session->wire.stale && rc == ZOK && fd >= 0) {
        session->wire.stale = false;
        simba__zk_dissolve(fd);
    }
    int64_t wait_ns = wait.tv_sec * INT64_C(1000000000) + wait.tv_usec * INT64_C(1000);
    if (rc == ZOK && fd >= 0 && !simba__zk_wire_listen(&session->wire, fd, interest) && wait_ns > AGAIN_MS * MS)
        wait_ns = AGAIN_MS * MS;
    /* The library pauses for a part of the timeout that the last server named, whatever that was. */
    if (fd < 0 && wait_ns > session->options->session_ms * MS / PAUSES)
        wait_ns = session->options->session_ms * MS / PAUSES;
    session->host->timer_set(session->host, &session->timer, after(now, wait_ns > MS ? wait_ns : MS));
    session->wire.gathered = true; /* the library may have sent something of its own */
    simba__zk_wire_push(&session->wire);
    set_beat(session);
    look_at_failures(session);
}

/* One call of the library takes one message off the socket. Take all that have come, but not for ever if the server
 * sends more than the client can take: the rest is reported again. */
static void process(zk_session *session, int events)
{
    enum { MOST = 1000 };
    int rc = ZOK;
    for (int i = 0; i < MOST && rc == ZOK && session->zh && !session->closing; i++) {
        errno = 0;
        rc = simba__zk_wire_take(&session->wire, session->zh, events);
        if (rc == ZOK)
            session->heard = session->host->now(session->host);
        else if (rc != ZNOTHING)
            note_failure(session, errno);
        if (!look_at_state(session))
            return;
        events = ZOOKEEPER_READ;
    }
}

/* The socket may not have taken all requests, and only the library knows. It does take fewer than these. */
enum { MANY_CALLS = 16 };

static void on_socket(simba_io *socket, unsigned events)
{
    zk_session *session = (zk_session *)(void *)((char *)socket - offsetof(zk_session, wire.socket));
    process(session, (events & SIMBA_READABLE ? ZOOKEEPER_READ : 0) | (events & SIMBA_WRITABLE ? ZOOKEEPER_WRITE : 0));
    if (events & SIMBA_WRITABLE || !simba__zk_is_connected(session))
        pump(session);
    else
        simba__zk_session_flush(session);
}

static void on_timer(simba_timer *timer, simba_local now)
{
    zk_session *session = (zk_session *)(void *)((char *)timer - offsetof(zk_session, timer));
    (void)now;
    if (session->zh)
        pump(session);
    else if (!session->closing)
        simba__resolver_start(&session->resolver);
}

/* --- signs of life ----------------------------------------------------------------------------------- */

static zk_answer answer_of(int rc)
{
    switch (rc) {
    case ZBADVERSION:
    case ZNOAUTH:
        return ZK_ANSWER_AGREED;
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZSESSIONEXPIRED:
    case ZSESSIONMOVED:
    case ZRUNTIMEINCONSISTENCY:
    case ZAUTHFAILED:
        return ZK_ANSWER_LOST;
    default:
        return ZK_ANSWER_REFUSED;
    }
}

static void on_beat(int rc, const struct Stat *stat, const void *data)
{
    (void)stat;
    struct beat *sent = (struct beat *)(uintptr_t)data;
    const struct beat beat = *sent;
    simba__free(sent);
    if (rc == ZCLOSING)
        return; /* this is the thread that closes the handle, and another session may be under way */
    zk_session *session = beat.session;
    simba_host *host = session->host;
    simba__zk_expected_answered(&session->wire.expected);
    if (answer_of(rc) != ZK_ANSWER_LOST)
        session->in_vain = 0;
    if (simba__zk_live_answer(&session->live, host->now(host), beat.connection, answer_of(rc)))
        host->session(host, session->live.proven, session->live.timeout_ns / SIMBA__NS_PER_MS);
}

/* Send a beat, unless there is no memory for it. */
static void send_beat(zk_session *session, simba_local now)
{
    struct beat *beat = simba__malloc(sizeof *beat);
    if (!beat || !simba__zk_wire_begin(&session->wire, ZK_REPLY_STAT)) {
        simba__free(beat);
        return;
    }
    *beat = (struct beat){session, session->live.connection};
    const int rc = zoo_aset(session->zh, "/", "", 0, ZK_NO_SUCH_VERSION, on_beat, beat);
    simba__zk_wire_made(&session->wire, rc);
    if (rc == ZOK)
        simba__zk_live_beat(&session->live, now);
    else
        simba__free(beat);
}

/* The library waits for two thirds of the timeout before it tries another server. That is too long. */
static void give_up_connection(zk_session *session)
{
    if (simba__zk_is_connected(session))
        session->host->log(session->host, SIMBA_LOG_INFO, "zookeeper %s: the server is silent, trying another",
                           session->options->where);
    if (session->wire.socket.fd < 0)
        return;
    simba__zk_dissolve(session->wire.socket.fd);
    process(session, ZOOKEEPER_READ | ZOOKEEPER_WRITE);
}

void simba__zk_session_doubt(zk_session *session, simba_local since)
{
    if (!session->zh || session->closing || session->heard.ns > since.ns)
        return;
    give_up_connection(session);
    pump(session);
}

static void on_beat_due(simba_timer *timer, simba_local now)
{
    zk_session *session = (zk_session *)(void *)((char *)timer - offsetof(zk_session, beat));
    if (!session->zh || session->closing)
        return;
    switch (simba__zk_live_advise(&session->live, now)) {
    case ZK_WAIT:
        break;
    case ZK_SEND_BEAT:
        send_beat(session, now);
        break;
    case ZK_GIVE_UP:
        give_up_connection(session);
        break;
    }
    pump(session); /* this also sets the timer */
}

/* --- beginning and end -------------------------------------------------------------------------------- */

static void ignore_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)type, (void)state, (void)path, (void)context; /* see look_at_state */
}

/* The library logs to standard error, through buffers that all threads share. The store itself logs the events
 * that matter. */
static void silence_library(void)
{
    zoo_set_debug_level((ZooLogLevel)0);
}

static void begin(zk_session *session, const char *servers)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const zk_options *options = session->options;
    pthread_once(&once, silence_library);
    simba__zk_addresses_lock();
    session->zh = zookeeper_init(servers, ignore_event, options->session_ms, NULL, NULL, ZOO_NO_LOG_CLIENTENV);
    simba__zk_addresses_unlock();
    simba__zk_live_begin(&session->live, options->session_ms);
    session->in_vain = 0;
    session->wire.expected.count = 0;
    if (session->zh && options->digest)
        zoo_add_auth(session->zh, "digest", options->digest, (int)strlen(options->digest), NULL, NULL);
}

/* The addresses in the form that the library takes. NULL: there are none, or there is no memory. */
static char *list_servers(const simba__resolver *resolver)
{
    enum { ONE = sizeof resolver->targets[0].address + 8 };
    char *servers = resolver->count ? simba__malloc(resolver->count * ONE) : NULL;
    for (size_t i = 0, length = 0; servers && i < resolver->count; i++)
        length += (size_t)sprintf(servers + length, "%s%s:%d", i ? "," : "", resolver->targets[i].address,
                                  resolver->targets[i].host->port);
    return servers;
}

static void resolved(simba__resolver *resolver)
{
    zk_session *session = (zk_session *)(void *)((char *)resolver - offsetof(zk_session, resolver));
    simba_host *host = session->host;
    if (session->closing) {
        closed_if_over(session);
        return;
    }
    char *servers = list_servers(resolver);
    if (servers)
        session->addresses = resolver->count;
    if (servers && session->zh) {
        simba__zk_addresses_lock();
        zoo_set_servers(session->zh, servers);
        simba__zk_addresses_unlock();
    } else if (servers)
        begin(session, servers);
    simba__free(servers);
    if (!session->zh) {
        snprintf(session->cause, sizeof session->cause, "%s", resolver->count ? "out of memory" : resolver->cause);
        session->events->unavailable(session);
        host->timer_set(host, &session->timer, after(host->now(host), 500 * MS));
        return;
    }
    zoo_set_servers_resolution_delay(session->zh, -1);
    pump(session);
}

void simba__zk_session_want(zk_session *session)
{
    if (session->wanted)
        return;
    session->wanted = true;
    simba__resolver_start(&session->resolver);
}

void simba__zk_session_flush(zk_session *session)
{
    simba__zk_wire_push(&session->wire);
    if (simba__zk_is_connected(session) &&
        (session->wire.expected.count > MANY_CALLS || zoo_state(session->zh) != ZOO_CONNECTED_STATE))
        pump(session);
}

void simba__zk_session_clock(zk_session *session, int64_t ms)
{
    session->clock_ms = ms - session->host->epoch_us(session->host) / 1000;
}

int64_t simba__zk_session_now_ms(const zk_session *session)
{
    return session->host->epoch_us(session->host) / 1000 + session->clock_ms;
}

int simba__zk_session_init(zk_session *session, simba_host *host, const zk_options *options,
                           const zk_session_events *events)
{
    *session = (zk_session){.host = host, .options = options, .events = events};
    session->resolver = (simba__resolver){
        .host = host, .hosts = options->hosts, .host_count = options->host_count, .resolved = resolved};
    session->timer.fire = on_timer;
    session->beat.fire = on_beat_due;
    session->wire = (zk_wire){.host = host, .where = options->where, .socket = {.ready = on_socket, .fd = -1}};
    const int rc = host->timer_add(host, &session->timer);
    return rc < 0 ? rc : host->timer_add(host, &session->beat);
}

void simba__zk_session_close(zk_session *session)
{
    session->closing = true;
    session->host->timer_clear(session->host, &session->timer);
    session->host->timer_clear(session->host, &session->beat);
    if (session->zh)
        simba__zk_live_lose(&session->live);
    simba__zk_wire_drop(&session->wire);
    simba__resolver_give_up(&session->resolver);
    if (session->zh)
        close_handle(session);
    closed_if_over(session);
}

void simba__zk_session_fini(zk_session *session)
{
    simba__zk_expected_fini(&session->wire.expected);
}
