/* See child.h. */
#include "child/child.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child/descendants.h"
#include "child/watchdog.h"
#include "cli.h"
#include "clock.h"
#include "health/health.h"

#define TICK_MIN_MS 5
#define TICK_MAX_MS 250
#define IMMORTAL_MS 1000
#define NEVER INT64_MAX

static int64_t clamp64(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* --- the terminal ------------------------------------------------------------------------------- */

static bool in_foreground(void)
{
    return isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* In a pipeline the terminal stays with all of it, until the command wants to read. */
static bool wants_terminal(void)
{
    return in_foreground() && isatty(STDOUT_FILENO) == 1;
}

/* --- supervising -------------------------------------------------------------------------------- */

typedef enum stage {
    STAGE_RUNNING,
    STAGE_TERM, /* was asked to end */
    STAGE_KILL, /* was killed; only the report of its end is missing */
} stage;

typedef struct nurse {
    const child_plan *plan;
    watchdog dog;
    child_end end;
    pid_t group; /* 0: not started yet */
    stage stage;
    bool has_terminal;
    bool suspend;   /* SIGTSTP was passed on: stop with the command */
    bool ended;     /* the command itself has; others may be left */
    bool gone;      /* all is over */
    int64_t end_ns; /* of the lease, by our clock */
    int64_t hold_end_ns;
    int64_t kill_ns;    /* when to go from STAGE_TERM to STAGE_KILL */
    int64_t give_up_ns; /* STAGE_KILL: until when to wait for the end */
    int64_t tick_ms;
} nurse;

static void begin_stop(nurse *n, child_why why)
{
    const int64_t now_ns = clock_boot_ns();
    if (!n->ended)
        n->end.why = why;
    n->stage = STAGE_TERM;
    n->kill_ns = min64(now_ns + n->plan->times.grace_ms * MS, n->end_ns - n->plan->times.lead_ms * MS);
    watchdog_signal(&n->dog, SIGTERM);
    watchdog_signal(&n->dog, SIGCONT); /* a stopped process would not hear it */
}

/* Look at the lease and at the clock. Read the clock first, so that the promised time is never later than the true
 * one. */
static void look(nurse *n)
{
    const child_times *times = &n->plan->times;
    const int64_t now_ns = clock_boot_ns();
    simba_lease lease = SIMBA_LEASE_INIT;
    n->plan->lease(n->plan->user, &lease);
    if (lease.held_for_ms > 0 && n->end.why != CHILD_LOST) {
        n->end_ns = now_ns + min64(lease.left_ms, SIMBA_LEASE_MAX_MS) * MS;
        watchdog_set_deadline(&n->dog, n->end_ns - times->lead_ms * MS / 2);
        if (n->stage == STAGE_RUNNING && n->plan->outage != NULL)
            outage_look(n->plan->outage, &lease);
    } else if (n->stage == STAGE_RUNNING) {
        begin_stop(n, CHILD_LOST);
    } else if (n->end.why == CHILD_HOLD_LIMIT) {
        n->kill_ns = min64(n->kill_ns, n->end_ns - times->lead_ms * MS);
    }
    if (n->stage == STAGE_RUNNING && now_ns >= n->hold_end_ns)
        begin_stop(n, CHILD_HOLD_LIMIT);
    if (n->stage == STAGE_TERM && now_ns >= n->kill_ns) {
        n->stage = STAGE_KILL;
        n->end.killed = true;
        /* Do not wait for much longer than the lease for a process that SIGKILL does not end. After we were frozen
         * the lease may be long over: even then, hearing what became of the command takes a moment. */
        n->give_up_ns = max64(now_ns, n->end_ns) + IMMORTAL_MS * MS;
        watchdog_kill(&n->dog);
    }
    if (n->stage == STAGE_KILL && now_ns >= n->give_up_ns) {
        n->end.immortal = true;
        n->gone = true;
    }
}

/* Job control stopped the command, and us with it, until somebody continues us. The watchdog does not stop: if that
 * takes too long, the lease ends, and so does the command. */
static void suspend(nurse *n)
{
    n->suspend = false;
    if (n->has_terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    kill(0, SIGSTOP);
    if (n->has_terminal && in_foreground())
        tcsetpgrp(STDIN_FILENO, n->group);
    watchdog_signal(&n->dog, SIGCONT);
}

static void on_stopped(nurse *n, int number)
{
    if ((number == SIGTTIN || number == SIGTTOU) && in_foreground()) {
        n->has_terminal = true;
        tcsetpgrp(STDIN_FILENO, n->group);
        watchdog_signal(&n->dog, SIGCONT);
    } else if (n->suspend || (n->has_terminal && number == SIGTSTP)) {
        suspend(n);
    }
}

/* The command has ended, but left processes behind: end them as well, so that none is left when the mutex is given
 * back. */
static void end_leftovers(nurse *n)
{
    n->end.left = true;
    if (n->stage == STAGE_RUNNING)
        begin_stop(n, n->end.why);
}

static void on_report(nurse *n)
{
    watchdog_report report;
    if (!watchdog_read(&n->dog, &report)) {
        n->gone = true;
        if (n->end.why == CHILD_NO_EXEC)
            return;
        /* Somebody killed the watchdog: the command died with it, and the processes that it had started are our
         * children now. */
        const int status = descendants_kill(&n->dog.group, n->group);
        if (!n->ended) {
            n->end.why = CHILD_UNGUARDED;
            n->end.status = status;
        }
        return;
    }
    switch ((watchdog_word)report.word) {
    case WATCHDOG_NO_EXEC:
        n->end.why = CHILD_NO_EXEC;
        n->end.error = report.value;
        break;
    case WATCHDOG_STARTED:
        n->group = report.value;
        break;
    case WATCHDOG_STOPPED:
        on_stopped(n, report.value);
        break;
    case WATCHDOG_ENDED:
        n->ended = true;
        n->end.status = report.value;
        break;
    case WATCHDOG_LEFT:
        end_leftovers(n);
        break;
    case WATCHDOG_GONE:
        n->gone = true;
        if (report.value != 0 && (n->end.why == CHILD_ENDED || n->end.why == CHILD_LOST))
            n->end.why = CHILD_TOO_LATE;
        break;
    }
}

static void on_signal(nurse *n)
{
    int number;
    while ((number = signals_read(n->plan->signals)) != 0) {
        n->suspend = n->suspend || number == SIGTSTP;
        if (number != SIGCONT) /* SIGCONT follows another signal, to wake up the process that should hear that one */
            n->end.passed_on = number;
        if (signals_is_ending(number))
            n->end.ending = number;
        watchdog_signal(&n->dog, number);
    }
}

static int pause_ms(const nurse *n)
{
    int64_t ms = n->tick_ms;
    const int64_t now_ns = clock_boot_ns();
    if (n->stage == STAGE_RUNNING && n->hold_end_ns != NEVER)
        ms = min64(ms, (n->hold_end_ns - now_ns) / MS + 1);
    if (n->stage == STAGE_TERM)
        ms = min64(ms, (n->kill_ns - now_ns) / MS + 1);
    return (int)clamp64(ms, 1, TICK_MAX_MS);
}

static void supervise(nurse *n)
{
    while (!n->gone) {
        struct pollfd fds[] = {{.fd = n->dog.reports, .events = POLLIN},
                               {.fd = n->plan->signals->fd, .events = POLLIN},
                               {.fd = n->plan->client ? simba_client_fd(n->plan->client) : -1, .events = POLLIN},
                               {.fd = health_fd(), .events = POLLIN}};
        look(n);
        health_turn();
        if (n->gone || poll(fds, 4, health_pause_ms(pause_ms(n))) <= 0)
            continue;
        if (fds[2].revents != 0)
            simba_client_dispatch(n->plan->client);
        if (fds[0].revents != 0)
            on_report(n);
        if (fds[1].revents != 0)
            on_signal(n);
    }
}

int child_check(const char *command)
{
    if (descendants_are_known())
        return CLI_GO;
    return cli_fail(command, CLI_SYSTEM,
                    "/proc/thread-self/children cannot be read, and without it the processes that a command leaves "
                    "behind cannot be found; is /proc mounted?");
}

int child_run(const child_plan *plan, child_end *ret_end)
{
    nurse n = {.plan = plan, .hold_end_ns = NEVER, .end = {.why = CHILD_ENDED}};
    const int64_t now_ns = clock_boot_ns();
    simba_lease lease = SIMBA_LEASE_INIT;
    plan->lease(plan->user, &lease);
    const int64_t lease_ms = min64(lease.left_ms, SIMBA_LEASE_MAX_MS);
    if (lease.held_for_ms <= 0) {
        n.end.why = CHILD_LOST;
        *ret_end = n.end;
        return 0;
    }
    n.end_ns = now_ns + lease_ms * MS;
    n.tick_ms = clamp64(lease_ms / 50, TICK_MIN_MS, TICK_MAX_MS);
    if (plan->times.max_hold_ms > 0)
        n.hold_end_ns = now_ns + plan->times.max_hold_ms * MS;
    n.has_terminal = !plan->keeps_terminal && wants_terminal();

    const watchdog_plan start = {
        .argv = plan->argv,
        .envp = plan->envp,
        .mask = &plan->signals->original,
        .foreground = n.has_terminal,
        .deadline_ns = n.end_ns - plan->times.lead_ms * MS / 2,
        .give_back = plan->give_back,
    };
    const int code = watchdog_start(&start, &n.dog);
    if (code < 0)
        return code;
    supervise(&n);
    if (n.has_terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    watchdog_close(&n.dog);
    if (!n.end.immortal)
        waitpid(n.dog.pid, NULL, 0);
    *ret_end = n.end;
    return 0;
}

int child_exit_code(int status)
{
    return WIFSIGNALED(status) ? CLI_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}
