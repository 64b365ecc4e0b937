/* `simba elect`: a long-lived contender for scripts and sidecars. Tells on standard output, in a status file and by
 * commands of the user whether it leads. Everything runs on the one thread there is, the callbacks and the renewals: a
 * command that runs in a callback is waited for, and whoever waits for it dispatches. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child/child.h"
#include "child/watchdog.h"
#include "cli.h"
#include "json.h"
#include "status.h"
#include "util/escape.h"

#define COMMAND "elect"
#define MS INT64_C(1000000)
#define TICK_MS 100

typedef struct elect {
    const cli_globals *globals;
    const char *mutex;
    const char *on_acquired;
    const char *on_released;
    const char *status_file;
    bool json;
    bool keep_leading; /* also if --on-acquired fails */
    int64_t grace_ms;  /* -1: as long as seems good */
    child_times times;
    cli_signals signals;
    simba_client *client;
    simba_contender *contender;
    waiting_words waiting;
    outage_words outage;
    bool leads;
    bool gives_up;      /* --on-acquired failed: contend again later */
    int64_t resume_ns;  /* when */
    int64_t end_ns;     /* of the lease, as last seen */
    int64_t written_ns; /* what the status file says about that */
    int exit_code;      /* CLI_GO: go on */
} elect;

/* --- the status file ------------------------------------------------------------------------------ */

static void tell_status(elect *e)
{
    char line[128] = "follower\n";
    if (e->status_file == NULL)
        return;
    if (e->leads)
        snprintf(line, sizeof line, "leader %" PRIu64 " %" PRId64 ".%02" PRId64 "\n",
                 simba_contender_token(e->contender), e->end_ns / 1000000000, e->end_ns % 1000000000 / 10000000);
    const int code = status_write(e->status_file, line);
    if (code < 0)
        cli_say(COMMAND, "the status file %s cannot be written: %s.", e->status_file, strerror(-code));
    e->written_ns = e->end_ns;
}

/* A mistake in its name is told before anything is contended for. */
static int check_status_file(const elect *e)
{
    const int code = e->status_file != NULL ? status_write(e->status_file, "follower\n") : 0;
    if (code == 0)
        return CLI_GO;
    cli_say(COMMAND, "the status file %s cannot be written: %s.", e->status_file, strerror(-code));
    return code == -EACCES || code == -EPERM || code == -EROFS ? CLI_NO_PERMISSION : CLI_CONFIG;
}

/* Look at the lease; the file says until when it lasts, so that a probe is not deceived by what a dead process left. The
 * clock is read first: what is written is never later than the truth. */
static int64_t look(void *user)
{
    elect *e = user;
    const int64_t now_ns = watchdog_now_ns();
    const int64_t held_ms = simba_contender_held_for_ms(e->contender);
    if (held_ms > 0)
        e->end_ns = now_ns + (held_ms + child_margin_ms(&e->times)) * MS;
    if (e->leads)
        outage_look(&e->outage, held_ms + child_margin_ms(&e->times), held_ms);
    if (held_ms > 0 && e->leads && e->end_ns > e->written_ns + TICK_MS * MS)
        tell_status(e);
    return held_ms;
}

/* --- commands --------------------------------------------------------------------------------------- */

/* While it tidies up after having been asked to end, the library does not take the margin off. */
static int64_t look_while_releasing(void *user)
{
    const elect *e = user;
    return simba_contender_held_for_ms(e->contender) - child_margin_ms(&e->times);
}

/* What is left of a lease that was lost. */
static int64_t rest_of_lease(void *user)
{
    const elect *e = user;
    return (e->end_ns - watchdog_now_ns()) / MS - e->times.lead_ms;
}

