/* `simba schedule`: a command that runs again and again, on the leader only. */
#include <sys/wait.h>

#include "child/watchdog.h"
#include "service.h"

#define COMMAND "schedule"
#define MS INT64_C(1000000)
#define POLL_MAX_MS 60000

typedef struct schedule {
    service service; /* first */
    char **argv;
    int64_t every_ms; /* from start to start; -1: use after_ms */
    int64_t after_ms; /* from end to start; -1: use every_ms */
    int64_t initial_delay_ms;
    int64_t next_ns; /* when to start, while it leads */
} schedule;

static schedule *of(service *s)
{
    return (schedule *)(void *)s;
}

static void on_acquired(service *s, uint64_t token)
{
    (void)token;
    of(s)->next_ns = watchdog_now_ns() + of(s)->initial_delay_ms * MS;
}

static void on_released(service *s, uint64_t token, simba_reason reason)
{
    (void)s, (void)token, (void)reason;
}

/* A command that fails will be started again: that is said, and no reason to end. One that cannot be started is. */
static void explain(service *s, const child_plan *plan, const child_end *end)
{
    const int code = child_explain(plan, end, SIMBA_REASON_NONE);
    if (end->why == CHILD_NO_EXEC)
        s->exit_code = code;
    else if (end->why == CHILD_ENDED && code != 0 && WIFEXITED(end->status))
        cli_say(COMMAND, "the command exited with %d.", code);
    if (end->ending != 0)
        s->exit_code = CLI_OK;
}

static void run_command(service *s)
{
    const child_note_holder holder = service_note_holder(s);
    child_note note;
    child_note_open(&holder, &note);
    const child_lease lease = {s->mutex, simba_contender_token(s->contender), simba_contender_id(s->contender), NULL,
                               &note};
    char **environment = child_environment(s->globals, &lease);
    simba_grant grant;
    give_back to_give_back;
    const int granted = simba_contender_grant(s->contender, &grant);
    give_back_prepare(cli_opened_url(), s->mutex, granted, &grant, &to_give_back);
    const child_plan plan = {
        .command = COMMAND,
        .mutex = s->mutex,
        .argv = of(s)->argv,
        .envp = environment,
        .times = s->times,
        .signals = &s->signals,
        .client = s->client,
        .give_back = &to_give_back,
        .keeps_terminal = true,
        .lease = service_lease,
        .user = s,
        .outage = &s->outage,
    };
    child_end end;
    const int code = environment != NULL ? child_run(&plan, &end) : -1;
    if (code < 0)
        cli_say(COMMAND, "no process could be started; it is tried again.");
    else
        explain(s, &plan, &end);
    if (code == 0 && child_ended_well(&end))
        child_note_keep(&note);
    child_note_close(&note);
    child_environment_free(environment);
}

static void run_once(schedule *s)
{
    const int64_t start_ns = watchdog_now_ns();
    run_command(&s->service);
    const int64_t now_ns = watchdog_now_ns();
    if (s->every_ms > 0) {
        /* Starts that fell into the run are skipped, and the beat is kept. */
        const int64_t every_ns = s->every_ms * MS;
        s->next_ns = start_ns + ((now_ns - start_ns) / every_ns + 1) * every_ns;
    } else {
        s->next_ns = now_ns + s->after_ms * MS;
    }
}

static int pause_ms(const service *s)
{
    const schedule *mine = (const schedule *)(const void *)s;
    if (!s->leads)
        return -1;
    const int64_t left_ms = (mine->next_ns - watchdog_now_ns()) / MS + 1;
    return left_ms < 0 ? 0 : left_ms < POLL_MAX_MS ? (int)left_ms : POLL_MAX_MS;
}

static void act(service *s)
{
    if (s->leads && watchdog_now_ns() >= of(s)->next_ns)
        run_once(of(s));
}

static const service_type type = {
    .command = COMMAND,
    .consequence = "the command will be stopped",
    .acquired = on_acquired,
    .released = on_released,
    .pause_ms = pause_ms,
    .act = act,
};

int cmd_schedule(cli_globals *globals, int argc, char **argv)
{
    schedule s = {.service = {.type = &type, .globals = globals, .grace_ms = -1, .runs_commands = true},
                  .every_ms = -1,
                  .after_ms = -1};
    const cli_option own[] = {
        {"every", 0, CLI_DURATION, "D", "Start it this often, counted from start to start", &s.every_ms},
        {"after", 0, CLI_DURATION, "D", "Start it this long after it has ended", &s.after_ms},
        {"initial-delay", 0, CLI_DURATION, "D", "From leadership to the first start; otherwise at once",
         &s.initial_delay_ms},
        {"grace", 0, CLI_DURATION, "D", "From SIGTERM to SIGKILL; has to fit into the lease", &s.service.grace_ms},
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
    s.service.mutex = argv[0];
    s.argv = argv + 1;
    return service_run(&s.service);
}
