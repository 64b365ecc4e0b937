/* `simba run`: takes a mutex, runs a command, and gives the mutex back. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "child/child.h"
#include "cli.h"
#include "clock.h"
#include "health.h"
#include "refusal.h"

#define COMMAND "run"
#define CANCEL_AGAIN_MS 10
#define ONE_ANSWER_MS 4000 /* so long may a store take that is asked once */

typedef struct run {
    cli_globals *globals;
    const char *mutex;
    char **argv;
    int64_t wait_ms;  /* -1: for ever, 0: try once */
    int64_t grace_ms; /* -1: as long as seems good */
    int64_t max_hold_ms;
    int64_t once_per_ms; /* 0: no such rule */
    bool retry_failed;   /* with it */
    int64_t min_hold_ms; /* 0: none */
    uint64_t slots;      /* 0: one at a time */
    int busy_code;       /* exit code for "not obtained" */

    simba_client *client;
    simba_locker *locker; /* NULL: nobody knows yet whether the lease is long enough */
    cli_signals signals;
    child_times times;
    waiting_words words;
    /* Of the thread that waits for the mutex. */
    int64_t wait_left_ms;
    int done; /* eventfd */
    int code;
    simba_error error;
} run;

/* --- taking it ---------------------------------------------------------------------------------- */

static void *wait_for_mutex(void *arg)
{
    run *r = arg;
    r->code = simba_locker_acquire(r->locker, r->wait_left_ms, &r->error);
    eventfd_write(r->done, 1);
    return NULL;
}

/* A thread of its own waits for the mutex, so that this one can listen to signals meanwhile. Returns 0, the number of a
 * signal that came first, or a negative code of the library with `error`. */
static int acquire(run *r)
{
    pthread_t thread;
    int ended_by = 0;
    int number;
    simba_owner owner;
    r->done = eventfd(0, EFD_CLOEXEC);
    if (r->done < 0 || pthread_create(&thread, NULL, wait_for_mutex, r) != 0) {
        r->error = (simba_error){SIMBA_ESYSTEM, "no thread could be made to wait on"};
        return SIMBA_ESYSTEM;
    }
    struct pollfd fds[] = {{.fd = r->done, .events = POLLIN},
                           {.fd = r->signals.fd, .events = POLLIN},
                           {.fd = health_fd(), .events = POLLIN}};
    int64_t report_ns = clock_boot_ns() + WAITING_FIRST_MS * MS;
    while (ended_by == 0) {
        const int64_t left_ms = max64(0, (report_ns - clock_boot_ns()) / MS + 1);
        const int ready = poll(fds, sizeof fds / sizeof fds[0], health_pause_ms((int)left_ms));
        if (ready > 0 && fds[0].revents != 0)
            break;
        health_run();
        /* During a longer wait, report the owner and problems of the store. Before that, a failure is reported once, at
         * the end. */
        if (clock_boot_ns() >= report_ns) {
            report_ns = clock_boot_ns() + WAITING_AGAIN_MS * MS;
            cli_show_warnings(true);
            if (simba_locker_owner(r->locker, &owner) == 0)
                waiting_report(&r->words, &owner, simba_locker_owner_left_ms(r->locker));
        }
        while (ended_by == 0 && (number = signals_read(&r->signals)) != 0) {
            if (signals_is_ending(number))
                ended_by = number;
            else if (number == SIGTSTP)
                kill(0, SIGSTOP);
        }
    }
    /* The thread may not be waiting yet, and then there is nothing to cancel. */
    while (ended_by != 0 && poll(fds, 1, 0) == 0) {
        simba_locker_cancel(r->locker);
        poll(fds, 1, CANCEL_AGAIN_MS);
    }
    cli_show_warnings(false);
    pthread_join(thread, NULL);
    close(r->done);
    return ended_by != 0 ? ended_by : r->code;
}

static int explain_not_acquired(const run *r, int code)
{
    if (code > 0)
        return CLI_SIGNAL + code; /* the sender of the signal knows why */
    if (code == SIMBA_ETOOSOON) {
        /* This is normal on all machines but one: cron would mail it. */
        if (isatty(STDERR_FILENO) == 1 || r->globals->verbose > 0)
            cli_info(COMMAND, "not run: %s.", r->error.text);
        return r->busy_code;
    }
    if (code == SIMBA_ESTATE) /* what is recorded in the note forbids it */
        return cli_fail(COMMAND, CLI_CONFIG, "%s.", r->error.text);
    if (code != SIMBA_ETIMEDOUT)
        return cli_failure(COMMAND, &r->error);
    if (r->wait_ms > 0)
        cli_error(COMMAND, "not obtained within %" PRId64 " ms: %s.", r->wait_ms, r->error.text);
    else
        cli_error(COMMAND, "not obtained: %s.", r->error.text);
    return r->busy_code;
}

