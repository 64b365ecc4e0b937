/* `simba torture`: processes contend for mutexes in a store of the user's. They are killed, paused and cut off, and then judged by
 * what they believed: was there ever more than one leader? */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "secret.h"
#include "torture/torture.h"

#define COMMAND "torture"

typedef struct arguments {
    uint64_t contenders;
    uint64_t mutexes;
    uint64_t seed;
    int64_t duration_ms;
    const char *faults;
    const char *history;
    const char *svg;
    const char *judge;
    bool json;
    bool quiet;
} arguments;

/* --- the verdict -------------------------------------------------------------------------------------- */

static int print_report(const arguments *args, const torture_report *report)
{
    int code = report->verdict->kept ? CLI_OK : CLI_FAILED;
    if (args->json) {
        torture_report_json(report, stdout);
    } else if (!args->quiet || code != CLI_OK) {
        term t;
        term_open(stdout, &t);
        torture_report_text(report, &t);
    }
    if (args->svg != NULL) {
        FILE *out = cli_open_file(COMMAND, args->svg, "we");
        if (out == NULL)
            return CLI_FAILED;
        torture_picture_svg(report, out);
        if (!cli_close_file(COMMAND, out, args->svg))
            code = CLI_FAILED;
    }
    return code;
}

static int judge_and_report(const arguments *args, torture_history *history, torture_report *report)
{
    static torture_verdict verdict;
    torture_judge(report->setup, history, &verdict);
    report->history = history;
    report->verdict = &verdict;
    const int code = print_report(args, report);
    torture_verdict_free(&verdict);
    torture_history_free(history);
    return code;
}

/* --- a history that was written before ------------------------------------------------------------------ */

enum { HISTORY_LINE_MAX = 16384 }; /* others may have added members of their own */

/* A line without its end. False, with a flaw or at the end of the file, with none. */
static bool next_line(FILE *in, char line[HISTORY_LINE_MAX], char ret_flaw[TORTURE_FLAW_MAX])
{
    size_t length = 0;
    int next;
    while ((next = getc(in)) != EOF && next != '\n' && next != '\0' && length + 1 < HISTORY_LINE_MAX)
        line[length++] = (char)next;
    line[length] = '\0';
    if (next == '\0')
        snprintf(ret_flaw, TORTURE_FLAW_MAX, "it has a zero byte");
    else if (next != EOF && next != '\n')
        snprintf(ret_flaw, TORTURE_FLAW_MAX, "it has more than %d bytes", HISTORY_LINE_MAX - 1);
    else if (ferror(in))
        snprintf(ret_flaw, TORTURE_FLAW_MAX, "%s", strerror(errno));
    return ret_flaw[0] == '\0' && (next != EOF || length > 0);
}

/* False: *ret_line has the flaw. */
static bool read_history(FILE *in, torture_setup *ret_setup, torture_history *history, size_t *ret_line,
                         char ret_flaw[TORTURE_FLAW_MAX])
{
    char line[HISTORY_LINE_MAX];
    ret_flaw[0] = '\0';
    *ret_line = 1;
    if (!next_line(in, line, ret_flaw) || !torture_setup_read(line, ret_setup, ret_flaw)) {
        if (ret_flaw[0] == '\0')
            snprintf(ret_flaw, TORTURE_FLAW_MAX, "it is missing");
        return false;
    }
    for (*ret_line = 2; next_line(in, line, ret_flaw); ++*ret_line) {
        torture_event event;
        if (!torture_event_read(line, &event, ret_flaw))
            return false;
        if (event.contender >= ret_setup->contenders)
            snprintf(ret_flaw, TORTURE_FLAW_MAX, "\"contender\" is %d, and the first line says that there are %d",
                     event.contender, ret_setup->contenders);
        else if (event.mutex >= ret_setup->mutexes)
            snprintf(ret_flaw, TORTURE_FLAW_MAX, "\"mutex\" is %u, and the first line says that there are %u",
                     event.mutex, ret_setup->mutexes);
        if (ret_flaw[0] != '\0')
            return false;
        torture_history_add(history, &event);
    }
    return ret_flaw[0] == '\0';
}

