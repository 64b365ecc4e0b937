/* `simba schedule`: a command that runs again and again, on the leader only. One thread does it all: while a command
 * runs, it supervises that; otherwise it waits for leadership, for the next start, or for a signal. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "child/child.h"
#include "child/watchdog.h"
#include "cli.h"

#define COMMAND "schedule"
#define MS INT64_C(1000000)
#define POLL_MAX_MS 60000

typedef struct schedule {
    const cli_globals *globals;
    const char *mutex;
    char **argv;
    int64_t every_ms; /* from start to start; -1: use after_ms */
    int64_t after_ms; /* from end to start; -1: use every_ms */
    int64_t initial_delay_ms;
    int64_t grace_ms; /* -1: as long as seems good */
    child_times times;
    cli_signals signals;
    simba_client *client;
    simba_contender *contender;
    waiting_words waiting;
    bool leads;
    int64_t next_ns; /* when to start, while it leads */
    int exit_code;   /* CLI_GO: go on */
} schedule;

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    schedule *s = user;
    (void)contender;
    (void)state;
    s->leads = true;
    s->waiting.told = (simba_owner){.token = 0};
    s->next_ns = watchdog_now_ns() + s->initial_delay_ms * MS;
}

static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    schedule *s = user;
    (void)contender;
    (void)state;
    (void)reason;
    s->leads = false;
}

static int64_t held_for_ms(void *user)
{
    return simba_contender_held_for_ms(user);
}

/* A command that fails will be started again: that is said, and no reason to end. One that cannot be started is. */
static void explain(schedule *s, const child_plan *plan, const child_end *end)
{
    const int code = child_explain(plan, end, NULL);
    if (end->why == CHILD_NO_EXEC)
        s->exit_code = code;
    else if (end->why == CHILD_ENDED && code != 0 && WIFEXITED(end->status))
        cli_say(COMMAND, "the command exited with %d.", code);
    if (end->ending != 0)
        s->exit_code = CLI_OK;
}

static void run_once(schedule *s)
{
    const int64_t start_ns = watchdog_now_ns();
    const child_lease lease = {s->mutex, simba_contender_token(s->contender), simba_contender_id(s->contender), NULL};
    char **environment = child_environment(s->globals, &lease);
    simba_grant grant;
    give_back to_give_back;
    const int granted = simba_contender_grant(s->contender, &grant);
    give_back_prepare(cli_opened_url(), s->mutex, granted, &grant, &to_give_back);
    outage_words outage = {.command = COMMAND,
                           .mutex = s->mutex,
                           .consequence = "the command will be stopped",
                           .worry_ms = s->times.worry_ms};
    const child_plan plan = {
        .command = COMMAND,
        .mutex = s->mutex,
        .argv = s->argv,
        .envp = environment,
        .times = s->times,
        .signals = &s->signals,
        .client = s->client,
        .give_back = &to_give_back,
        .keeps_terminal = true,
        .held_for_ms = held_for_ms,
        .user = s->contender,
        .outage = &outage,
    };
    child_end end;
    const int code = environment != NULL ? child_run(&plan, &end) : -1;
    if (code < 0)
        cli_say(COMMAND, "no process could be started; it is tried again.");
    else
        explain(s, &plan, &end);
    child_environment_free(environment);

    const int64_t now_ns = watchdog_now_ns();
    if (s->every_ms > 0) {
        /* Starts that fell into the run are skipped, and the beat is kept. */
        const int64_t every_ns = s->every_ms * MS;
        s->next_ns = start_ns + ((now_ns - start_ns) / every_ns + 1) * every_ns;
    } else {
        s->next_ns = now_ns + s->after_ms * MS;
    }
}

static int pause_ms(const schedule *s)
{
    if (!s->leads)
        return s->waiting.at_terminal ? WAITING_FIRST_MS : -1;
    const int64_t left_ms = (s->next_ns - watchdog_now_ns()) / MS + 1;
    return left_ms < 0 ? 0 : left_ms < POLL_MAX_MS ? (int)left_ms : POLL_MAX_MS;
}