/* Returns whether it ended by itself, and well. */
static bool run_hook(elect *e, const char *script, uint64_t token, const char *reason)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    const bool leased = simba_contender_held_for_ms(e->contender) > 0;
    child_plan plan = {
        .command = COMMAND,
        .mutex = e->mutex,
        .argv = argv,
        .times = e->times,
        .signals = &e->signals,
        .client = e->client,
        .keeps_terminal = true,
        .held_for_ms = e->leads ? look : look_while_releasing,
        .user = e,
    };
    child_end end;
    bool good = false;
    if (!leased) {
        plan.times.grace_ms = 0;
        plan.held_for_ms = rest_of_lease;
    }
    const child_lease lease = {e->mutex, token, simba_contender_id(e->contender), reason};
    char **environment = child_environment(e->globals, &lease);
    plan.envp = environment;
    if (environment == NULL || child_run(&plan, &end) < 0) {
        cli_say(COMMAND, "no process could be started for \"%s\".", script);
    } else {
        const int code = child_explain(&plan, &end, NULL);
        good = end.why == CHILD_ENDED && code == 0;
        if (end.why == CHILD_ENDED && code != 0 && WIFEXITED(end.status))
            cli_say(COMMAND, "\"%s\" exited with %d.", script, code);
        if (end.ending != 0)
            e->exit_code = CLI_OK;
    }
    child_environment_free(environment);
    return good;
}

/* --- telling ---------------------------------------------------------------------------------------- */

static void tell(const elect *e, const char *event, uint64_t token, const char *reason)
{
    if (e->json) {
        fputs("{\"mutex\":", stdout);
        json_string(stdout, e->mutex);
        printf(",\"event\":\"%s\",\"token\":\"%" PRIu64 "\"", event, token);
        if (reason != NULL)
            printf(",\"reason\":\"%s\"", reason);
        fputs("}\n", stdout);
    } else {
        char name[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
        printf("%s %s token %" PRIu64 "%s%s\n", event, simba__escape(e->mutex, name, sizeof name), token,
               reason != NULL ? ": " : "", reason != NULL ? reason : "");
    }
    fflush(stdout);
}

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    elect *e = user;
    e->leads = true;
    e->waiting.told = (simba_owner){.token = 0};
    e->outage.said = false;
    e->written_ns = 0;
    look(e);
    tell(e, "acquired", state->after.token, NULL);
    if (e->on_acquired == NULL || run_hook(e, e->on_acquired, state->after.token, NULL) || e->exit_code != CLI_GO)
        return;
    /* What leads but could not do what leading is for keeps others from doing it. */
    if (!e->keep_leading && simba_contender_is_owner(contender)) {
        cli_say(COMMAND, "\"%s\" failed; leadership of %s is given back.", e->on_acquired, e->mutex);
        e->gives_up = true;
        e->resume_ns = watchdog_now_ns() + e->times.lease_ms * MS;
        simba_contender_stop(contender); /* on_released follows when this callback has returned */
    }
}

static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    elect *e = user;
    (void)contender;
    e->leads = false;
    tell_status(e); /* before anything that takes time */
    tell(e, "released", state->before.token, simba_reason_name(reason));
    if (e->on_released != NULL)
        run_hook(e, e->on_released, state->before.token, simba_reason_name(reason));
}

/* --- the loop --------------------------------------------------------------------------------------- */

/* Whoever failed to do its work leaves the mutex to others for as long as a lease lasts. */
static void resume(elect *e)
{
    if (!e->gives_up || watchdog_now_ns() < e->resume_ns ||
        simba_contender_status(e->contender) != SIMBA_STATUS_INITIAL)
        return;
    e->gives_up = false;
    if (simba_contender_start(e->contender) < 0)
        e->exit_code = CLI_FAILED;
}

static int pause_ms(const elect *e)
{
    return e->leads || e->gives_up ? TICK_MS : e->waiting.at_terminal ? WAITING_FIRST_MS : -1;
}

static void listen(elect *e)
{
    struct pollfd fds[] = {{.fd = simba_client_fd(e->client), .events = POLLIN},
                           {.fd = e->signals.fd, .events = POLLIN}};
    const int ready = poll(fds, 2, pause_ms(e));
    if (ready < 0)
        return;
    if (ready == 0 && !e->leads)
        waiting_say_owner(&e->waiting, e->contender);
    if (fds[0].revents != 0)
        simba_client_dispatch(e->client);
    const int number = fds[1].revents != 0 ? signals_read(&e->signals) : 0;
    if (signals_is_ending(number))
        e->exit_code = CLI_OK;
    else if (number == SIGTSTP)
        raise(SIGSTOP);
    look(e);
    resume(e);
    if (ferror(stdout))
        e->exit_code = CLI_FAILED;
}