static int judge_file(const arguments *args)
{
    torture_setup setup;
    torture_history history = {0};
    torture_report report = {.setup = &setup};
    char flaw[TORTURE_FLAW_MAX];
    size_t line;
    FILE *in = cli_open_file(COMMAND, args->judge, "re");
    if (in == NULL)
        return CLI_USAGE;
    const bool good = read_history(in, &setup, &history, &line, flaw);
    fclose(in);
    if (good)
        return judge_and_report(args, &history, &report);
    torture_history_free(&history);
    return cli_fail(COMMAND, CLI_USAGE, "line %zu of %s is not a line of a history: %s.", line, args->judge, flaw);
}

/* --- a run --------------------------------------------------------------------------------------------- */

/* Returns why the network is left alone; NULL: it is not. */
static const char *find_network(torture_options *options, torture_target *targets)
{
    const char *reason = NULL;
    if ((options->faults & TORTURE_NETWORK_FAULTS) == 0)
        return "--faults names none";
    const unsigned count = torture_targets(options->url, targets, &reason);
    for (unsigned i = 0; i < count && reason == NULL; i++)
        if (torture_target_find(&targets[i]) != 0)
            reason = "the address of a server was not found";
    if (reason != NULL) {
        options->faults &= ~TORTURE_NETWORK_FAULTS;
        return reason;
    }
    options->targets = targets;
    options->target_count = count;
    return NULL;
}

static int run_and_judge(const arguments *args, cli_globals *globals, torture_options *options)
{
    static torture_target targets[TORTURE_TARGETS_MAX];
    torture_outcome outcome;
    torture_report report = {.setup = &options->setup, .faults = outcome.faults};
    char line[TORTURE_LINE_MAX];
    report.no_cuts = find_network(options, targets);
    if (options->faults == 0)
        return cli_fail(COMMAND, CLI_CONFIG, "no cuts: %s, and --faults names nothing else.", report.no_cuts);
    int code = torture_store_try(globals, options);
    if (code != CLI_GO)
        return code;
    if (options->history != NULL)
        fwrite(line, 1, torture_setup_write(&options->setup, line), options->history);
    if (!args->quiet && isatty(STDERR_FILENO) == 1)
        cli_info(COMMAND, "for %g s, with seed %llu; Ctrl-C ends it earlier.", (double)args->duration_ms / 1e3,
                 (unsigned long long)args->seed);
    code = torture_run(options, &outcome);
    torture_store_forget(globals, options);
    if (code != CLI_GO) {
        torture_history_free(&outcome.history);
        return code;
    }
    char *url = strdup(options->url);
    if (url != NULL)
        secret_strip(url);
    report.url = url;
    code = judge_and_report(args, &outcome.history, &report);
    free(url);
    return outcome.interrupted != 0 ? CLI_SIGNAL + outcome.interrupted : code;
}

