/* `simba schedule`: runs a command again and again, on the leader only, when the library's scheduler says; and `--list`, which
 * prints the schedules of a store, as the notes of its mutexes record them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "json.h"
#include "look.h"
#include "service.h"
#include "shown.h"
#include "term.h"
#include "util/escape.h"

#define COMMAND "schedule"

typedef struct schedule {
    service service; /* first */
    char **argv;
    simba_scheduler_options options;
    simba_run *run; /* in progress */
} schedule;

/* --- running ---------------------------------------------------------------------------------------- */

static void lease_of(void *user, simba_lease *ret_lease)
{
    schedule *mine = user;
    service_lease(&mine->service, ret_lease);
}

static int grant_of(void *user, simba_grant *ret_grant)
{
    const schedule *mine = user;
    return simba_scheduler_grant(mine->service.scheduler, ret_grant);
}

static int read_note(void *user, simba_error *err, simba_note *ret_note)
{
    const schedule *mine = user;
    return simba_run_note(mine->run, err, ret_note);
}

static int write_note(void *user, const void *bytes, size_t length, simba_error *err)
{
    const schedule *mine = user;
    return simba_run_note_set(mine->run, bytes, length, err);
}

/* A command that fails will be started again: print that and go on. If it cannot be started, end. */
static void work(simba_run *run, void *user)
{
    schedule *mine = user;
    service *s = &mine->service;
    char due[WHEN_SIZE];
    char missed[24];
    child_end end;
    const bool remembered = simba_run_due_at_ms(run) != 0;
    if (s->exit_code != CLI_GO)
        return; /* a signal came first; the run counts as cut short */
    snprintf(missed, sizeof missed, "%" PRId64, simba_run_missed(run));
    mine->run = run;
    const child_plan plan = {
        .command = COMMAND,
        .mutex = s->mutex,
        .argv = mine->argv,
        .globals = s->globals,
        .times = s->times,
        .signals = &s->signals,
        .client = s->client,
        .holder = {mine, lease_of, grant_of, read_note, write_note},
        .facts = {.mutex = s->mutex,
                  .token = simba_run_token(run),
                  .id = simba_scheduler_id(s->scheduler),
                  .due = remembered ? when_utc(simba_run_due_at_ms(run), due) : NULL,
                  .missed = remembered ? missed : NULL,
                  .cut_short = !remembered                ? NULL
                               : simba_run_cut_short(run) ? "1"
                                                          : "0"},
        .keeps_terminal = true,
        .outage = &s->outage,
    };
    if (child_run(&plan, &end) < 0) {
        end.code = cli_fail(COMMAND, CLI_SYSTEM, "no process could be started; it is tried again when it is due.");
    } else {
        child_explain(&plan, &end, check_look(&s->check) ? SIMBA_REASON_NONE : SIMBA_REASON_STOPPED);
        if (end.why == CHILD_NO_EXEC)
            s->exit_code = end.code;
        else if (end.why == CHILD_ENDED && end.code != 0 && WIFEXITED(end.status))
            cli_error(COMMAND, "the command exited with %d.", end.code);
        if (end.ending != 0)
            s->exit_code = CLI_OK;
    }
    if (!simba_run_stopping(run))
        simba_run_finish(run, end.code);
}

static int make(service *s, const simba_timing *timing, simba_error *error)
{
    schedule *mine = (schedule *)(void *)s;
    mine->options.id = s->globals->id;
    mine->options.timing = *timing;
    mine->options.work = work;
    mine->options.user = mine;
    return simba_scheduler_new(s->client, s->mutex, &mine->options, error, &s->scheduler);
}

static const service_type type = {
    .command = COMMAND,
    .consequence = "the command will be stopped",
    .make = make,
};

/* --- the list ---------------------------------------------------------------------------------------- */

/* "every 3600000" → "every 1h", as --every takes it; the words of cron stay as they are. */
static const char *plan_of(const simba_schedule_info *info, char text[sizeof info->when])
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    size_t unit = 0;
    int words = 0;
    int64_t ms = 0;
    if (sscanf(info->when, "every %n%" SCNd64, &words, &ms) != 1 &&
        sscanf(info->when, "once per %n%" SCNd64, &words, &ms) != 1)
        return info->when;
    while (ms % units[unit].ms != 0)
        unit++;
    snprintf(text, sizeof info->when, "%.*s%" PRId64 "%s", words, info->when, ms / units[unit].ms, units[unit].name);
    return text;
}

