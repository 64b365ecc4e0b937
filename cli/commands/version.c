/* `simba version`: prints the version of the loaded library, which matters in a bug report. */
#include <stdio.h>

#include "cli.h"

int cmd_version(cli_globals *globals, int argc, char **argv)
{
    bool json = false;
    const cli_option own[] = {{"json", 0, CLI_FLAG, NULL, "Print an object", &json}};
    const cli_syntax syntax = {
        .command = "version",
        .about = "Prints the version of simba and of the library that it has loaded.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_NONE,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;

    char built[32];
    snprintf(built, sizeof built, "%d.%d.%d", SIMBA_VERSION_MAJOR, SIMBA_VERSION_MINOR, SIMBA_VERSION_PATCH);
    printf(json ? "{\"command\":\"%s\",\"library\":\"%s\"}\n" : "simba %s (library %s)\n", built, simba_version());
    return CLI_OK;
}
