/* `simba run`: runs a command while holding a mutex. */
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

typedef struct run_options {
    const cli_globals *globals;
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
} run_options;

/* --- taking it ---------------------------------------------------------------------------------- */

/* A thread of its own waits for the mutex, so that this one can listen to signals meanwhile. */
typedef struct waiting {
    simba_client *client;
    simba_locker *locker;
    int64_t reserve_ms; /* of the lease, for stopping the command */
    int64_t wait_ms;
    waiting_words words;
    int done; /* eventfd */
    int code;
    simba_error error;
} waiting;

static void *wait_for_mutex(void *arg)
{
    waiting *w = arg;
    w->code = simba_locker_acquire(w->locker, w->wait_ms, &w->error);
    eventfd_write(w->done, 1);
    return NULL;
}

/* Handles signals that come before the command is started. Returns the signal that ends us, or 0. */
static int listen_while_waiting(const cli_signals *signals)
{
    int number;
    while ((number = signals_read(signals)) != 0) {
        if (signals_is_ending(number))
            return number;
        if (number == SIGTSTP)
            kill(0, SIGSTOP);
    }
    return 0;
}

/* During a longer wait, report the owner and problems of the store. Before that, a failure is reported once, at the
 * end. Returns when to call again, in ms; -1: never. */
static int say_what_for(waiting *w)
{
    simba_owner owner;
    cli_show_warnings(true);
    if (!w->words.at_terminal)
        return -1;
    if (simba_locker_owner(w->locker, &owner) == 0)
        waiting_say(&w->words, &owner, simba_locker_owner_left_ms(w->locker));
    return WAITING_AGAIN_MS;
}

/* Returns 0, the number of a signal that came first, or a negative code of the library with `w->error`. */
static int acquire(waiting *w, const cli_signals *signals)
{
    pthread_t thread;
    int ended_by = 0;
    eventfd_t count;
    w->done = eventfd(0, EFD_CLOEXEC);
    if (w->done < 0 || pthread_create(&thread, NULL, wait_for_mutex, w) != 0) {
        w->error = (simba_error){SIMBA_ESYSTEM, "no thread could be made to wait on"};
        return SIMBA_ESYSTEM;
    }
    struct pollfd fds[] = {{.fd = w->done, .events = POLLIN},
                           {.fd = signals->fd, .events = POLLIN},
                           {.fd = health_fd(), .events = POLLIN}};
    int64_t say_ns = clock_boot_ns() + WAITING_FIRST_MS * MS;
    while (ended_by == 0) {
        const int64_t left_ms = max64(0, (say_ns - clock_boot_ns()) / MS + 1);
        const int ready = poll(fds, 3, health_pause_ms(say_ns == INT64_MAX ? -1 : (int)left_ms));
        if (ready > 0 && fds[0].revents != 0)
            break;
        health_run();
        if (clock_boot_ns() >= say_ns) {
            const int again_ms = say_what_for(w);
            say_ns = again_ms < 0 ? INT64_MAX : clock_boot_ns() + again_ms * MS;
        }
        ended_by = listen_while_waiting(signals);
    }
    /* The thread may not be waiting yet, and then there is nothing to cancel. */
    while (ended_by != 0 && poll(fds, 1, 0) == 0) {
        simba_locker_cancel(w->locker);
        poll(fds, 1, CANCEL_AGAIN_MS);
    }
    cli_show_warnings(false);
    pthread_join(thread, NULL);
    if (eventfd_read(w->done, &count) == 0)
        close(w->done);
    return ended_by != 0 ? ended_by : w->code;
}

static int explain_not_acquired(const run_options *options, const waiting *w, int code)
{
    if (code > 0)
        return CLI_SIGNAL + code; /* the sender of the signal knows why */
    if (code == SIMBA_ETOOSOON) {
        /* This is normal on all machines but one: cron would mail it. */
        if (isatty(STDERR_FILENO) == 1 || options->globals->verbose > 0)
            cli_inform(COMMAND, "not run: %s.", w->error.text);
        return options->busy_code;
    }
    if (code == SIMBA_ESTATE) /* what is recorded in the note forbids it */
        return cli_fail(COMMAND, CLI_CONFIG, "%s.", w->error.text);
    if (code != SIMBA_ETIMEDOUT)
        return cli_failure(COMMAND, &w->error);
    if (options->wait_ms > 0)
        cli_say(COMMAND, "not obtained within %" PRId64 " ms: %s.", options->wait_ms, w->error.text);
    else
        cli_say(COMMAND, "not obtained: %s.", w->error.text);
    return options->busy_code;
}