/* For --status-listen. */
static void look(void *user, health_view *ret_view)
{
    const run *r = user;
    ret_view->mutex = r->mutex;
    ret_view->client = r->client;
    if (r->locker == NULL)
        return;
    ret_view->id = simba_locker_id(r->locker);
    ret_view->contends = refusal_is_settled(r->client);
    ret_view->leads = true;
    ret_view->reserve_ms = r->times.lead_ms;
    simba_locker_lease(r->locker, &ret_view->lease);
    simba_locker_owner(r->locker, &ret_view->owner);
}

/* --- holding it --------------------------------------------------------------------------------- */

static void lease_of(void *locker, simba_lease *ret_lease)
{
    simba_locker_lease(locker, ret_lease);
}

static int grant_of(void *locker, simba_grant *ret_grant)
{
    return simba_locker_grant(locker, ret_grant);
}

static int read_note(void *locker, simba_error *err, simba_note *ret_note)
{
    return simba_locker_note(locker, err, ret_note);
}

static int write_note(void *locker, const void *bytes, size_t length, simba_error *err)
{
    return simba_locker_note_set(locker, bytes, length, err);
}

/* Run the command, and give the mutex back. Returns the exit code. */
static int run_held(run *r)
{
    char mutex[SIMBA_MUTEX_BYTES + 8];
    char slot[8];
    simba_error error;
    child_end end;
    snprintf(slot, sizeof slot, "%d", simba_locker_slot(r->locker));
    snprintf(mutex, sizeof mutex, r->slots > 0 ? "%s#%s" : "%s", r->mutex, slot);
    outage_words outage = {.command = COMMAND,
                           .mutex = mutex,
                           .consequence = "the command will be stopped",
                           .verbose = r->globals->verbose > 0};
    const child_plan plan = {
        .command = COMMAND,
        .mutex = mutex,
        .argv = r->argv,
        .globals = r->globals,
        .times = r->times,
        .signals = &r->signals,
        .client = r->client,
        .holder = {.handle = r->locker,
                   .lease = lease_of,
                   .grant = r->min_hold_ms == 0 ? grant_of : NULL, /* one that has to be kept is not given back */
                   .read_note = read_note,
                   .write_note = write_note},
        .facts = {.mutex = mutex,
                  .token = simba_locker_token(r->locker),
                  .id = simba_locker_id(r->locker),
                  .slot = r->slots > 0 ? slot : NULL},
        .outage = &outage,
    };
    const int started = child_run(&plan, &end);
    const int code = started < 0 ? CLI_SYSTEM : end.note_code != CLI_GO ? end.note_code : end.code;
    if (r->once_per_ms != 0) {
        /* Who has lost the mutex may record nothing: the run counts as cut short, and the explanation says why. */
        const int recorded = simba_locker_once_end(r->locker, code, &error);
        if (recorded < 0 && recorded != SIMBA_ELOST && recorded != SIMBA_ESTATE)
            cli_error(COMMAND, "the store has no record of how the command ended: %s.", error.text);
    }
    const int released = simba_locker_release(r->locker, &error);
    if (released < 0 && released != SIMBA_ELOST)
        cli_error(COMMAND, "%s; it becomes free when its lease ends.", error.text);
    if (started < 0)
        return cli_fail(COMMAND, CLI_SYSTEM, "no process could be started: %s.", strerror(-started));
    child_explain(&plan, &end, released == SIMBA_ELOST ? simba_locker_reason(r->locker) : SIMBA_REASON_NONE);
    return code;
}

/* With the store open. */
static int take_and_run(run *r)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    r->times.max_hold_ms = r->max_hold_ms;
    options.id = r->globals->id;
    options.timing.stop_margin_ms = r->times.margin_ms;
    options.once_per_ms = r->once_per_ms;
    options.once_retry_failed = r->retry_failed;
    options.min_hold_ms = r->min_hold_ms;
    options.slots = (int64_t)r->slots;
    if (simba_locker_new(r->client, r->mutex, &options, &r->error, &r->locker) < 0)
        return cli_failure(COMMAND, &r->error);
    const int code = acquire(r);
    if (code == 0)
        return run_held(r);
    /* A signal may have come too late to prevent the acquire. */
    if (simba_locker_held_for_ms(r->locker) > 0)
        simba_locker_release(r->locker, NULL);
    return explain_not_acquired(r, code);
}

