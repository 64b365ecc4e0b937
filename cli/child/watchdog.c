/* See watchdog.h. Everything that runs after fork here does only what is allowed between fork and exec: this process
 * had threads, and their locks may be held for ever. */
#include "child/watchdog.h"

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

#define ORDER_KILL 0 /* any other order is the number of a signal */
#define NS_PER_S INT64_C(1000000000)

/* --- the watchdog's side ------------------------------------------------------------------------ */

typedef struct keeper {
    const watchdog_plan *plan;
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
} keeper;

/* False: nobody reads, because our owner is dead. The orders say so too. */
static bool report(const keeper *k, watchdog_word word, int value)
{
    const watchdog_report said = {word, value};
    return write(k->reports, &said, sizeof said) == (ssize_t)sizeof said;
}

typedef enum ending {
    ENDING_ALL_DEAD,   /* the command has ended, and so has all that it started */
    ENDING_ORDERED,    /* our owner wants all of it killed */
    ENDING_TOO_LATE,   /* the deadline has passed */
    ENDING_OWNER_GONE, /* our owner is dead */
} ending;

static void finish(keeper *k, ending why)
{
    if (why != ENDING_ALL_DEAD) {
        const int status = descendants_kill(k->group, k->ended ? 0 : k->command);
        if (!k->ended)
            report(k, WATCHDOG_ENDED, status);
    }
    cgroup_remove(k->group);
    /* Nothing acts under the grant any more, and nobody is left to give it back. */
    if (!report(k, WATCHDOG_GONE, why == ENDING_TOO_LATE) && k->plan->give_back != NULL)
        give_back_exec(k->plan->give_back);
    _exit(0);
}

static void become_command(const keeper *k, pid_t parent, int failure)
{
    setpgid(0, 0);
    /* We are in the background until this is done; SIGTTOU, which the kernel would send, is blocked. */
    if (k->plan->foreground)
        tcsetpgrp(STDIN_FILENO, getpid());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || clock_boot_ns() >= atomic_load(k->deadline_ns))
        _exit(1);
    sigprocmask(SIG_SETMASK, k->plan->mask, NULL);
    execvpe(k->plan->argv[0], k->plan->argv, k->plan->envp);
    const int error = errno;
    if (write(failure, &error, sizeof error) < 0)
        _exit(1);
    _exit(127);
}

static void start_command(keeper *k)
{
    int ends[2];
    const pid_t self = getpid();
    /* Not fork(): fork handlers of libraries may close descriptor numbers that mean something else by now. */
    k->command = pipe2(ends, O_CLOEXEC) == 0 ? cgroup_fork(k->group) : -1;
    if (k->command == 0)
        become_command(k, self, ends[1]);
    if (k->command < 0) {
        report(k, WATCHDOG_NO_EXEC, errno);
        _exit(1);
    }
    setpgid(k->command, k->command); /* parent and child both do it: whichever runs first, the group is there */
    close(ends[1]);
    k->failure = ends[0];
}

static void hear_of_exec(keeper *k)
{
    int error = 0;
    if (k->failure < 0)
        return;
    if (read(k->failure, &error, sizeof error) == (ssize_t)sizeof error) {
        report(k, WATCHDOG_NO_EXEC, error);
        waitpid(k->command, NULL, 0);
        _exit(1);
    }
    close(k->failure);
    k->failure = -1;
    report(k, WATCHDOG_STARTED, k->command);
}

/* It may have left the group that was made for it, and others may still be in there. */
static void signal_command(const keeper *k, int number)
{
    kill(-k->command, number);
    if (getpgid(k->command) != k->command)
        kill(k->command, number);
}

static void take_orders(keeper *k)
{
    unsigned char orders[64];
    const ssize_t got = read(k->orders, orders, sizeof orders);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        finish(k, ENDING_OWNER_GONE);
    for (ssize_t i = 0; i < got; i++) {
        if (orders[i] == ORDER_KILL)
            finish(k, ENDING_ORDERED);
        else if (!k->ended)
            signal_command(k, orders[i]);
        else
            descendants_signal(orders[i]);
    }
}

static void reap(keeper *k)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    while (read(k->children, &info, sizeof info) > 0) {
    }
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid != k->command)
            continue;
        hear_of_exec(k);
        if (WIFSTOPPED(status)) {
            report(k, WATCHDOG_STOPPED, WSTOPSIG(status));
        } else {
            k->ended = true;
            report(k, WATCHDOG_ENDED, status);
        }
    }
    if (pid < 0 && errno == ECHILD)
        finish(k, ENDING_ALL_DEAD);
    if (k->ended && !k->told_left)
        report(k, WATCHDOG_LEFT, 0);
    k->told_left = k->ended;
}