/* Nothing is held any more. */
static int leave(const elect *e, int code)
{
    if (e->status_file != NULL)
        unlink(e->status_file);
    return cli_leave(code);
}

static int run(elect *e)
{
    int code = simba_contender_start(e->contender);
    while (code == 0 && e->exit_code == CLI_GO)
        listen(e);
    code = code < 0 ? cli_exit_code(code) : e->exit_code;
    if (!e->leads && simba_contender_held_for_ms(e->contender) == 0)
        code = leave(e, code);
    simba_contender_stop(e->contender);
    return leave(e, code);
}

static int contend(elect *e, const char *id)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_error error = {0, ""};
    options.id = id;
    e->waiting = waiting_words_for(COMMAND, e->mutex);
    e->outage = (outage_words){.command = COMMAND,
                               .mutex = e->mutex,
                               .consequence = "leadership will be given up",
                               .worry_ms = e->times.worry_ms};
    options.timing.stop_margin_ms = child_margin_ms(&e->times);
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.user = e;
    if (simba_contender_new(e->client, e->mutex, &options, &error, &e->contender) < 0)
        return cli_failure(COMMAND, &error);
    const int code = run(e);
    simba_contender_free(e->contender);
    return code;
}

static int open_and_run(elect *e, cli_globals *globals)
{
    simba_observer *asking = NULL;
    const bool has_hooks = e->on_acquired != NULL || e->on_released != NULL;
    const int guarded = has_hooks ? child_check(COMMAND) : CLI_GO;
    if (guarded != CLI_GO)
        return guarded;
    const int written = check_status_file(e);
    if (written != CLI_GO)
        return written;
    globals->dispatch = SIMBA_DISPATCH_FD;
    int code = cli_open(COMMAND, globals, &e->client);
    if (code != CLI_GO)
        return leave(e, code);
    code = signals_open(COMMAND, &e->signals);
    if (code == CLI_GO)
        code = child_times_choose(COMMAND, e->client, e->grace_ms, &e->times);
    if (code == CLI_GO) {
        child_times_await(e->client, e->mutex, &e->signals, -1, &asking);
        code = child_times_choose(COMMAND, e->client, e->grace_ms, &e->times);
    }
    if (code == CLI_GO)
        code = contend(e, globals->id);
    code = cli_close(e->client, leave(e, code));
    simba_observer_free(asking);
    return code;
}

int cmd_elect(cli_globals *globals, int argc, char **argv)
{
    elect e = {.globals = globals, .exit_code = CLI_GO, .grace_ms = -1};
    const cli_option own[] = {
        {"on-acquired", 0, CLI_TEXT, "CMD", "Shell command to run when it leads", &e.on_acquired},
        {"on-released", 0, CLI_TEXT, "CMD", "Shell command to run when it leads no more", &e.on_released},
        {"status-file", 0, CLI_TEXT, "F", "Keep \"leader TOKEN UNTIL\" or \"follower\" there", &e.status_file},
        {"grace", 0, CLI_DURATION, "D", "How much of the lease is for --on-released", &e.grace_ms},
        {"keep-password", 0, CLI_FLAG, NULL, "Leave the store's password in its environment", &globals->keep_password},
        {"keep-leading", 0, CLI_FLAG, NULL, "Lead on also if --on-acquired fails", &e.keep_leading},
        {"json", 0, CLI_FLAG, NULL, "Print one object a line", &e.json},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX",
        .about = "Contends for the mutex until SIGTERM or SIGINT, and prints when leadership comes\n"
                 "and goes. The commands find SIMBA_MUTEX, SIMBA_TOKEN, SIMBA_ID and, the second,\n"
                 "SIMBA_REASON in their environment. --on-released is run before anybody else can\n"
                 "lead, and has to be done by then. If --on-acquired fails, leadership is given\n"
                 "back. UNTIL is compared with /proc/uptime.",
        .options = own,
        .option_count = sizeof own / sizeof own[0],
        .takes = CLI_TAKES_ALL,
        .min_operands = 1,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    e.mutex = argv[0];
    return open_and_run(&e, globals);
}