/* Handles that ask the store are freed after all messages. */
static int open_and_run(run *r)
{
    simba_observer *asking = NULL;
    r->words = waiting_words_for(COMMAND, r->mutex, r->globals);
    r->globals->quiet = true;
    r->globals->warns_of_restarts = true;
    r->globals->dispatch = SIMBA_DISPATCH_FD; /* one thread does it all: it waits for the child and renews */
    int code = child_check(COMMAND);
    if (code == CLI_GO)
        code = health_open(COMMAND, r->globals, look, r);
    if (code != CLI_GO)
        return code;
    code = cli_open_shared(COMMAND, r->globals, &r->client);
    if (code != CLI_GO) {
        health_close();
        return code;
    }
    code = signals_open(COMMAND, &r->signals);
    const int64_t start_ns = clock_boot_ns();
    if (code == CLI_GO)
        code = child_times_await(COMMAND, r->client, r->grace_ms, r->mutex, &r->signals,
                                 r->wait_ms == 0 ? ONE_ANSWER_MS : r->wait_ms, &r->times, &asking);
    r->wait_left_ms = r->wait_ms;
    if (r->wait_ms > 0) /* a moment at least, to find out what is wrong */
        r->wait_left_ms = max64(1, r->wait_ms - (clock_boot_ns() - start_ns) / MS);
    if (code == CLI_GO)
        code = take_and_run(r);
    health_close();
    code = cli_leave(code);
    simba_locker_free(r->locker);
    simba_observer_free(asking);
    return cli_close(r->client, code);
}

int cmd_run(cli_globals *globals, int argc, char **argv)
{
    run r = {.globals = globals, .wait_ms = -1, .grace_ms = -1, .busy_code = CLI_BUSY, .slots = UINT64_MAX};
    bool no_wait = false;
    const cli_option own[] = {
        {"wait", 0, CLI_DURATION, "D", "Give up after this long; default: never", &r.wait_ms},
        {"no-wait", 'n', CLI_FLAG, NULL, "Give up at once if another owns the mutex", &no_wait},
        {"once-per", 0, CLI_DURATION, "D", "Skip if any host started it within D", &r.once_per_ms},
        {"retry-failed", 0, CLI_FLAG, NULL, "With --once-per: do begin again after a failure", &r.retry_failed},
        {"min-hold", 0, CLI_DURATION, "D", "Hold the mutex at least this long", &r.min_hold_ms},
        {"slots", 0, CLI_NUMBER, "N", "Let up to N hold the mutex at a time", &r.slots},
        {"conflict-exit-code", 'E', CLI_CODE, "N", "Exit with this if it is not obtained; default 75", &r.busy_code},
        {"grace", 0, CLI_DURATION, "D", "From SIGTERM to SIGKILL; must fit into the lease", &r.grace_ms},
        {"max-hold", 0, CLI_DURATION, "D", "Stop the command after this long", &r.max_hold_ms},
        {"label", 0, CLI_TEXT, "KEY=VALUE", "Label the pod of this process while it leads (Kubernetes)",
         &globals->label},
        {"keep-password", 0, CLI_FLAG, NULL, "Leave the store's password in its environment", &globals->keep_password},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX -- COMMAND [ARGUMENT...]",
        .about = "Takes the mutex, runs the command, gives the mutex back, and exits with the\n"
                 "command's code. If leadership ends first, the command and all that it started\n"
                 "get SIGTERM, and SIGKILL after the grace, before the lease ends. The command\n"
                 "finds SIMBA_MUTEX, SIMBA_TOKEN, SIMBA_ID and SIMBA_NOTE in its environment.\n"
                 "Exits with 75 if not obtained, 79 leadership lost, 69 no store; see simba-run(1).",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_ALL | CLI_TAKES_HEALTH,
        .min_operands = 2,
        .max_operands = -1,
        .verbatim_from = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (no_wait && r.wait_ms >= 0)
        return cli_usage_error(COMMAND, "--wait and --no-wait contradict each other");
    if (r.once_per_ms > 0 && r.slots != UINT64_MAX)
        return cli_usage_error(COMMAND, "--slots and --once-per exclude each other");
    if (r.retry_failed && r.once_per_ms == 0)
        return cli_usage_error(COMMAND, "--retry-failed is for --once-per");
    if (r.slots == 0 || (r.slots > SIMBA_SLOTS_MAX && r.slots != UINT64_MAX))
        return cli_usage_error(COMMAND, "--slots wants a number from 1 to %d", SIMBA_SLOTS_MAX);
    if (r.slots == UINT64_MAX)
        r.slots = 0;
    if (no_wait)
        r.wait_ms = 0;
    r.mutex = argv[0];
    r.argv = argv + 1;
    return open_and_run(&r);
}
