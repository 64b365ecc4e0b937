/* See supervisor.h. Everything that runs after fork here does only what is allowed between fork and exec: this process
 * had threads, and their locks may be held for ever. */
#include "child/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define NS_PER_S INT64_C(1000000000)

/* --- the control group -------------------------------------------------------------------------- */

/* Make a group below that of this process, which is the line "0::/path" of the file. If that is not possible, there is
 * none. */
static void make_cgroup(supervisor *s)
{
    static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    const char *mount = NULL;
    char line[1024];
    char *own = NULL;
    struct statfs info;
    s->cgroup = s->cgroup_kill = -1;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && mount == NULL; i++)
        if (statfs(places[i], &info) == 0 && info.f_type == CGROUP2_SUPER_MAGIC)
            mount = places[i];
    FILE *file = mount != NULL ? fopen("/proc/self/cgroup", "re") : NULL;
    if (file == NULL)
        return;
    while (own == NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "0::/", 4) == 0 && strchr(line, '\n') != NULL)
            own = line + 3;
    fclose(file);
    if (own == NULL)
        return;
    own[strcspn(own, "\n")] = '\0';
    const int length = snprintf(s->cgroup_path, sizeof s->cgroup_path, "%s%s/simba-%d", mount,
                                strcmp(own, "/") == 0 ? "" : own, (int)getpid());
    if (length >= (int)sizeof s->cgroup_path)
        return;
    rmdir(s->cgroup_path); /* a killed process that had this number may have left it */
    if (mkdir(s->cgroup_path, 0755) < 0)
        return;
    s->cgroup = open(s->cgroup_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->cgroup_kill = openat(s->cgroup, "cgroup.kill", O_WRONLY | O_CLOEXEC); /* since Linux 5.14 */
    if (s->cgroup_kill >= 0)
        return;
    rmdir(s->cgroup_path);
    if (s->cgroup >= 0)
        close(s->cgroup);
    s->cgroup = -1;
}

/* The wrapper and the supervisor both do this at their end. */
static void remove_cgroup(const supervisor *s)
{
    if (s->cgroup < 0)
        return;
    rmdir(s->cgroup_path);
    close(s->cgroup);
    close(s->cgroup_kill);
}

/* _Fork(), with a child that is in the control group from its first moment. If the kernel cannot do that, the child moves
 * itself, which waits until all processors have noticed, some 10 ms. If that fails too, the child is not in the group.
 * Not fork(): fork handlers of libraries may close descriptor numbers that mean something else by now. */
static pid_t fork_into_cgroup(const supervisor *s)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)(unsigned)s->cgroup};
    pid_t pid = s->cgroup < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid >= 0)
        return pid;
    pid = _Fork();
    if (pid == 0 && s->cgroup >= 0) {
        const int procs = openat(s->cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
        if (procs >= 0 && write(procs, "0", 1) >= 0)
            close(procs);
    }
    return pid;
}

/* --- children ----------------------------------------------------------------------------------- */

/* The list is that of the calling thread. The other threads of this process have no children. */
static int open_children(void)
{
    return open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
}

bool supervisor_is_possible(void)
{
    struct statfs info;
    const int fd = open_children();
    const bool known = fd >= 0 && fstatfs(fd, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
    if (fd >= 0)
        close(fd);
    return known;
}

/* Send a signal to every child, and to the process group of each that leads one. A group that the child does not lead may
 * be anybody's: every process may join any group of its session. */
static void signal_children(int number)
{
    char text[512];
    pid_t pid = 0;
    ssize_t got;
    const int fd = open_children();
    if (fd < 0)
        return;
    while ((got = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else if (pid > 0) {
                kill(getpgid(pid) == pid ? -pid : pid, number);
                pid = 0;
            }
        }
    }
    close(fd);
}

int supervisor_kill_all(const supervisor *s, pid_t command)
{
    int found = -1;
    for (;;) {
        int status;
        if (s->cgroup_kill >= 0 && write(s->cgroup_kill, "1", 1) < 0)
            errno = 0; /* the signals below are the other means */
        /* The group that it made, even if it has left that itself. The number stays taken until this process waits for it. */
        if (command > 0 && found < 0)
            kill(-command, SIGKILL);
        signal_children(SIGKILL);
        /* A dying process leaves its children to this one before anybody can wait for it: the next round has them. */
        const pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno != EINTR)
            return found;
        if (pid == command && command > 0)
            found = status;
    }
}

/* --- the supervisor's side ------------------------------------------------------------------------ */

typedef struct supervision {
    const supervisor_plan *plan;
    const supervisor *of;
    int orders;
    int reports;
    int children; /* signalfd for SIGCHLD */
    int timer;
    int failure; /* from the command until it has become one: its errno, or nothing; -1 afterwards */
    pid_t command;
    bool ended;
    bool reported_left;
} supervision;

/* False: nobody reads, because the wrapper is dead. The orders say so too. */
static bool report(const supervision *v, supervisor_word word, int value)
{
    const supervisor_report text = {word, value};
    return write(v->reports, &text, sizeof text) == (ssize_t)sizeof text;
}

