/* See reactor.h. */
#include "net/reactor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "util/error.h"

#define NEVER ((simba_local){INT64_MAX})

static int code_of(int error)
{
    return error == ENOMEM ? SIMBA_ENOMEM : SIMBA_ESYSTEM;
}

/* --- lifetime ------------------------------------------------------------------------------------- */

static int fail_system(const char *what, simba_error *err)
{
    const int error = errno;
    return simba__fail(err, code_of(error), "cannot make %s: %s", what, strerror(error));
}

static bool put(int set, const int *fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)fd};
    return epoll_ctl(set, EPOLL_CTL_ADD, *fd, &event) == 0;
}

static int make_waitset(const simba__reactor *reactor, simba__waitset *waitset, simba_error *err)
{
    waitset->set = epoll_create1(EPOLL_CLOEXEC);
    if (waitset->set < 0)
        return fail_system("an epoll instance", err);
    waitset->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (waitset->bell < 0)
        return fail_system("an eventfd", err);
    if (!put(waitset->set, &reactor->timer) || !put(waitset->set, &waitset->bell))
        return fail_system("an entry in an epoll instance", err);
    return 0;
}

int simba__reactor_init(simba__reactor *reactor, bool with_loop, simba_error *err)
{
    *reactor = (simba__reactor){.ready = true, .threads = {-1, -1, false}, .loop = {-1, -1, false}, .armed = NEVER};
    reactor->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (reactor->timer < 0)
        return fail_system("a timer", err);
    const int rc = make_waitset(reactor, &reactor->threads, err);
    return rc < 0 || !with_loop ? rc : make_waitset(reactor, &reactor->loop, err);
}

void simba__reactor_fini(simba__reactor *reactor)
{
    if (!reactor->ready)
        return;
    const int fds[] = {reactor->threads.set, reactor->threads.bell, reactor->loop.set, reactor->loop.bell,
                       reactor->timer};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    reactor->ready = false;
}

/* --- ios -------------------------------------------------------------------------------------- */

static int control(const simba__reactor *reactor, int how, simba_io *io, unsigned interest)
{
    struct epoll_event event = {.events = EPOLLET, .data.ptr = io};
    event.events |= interest & SIMBA_READABLE ? (uint32_t)EPOLLIN : 0;
    event.events |= interest & SIMBA_WRITABLE ? (uint32_t)EPOLLOUT : 0;
    event.events |= interest & SIMBA_ENDED ? (uint32_t)EPOLLRDHUP : 0;
    if (epoll_ctl(reactor->threads.set, how, io->fd, &event) != 0)
        return code_of(errno);
    if (reactor->loop.set < 0 || epoll_ctl(reactor->loop.set, how, io->fd, &event) == 0)
        return 0;
    const int code = code_of(errno);
    if (how == EPOLL_CTL_ADD)
        epoll_ctl(reactor->threads.set, EPOLL_CTL_DEL, io->fd, NULL);
    return code;
}

int simba__reactor_add(simba__reactor *reactor, simba_io *io)
{
    const int rc = control(reactor, EPOLL_CTL_ADD, io, io->interest);
    if (rc < 0)
        return rc;
    io->looked = reactor->looks;
    io->next = reactor->first;
    reactor->first = io;
    reactor->answering += io->answers;
    return 0;
}

int simba__reactor_change(simba__reactor *reactor, simba_io *io, unsigned interest)
{
    const int rc = control(reactor, EPOLL_CTL_MOD, io, interest);
    if (rc == 0)
        io->interest = interest;
    return rc;
}

static simba_io **find(simba__reactor *reactor, const simba_io *io)
{
    simba_io **link = &reactor->first;
    while (*link && *link != io)
        link = &(*link)->next;
    return link;
}

void simba__reactor_remove(simba__reactor *reactor, simba_io *io)
{
    simba_io **link = find(reactor, io);
    if (!*link)
        return;
    *link = io->next;
    assert(reactor->answering >= io->answers);
    assert(io->fd < 0 || fcntl(io->fd, F_GETFD) >= 0); /* otherwise it could be somebody else's by now */
    reactor->answering -= io->answers;
    /* Closing the descriptor would not be enough: a forked process has it too. */
    epoll_ctl(reactor->threads.set, EPOLL_CTL_DEL, io->fd, NULL);
    if (reactor->loop.set >= 0)
        epoll_ctl(reactor->loop.set, EPOLL_CTL_DEL, io->fd, NULL);
}

/* --- the timer and the bell ----------------------------------------------------------------------- */