/* The deadline may have moved since the timer was set; look at it again before doing anything. */
static void look_at_clock(keeper *k)
{
    const int64_t until_ns = atomic_load(k->deadline_ns);
    uint64_t times;
    if (clock_boot_ns() >= until_ns)
        finish(k, ENDING_TOO_LATE);
    if (read(k->timer, &times, sizeof times) < 0 && errno != EAGAIN)
        finish(k, ENDING_TOO_LATE); /* a watchdog without a clock is none */
    const struct itimerspec at = {.it_value = {until_ns / NS_PER_S, until_ns % NS_PER_S}};
    timerfd_settime(k->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static _Noreturn void keep(const watchdog_plan *plan, const cgroup *group, _Atomic int64_t *deadline_ns, int orders,
                           int reports)
{
    keeper k = {.plan = plan, .group = group, .deadline_ns = deadline_ns, .orders = orders, .reports = reports};
    sigset_t all;
    sigset_t child;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    /* Neither the terminal's signals nor a `pkill simba` reach the watchdog. */
    setpgid(0, 0);
    prctl(PR_SET_NAME, "run-watchdog");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* The process that started us may have ignored its children; here they matter. */
    signal(SIGCHLD, SIG_DFL);

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    k.children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    k.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (k.children < 0 || k.timer < 0) {
        report(&k, WATCHDOG_NO_EXEC, errno);
        _exit(1);
    }
    start_command(&k);
    for (;;) {
        struct pollfd fds[] = {{.fd = k.timer, .events = POLLIN},
                               {.fd = k.orders, .events = POLLIN},
                               {.fd = k.children, .events = POLLIN},
                               {.fd = k.failure, .events = POLLIN}};
        look_at_clock(&k);
        if (poll(fds, 4, -1) < 0)
            continue;
        if (fds[3].revents != 0)
            hear_of_exec(&k);
        if (fds[2].revents != 0)
            reap(&k);
        if (fds[1].revents != 0)
            take_orders(&k);
    }
}

/* --- our side ----------------------------------------------------------------------------------- */

static void close_pair(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

/* A socket for the orders, because writing to a dead pipe raises a signal. */
static int open_channels(int orders[2], int reports[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, orders) < 0)
        return -errno;
    if (pipe2(reports, O_CLOEXEC) == 0)
        return 0;
    const int error = errno;
    close_pair(orders);
    return -error;
}

static int start_process(const watchdog_plan *plan, watchdog *dog)
{
    int orders[2] = {-1, -1};
    int reports[2] = {-1, -1};
    const int opened = open_channels(orders, reports);
    if (opened < 0)
        return opened;
    /* If the watchdog is killed, its children become ours. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    dog->pid = fork();
    if (dog->pid == 0) {
        /* Only these: descriptors that we got for the command must reach it. All others close on exec. */
        close(orders[1]);
        close(reports[0]);
        keep(plan, &dog->group, dog->deadline_ns, orders[0], reports[1]);
    }
    const int error = errno;
    close(orders[0]);
    close(reports[1]);
    dog->orders = orders[1];
    dog->reports = reports[0];
    if (dog->pid > 0)
        return 0;
    close(orders[1]);
    close(reports[0]);
    return -error;
}

int watchdog_start(const watchdog_plan *plan, watchdog *ret_watchdog)
{
    watchdog dog = {.pid = -1};
    _Atomic int64_t *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return -errno;
    atomic_store(shared, plan->deadline_ns);
    dog.deadline_ns = shared;
    cgroup_make(&dog.group);
    const int code = start_process(plan, &dog);
    if (code < 0) {
        cgroup_remove(&dog.group);
        cgroup_close(&dog.group);
        munmap((void *)shared, sizeof *shared);
        return code;
    }
    *ret_watchdog = dog;
    return 0;
}

void watchdog_set_deadline(const watchdog *dog, int64_t deadline_ns)
{
    atomic_store(dog->deadline_ns, deadline_ns);
}

static void order(const watchdog *dog, unsigned char what)
{
    /* We notice a dead watchdog where we read its reports. */
    if (send(dog->orders, &what, 1, MSG_NOSIGNAL) < 0)
        return;
}

void watchdog_signal(const watchdog *dog, int number)
{
    order(dog, (unsigned char)number);
}

void watchdog_kill(const watchdog *dog)
{
    order(dog, ORDER_KILL);
}

bool watchdog_read(const watchdog *dog, watchdog_report *ret_report)
{
    for (;;) {
        const ssize_t got = read(dog->reports, ret_report, sizeof *ret_report);
        if (got < 0 && errno == EINTR)
            continue;
        return got == (ssize_t)sizeof *ret_report;
    }
}

void watchdog_close(watchdog *dog)
{
    close(dog->orders);
    close(dog->reports);
    munmap((void *)dog->deadline_ns, sizeof *dog->deadline_ns);
    cgroup_remove(&dog->group);
    cgroup_close(&dog->group);
}
