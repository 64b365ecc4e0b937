/* `simba tck`: checks a store with the conformance kit that also tests the library. */
#include <simba/tck.h>
#include <stdlib.h>

#include "cli.h"
#include "interrupt.h"

int cmd_tck(cli_globals *globals, int argc, char **argv)
{
    const char *only = NULL;
    bool list = false;
    const cli_option own[] = {
        {"only", 0, CLI_TEXT, "PATTERN", "Run only the cases that match, as in a shell", &only},
        {"list", 0, CLI_FLAG, NULL, "Print the names of the cases and stop", &list},
    };
    const cli_syntax syntax = {
        .command = "tck",
        .operands = "[URL]",
        .about = "Runs the conformance kit against a store and prints TAP. The kit opens clients\n"
                 "on the store, makes them compete, cuts them off, and checks that the promises\n"
                 "hold. It uses mutexes whose names begin with \"tck-\" and removes them at its end,\n"
                 "also when it is interrupted. A slow store needs a longer --ttl and\n"
                 "--transition than the kit's 400ms.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_URL | CLI_TAKES_TIMING,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (list) {
        simba_tck_list(stdout);
        return CLI_OK;
    }
    if (argc == 1 && globals->url != NULL)
        return cli_usage_error("tck", "the URL is given twice");

    char *url = NULL;
    if (argc == 1)
        globals->url = argv[0];
    const int found = cli_url("tck", globals, &url);
    if (found != CLI_GO)
        return found;
    if (url == NULL)
        return cli_usage_error("tck", "the URL of the store to judge is missing");

    simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    simba_tck_result result;
    simba_error error;
    options.out = stdout;
    options.only = only;
    options.verbose = globals->verbose > 0;
    options.ttl_ms = cli_duration(globals->ttl_ms, url, "ttl", options.ttl_ms);
    options.transition_ms = cli_duration(globals->transition_ms, url, "transition", options.transition_ms);
    options.interrupted = &interrupt_signal;
    interrupt_catch();
    const int code = simba_tck_run(url, &options, &error, &result);
    free(url);
    if (interrupt_number() != 0)
        return interrupt_code(CLI_FAILED);
    if (code == SIMBA_ENOTFOUND)
        return cli_usage_error("tck", "no case matches \"%s\"; `simba tck --list` names them", only);
    if (code < 0)
        return cli_failure("tck", &error);
    return code == 0 ? CLI_OK : CLI_FAILED;
}