int cmd_torture(cli_globals *globals, int argc, char **argv)
{
    arguments args = {.contenders = 4, .mutexes = 1, .duration_ms = 30000, .seed = (uint64_t)clock_boot_ns()};
    char seed[SIMBA_ID_MAX + 1];
    char bad[32];
    if (simba_id_uuid(seed) == 0) {
        seed[9] = '\0'; /* short enough to be typed */
        args.seed = strtoull(seed, NULL, 16);
    }
    const cli_option own[] = {
        {"duration", 0, CLI_DURATION, "D", "For how long; otherwise 30s", &args.duration_ms},
        {"contenders", 0, CLI_NUMBER, "N", "How many processes; otherwise 4", &args.contenders},
        {"mutexes", 0, CLI_NUMBER, "N", "How many mutexes; otherwise 1", &args.mutexes},
        {"seed", 0, CLI_NUMBER, "N", "Which faults to whom and when; otherwise by chance", &args.seed},
        {"faults", 0, CLI_TEXT, "LIST", "Of handover,kill,pause,cut,delay; otherwise all", &args.faults},
        {"json", 0, CLI_FLAG, NULL, "Print an object", &args.json},
        {"svg", 0, CLI_TEXT, "FILE", "Draw the worst moment into this file", &args.svg},
        {"history", 0, CLI_TEXT, "FILE", "Write what happened, a line of JSON for each event", &args.history},
        {"judge", 0, CLI_TEXT, "FILE", "Judge such a file, and do nothing else", &args.judge},
        {"quiet", 'q', CLI_FLAG, NULL, "Say nothing if every promise was kept", &args.quiet},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "[URL]",
        .about = "Processes contend for mutexes in your store while they are killed, paused, cut off\n"
                 "from it and asked to hand over. Then tells whether two ever led at once, whether\n"
                 "tokens grew, how long the next leader took, and who lost a mutex without a cause.\n"
                 "Touches no server, and leaves nothing behind. The exit code is 1 if a promise was\n"
                 "broken. The ttl and the transition are 1s unless the options or the URL say otherwise.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_URL | CLI_TAKES_TIMING | CLI_TAKES_EVENTS,
        .max_operands = 1,
    };
    static torture_options options;
    int code = cli_parse(&syntax, globals, &argc, argv);
    if (code != CLI_GO)
        return code;
    if (args.contenders < 2 || args.contenders > TORTURE_CONTENDERS_MAX)
        return cli_usage_error(COMMAND, "--contenders is from 2 to %d", TORTURE_CONTENDERS_MAX);
    if (args.mutexes < 1 || args.mutexes > TORTURE_MUTEXES_MAX)
        return cli_usage_error(COMMAND, "--mutexes is from 1 to %d", TORTURE_MUTEXES_MAX);
    if (args.duration_ms < 1 || args.duration_ms > INT64_C(86400000))
        return cli_usage_error(COMMAND, "--duration is from 1ms to 24h");
    options.faults = TORTURE_ALL_FAULTS;
    if (args.faults != NULL && !torture_faults_parse(args.faults, &options.faults, bad, sizeof bad))
        return cli_usage_error(COMMAND, "--faults has no \"%s\"; it has handover, kill, pause, cut and delay", bad);
    if (argc == 1 && (globals->url != NULL || args.judge != NULL))
        return cli_usage_error(COMMAND, args.judge != NULL ? "--judge takes no URL" : "the URL is given twice");
    if (args.judge != NULL)
        return judge_file(&args);
    if (argc == 1)
        globals->url = argv[0];
    char *url = NULL;
    code = cli_url(COMMAND, globals, &url);
    if (code != CLI_GO)
        return code;
    if (url == NULL)
        return cli_usage_error(COMMAND, "the URL of the store is missing");
    options.command = COMMAND;
    options.globals = globals;
    options.report_events = globals->verbose > 0;
    options.flag = globals->verbose > 1 ? "-v" : NULL;
    options.url = url;
    options.duration_ms = args.duration_ms;
    options.setup.seed = args.seed;
    options.setup.contenders = (int)args.contenders;
    for (int i = 0; i < options.setup.contenders; i++)
        snprintf(options.ids[i], sizeof options.ids[i], "contender-%d", i);
    options.setup.mutexes = (unsigned)args.mutexes;
    if (args.history != NULL) {
        options.history = cli_open_file(COMMAND, args.history, "we");
        if (options.history != NULL)
            setvbuf(options.history, NULL, _IOLBF, 0); /* somebody may want to follow it */
    }
    code = args.history != NULL && options.history == NULL ? CLI_FAILED : run_and_judge(&args, globals, &options);
    if (options.history != NULL && !cli_close_file(COMMAND, options.history, args.history))
        code = CLI_FAILED;
    free(url);
    return code;
}