static void listen(schedule *s)
{
    struct pollfd fds[] = {{.fd = simba_client_fd(s->client), .events = POLLIN},
                           {.fd = s->signals.fd, .events = POLLIN}};
    const int ready = poll(fds, 2, pause_ms(s));
    if (ready < 0)
        return;
    if (ready == 0 && !s->leads)
        waiting_say_owner(&s->waiting, s->contender);
    if (fds[0].revents != 0)
        simba_client_dispatch(s->client);
    const int number = fds[1].revents != 0 ? signals_read(&s->signals) : 0;
    if (signals_is_ending(number))
        s->exit_code = CLI_OK;
    else if (number == SIGTSTP)
        raise(SIGSTOP);
}

static int run(schedule *s)
{
    int code = simba_contender_start(s->contender);
    while (code == 0 && s->exit_code == CLI_GO) {
        listen(s);
        if (s->exit_code == CLI_GO && s->leads && watchdog_now_ns() >= s->next_ns)
            run_once(s);
    }
    code = code < 0 ? cli_exit_code(code) : s->exit_code;
    if (!s->leads && simba_contender_held_for_ms(s->contender) == 0)
        code = cli_leave(code);
    simba_contender_stop(s->contender);
    return code;
}

static int contend(schedule *s, const char *id)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_error error = {0, ""};
    options.id = id;
    s->waiting = waiting_words_for(COMMAND, s->mutex);
    options.timing.stop_margin_ms = child_margin_ms(&s->times);
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.user = s;
    if (simba_contender_new(s->client, s->mutex, &options, &error, &s->contender) < 0)
        return cli_failure(COMMAND, &error);
    const int code = cli_leave(run(s));
    simba_contender_free(s->contender);
    return code;
}

static int open_and_run(schedule *s, cli_globals *globals)
{
    simba_observer *asking = NULL;
    const int guarded = child_check(COMMAND);
    if (guarded != CLI_GO)
        return guarded;
    globals->dispatch = SIMBA_DISPATCH_FD;
    int code = cli_open(COMMAND, globals, &s->client);
    if (code != CLI_GO)
        return code;
    code = signals_open(COMMAND, &s->signals);
    if (code == CLI_GO)
        code = child_times_choose(COMMAND, s->client, s->grace_ms, &s->times);
    if (code == CLI_GO) {
        child_times_await(s->client, s->mutex, &s->signals, -1, &asking);
        code = child_times_choose(COMMAND, s->client, s->grace_ms, &s->times);
    }
    if (code == CLI_GO)
        code = contend(s, globals->id);
    code = cli_close(s->client, code);
    simba_observer_free(asking);
    return code;
}

int cmd_schedule(cli_globals *globals, int argc, char **argv)
{
    schedule s = {.globals = globals, .exit_code = CLI_GO, .every_ms = -1, .after_ms = -1, .grace_ms = -1};
    const cli_option own[] = {
        {"every", 0, CLI_DURATION, "D", "Start it this often, counted from start to start", &s.every_ms},
        {"after", 0, CLI_DURATION, "D", "Start it this long after it has ended", &s.after_ms},
        {"initial-delay", 0, CLI_DURATION, "D", "From leadership to the first start; otherwise at once",
         &s.initial_delay_ms},
        {"grace", 0, CLI_DURATION, "D", "From SIGTERM to SIGKILL; has to fit into the lease", &s.grace_ms},
        {"keep-password", 0, CLI_FLAG, NULL, "Leave the store's password in its environment", &globals->keep_password},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX -- COMMAND [ARGUMENT...]",
        .about = "Contends for the mutex, and while it leads, runs the command periodically. One\n"
                 "run never overlaps another, here or elsewhere: what is said of `simba run`\n"
                 "about the end of leadership is true here too. It goes on until SIGTERM or\n"
                 "SIGINT, which a running command gets as well, and then exits with 0.",
        .options = own,
        .option_count = sizeof own / sizeof own[0],
        .takes = CLI_TAKES_ALL,
        .min_operands = 2,
        .max_operands = -1,
        .verbatim_from = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (s.every_ms >= 0 && s.after_ms >= 0)
        return cli_usage_error(COMMAND, "--every and --after contradict each other");
    if (s.every_ms < 0 && s.after_ms < 0)
        return cli_usage_error(COMMAND, "how often? --every or --after is missing");
    if (s.every_ms == 0 || s.after_ms == 0)
        return cli_usage_error(COMMAND, "--%s has to be longer than 0", s.every_ms == 0 ? "every" : "after");
    s.mutex = argv[0];
    s.argv = argv + 1;
    return open_and_run(&s, globals);
}