static void print_line(const term *t, size_t number, const char *mutex, const simba_schedule_info *info)
{
    char name[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES) + 8];
    char last[WHEN_SIZE];
    char ended[WHEN_SIZE];
    char next[WHEN_SIZE];
    char result[WHEN_SIZE] = "-";
    char plan[sizeof info->when];
    if (info->begun_at_ms != 0 && info->ended_at_ms == 0)
        snprintf(result, sizeof result, "unfinished");
    else if (info->begun_at_ms != 0)
        snprintf(result, sizeof result, info->result == 0 ? "ok" : "failed (%d)", info->result);
    if (number == 0)
        printf("%s%-24s  %-24s  %-24s  %-12s  %-24s  WHEN%s\n", term_on(t, TERM_BOLD), "MUTEX", "LAST", "ENDED",
               "RESULT", "NEXT", term_off(t));
    printf("%-24s  %-24s  %-24s  %-12s  %-24s  %s\n", simba__escape(mutex, name, sizeof name),
           when_utc(info->begun_at_ms, last), when_utc(info->ended_at_ms, ended), result,
           when_utc(info->next_at_ms, next), plan_of(info, plan));
}

static void print_all(const look *l, bool json)
{
    term t;
    size_t count = 0;
    json_writer j = {.to = stdout};
    term_open(stdout, &t);
    if (json)
        json_open(&j, NULL, '[');
    for (const look_row *row = l->rows; row < l->rows + l->count; row++) {
        simba_schedule_info info = SIMBA_SCHEDULE_INFO_INIT;
        simba_error error = {0, ""};
        const int code = simba_schedule_read(row->note, row->note_length, &error, &info);
        if (code < 0 && code != SIMBA_ENOTFOUND)
            cli_warn(COMMAND, "%s: %s.", row->mutex, error.text);
        if (code == 0 && json) {
            json_line_break(&j);
            json_open(&j, NULL, '{');
            json_text(&j, "mutex", row->mutex);
            json_text(&j, "when", info.when);
            json_run(&j, &info);
            json_when(&j, "next", info.next_at_ms);
            json_close(&j, '}');
        } else if (code == 0) {
            print_line(&t, count++, row->mutex, &info);
        }
    }
    if (json)
        puts("]");
}

/* --- what is asked for ------------------------------------------------------------------------------- */

typedef struct arguments {
    int64_t every_ms, after_ms, initial_delay_ms; /* -1: not given */
    const char *cron, *zone, *catch_up;
    bool at_least_once;
    bool list, json;
} arguments;

/* "once", "skip", "all" or "all:N". */
static bool read_catch_up(const char *text, simba_scheduler_options *options)
{
    static const char all[] = "all:";
    char *end;
    if (strcmp(text, "once") == 0)
        options->catch_up = SIMBA_CATCH_UP_ONCE;
    else if (strcmp(text, "skip") == 0)
        options->catch_up = SIMBA_CATCH_UP_SKIP;
    else if (strcmp(text, "all") == 0)
        options->catch_up = SIMBA_CATCH_UP_ALL;
    else if (strncmp(text, all, strlen(all)) == 0 && text[strlen(all)] >= '1' && text[strlen(all)] <= '9') {
        options->catch_up = SIMBA_CATCH_UP_ALL;
        options->catch_up_limit = strtol(text + strlen(all), &end, 10);
        return *end == '\0';
    } else
        return false;
    return true;
}

/* Which options contradict each other; NULL: none. */
static const char *fault_of(const arguments *given)
{
    const int ways = (given->every_ms >= 0) + (given->after_ms >= 0) + (given->cron != NULL);
    if (ways == 0)
        return "how often? --every, --after or --cron is missing";
    if (ways > 1)
        return given->cron == NULL    ? "--every and --after contradict each other"
               : given->every_ms >= 0 ? "--every and --cron contradict each other"
                                      : "--after and --cron contradict each other";
    if (given->every_ms == 0 || given->after_ms == 0)
        return given->every_ms == 0 ? "--every must be longer than 0" : "--after must be longer than 0";
    if (given->zone != NULL && given->cron == NULL)
        return "--tz is for --cron";
    if (given->initial_delay_ms >= 0 && given->cron != NULL)
        return "--initial-delay has no meaning with --cron";
    if (given->after_ms >= 0 && (given->catch_up != NULL || given->at_least_once))
        return "--after remembers nothing: --catch-up and --at-least-once are for --every and --cron";
    return NULL;
}

/* The library judges cron expressions and time zones, when it makes a scheduler. One in memory finds such a mistake whether
 * or not the store can be reached. */
static int check_times(const simba_scheduler_options *options)
{
    simba_client_options apart = SIMBA_CLIENT_OPTIONS_INIT;
    simba_scheduler_options checked = *options;
    simba_scheduler *scheduler = NULL;
    simba_client *client = NULL;
    simba_error error = {0, ""};
    apart.dispatch = SIMBA_DISPATCH_FD; /* no thread may be there before the signals are blocked */
    checked.work = work;
    if (simba_client_open("memory://" COMMAND, &apart, NULL, &client) < 0)
        return CLI_GO; /* the store's own client will find it */
    const int code = simba_scheduler_new(client, COMMAND, &checked, &error, &scheduler);
    simba_scheduler_free(scheduler);
    simba_client_close(client);
    return code == SIMBA_EINVAL || code == SIMBA_ENOTFOUND ? cli_usage_error(COMMAND, "%s", error.text) : CLI_GO;
}