bool simba__reactor_arm(simba__reactor *reactor, simba_local at)
{
    /* An earlier time than the wanted one needs no system call: the timer fires in vain, and is set then. */
    if (at.ns >= reactor->armed.ns)
        return true;
    const int64_t ns = at.ns > 0 ? at.ns : 1; /* 0 would disarm it */
    const struct itimerspec when = {.it_value = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};
    if (timerfd_settime(reactor->timer, TFD_TIMER_ABSTIME, &when, NULL) < 0)
        return false;
    reactor->armed = at;
    return true;
}

void simba__waitset_ring(const simba__waitset *waitset)
{
    if (waitset->bell >= 0)
        (void)!write(waitset->bell, &(uint64_t){1}, sizeof(uint64_t));
}

void simba__waitset_hush(simba__waitset *waitset)
{
    uint64_t count;
    waitset->rung = false;
    if (waitset->bell >= 0)
        (void)!read(waitset->bell, &count, sizeof count);
}

/* --- waiting and taking --------------------------------------------------------------------------- */

/* An owner that waits for anything else learns of an error through that. */
static unsigned readiness(bool in, bool out, bool end, bool trouble)
{
    return (in || trouble ? (unsigned)SIMBA_READABLE : 0) | (out || trouble ? (unsigned)SIMBA_WRITABLE : 0) |
           (end || trouble ? (unsigned)SIMBA_ENDED : 0);
}

simba__arrivals simba__reactor_wait(const simba__reactor *reactor, const simba__waitset *at, int timeout_ms)
{
    struct epoll_event events[SIMBA__ARRIVALS_MOST];
    const int count = epoll_wait(at->set, events, SIMBA__ARRIVALS_MOST, timeout_ms);
    simba__arrivals arrivals = {.any = count != 0};
    for (int i = 0; i < count; i++) {
        const uint32_t what = events[i].events;
        if (events[i].data.ptr == &reactor->timer) {
            arrivals.timer = true;
        } else if (events[i].data.ptr == &at->bell) {
            arrivals.bell = true;
        } else {
            arrivals.ios[arrivals.count].io = events[i].data.ptr;
            arrivals.ios[arrivals.count++].events =
                readiness(what & EPOLLIN, what & EPOLLOUT, what & EPOLLRDHUP, what & (EPOLLERR | EPOLLHUP));
        }
    }
    return arrivals;
}

/* An io may have been removed since, and be gone: only look at those in the list. */
static void tell(simba__reactor *reactor, const simba_io *whom, unsigned events)
{
    simba_io *io = *find(reactor, whom);
    if (io && events & io->interest)
        io->ready(io, events & io->interest);
}

void simba__reactor_take(simba__reactor *reactor, const simba__arrivals *arrivals)
{
    uint64_t expirations;
    if (arrivals->timer && read(reactor->timer, &expirations, sizeof expirations) > 0)
        reactor->armed = NEVER; /* otherwise another thread was quicker */
    for (int i = 0; i < arrivals->count; i++)
        tell(reactor, arrivals->ios[i].io, arrivals->ios[i].events);
}

/* Handles so many at a time; `ready` may add and remove as it likes. */
enum { LOOK_AT = 32 };

static nfds_t gather(simba__reactor *reactor, simba_io **ios, struct pollfd *fds)
{
    nfds_t count = 0;
    for (simba_io *io = reactor->first; io && count < LOOK_AT; io = io->next) {
        if (io->looked == reactor->looks)
            continue;
        io->looked = reactor->looks;
        ios[count] = io;
        const int events = (io->interest & SIMBA_READABLE ? POLLIN : 0) |
                           (io->interest & SIMBA_WRITABLE ? POLLOUT : 0) | (io->interest & SIMBA_ENDED ? POLLRDHUP : 0);
        fds[count++] = (struct pollfd){.fd = io->fd, .events = (short)events};
    }
    return count;
}

void simba__reactor_look(simba__reactor *reactor)
{
    simba_io *ios[LOOK_AT];
    struct pollfd fds[LOOK_AT];
    reactor->looks++;
    for (nfds_t count = gather(reactor, ios, fds); count > 0; count = gather(reactor, ios, fds)) {
        if (poll(fds, count, 0) <= 0)
            continue;
        for (nfds_t i = 0; i < count; i++) {
            const int what = fds[i].revents;
            if (what)
                tell(reactor, ios[i],
                     readiness(what & POLLIN, what & POLLOUT, what & POLLRDHUP, what & (POLLERR | POLLHUP | POLLNVAL)));
        }
    }
}
