/* See listener.h. */
#include "health/listener.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "health/http.h"

enum {
    CONNECTIONS_MAX = 16,
    ACCEPTED_PER_TURN = 4,
    TICK_MS = 250,          /* how often the listener looks for connections whose time is over */
    LINGER_MAX = 64 * 1024, /* bytes that somebody may send and nobody reads */
};
#define CONNECTION_NS (INT64_C(2) * 1000000000)

/* What a connection waits for. */
typedef enum stage {
    STAGE_FREE,
    STAGE_REQUEST,
    STAGE_ANSWER, /* the rest of it is to be written */
    STAGE_END,    /* of the other side: to close before it has read would take the answer from it */
} stage;

typedef struct connection {
    stage stage;
    int fd;
    int64_t end_ns; /* closed then, at the latest */
    char request[HTTP_REQUEST_MAX];
    size_t length; /* of the request, or of the bytes that were thrown away */
    char *answer;
    size_t answer_length, written;
} connection;

static struct {
    int poll;   /* epoll; -1: closed */
    int socket; /* listens */
    int timer;
    address address;
    void (*look)(health_view *ret_view);
    connection connections[CONNECTIONS_MAX];
} listener = {.poll = -1, .socket = -1, .timer = -1};

/* Which one of the sources an event is about. */
enum { SOURCE_LISTEN = CONNECTIONS_MAX, SOURCE_TIMER };

static bool attend(int operation, int fd, uint32_t events, uint32_t source)
{
    struct epoll_event event = {.events = events, .data = {.u32 = source}};
    return epoll_ctl(listener.poll, operation, fd, &event) == 0;
}

/* --- connections ---------------------------------------------------------------------------------- */

/* A supervisor that was forked meanwhile may have the descriptor too: shut it down, so that it ends for the other side
 * and for the epoll as well. */
static void end_connection(connection *c)
{
    if (c->stage == STAGE_FREE)
        return;
    epoll_ctl(listener.poll, EPOLL_CTL_DEL, c->fd, NULL);
    shutdown(c->fd, SHUT_RDWR);
    close(c->fd);
    free(c->answer);
    *c = (connection){.stage = STAGE_FREE, .fd = -1};
}

static bool would_block(ssize_t done)
{
    return done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static uint32_t source_of(const connection *c)
{
    return (uint32_t)(c - listener.connections);
}

static void write_answer(connection *c)
{
    const ssize_t done = send(c->fd, c->answer + c->written, c->answer_length - c->written, MSG_NOSIGNAL);
    if (done < 0 && !would_block(done)) {
        end_connection(c);
        return;
    }
    c->written += done > 0 ? (size_t)done : 0;
    if (c->written < c->answer_length)
        return;
    shutdown(c->fd, SHUT_WR);
    c->stage = STAGE_END;
    c->length = 0;
    attend(EPOLL_CTL_MOD, c->fd, EPOLLIN, source_of(c));
}

static void read_request(connection *c)
{
    const ssize_t got = recv(c->fd, c->request + c->length, sizeof c->request - c->length, 0);
    if (got == 0 || (got < 0 && !would_block(got))) {
        end_connection(c);
        return;
    }
    c->length += got > 0 ? (size_t)got : 0;
    const http_request request = http_parse(c->request, c->length);
    if (request.page == HTTP_INCOMPLETE)
        return;
    health_view view;
    listener.look(&view); /* now, and not when the connection came */
    c->answer = http_answer(&request, &view, &c->answer_length);
    if (c->answer == NULL) {
        end_connection(c);
        return;
    }
    c->stage = STAGE_ANSWER;
    attend(EPOLL_CTL_MOD, c->fd, EPOLLOUT, source_of(c));
    write_answer(c);
}

static void read_rest(connection *c)
{
    const ssize_t got = recv(c->fd, c->request, sizeof c->request, 0);
    c->length += got > 0 ? (size_t)got : 0;
    if (got == 0 || (got < 0 && !would_block(got)) || c->length > LINGER_MAX)
        end_connection(c);
}

static void serve(connection *c)
{
    switch (c->stage) {
    case STAGE_FREE:
        break;
    case STAGE_REQUEST:
        read_request(c);
        break;
    case STAGE_ANSWER:
        write_answer(c);
        break;
    case STAGE_END:
        read_rest(c);
        break;
    }
}

/* --- time ----------------------------------------------------------------------------------------- */

static void tick(bool on)
{
    const struct itimerspec every = {.it_value = {.tv_nsec = on ? TICK_MS * 1000000L : 0},
                                     .it_interval = {.tv_nsec = on ? TICK_MS * 1000000L : 0}};
    timerfd_settime(listener.timer, 0, &every, NULL);
}

static void on_tick(void)
{
    const int64_t now_ns = clock_boot_ns();
    uint64_t times;
    bool any = false;
    (void)!read(listener.timer, &times, sizeof times);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        connection *c = &listener.connections[i];
        if (c->stage != STAGE_FREE && now_ns >= c->end_ns)
            end_connection(c);
        any = any || c->stage != STAGE_FREE;
    }
    attend(EPOLL_CTL_MOD, listener.socket, EPOLLIN, SOURCE_LISTEN); /* see accept_some */
    if (!any)
        tick(false);
}

