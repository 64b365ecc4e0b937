/* See child.h. */
#include "child/child.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child/descendants.h"
#include "child/supervisor.h"
#include "clock.h"
#include "health.h"

#define TICK_MIN_MS 5
#define TICK_MAX_MS 250
#define IMMORTAL_MS 1000
#define NEVER INT64_MAX

/* --- the terminal ------------------------------------------------------------------------------- */

static bool in_foreground(void)
{
    return isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* --- supervising -------------------------------------------------------------------------------- */

typedef enum stage {
    STAGE_RUNNING,
    STAGE_TERM, /* was asked to end */
    STAGE_KILL, /* was killed; only the report of its end is missing */
} stage;

typedef struct child {
    const child_plan *plan;
    supervisor supervisor;
    child_end end;
    pid_t group; /* 0: not started yet */
    stage stage;
    bool has_terminal;
    bool suspend;        /* SIGTSTP was passed on: stop with the command */
    bool ended;          /* the command itself has; others may be left */
    bool gone;           /* all is over */
    int64_t end_ns;      /* of the lease, by our clock */
    int64_t deadline_ns; /* when the supervisor kills all of it */
    int64_t hold_end_ns;
    int64_t kill_ns;    /* when to go from STAGE_TERM to STAGE_KILL */
    int64_t give_up_ns; /* STAGE_KILL: until when to wait for the end */
    int64_t tick_ms;
} child;

static void begin_stop(child *c, child_why why)
{
    const int64_t now_ns = clock_boot_ns();
    if (!c->ended)
        c->end.why = why;
    c->stage = STAGE_TERM;
    c->kill_ns = min64(now_ns + c->plan->times.grace_ms * MS, c->end_ns - c->plan->times.lead_ms * MS);
    supervisor_signal(&c->supervisor, SIGTERM);
    supervisor_signal(&c->supervisor, SIGCONT); /* a stopped process would not hear it */
}

/* Read the lease: false if it is over. Read the clock first, so that the promised time is never later than the true one. */
static bool read_lease(child *c, simba_lease *ret_lease)
{
    const int64_t now_ns = clock_boot_ns();
    *ret_lease = (simba_lease)SIMBA_LEASE_INIT;
    c->plan->lease(c->plan->user, ret_lease);
    if (ret_lease->held_for_ms <= 0)
        return false;
    c->end_ns = now_ns + min64(ret_lease->left_ms, SIMBA_LEASE_MAX_MS) * MS;
    c->deadline_ns = c->end_ns - c->plan->times.lead_ms * MS / 2;
    return true;
}

/* Look at the lease and at the clock. */
static void look(child *c)
{
    simba_lease lease;
    if (c->end.why != CHILD_LOST && read_lease(c, &lease)) {
        atomic_store(c->supervisor.deadline_ns, c->deadline_ns);
        if (c->stage == STAGE_RUNNING && c->plan->outage != NULL)
            outage_look(c->plan->outage, &lease);
    } else if (c->stage == STAGE_RUNNING) {
        begin_stop(c, CHILD_LOST);
    } else if (c->end.why == CHILD_HOLD_LIMIT) {
        c->kill_ns = min64(c->kill_ns, c->end_ns - c->plan->times.lead_ms * MS);
    }
    const int64_t now_ns = clock_boot_ns();
    if (c->stage == STAGE_RUNNING && now_ns >= c->hold_end_ns)
        begin_stop(c, CHILD_HOLD_LIMIT);
    if (c->stage == STAGE_TERM && now_ns >= c->kill_ns) {
        c->stage = STAGE_KILL;
        c->end.killed = true;
        /* Do not wait for much longer than the lease for a process that SIGKILL does not end. After we were frozen
         * the lease may be long over: even then, hearing what became of the command takes a moment. */
        c->give_up_ns = max64(now_ns, c->end_ns) + IMMORTAL_MS * MS;
        supervisor_signal(&c->supervisor, SIGKILL);
    }
    if (c->stage == STAGE_KILL && now_ns >= c->give_up_ns) {
        c->end.immortal = true;
        c->gone = true;
    }
}

/* Job control stopped the command, and us with it, until somebody continues us. The supervisor does not stop: if that
 * takes too long, the lease ends, and so does the command. */
static void suspend(child *c)
{
    c->suspend = false;
    if (c->has_terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    kill(0, SIGSTOP);
    if (c->has_terminal && in_foreground())
        tcsetpgrp(STDIN_FILENO, c->group);
    supervisor_signal(&c->supervisor, SIGCONT);
}

static void on_stopped(child *c, int number)
{
    if ((number == SIGTTIN || number == SIGTTOU) && in_foreground()) {
        c->has_terminal = true;
        tcsetpgrp(STDIN_FILENO, c->group);
        supervisor_signal(&c->supervisor, SIGCONT);
    } else if (c->suspend || (c->has_terminal && number == SIGTSTP)) {
        suspend(c);
    }
}

static void on_report(child *c)
{
    supervisor_report report;
    if (!supervisor_read(&c->supervisor, &report)) {
        c->gone = true;
        if (c->end.why == CHILD_NO_EXEC)
            return;
        /* Somebody killed the supervisor: the command died with it, and the processes that it had started are our
         * children now. */
        const int status = descendants_kill(&c->supervisor.group, c->group);
        if (!c->ended) {
            c->end.why = CHILD_UNSUPERVISED;
            c->end.status = status;
        }
        return;
    }
    switch ((supervisor_word)report.word) {
    case SUPERVISOR_NO_EXEC:
        c->end.why = CHILD_NO_EXEC;
        c->end.error = report.value;
        break;
    case SUPERVISOR_STARTED:
        c->group = report.value;
        break;
    case SUPERVISOR_STOPPED:
        on_stopped(c, report.value);
        break;
    case SUPERVISOR_ENDED:
        c->ended = true;
        c->end.status = report.value;
        break;
    case SUPERVISOR_LEFT:
        /* Nothing of it may be left when the mutex is given back. */
        c->end.left = true;
        if (c->stage == STAGE_RUNNING)
            begin_stop(c, c->end.why);
        break;
    case SUPERVISOR_GONE:
        c->gone = true;
        if (report.value != 0 && (c->end.why == CHILD_ENDED || c->end.why == CHILD_LOST))
            c->end.why = CHILD_TOO_LATE;
        break;
    }
}

static void on_signal(child *c)
{
    int number;
    while ((number = signals_read(c->plan->signals)) != 0) {
        c->suspend = c->suspend || number == SIGTSTP;
        if (number != SIGCONT) /* SIGCONT follows another signal, to wake up the process that should hear that one */
            c->end.passed_on = number;
        if (signals_is_ending(number))
            c->end.ending = number;
        supervisor_signal(&c->supervisor, number);
    }
}

static int pause_ms(const child *c)
{
    int64_t ms = c->tick_ms;
    const int64_t now_ns = clock_boot_ns();
    if (c->stage == STAGE_RUNNING && c->hold_end_ns != NEVER)
        ms = min64(ms, (c->hold_end_ns - now_ns) / MS + 1);
    if (c->stage == STAGE_TERM)
        ms = min64(ms, (c->kill_ns - now_ns) / MS + 1);
    return (int)max64(1, ms); /* tick_ms bounds it */
}

static void supervise(child *c)
{
    while (!c->gone) {
        struct pollfd fds[] = {{.fd = c->supervisor.reports, .events = POLLIN},
                               {.fd = c->plan->signals->fd, .events = POLLIN},
                               {.fd = c->plan->client ? simba_client_fd(c->plan->client) : -1, .events = POLLIN},
                               {.fd = health_fd(), .events = POLLIN}};
        look(c);
        health_run();
        if (c->gone || poll(fds, 4, health_pause_ms(pause_ms(c))) <= 0)
            continue;
        if (fds[2].revents != 0)
            simba_client_dispatch(c->plan->client);
        if (fds[0].revents != 0)
            on_report(c);
        if (fds[1].revents != 0)
            on_signal(c);
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
    child c = {.plan = plan, .hold_end_ns = NEVER, .end = {.why = CHILD_ENDED}};
    simba_lease lease;
    if (!read_lease(&c, &lease)) {
        *ret_end = (child_end){.why = CHILD_LOST};
        return 0;
    }
    const int64_t now_ns = clock_boot_ns();
    c.tick_ms = max64(TICK_MIN_MS, min64((c.end_ns - now_ns) / MS / 50, TICK_MAX_MS));
    if (plan->times.max_hold_ms > 0)
        c.hold_end_ns = now_ns + plan->times.max_hold_ms * MS;
    /* In a pipeline the terminal stays with all of it, until the command wants to read. */
    c.has_terminal = !plan->keeps_terminal && in_foreground() && isatty(STDOUT_FILENO) == 1;

    const supervisor_plan start = {
        .argv = plan->argv,
        .envp = plan->envp,
        .mask = &plan->signals->original,
        .foreground = c.has_terminal,
        .deadline_ns = c.deadline_ns,
        .give_back = plan->give_back,
    };
    const int code = supervisor_start(&start, &c.supervisor);
    if (code < 0)
        return code;
    supervise(&c);
    if (c.has_terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    supervisor_close(&c.supervisor);
    if (!c.end.immortal)
        waitpid(c.supervisor.pid, NULL, 0);
    *ret_end = c.end;
    return 0;
}

/* --- how it ended -------------------------------------------------------------------------------- */

static const char *how(const child_end *end)
{
    return end->immortal ? "but something of it could not be killed"
           : end->killed ? "with SIGKILL, for SIGTERM was not enough"
                         : "with SIGTERM";
}

static void explain_end(const child_plan *plan, const child_end *end, simba_reason reason)
{
    if (end->immortal)
        cli_say(plan->command, "the command has ended, but something that it left behind could not be killed.");
    else if (end->left)
        cli_say(plan->command, "the command left processes behind; they were ended %s.", how(end));
    else if (reason != SIMBA_REASON_NONE)
        cli_say(plan->command, "leadership of %s ended before the command did (%s).", plan->mutex,
                simba_reason_name(reason));
    else if (WIFSIGNALED(end->status) && WTERMSIG(end->status) != end->passed_on)
        cli_say(plan->command, "the command was ended by signal %d (%s).", WTERMSIG(end->status),
                strsignal(WTERMSIG(end->status)));
}

int child_explain(const child_plan *plan, const child_end *end, simba_reason reason)
{
    switch (end->why) {
    case CHILD_NO_EXEC:
        cli_say(plan->command, "%s cannot be run: %s.", plan->argv[0], strerror(end->error));
        break;
    case CHILD_ENDED:
        explain_end(plan, end, reason);
        break;
    case CHILD_LOST:
        cli_say(plan->command, "leadership of %s ended (%s); the command was stopped, %s.", plan->mutex,
                reason != SIMBA_REASON_NONE ? simba_reason_name(reason) : "the lease was over", how(end));
        break;
    case CHILD_HOLD_LIMIT:
        cli_say(plan->command, "%s was held for %" PRId64 " ms, which is the limit; the command was stopped, %s.",
                plan->mutex, plan->times.max_hold_ms, how(end));
        break;
    case CHILD_TOO_LATE:
        cli_say(plan->command, "leadership of %s ended while this process was not running; the command was killed.",
                plan->mutex);
        break;
    case CHILD_UNSUPERVISED:
        cli_say(plan->command, "the supervisor of the command was killed, and so the command was too.");
        break;
    }
    return child_result(end);
}

int child_exit_code(int status)
{
    return WIFSIGNALED(status) ? CLI_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_result(const child_end *end)
{
    if (end->why == CHILD_ENDED)
        return child_exit_code(end->status);
    if (end->why == CHILD_NO_EXEC)
        return end->error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXEC;
    return CLI_LOST;
}

bool child_ended_well(const child_end *end)
{
    return end->why == CHILD_ENDED && WIFEXITED(end->status) && WEXITSTATUS(end->status) == 0;
}
