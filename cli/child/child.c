/* See child.h. */
#include "child/child.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child/supervisor.h"
#include "clock.h"
#include "health.h"

#define LEAD_MIN_MS 2
#define LEAD_MAX_MS 250
#define LOOK_MS 10
#define TICK_MIN_MS 5
#define TICK_MAX_MS 250
#define IMMORTAL_MS 1000
#define NEVER INT64_MAX

/* --- how much of a lease is for stopping ---------------------------------------------------------- */

int child_times_choose(const char *command, simba_client *client, int64_t grace_ms, child_times *ret_times)
{
    simba_settings settings = SIMBA_SETTINGS_INIT;
    char lease[128];
    const int code = simba_client_settings(client, &settings);
    if (code < 0)
        return cli_failure(command, &(simba_error){code, ""});
    const int64_t lease_ms =
        settings.session_ms > 0 ? settings.session_ms : settings.timing.ttl_ms + settings.timing.transition_ms;
    const int64_t lead_ms = max64(LEAD_MIN_MS, min64(lease_ms / 20, LEAD_MAX_MS));
    const int64_t longest_ms = settings.longest_margin_ms - lead_ms;
    if (settings.session_ms > 0)
        snprintf(lease, sizeof lease, "a session of %" PRId64 " ms", settings.session_ms);
    else
        snprintf(lease, sizeof lease, "a ttl of %" PRId64 " ms and a transition of %" PRId64 " ms",
                 settings.timing.ttl_ms, settings.timing.transition_ms);
    if (longest_ms < 0)
        return cli_usage_error(command, "there is no time to stop a command in within %s; make the lease longer",
                               lease);
    if (grace_ms > longest_ms)
        return cli_usage_error(command, "a --grace of %" PRId64 " ms does not fit: with %s at most %" PRId64 " ms do",
                               grace_ms, lease, longest_ms);
    if (grace_ms < 0)
        grace_ms = longest_ms / 2;
    *ret_times =
        (child_times){.grace_ms = grace_ms, .lead_ms = lead_ms, .margin_ms = grace_ms + lead_ms, .lease_ms = lease_ms};
    return CLI_GO;
}

static bool is_session_known(simba_client *client)
{
    simba_settings settings = SIMBA_SETTINGS_INIT;
    return simba_client_settings(client, &settings) < 0 || settings.session_ms == 0 || settings.session_granted;
}

static void ignore_change(simba_observer *observer, const simba_state *state, void *user)
{
    (void)observer, (void)state, (void)user;
}

int child_times_await(const char *command, simba_client *client, int64_t grace_ms, const char *mutex,
                      const cli_signals *signals, int64_t limit_ms, child_times *ret_times, simba_observer **ret_asking)
{
    simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    simba_observer *asking = NULL;
    struct pollfd fds[] = {{.fd = signals->fd, .events = POLLIN}, {.fd = simba_client_fd(client), .events = POLLIN}};
    options.on_changed = ignore_change;
    *ret_asking = NULL;
    const int code = child_times_choose(command, client, grace_ms, ret_times);
    if (code != CLI_GO || is_session_known(client) || simba_observer_new(client, mutex, &options, NULL, &asking) < 0)
        return code; /* the code that contends reports the mistake */
    simba_observer_start(asking);
    const int64_t start_ns = clock_boot_ns();
    while (!is_session_known(client)) {
        const int64_t waited_ms = (clock_boot_ns() - start_ns) / MS;
        const int ready = limit_ms >= 0 && waited_ms >= limit_ms ? -1 : poll(fds, 2, LOOK_MS);
        if (ready < 0 || fds[0].revents != 0) {
            *ret_asking = asking;
            return CLI_GO;
        }
        if (fds[1].revents != 0)
            simba_client_dispatch(client);
        health_run(); /* LOOK_MS is often enough */
        if (waited_ms >= WAITING_FIRST_MS)
            cli_show_warnings(true);
    }
    simba_observer_free(asking);
    return child_times_choose(command, client, grace_ms, ret_times);
}

/* --- supervising -------------------------------------------------------------------------------- */

typedef struct child {
    const child_plan *plan;
    supervisor supervisor;
    child_end end;
    pid_t group; /* 0: not started yet */
    bool has_terminal;
    bool suspend; /* SIGTSTP was passed on: stop with the command */
    bool ended;   /* the command itself has; others may be left */
    bool gone;    /* all is over */
    int64_t hold_end_ns;
    int64_t end_ns;     /* of the lease, by the clock of this process */
    int64_t stop_ns;    /* when it was asked to end; NEVER: it runs */
    int64_t give_up_ns; /* the deadline has passed: until when to wait for the end; NEVER before */
} child;

