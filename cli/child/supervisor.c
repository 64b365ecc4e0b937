/* See supervisor.h. Everything that runs after fork here does only what is allowed between fork and exec: this process
 * had threads, and their locks may be held for ever. */
#include "child/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child/descendants.h"
#include "clock.h"

#define NS_PER_S INT64_C(1000000000)

/* --- the supervisor's side ------------------------------------------------------------------------ */

typedef struct supervision {
    const supervisor_plan *plan;
    const cgroup *group;
    _Atomic int64_t *deadline_ns;
    int orders;
    int reports;
    int children; /* signalfd for SIGCHLD */
    int timer;
    int failure; /* from the command until it has become one: its errno, or nothing; -1 afterwards */
    pid_t command;
    bool ended;
    bool told_left;
} supervision;

/* False: nobody reads, because our owner is dead. The orders say so too. */
static bool report(const supervision *v, supervisor_word word, int value)
{
    const supervisor_report said = {word, value};
    return write(v->reports, &said, sizeof said) == (ssize_t)sizeof said;
}

typedef enum ending {
    ENDING_ALL_DEAD,   /* the command has ended, and so has all that it started */
    ENDING_ORDERED,    /* our owner wants all of it killed */
    ENDING_TOO_LATE,   /* the deadline has passed */
    ENDING_OWNER_GONE, /* our owner is dead */
} ending;

static void finish(supervision *v, ending why)
{
    if (why != ENDING_ALL_DEAD) {
        const int status = descendants_kill(v->group, v->ended ? 0 : v->command);
        if (!v->ended)
            report(v, SUPERVISOR_ENDED, status);
    }
    cgroup_remove(v->group);
    /* Nothing acts under the grant any more, and nobody is left to give it back. */
    if (!report(v, SUPERVISOR_GONE, why == ENDING_TOO_LATE) && v->plan->give_back != NULL)
        give_back_exec(v->plan->give_back);
    _exit(0);
}

static void become_command(const supervision *v, pid_t parent, int failure)
{
    setpgid(0, 0);
    /* We are in the background until this is done; SIGTTOU, which the kernel would send, is blocked. */
    if (v->plan->foreground)
        tcsetpgrp(STDIN_FILENO, getpid());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || clock_boot_ns() >= atomic_load(v->deadline_ns))
        _exit(1);
    sigprocmask(SIG_SETMASK, v->plan->mask, NULL);
    execvpe(v->plan->argv[0], v->plan->argv, v->plan->envp);
    const int error = errno;
    if (write(failure, &error, sizeof error) < 0)
        _exit(1);
    _exit(127);
}

static void start_command(supervision *v)
{
    int ends[2];
    const pid_t self = getpid();
    /* Not fork(): fork handlers of libraries may close descriptor numbers that mean something else by now. */
    v->command = pipe2(ends, O_CLOEXEC) == 0 ? cgroup_fork(v->group) : -1;
    if (v->command == 0)
        become_command(v, self, ends[1]);
    if (v->command < 0) {
        report(v, SUPERVISOR_NO_EXEC, errno);
        _exit(1);
    }
    setpgid(v->command, v->command); /* parent and child both do it: whichever runs first, the group is there */
    close(ends[1]);
    v->failure = ends[0];
}

static void hear_of_exec(supervision *v)
{
    int error = 0;
    if (v->failure < 0)
        return;
    if (read(v->failure, &error, sizeof error) == (ssize_t)sizeof error) {
        report(v, SUPERVISOR_NO_EXEC, error);
        waitpid(v->command, NULL, 0);
        _exit(1);
    }
    close(v->failure);
    v->failure = -1;
    report(v, SUPERVISOR_STARTED, v->command);
}

static void take_orders(supervision *v)
{
    unsigned char orders[64];
    const ssize_t got = read(v->orders, orders, sizeof orders);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        finish(v, ENDING_OWNER_GONE);
    for (ssize_t i = 0; i < got; i++) {
        if (orders[i] == SIGKILL)
            finish(v, ENDING_ORDERED);
        if (v->ended) {
            descendants_signal(orders[i]);
            continue;
        }
        /* The command may have left the group that was made for it, and others may still be in there. */
        kill(-v->command, orders[i]);
        if (getpgid(v->command) != v->command)
            kill(v->command, orders[i]);
    }
}

