/* `simba elect`: a long-lived contender for scripts and sidecars. Tells on standard output, in a status file and by
 * commands of the user whether it leads. Callbacks run on the one thread there is, so a command that runs in one of
 * them is waited for, and the library keeps the lease meanwhile. */
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
    int64_t grace_ms; /* -1: as long as seems good */
    child_times times;
    cli_signals signals;
    simba_client *client;
    simba_contender *contender;
    bool leads;
    int64_t end_ns;     /* of the lease, as last seen */
    int64_t written_ns; /* what the status file says about that */
    int exit_code;      /* CLI_GO: go on */
} elect;

/* --- the status file ------------------------------------------------------------------------------ */

/* Replaced as a whole: whoever reads it finds the old or the new. */
static void write_status(elect *e)
{
    char path[4096];
    if (e->status_file == NULL)
        return;
    snprintf(path, sizeof path, "%s.%d", e->status_file, (int)getpid());
    FILE *file = fopen(path, "we");
    bool done = file != NULL;
    if (done && e->leads)
        done = fprintf(file, "leader %" PRIu64 " %" PRId64 ".%02" PRId64 "\n", simba_contender_token(e->contender),
                       e->end_ns / 1000000000, e->end_ns % 1000000000 / 10000000) > 0;
    else if (done)
        done = fputs("follower\n", file) >= 0;
    if (file != NULL)
        done = fclose(file) == 0 && done;
    if (!done || rename(path, e->status_file) < 0) {
        fprintf(stderr, "simba elect: %s cannot be written.\n", e->status_file);
        unlink(path);
    }
    e->written_ns = e->end_ns;
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
    if (held_ms > 0 && e->leads && e->end_ns > e->written_ns + TICK_MS * MS)
        write_status(e);
    return held_ms;
}

/* --- commands --------------------------------------------------------------------------------------- */

/* What is left of a lease that is not ours to use for much longer. */
static int64_t rest_of_lease(void *user)
{
    const elect *e = user;
    return (e->end_ns - watchdog_now_ns()) / MS - e->times.lead_ms;
}

static void run_hook(elect *e, const char *script, uint64_t token, const char *reason)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    const bool leased = simba_contender_held_for_ms(e->contender) > 0;
    child_plan plan = {
        .argv = argv,
        .times = e->times,
        .signals = &e->signals,
        .keeps_terminal = true,
        .held_for_ms = look,
        .user = e,
    };
    child_end end;
    if (!leased) {
        plan.times.grace_ms = 0;
        plan.held_for_ms = rest_of_lease;
    }
    const child_lease lease = {e->mutex, token, simba_contender_id(e->contender), reason};
    char **environment = child_environment(e->globals, &lease);
    plan.envp = environment;
    if (environment == NULL || child_run(&plan, &end) < 0) {
        fprintf(stderr, "simba elect: no process could be started for \"%s\".\n", script);
    } else {
        const int code = child_explain(COMMAND, e->mutex, &plan, &end, NULL);
        if (end.why == CHILD_ENDED && code != 0 && WIFEXITED(end.status))
            fprintf(stderr, "simba elect: \"%s\" exited with %d.\n", script, code);
        if (end.ending != 0)
            e->exit_code = CLI_OK;
    }
    child_environment_free(environment);
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
        printf("%s %s token %" PRIu64 "%s%s\n", event, e->mutex, token, reason != NULL ? ": " : "",
               reason != NULL ? reason : "");
    }
    fflush(stdout);
}

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    elect *e = user;
    (void)contender;
    e->leads = true;
    e->written_ns = 0;
    look(e);
    tell(e, "acquired", state->after.token, NULL);
    if (e->on_acquired != NULL)
        run_hook(e, e->on_acquired, state->after.token, NULL);
}

static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    elect *e = user;
    (void)contender;
    e->leads = false;
    write_status(e); /* before anything that takes time */
    tell(e, "released", state->before.token, simba_reason_name(reason));
    if (e->on_released != NULL)
        run_hook(e, e->on_released, state->before.token, simba_reason_name(reason));
}

/* --- the loop --------------------------------------------------------------------------------------- */

static void listen(elect *e)
{
    struct pollfd fds[] = {{.fd = simba_client_fd(e->client), .events = POLLIN},
                           {.fd = e->signals.fd, .events = POLLIN}};
    if (poll(fds, 2, e->leads ? TICK_MS : -1) < 0)
        return;
    if (fds[0].revents != 0)
        simba_client_dispatch(e->client);
    const int number = fds[1].revents != 0 ? signals_read(&e->signals) : 0;
    if (signals_is_ending(number))
        e->exit_code = CLI_OK;
    else if (number == SIGTSTP)
        raise(SIGSTOP);
    look(e);
    if (ferror(stdout))
        e->exit_code = CLI_FAILED;
}

static int run(elect *e)
{
    write_status(e);
    const int code = simba_contender_start(e->contender);
    while (code == 0 && e->exit_code == CLI_GO)
        listen(e);
    simba_contender_stop(e->contender);
    if (e->status_file != NULL)
        unlink(e->status_file);
    return code < 0 ? cli_exit_code(code) : e->exit_code;
}

static int contend(elect *e, const char *id)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_error error = {0, ""};
    options.id = id;
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
    const bool has_hooks = e->on_acquired != NULL || e->on_released != NULL;
    const int guarded = has_hooks ? child_check(COMMAND) : CLI_GO;
    if (guarded != CLI_GO)
        return guarded;
    if (signals_open(&e->signals) < 0) {
        fprintf(stderr, "simba elect: signals cannot be listened to.\n");
        return CLI_SYSTEM;
    }
    globals->dispatch = SIMBA_DISPATCH_FD;
    int code = cli_open(COMMAND, globals, &e->client);
    if (code == CLI_GO) {
        code = child_times_choose(COMMAND, e->client, e->grace_ms, &e->times);
        if (code == CLI_GO)
            code = contend(e, globals->id);
        simba_client_close(e->client);
    }
    signals_close(&e->signals);
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
        {"json", 0, CLI_FLAG, NULL, "Print one object a line", &e.json},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX",
        .about = "Contends for the mutex until SIGTERM or SIGINT, and prints when leadership comes\n"
                 "and goes. The commands find SIMBA_MUTEX, SIMBA_TOKEN, SIMBA_ID and, the second,\n"
                 "SIMBA_REASON in their environment. --on-released is run before anybody else can\n"
                 "lead, and has to be done by then. UNTIL is compared with /proc/uptime.",
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