static int choose(const arguments *given, simba_scheduler_options *options)
{
    const char *fault = fault_of(given);
    if (fault != NULL)
        return cli_usage_error(COMMAND, "%s", fault);
    options->schedule = given->cron != NULL   ? SIMBA_SCHEDULE_CRON
                        : given->every_ms > 0 ? SIMBA_SCHEDULE_INTERVAL
                                              : SIMBA_SCHEDULE_FIXED_DELAY;
    options->period_ms = given->every_ms > 0 ? given->every_ms : given->after_ms > 0 ? given->after_ms : 0;
    options->initial_delay_ms = given->initial_delay_ms > 0 ? given->initial_delay_ms : 0;
    options->cron = given->cron;
    options->time_zone = given->zone;
    options->guarantee = given->at_least_once ? SIMBA_AT_LEAST_ONCE : SIMBA_AT_MOST_ONCE;
    if (given->catch_up != NULL && !read_catch_up(given->catch_up, options))
        return cli_usage_error(COMMAND, "--catch-up is once, skip, all or all:N, not \"%s\"", given->catch_up);
    return check_times(options);
}

int cmd_schedule(cli_globals *globals, int argc, char **argv)
{
    schedule s = {.service = {.type = &type, .globals = globals, .grace_ms = -1, .runs_commands = true},
                  .options = SIMBA_SCHEDULER_OPTIONS_INIT};
    arguments given = {.every_ms = -1, .after_ms = -1, .initial_delay_ms = -1};
    const cli_option own[] = {
        {"every", 0, CLI_DURATION, "D", "Start it this often, counted from the first start", &given.every_ms},
        {"cron", 0, CLI_TEXT, "EXPR", "Start it at these times: '15 3 * * 1-5', @daily", &given.cron},
        {"tz", 0, CLI_TEXT, "ZONE", "Time zone of --cron: Europe/Berlin; default UTC", &given.zone},
        {"after", 0, CLI_DURATION, "D", "Start it this long after it has ended", &given.after_ms},
        {"initial-delay", 0, CLI_DURATION, "D", "Wait before the first start; default 0s", &given.initial_delay_ms},
        {"catch-up", 0, CLI_TEXT, "HOW", "Missed runs: once (default), skip, all[:N]", &given.catch_up},
        {"at-least-once", 0, CLI_FLAG, NULL, "Repeat a run that was cut short or failed", &given.at_least_once},
        {"list", 0, CLI_FLAG, NULL, "List schedules, their last runs and next times", &given.list},
        {"json", 0, CLI_FLAG, NULL, "With --list: print an array of objects", &given.json},
        {"grace", 0, CLI_DURATION, "D", "From SIGTERM to SIGKILL; must fit into the lease", &s.service.grace_ms},
        {"keep-password", 0, CLI_FLAG, NULL, "Leave the store's password in its environment", &globals->keep_password},
        CHECK_OPTIONS(s.service.check),
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX -- COMMAND [ARGUMENT...] | --list [PATTERN]",
        .about = "Runs the command periodically while it leads, as `simba run` would. Two runs\n"
                 "never overlap. SIGTERM ends it, with 0. With --every and --cron the command finds\n"
                 "SIMBA_DUE, SIMBA_MISSED and SIMBA_CUT_SHORT; the next leader goes on from there.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_ALL | CLI_TAKES_HEALTH,
        .max_operands = -1,
        .verbatim_from = 1,
    };
    int code = cli_parse(&syntax, globals, &argc, argv);
    if (code != CLI_GO)
        return code;
    if (given.list && argc > 1)
        return cli_usage_error(COMMAND, "--list takes one pattern at most");
    if (given.list) {
        simba_client *client = NULL;
        code = cli_open_once(COMMAND, globals, true, &client);
        if (code != CLI_GO)
            return code;
        look *l = look_at(client, argc > 0 ? argv[0] : NULL, SIZE_MAX);
        code = l->code < 0 ? look_failure(COMMAND, l) : CLI_OK;
        if (code == CLI_OK)
            print_all(l, given.json);
        look_free(l);
        return cli_close(client, code);
    }
    if (given.json)
        return cli_usage_error(COMMAND, "--json is for --list");
    if (argc < 2)
        return cli_usage_error(COMMAND, "an argument is missing (%s)", syntax.operands);
    code = choose(&given, &s.options);
    if (code != CLI_GO)
        return code;
    s.service.mutex = argv[0];
    s.argv = argv + 1;
    return service_run(&s.service);
}