static bool in_foreground(void)
{
    return isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* Read the lease: false if it is over. Read the clock first, so that the promised time is never later than the true one. */
static bool read_lease(child *c, simba_lease *ret_lease)
{
    const int64_t now_ns = clock_boot_ns();
    *ret_lease = (simba_lease)SIMBA_LEASE_INIT;
    c->plan->holder.lease(c->plan->holder.handle, ret_lease);
    if (ret_lease->held_for_ms <= 0)
        return false;
    c->end_ns = now_ns + min64(ret_lease->left_ms, SIMBA_LEASE_MAX_MS) * MS;
    return true;
}

/* The one deadline: everything is dead the lead before the lease ends, and when the grace is over. */
static int64_t deadline_of(const child *c)
{
    const child_times *times = &c->plan->times;
    const int64_t lease_ns = c->end_ns - times->lead_ms * MS;
    return c->stop_ns == NEVER ? lease_ns : min64(lease_ns, c->stop_ns + times->grace_ms * MS);
}

/* The supervisor has the new deadline before the signal wakes it. */
static void begin_stop(child *c, child_why why)
{
    if (!c->ended)
        c->end.why = why;
    c->stop_ns = clock_boot_ns();
    atomic_store(&c->supervisor.terms->deadline_ns, deadline_of(c));
    atomic_store(&c->supervisor.terms->stopping, true);
    supervisor_signal(&c->supervisor, SIGTERM);
    supervisor_signal(&c->supervisor, SIGCONT); /* a stopped process would not hear it */
}

/* Look at the lease and at the clock. */
static void look(child *c)
{
    simba_lease lease = SIMBA_LEASE_INIT;
    const bool holds = c->end.why != CHILD_LOST && read_lease(c, &lease);
    const int64_t now_ns = clock_boot_ns();
    if (holds)
        atomic_store(&c->supervisor.terms->deadline_ns, deadline_of(c));
    if (c->stop_ns == NEVER && !holds)
        begin_stop(c, CHILD_LOST);
    else if (c->stop_ns == NEVER && now_ns >= c->hold_end_ns)
        begin_stop(c, CHILD_HOLD_LIMIT);
    else if (c->stop_ns == NEVER && c->plan->outage != NULL)
        outage_look(c->plan->outage, &lease);
    /* Do not wait for much longer than the lease for a process that SIGKILL does not end. After this process was frozen
     * the lease may be long over: even then, hearing what became of the command takes a moment. */
    if (c->give_up_ns == NEVER && now_ns >= deadline_of(c))
        c->give_up_ns = max64(now_ns, c->end_ns) + IMMORTAL_MS * MS;
    c->end.immortal = now_ns >= c->give_up_ns;
    c->gone = c->gone || c->end.immortal;
}

static void on_stopped(child *c, int number)
{
    if ((number == SIGTTIN || number == SIGTTOU) && in_foreground()) {
        c->has_terminal = true;
        tcsetpgrp(STDIN_FILENO, c->group);
    } else if (c->suspend || (c->has_terminal && number == SIGTSTP)) {
        /* Job control stopped the command, and this process with it, until somebody continues them. The supervisor does
         * not stop: if that takes too long, the lease ends, and so does the command. */
        c->suspend = false;
        if (c->has_terminal)
            tcsetpgrp(STDIN_FILENO, getpgrp());
        kill(0, SIGSTOP);
        if (c->has_terminal && in_foreground())
            tcsetpgrp(STDIN_FILENO, c->group);
    } else {
        return;
    }
    supervisor_signal(&c->supervisor, SIGCONT);
}

static void on_report(child *c)
{
    supervisor_report report;
    if (!supervisor_read(&c->supervisor, &report)) {
        c->gone = true;
        if (c->end.why == CHILD_NO_EXEC)
            return;
        /* Somebody killed the supervisor: the command died with it, and the processes that it had started are children
         * of this one now. */
        const int status = supervisor_kill_all(&c->supervisor, c->group);
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
        if (c->stop_ns == NEVER)
            begin_stop(c, c->end.why);
        break;
    case SUPERVISOR_GONE:
        c->gone = true;
        c->end.killed = report.value == SUPERVISOR_KILLED;
        if (report.value == SUPERVISOR_TOO_LATE && (c->end.why == CHILD_ENDED || c->end.why == CHILD_LOST))
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

/* Start it, and stay with it to its end. Returns 0 or a negative errno. */
static int supervise(child *c, char *const *environment, const give_back *what)
{
    const child_plan *plan = c->plan;
    simba_lease lease;
    if (!read_lease(c, &lease)) {
        c->end.why = CHILD_LOST;
        return 0;
    }
    const int64_t now_ns = clock_boot_ns();
    const int64_t tick_ms = max64(TICK_MIN_MS, min64((c->end_ns - now_ns) / MS / 50, TICK_MAX_MS));
    if (plan->times.max_hold_ms > 0)
        c->hold_end_ns = now_ns + plan->times.max_hold_ms * MS;
    /* In a pipeline the terminal stays with all of it, until the command wants to read. */
    c->has_terminal = !plan->keeps_terminal && in_foreground() && isatty(STDOUT_FILENO) == 1;
    const supervisor_plan start = {
        .argv = plan->argv,
        .envp = environment,
        .mask = &plan->signals->original,
        .foreground = c->has_terminal,
        .deadline_ns = deadline_of(c),
        .give_back = what,
    };
    const int code = supervisor_start(&start, &c->supervisor);
    if (code < 0)
        return code;
    while (!c->gone) {
        struct pollfd fds[] = {{.fd = c->supervisor.reports, .events = POLLIN},
                               {.fd = plan->signals->fd, .events = POLLIN},
                               {.fd = simba_client_fd(plan->client), .events = POLLIN},
                               {.fd = health_fd(), .events = POLLIN}};
        look(c);
        health_run();
        const int64_t hold_ms = c->stop_ns == NEVER ? (c->hold_end_ns - clock_boot_ns()) / MS + 1 : tick_ms;
        const int pause_ms = (int)max64(1, min64(tick_ms, hold_ms));
        if (c->gone || poll(fds, sizeof fds / sizeof fds[0], health_pause_ms(pause_ms)) <= 0)
            continue;
        if (fds[2].revents != 0)
            simba_client_dispatch(plan->client);
        if (fds[0].revents != 0)
            on_report(c);
        if (fds[1].revents != 0)
            on_signal(c);
    }
    if (c->has_terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    supervisor_close(&c->supervisor);
    if (!c->end.immortal)
        waitpid(c->supervisor.pid, NULL, 0);
    return 0;
}

int child_check(const char *command)
{
    if (supervisor_is_possible())
        return CLI_GO;
    return cli_fail(command, CLI_SYSTEM,
                    "/proc/thread-self/children cannot be read, and without it the processes that a command leaves "
                    "behind cannot be found; is /proc mounted?");
}

int child_run(const child_plan *plan, child_end *ret_end)
{
    child c = {.plan = plan, .hold_end_ns = NEVER, .stop_ns = NEVER, .give_up_ns = NEVER};
    child_facts facts = plan->facts;
    child_note note;
    simba_grant grant;
    give_back what = {.length = 0};
    child_note_open(plan->command, &plan->holder, &note, &facts);
    if (plan->holder.grant != NULL && plan->holder.grant(plan->holder.handle, &grant) == 0)
        give_back_prepare(cli_opened_url(), plan->mutex, &grant, &what);
    char **environment = child_environment(plan->globals, &facts);
    const int code = environment != NULL ? supervise(&c, environment, &what) : -ENOMEM;
    free((void *)environment);
    c.end.code = CLI_LOST;
    if (c.end.why == CHILD_ENDED)
        c.end.code = WIFSIGNALED(c.end.status) ? CLI_SIGNAL + WTERMSIG(c.end.status) : WEXITSTATUS(c.end.status);
    else if (c.end.why == CHILD_NO_EXEC)
        c.end.code = c.end.error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXEC;
    c.end.note_code = child_note_close(plan->command, &plan->holder, &note, code == 0 && c.end.code == CLI_OK);
    *ret_end = c.end;
    return code;
}

/* --- how it ended -------------------------------------------------------------------------------- */

void child_explain(const child_plan *plan, const child_end *end, simba_reason reason)
{
    const char *command = plan->command;
    const int number = WIFSIGNALED(end->status) ? WTERMSIG(end->status) : 0;
    const char *how = end->immortal ? "but something of it could not be killed"
                      : end->killed ? "with SIGKILL, for SIGTERM was not enough"
                                    : "with SIGTERM";
    switch (end->why) {
    case CHILD_ENDED:
        if (end->immortal)
            cli_error(command, "the command has ended, but something that it left behind could not be killed.");
        else if (end->left)
            cli_error(command, "the command left processes behind; they were ended %s.", how);
        else if (reason != SIMBA_REASON_NONE)
            cli_error(command, "leadership of %s ended before the command did (%s).", plan->mutex,
                      simba_reason_name(reason));
        else if (number != 0 && number != end->passed_on)
            cli_error(command, "the command was ended by signal %d (%s).", number, strsignal(number));
        break;
    case CHILD_NO_EXEC:
        cli_error(command, "%s cannot be run: %s.", plan->argv[0], strerror(end->error));
        break;
    case CHILD_LOST:
        cli_error(command, "leadership of %s ended (%s); the command was stopped, %s.", plan->mutex,
                  reason != SIMBA_REASON_NONE ? simba_reason_name(reason) : "the lease was over", how);
        break;
    case CHILD_HOLD_LIMIT:
        cli_error(command, "%s was held for %" PRId64 " ms, which is the limit; the command was stopped, %s.",
                  plan->mutex, plan->times.max_hold_ms, how);
        break;
    case CHILD_TOO_LATE:
        cli_error(command, "leadership of %s ended while this process was not running; the command was killed.",
                  plan->mutex);
        break;
    case CHILD_UNSUPERVISED:
        cli_error(command, "the supervisor of the command was killed, and so the command was too.");
        break;
    }
}
