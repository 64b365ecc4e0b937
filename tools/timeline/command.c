/* `simba timeline`: draws event logs, in the terminal or as SVG. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "timeline/log.h"

#define COMMAND "timeline"

static int read_file(timeline_log *log, const char *path)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    FILE *in = is_stdin ? stdin : cli_open_file(COMMAND, path, "re");
    if (in == NULL)
        return CLI_USAGE;
    errno = 0;
    const unsigned bad = timeline_log_read(log, in);
    const int failure = ferror(in) ? errno : 0; /* a folder can be opened, and not be read */
    if (!is_stdin)
        fclose(in);
    if (failure != 0)
        return cli_fail(COMMAND, CLI_USAGE, "%s cannot be read: %s.", path, strerror(failure));
    if (bad == 0)
        return CLI_GO;
    return cli_fail(COMMAND, CLI_USAGE, "line %u of %s is not a line of an event log (TIME ROW EVENT ...).", bad, path);
}

int cmd_timeline(cli_globals *globals, int argc, char **argv)
{
    const char *svg = NULL;
    const char *title = "simba timeline";
    int64_t from_ms = 0;
    int64_t to_ms = 0;
    const cli_option own[] = {
        {"svg", 0, CLI_TEXT, "FILE", "Draw into this file instead; \"-\" is standard output", &svg},
        {"title", 0, CLI_TEXT, "TEXT", "Title of the picture", &title},
        {"from", 0, CLI_DURATION, "D", "Start this long after the first line", &from_ms},
        {"to", 0, CLI_DURATION, "D", "End this long after the first line", &to_ms},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "FILE...",
        .about = "Draws who led when, with requests, messages and callbacks, from the logs that\n"
                 "--event-log writes. You may give logs of several processes and hosts together:\n"
                 "the clock of their store puts them into order.\n"
                 "\"-\" is standard input.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_NONE,
        .min_operands = 1,
        .max_operands = -1,
    };
    int code = cli_parse(&syntax, globals, &argc, argv);
    if (code == CLI_GO && to_ms > 0 && from_ms >= to_ms)
        code = cli_usage_error(COMMAND, "--from must be before --to");
    timeline_log *log = timeline_log_new();
    timeline line;
    for (int i = 0; code == CLI_GO && i < argc; i++)
        code = read_file(log, argv[i]);
    if (code == CLI_GO && !timeline_log_draw(log, from_ms, to_ms, &line))
        code = cli_fail(COMMAND, CLI_FAILED, "there is nothing to draw.");
    /* How far the times of several hosts can be trusted. */
    if (code == CLI_GO && line.agreement == TIMELINE_BY_WALL)
        cli_warn(COMMAND,
                 "not every log tells the store's clock: the hosts are put together by their wall clocks, which may "
                 "differ.");
    else if (code == CLI_GO && line.agreement == TIMELINE_UNRELATED)
        cli_warn(COMMAND, "some lines do not tell their clock: they are drawn as if they were of the first host.");
    if (code == CLI_GO && svg != NULL && strcmp(svg, "-") == 0) {
        timeline_svg(&line, title, stdout);
        code = CLI_OK; /* whether it could be written is found out at the end */
    } else if (code == CLI_GO && svg != NULL) {
        FILE *out = cli_open_file(COMMAND, svg, "we");
        code = CLI_FAILED;
        if (out != NULL) {
            timeline_svg(&line, title, out);
            code = cli_close_file(COMMAND, out, svg) ? CLI_OK : CLI_FAILED;
        }
    } else if (code == CLI_GO) {
        term t;
        term_open(stdout, &t);
        timeline_print(&line, &t);
        code = CLI_OK;
    }
    timeline_log_free(log);
    return code;
}
