/* `simba forget`: remove a mutex that nobody holds from the store. */
#include "cli.h"

#define COMMAND "forget"

static int forget(simba_client *client, const char *mutex)
{
    simba_error error = {0, ""};
    error.code = simba_client_forget(client, mutex, &error);
    if (error.code < 0)
        cli_say(COMMAND, "%s.", error.text);
    return error.code == 0 ? CLI_OK : error.code == SIMBA_ESTATE ? CLI_BUSY : cli_exit_code(error.code);
}

int cmd_forget(cli_globals *globals, int argc, char **argv)
{
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX",
        .about = "Removes a mutex that nobody holds from the store, together with its note. A later\n"
                 "contender creates it anew. If somebody holds it, nothing happens, and the exit\n"
                 "code is 75; it is 1 if the store does not know the mutex.",
        .takes = CLI_TAKES_URL,
        .min_operands = 1,
        .max_operands = 1,
    };
    simba_client *client = NULL;
    const int begun = cli_begin(&syntax, globals, &argc, argv, &client);
    if (begun != CLI_GO)
        return begun;
    return cli_close(client, forget(client, argv[0]));
}