/* For --status-listen. There is no locker before the lease is known to be long enough. */
static void look(void *user, health_view *ret_view)
{
    const waiting *w = user;
    ret_view->mutex = w->words.mutex;
    ret_view->client = w->client;
    if (w->locker == NULL)
        return;
    ret_view->id = simba_locker_id(w->locker);
    ret_view->contends = refusal_is_settled(w->client);
    ret_view->leads = true;
    ret_view->reserve_ms = w->reserve_ms;
    simba_locker_lease(w->locker, &ret_view->lease);
    simba_locker_owner(w->locker, &ret_view->owner);
}

/* --- holding it --------------------------------------------------------------------------------- */

static void lease_of(void *user, simba_lease *ret_lease)
{
    simba_locker_lease(user, ret_lease);
}

/* Give the mutex back. Returns why leadership had ended before; SIMBA_REASON_NONE: it had not. */
static simba_reason release(simba_locker *locker)
{
    simba_error error;
    const int code = simba_locker_release(locker, &error);
    if (code == SIMBA_ELOST)
        return simba_locker_reason(locker);
    if (code < 0)
        cli_say(COMMAND, "%s; it becomes free when its lease ends.", error.text);
    return SIMBA_REASON_NONE;
}

static int read_note(void *holder, simba_error *err, simba_note *ret_note)
{
    return simba_locker_note(holder, err, ret_note);
}

static int write_note(void *holder, const void *bytes, size_t length, simba_error *err)
{
    return simba_locker_note_set(holder, bytes, length, err);
}

/* For --once-per. Who has lost the mutex may record nothing: the run counts as cut short, and the caller says why. */
static void record_end(const run_options *options, simba_locker *locker, int result)
{
    simba_error error;
    if (options->once_per_ms == 0)
        return;
    const int code = simba_locker_once_end(locker, result, &error);
    if (code < 0 && code != SIMBA_ELOST && code != SIMBA_ESTATE)
        cli_say(COMMAND, "the store has no record of how the command ended: %s.", error.text);
}

static int run_held(const run_options *options, const child_times *times, simba_client *client, simba_locker *locker,
                    cli_signals *signals)
{
    const child_note_holder holder = {COMMAND, read_note, write_note, locker};
    child_note note;
    child_note_open(&holder, &note);
    char mutex[SIMBA_MUTEX_BYTES + 8], slot[8];
    snprintf(slot, sizeof slot, "%d", simba_locker_slot(locker));
    snprintf(mutex, sizeof mutex, options->slots > 0 ? "%s#%s" : "%s", options->mutex, slot);
    const child_lease lease = {.mutex = mutex,
                               .token = simba_locker_token(locker),
                               .id = simba_locker_id(locker),
                               .note = &note,
                               .slot = options->slots > 0 ? slot : NULL};
    char **environment = child_environment(options->globals, &lease);
    simba_grant grant;
    give_back to_give_back;
    const int granted =
        options->min_hold_ms > 0 ? SIMBA_ENOTSUP : simba_locker_grant(locker, &grant); /* kept, not given */
    give_back_prepare(cli_opened_url(), mutex, granted, &grant, &to_give_back);
    outage_words outage = outage_words_for(COMMAND, mutex, "the command will be stopped", options->globals);
    const child_plan plan = {
        .command = COMMAND,
        .mutex = mutex,
        .argv = options->argv,
        .envp = environment,
        .times = *times,
        .signals = signals,
        .client = client,
        .give_back = &to_give_back,
        .lease = lease_of,
        .user = locker,
        .outage = &outage,
    };
    child_end end;
    const int code = environment != NULL ? child_run(&plan, &end) : -ENOMEM;
    const int kept = code == 0 && child_ended_well(&end) ? child_note_keep(&note) : CLI_GO;
    const int result = code < 0 ? CLI_SYSTEM : child_result(&end);
    record_end(options, locker, result == CLI_OK && kept != CLI_GO ? kept : result);
    const simba_reason reason = release(locker);
    free((void *)environment);
    child_note_close(&note);
    if (code < 0)
        return cli_fail(COMMAND, CLI_SYSTEM, "no process could be started: %s.", strerror(-code));
    child_explain(&plan, &end, reason);
    return result == CLI_OK && kept != CLI_GO ? kept : result;
}

/* Take the mutex and run the command. Handles that ask the store are freed after all messages. */
static int run_in(const run_options *options, simba_client *client, cli_signals *signals, waiting *w)
{
    simba_locker_options locker_options = SIMBA_LOCKER_OPTIONS_INIT;
    child_times times;
    const int fits = child_times_choose(COMMAND, client, options->grace_ms, &times);
    if (fits != CLI_GO)
        return fits;
    times.max_hold_ms = options->max_hold_ms;
    w->reserve_ms = times.lead_ms;
    locker_options.id = options->globals->id;
    locker_options.timing.stop_margin_ms = child_margin_ms(&times);
    locker_options.once_per_ms = options->once_per_ms;
    locker_options.once_retry_failed = options->retry_failed;
    locker_options.min_hold_ms = options->min_hold_ms;
    locker_options.slots = (int64_t)options->slots;
    if (simba_locker_new(client, options->mutex, &locker_options, &w->error, &w->locker) < 0)
        return cli_failure(COMMAND, &w->error);
    const int code = acquire(w, signals);
    /* A signal may have come too late to prevent the acquire. */
    if (code != 0 && simba_locker_held_for_ms(w->locker) > 0)
        simba_locker_release(w->locker, NULL);
    return code == 0 ? run_held(options, &times, client, w->locker, signals) : explain_not_acquired(options, w, code);
}

