/* See reactor.h. */
#include "net/reactor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
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

static int fail_system(const char *what, simba_error *err)
{
    const int error = errno;
    return simba__fail(err, code_of(error), "cannot make %s: %s", what, strerror(error));
}

static bool put(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}; /* NULL: none of the store's */
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0;
}

static int make_set(const simba__reactor *reactor, int *ret_set, int *ret_wakeup, simba_error *err)
{
    *ret_set = epoll_create1(EPOLL_CLOEXEC);
    if (*ret_set < 0)
        return fail_system("an epoll instance", err);
    *ret_wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (*ret_wakeup < 0)
        return fail_system("an eventfd", err);
    if (!put(*ret_set, reactor->timer) || !put(*ret_set, *ret_wakeup))
        return fail_system("an entry in an epoll instance", err);
    return 0;
}

int simba__reactor_init(simba__reactor *reactor, bool with_loop, simba_error *err)
{
    *reactor = (simba__reactor){true, -1, -1, -1, -1, -1, NULL, NEVER};
    reactor->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (reactor->timer < 0)
        return fail_system("a timer", err);
    const int rc = make_set(reactor, &reactor->set, &reactor->wakeup, err);
    return rc == 0 && with_loop ? make_set(reactor, &reactor->loop_set, &reactor->loop_wakeup, err) : rc;
}

void simba__reactor_fini(simba__reactor *reactor)
{
    if (!reactor->ready)
        return;
    const int fds[] = {reactor->loop_set, reactor->set, reactor->timer, reactor->wakeup, reactor->loop_wakeup};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    reactor->ready = false;
}

/* --- descriptors ---------------------------------------------------------------------------------- */

static int control(const simba__reactor *reactor, int how, simba_io *io, unsigned interest)
{
    struct epoll_event event = {.data.ptr = io};
    event.events |= interest & SIMBA_READABLE ? (uint32_t)EPOLLIN : 0;
    event.events |= interest & SIMBA_WRITABLE ? (uint32_t)EPOLLOUT : 0;
    const bool done = epoll_ctl(reactor->set, how, io->fd, &event) == 0 &&
                      (reactor->loop_set < 0 || epoll_ctl(reactor->loop_set, how, io->fd, &event) == 0);
    return done ? 0 : code_of(errno);
}

int simba__reactor_add(simba__reactor *reactor, simba_io *io)
{
    io->next = reactor->first;
    reactor->first = io;
    const int rc = control(reactor, EPOLL_CTL_ADD, io, io->interest);
    if (rc < 0)
        simba__reactor_remove(reactor, io);
    return rc;
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
    assert(io->fd < 0 || fcntl(io->fd, F_GETFD) >= 0); /* otherwise it could be somebody else's by now */
    /* Closing the descriptor would not be enough: a forked process has it too. */
    epoll_ctl(reactor->set, EPOLL_CTL_DEL, io->fd, NULL);
    if (reactor->loop_set >= 0)
        epoll_ctl(reactor->loop_set, EPOLL_CTL_DEL, io->fd, NULL);
}

/* --- the timer and the wakeup descriptors -------------------------------------------------------- */

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

void simba__wakeup_raise(int wakeup)
{
    if (wakeup >= 0)
        (void)!write(wakeup, &(uint64_t){1}, sizeof(uint64_t));
}

void simba__wakeup_clear(int wakeup)
{
    uint64_t count;
    if (wakeup >= 0)
        (void)!read(wakeup, &count, sizeof count);
}

/* --- waiting and taking --------------------------------------------------------------------------- */

enum { MOST = 64 }; /* descriptors at a time */

void simba__reactor_wait(const simba__reactor *reactor, int timeout_ms)
{
    struct epoll_event events[MOST];
    const int count = epoll_wait(reactor->set, events, MOST, timeout_ms);
    for (int i = 0; i < count; i++)
        if (!events[i].data.ptr)
            simba__wakeup_clear(reactor->wakeup);
}

bool simba__reactor_take(simba__reactor *reactor)
{
    struct epoll_event events[MOST];
    const int count = epoll_wait(reactor->set, events, MOST, 0);
    bool fired = false;
    for (int i = 0; i < count; i++) {
        uint64_t expirations;
        /* An earlier `ready` of this pass may have removed it: only look at those in the list. */
        simba_io *io = events[i].data.ptr ? *find(reactor, events[i].data.ptr) : NULL;
        /* An owner that waits for anything else learns of an error through that. */
        const uint32_t told = events[i].events;
        const bool trouble = told & (EPOLLERR | EPOLLHUP);
        const unsigned ready = (told & EPOLLIN || trouble ? (unsigned)SIMBA_READABLE : 0) |
                               (told & EPOLLOUT || trouble ? (unsigned)SIMBA_WRITABLE : 0);
        const unsigned what = io ? ready & io->interest : 0;
        if (what)
            io->ready(io, what);
        if (!events[i].data.ptr && read(reactor->timer, &expirations, sizeof expirations) > 0) {
            fired = true;
            reactor->armed = NEVER;
        }
    }
    return fired;
}