/* --- who comes ------------------------------------------------------------------------------------ */

static connection *free_place(void)
{
    connection *oldest = &listener.connections[0];
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        connection *c = &listener.connections[i];
        if (c->stage == STAGE_FREE)
            return c;
        oldest = c->end_ns < oldest->end_ns ? c : oldest;
    }
    end_connection(oldest);
    return oldest;
}

static void accept_some(void)
{
    for (int i = 0; i < ACCEPTED_PER_TURN; i++) {
        const int fd = accept4(listener.socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            /* Without a free descriptor the connection stays in the queue: looking again at once would never end. */
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                attend(EPOLL_CTL_MOD, listener.socket, 0, SOURCE_LISTEN);
                tick(true);
            }
            return;
        }
        connection *c = free_place();
        *c = (connection){.stage = STAGE_REQUEST, .fd = fd, .end_ns = clock_boot_ns() + CONNECTION_NS};
        if (!attend(EPOLL_CTL_ADD, fd, EPOLLIN, source_of(c)))
            end_connection(c);
        tick(true);
    }
}

void listener_turn(void)
{
    struct epoll_event events[CONNECTIONS_MAX];
    const int count = listener.poll >= 0 ? epoll_wait(listener.poll, events, CONNECTIONS_MAX, 0) : 0;
    bool come = false;
    bool ticked = false;
    for (int i = 0; i < count; i++) {
        come = come || events[i].data.u32 == SOURCE_LISTEN;
        ticked = ticked || events[i].data.u32 == SOURCE_TIMER;
        if (events[i].data.u32 < CONNECTIONS_MAX)
            serve(&listener.connections[events[i].data.u32]);
    }
    /* These end connections, and others take their places: so do it after the events of this turn. */
    if (ticked)
        on_tick();
    if (come)
        accept_some();
}

/* --- opening -------------------------------------------------------------------------------------- */

int listener_fd(void)
{
    return listener.poll;
}

static void close_all(void)
{
    int *const fds[] = {&listener.poll, &listener.socket, &listener.timer};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

void listener_close(void)
{
    if (listener.poll < 0)
        return;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        end_connection(&listener.connections[i]);
    if (address_path(&listener.address) != NULL)
        unlink(address_path(&listener.address));
    close_all();
}

/* If we are killed, the supervisor outlives us for a moment: clients must be refused then, not kept waiting. */
static void leave_to_parent(void)
{
    for (size_t i = 0; listener.poll >= 0 && i < CONNECTIONS_MAX; i++)
        if (listener.connections[i].stage != STAGE_FREE)
            close(listener.connections[i].fd);
    close_all();
}

static int refused(const char *command, const char *where, int error)
{
    return cli_fail(command, error == EACCES || error == EPERM || error == EROFS ? CLI_NO_PERMISSION : CLI_CONFIG,
                    "--status-listen cannot listen at %s: %s.", where, strerror(error));
}

int listener_open(const char *command, const char *where, void (*look)(health_view *ret_view))
{
    if (where == NULL)
        return CLI_GO;
    if (!address_parse(where, &listener.address) || address_port(&listener.address) == 0)
        return cli_usage_error(
            command,
            "--status-listen wants a port, as 8080 or 192.0.2.7:8080 or [::1]:8080, or the path of a "
            "socket, not \"%s\"",
            where);
    const int fd = address_listen(&listener.address);
    if (fd < 0)
        return refused(command, where, -fd);
    listener.socket = fd;
    listener.look = look;
    listener.poll = epoll_create1(EPOLL_CLOEXEC);
    listener.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (listener.poll >= 0 && listener.timer >= 0 && attend(EPOLL_CTL_ADD, fd, EPOLLIN, SOURCE_LISTEN) &&
        attend(EPOLL_CTL_ADD, listener.timer, EPOLLIN, SOURCE_TIMER) &&
        pthread_atfork(NULL, NULL, leave_to_parent) == 0)
        return CLI_GO;
    return cli_fail(command, CLI_SYSTEM, "--status-listen cannot be served: %s.", strerror(errno));
}