static void reap(supervision *v)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    while (read(v->children, &info, sizeof info) > 0) {
    }
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid != v->command)
            continue;
        hear_of_exec(v);
        if (WIFSTOPPED(status)) {
            report(v, SUPERVISOR_STOPPED, WSTOPSIG(status));
        } else {
            v->ended = true;
            report(v, SUPERVISOR_ENDED, status);
        }
    }
    if (pid < 0 && errno == ECHILD)
        finish(v, ENDING_ALL_DEAD);
    if (v->ended && !v->told_left)
        report(v, SUPERVISOR_LEFT, 0);
    v->told_left = v->ended;
}

/* The deadline may have moved since the timer was set; look at it again before doing anything. */
static void look_at_clock(supervision *v)
{
    const int64_t until_ns = atomic_load(v->deadline_ns);
    uint64_t times;
    if (clock_boot_ns() >= until_ns)
        finish(v, ENDING_TOO_LATE);
    if (read(v->timer, &times, sizeof times) < 0 && errno != EAGAIN)
        finish(v, ENDING_TOO_LATE); /* a supervisor without a clock is none */
    const struct itimerspec at = {.it_value = {until_ns / NS_PER_S, until_ns % NS_PER_S}};
    timerfd_settime(v->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static _Noreturn void supervise(const supervisor_plan *plan, const cgroup *group, _Atomic int64_t *deadline_ns,
                                int orders, int reports)
{
    supervision v = {.plan = plan, .group = group, .deadline_ns = deadline_ns, .orders = orders, .reports = reports};
    sigset_t all;
    sigset_t child;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    /* Neither the terminal's signals nor a `pkill simba` reach the watchs. */
    setpgid(0, 0);
    prctl(PR_SET_NAME, "run-supervisor");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* The process that started us may have ignored its children; here they matter. */
    signal(SIGCHLD, SIG_DFL);

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    v.children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    v.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (v.children < 0 || v.timer < 0) {
        report(&v, SUPERVISOR_NO_EXEC, errno);
        _exit(1);
    }
    start_command(&v);
    for (;;) {
        struct pollfd fds[] = {{.fd = v.timer, .events = POLLIN},
                               {.fd = v.orders, .events = POLLIN},
                               {.fd = v.children, .events = POLLIN},
                               {.fd = v.failure, .events = POLLIN}};
        look_at_clock(&v);
        if (poll(fds, 4, -1) < 0)
            continue;
        if (fds[3].revents != 0)
            hear_of_exec(&v);
        if (fds[2].revents != 0)
            reap(&v);
        if (fds[1].revents != 0)
            take_orders(&v);
    }
}

/* --- our side ----------------------------------------------------------------------------------- */

int supervisor_start(const supervisor_plan *plan, supervisor *ret_supervisor)
{
    supervisor s = {.pid = -1};
    int orders[2] = {-1, -1}; /* a socket, because writing to a dead pipe raises a signal */
    int reports[2] = {-1, -1};
    _Atomic int64_t *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return -errno;
    atomic_store(shared, plan->deadline_ns);
    s.deadline_ns = shared;
    cgroup_make(&s.group);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, orders) == 0 &&
        pipe2(reports, O_CLOEXEC) == 0) {
        /* If the supervisor is killed, its children become ours. */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        s.pid = fork();
    }
    if (s.pid == 0) {
        /* Only these: descriptors that we got for the command must reach it. All others close on exec. */
        close(orders[1]);
        close(reports[0]);
        supervise(plan, &s.group, shared, orders[0], reports[1]);
    }
    const int error = errno;
    s.orders = orders[1];
    s.reports = reports[0];
    if (orders[0] >= 0)
        close(orders[0]);
    if (reports[1] >= 0)
        close(reports[1]);
    if (s.pid < 0) {
        supervisor_close(&s);
        return -error;
    }
    *ret_supervisor = s;
    return 0;
}

void supervisor_signal(const supervisor *s, int number)
{
    const unsigned char order = (unsigned char)number;
    /* We notice a dead supervisor where we read its reports. */
    if (send(s->orders, &order, sizeof order, MSG_NOSIGNAL) < 0)
        return;
}

bool supervisor_read(const supervisor *s, supervisor_report *ret_report)
{
    for (;;) {
        const ssize_t got = read(s->reports, ret_report, sizeof *ret_report);
        if (got < 0 && errno == EINTR)
            continue;
        return got == (ssize_t)sizeof *ret_report;
    }
}

void supervisor_close(supervisor *s)
{
    if (s->orders >= 0)
        close(s->orders);
    if (s->reports >= 0)
        close(s->reports);
    munmap((void *)s->deadline_ns, sizeof *s->deadline_ns);
    cgroup_remove(&s->group);
}