static int run_with(const run_options *options, waiting *w, cli_signals *signals)
{
    simba_client *client = w->client;
    simba_observer *asking = NULL;
    child_times asked_for;
    const int64_t start_ns = clock_boot_ns();
    int code = child_times_choose(COMMAND, client, options->grace_ms, &asked_for);
    if (code == CLI_GO) {
        child_times_await(client, options->mutex, signals, options->wait_ms == 0 ? ONE_ANSWER_MS : options->wait_ms,
                          &asking);
        if (options->wait_ms > 0)
            w->wait_ms =
                max64(1, options->wait_ms - (clock_boot_ns() - start_ns) / MS); /* a moment to find out what is wrong */
        code = run_in(options, client, signals, w);
    }
    health_close();
    code = cli_leave(code);
    simba_locker_free(w->locker);
    simba_observer_free(asking);
    return cli_close(client, code);
}

/* --- what is asked for -------------------------------------------------------------------------- */

static int run(const run_options *options, cli_globals *globals)
{
    cli_signals signals;
    waiting w = {.wait_ms = options->wait_ms, .words = waiting_words_for(COMMAND, options->mutex, options->globals)};
    globals->quiet = true;
    globals->warns_of_restarts = true;
    globals->dispatch = SIMBA_DISPATCH_FD; /* one thread does it all: it waits for the child and renews */
    const int supervised = child_check(COMMAND);
    if (supervised != CLI_GO)
        return supervised;
    int code = health_open(COMMAND, globals, look, &w);
    if (code == CLI_GO)
        code = cli_open_shared(COMMAND, globals, &w.client);
    if (code != CLI_GO) {
        health_close();
        return code;
    }
    code = signals_open(COMMAND, &signals);
    return code == CLI_GO ? run_with(options, &w, &signals) : cli_close(w.client, code);
}

int cmd_run(cli_globals *globals, int argc, char **argv)
{
    run_options options = {
        .globals = globals, .wait_ms = -1, .grace_ms = -1, .busy_code = CLI_BUSY, .slots = UINT64_MAX};
    bool no_wait = false;
    const cli_option own[] = {
        {"wait", 0, CLI_DURATION, "D", "Give up after this long; default: never", &options.wait_ms},
        {"no-wait", 'n', CLI_FLAG, NULL, "Give up at once if another owns the mutex", &no_wait},
        {"once-per", 0, CLI_DURATION, "D", "Skip if any host started it within D", &options.once_per_ms},
        {"retry-failed", 0, CLI_FLAG, NULL, "With --once-per: do begin again after a failure", &options.retry_failed},
        {"min-hold", 0, CLI_DURATION, "D", "Hold the mutex at least this long", &options.min_hold_ms},
        {"slots", 0, CLI_NUMBER, "N", "Let up to N hold the mutex at a time", &options.slots},
        {"conflict-exit-code", 'E', CLI_CODE, "N", "Exit with this if it is not obtained; default 75",
         &options.busy_code},
        {"grace", 0, CLI_DURATION, "D", "From SIGTERM to SIGKILL; must fit into the lease", &options.grace_ms},
        {"max-hold", 0, CLI_DURATION, "D", "Stop the command after this long", &options.max_hold_ms},
        {"label", 0, CLI_TEXT, "KEY=VALUE", "Label our own pod while it leads (Kubernetes)", &globals->label},
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
    if (no_wait && options.wait_ms >= 0)
        return cli_usage_error(COMMAND, "--wait and --no-wait contradict each other");
    if (options.once_per_ms > 0 && options.slots != UINT64_MAX)
        return cli_usage_error(COMMAND, "--slots and --once-per exclude each other");
    if (options.retry_failed && options.once_per_ms == 0)
        return cli_usage_error(COMMAND, "--retry-failed is for --once-per");
    if (options.slots == 0 || (options.slots > SIMBA_SLOTS_MAX && options.slots != UINT64_MAX))
        return cli_usage_error(COMMAND, "--slots wants a number from 1 to %d", SIMBA_SLOTS_MAX);
    if (options.slots == UINT64_MAX)
        options.slots = 0;
    if (no_wait)
        options.wait_ms = 0;
    options.mutex = argv[0];
    options.argv = argv + 1;
    return run(&options, globals);
}