static _Noreturn void finish(const supervision *v, supervisor_end end)
{
    if (end != SUPERVISOR_ALL_ENDED) {
        const int status = supervisor_kill_all(v->of, v->ended ? 0 : v->command);
        if (!v->ended)
            report(v, SUPERVISOR_ENDED, status);
    }
    remove_cgroup(v->of);
    /* Nothing acts under the grant any more, and nobody is left to give it back. */
    if (!report(v, SUPERVISOR_GONE, end) && v->plan->give_back != NULL)
        give_back_exec(v->plan->give_back);
    _exit(0);
}

static _Noreturn void become_command(const supervision *v, pid_t parent, int failure)
{
    setpgid(0, 0);
    /* It is in the background until this is done; SIGTTOU, which the kernel would send, is blocked. */
    if (v->plan->foreground)
        tcsetpgrp(STDIN_FILENO, getpid());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || clock_boot_ns() >= atomic_load(&v->of->terms->deadline_ns))
        _exit(1);
    sigprocmask(SIG_SETMASK, v->plan->mask, NULL);
    execvpe(v->plan->argv[0], v->plan->argv, v->plan->envp);
    const int error = errno;
    if (write(failure, &error, sizeof error) < 0)
        _exit(1);
    _exit(127);
}

/* The command has become one, or could not. */
static void read_failure(supervision *v)
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

static void take_orders(const supervision *v)
{
    unsigned char orders[64];
    const ssize_t got = read(v->orders, orders, sizeof orders);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        finish(v, SUPERVISOR_ORPHANED);
    for (ssize_t i = 0; i < got; i++) {
        if (v->ended) {
            signal_children(orders[i]);
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
        read_failure(v);
        if (WIFSTOPPED(status)) {
            report(v, SUPERVISOR_STOPPED, WSTOPSIG(status));
        } else {
            v->ended = true;
            report(v, SUPERVISOR_ENDED, status);
        }
    }
    if (pid < 0 && errno == ECHILD)
        finish(v, SUPERVISOR_ALL_ENDED);
    if (v->ended && !v->reported_left)
        report(v, SUPERVISOR_LEFT, 0);
    v->reported_left = v->ended;
}

static _Noreturn void supervise(const supervisor_plan *plan, const supervisor *s, int orders, int reports)
{
    supervision v = {.plan = plan, .of = s, .orders = orders, .reports = reports};
    const pid_t self = getpid();
    int ends[2];
    sigset_t all;
    sigset_t child;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    /* Neither the terminal's signals nor a `pkill simba` reach it. */
    setpgid(0, 0);
    prctl(PR_SET_NAME, "run-supervisor");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* The process that started the wrapper may have ignored its children; here they matter. */
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    v.children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    v.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    v.command = v.children >= 0 && v.timer >= 0 && pipe2(ends, O_CLOEXEC) == 0 ? fork_into_cgroup(s) : -1;
    if (v.command == 0)
        become_command(&v, self, ends[1]);
    if (v.command < 0) {
        report(&v, SUPERVISOR_NO_EXEC, errno);
        _exit(1);
    }
    setpgid(v.command, v.command); /* parent and child both do it: whichever runs first, the group is there */
    close(ends[1]);
    v.failure = ends[0];
    for (;;) {
        struct pollfd fds[] = {{.fd = v.timer, .events = POLLIN},
                               {.fd = orders, .events = POLLIN},
                               {.fd = v.children, .events = POLLIN},
                               {.fd = v.failure, .events = POLLIN}};
        /* The deadline may have moved since the timer was set: read it again, and set the timer to it. */
        const int64_t until_ns = atomic_load(&s->terms->deadline_ns);
        const struct itimerspec at = {.it_value = {until_ns / NS_PER_S, until_ns % NS_PER_S}};
        if (clock_boot_ns() >= until_ns || timerfd_settime(v.timer, TFD_TIMER_ABSTIME, &at, NULL) < 0)
            finish(&v, atomic_load(&s->terms->stopping) ? SUPERVISOR_KILLED : SUPERVISOR_TOO_LATE);
        if (poll(fds, sizeof fds / sizeof fds[0], -1) < 0)
            continue;
        if (fds[3].revents != 0)
            read_failure(&v);
        if (fds[2].revents != 0)
            reap(&v);
        if (fds[1].revents != 0)
            take_orders(&v);
    }
}

/* --- the wrapper's side --------------------------------------------------------------------------- */

int supervisor_start(const supervisor_plan *plan, supervisor *ret_supervisor)
{
    supervisor s = {.pid = -1};
    int orders[2] = {-1, -1}; /* a socket, because writing to a dead pipe raises a signal */
    int reports[2] = {-1, -1};
    s.terms = mmap(NULL, sizeof *s.terms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.terms == MAP_FAILED)
        return -errno;
    atomic_store(&s.terms->deadline_ns, plan->deadline_ns);
    make_cgroup(&s);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, orders) == 0 &&
        pipe2(reports, O_CLOEXEC) == 0) {
        /* If the supervisor is killed, its children become the wrapper's. */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        s.pid = fork();
    }
    if (s.pid == 0) {
        /* Only these: descriptors that were meant for the command must reach it. All others close on exec. */
        close(orders[1]);
        close(reports[0]);
        supervise(plan, &s, orders[0], reports[1]);
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
    /* A dead supervisor is noticed where its reports are read. */
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
    munmap(s->terms, sizeof *s->terms);
    remove_cgroup(s);
}
