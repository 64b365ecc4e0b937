/* `simba init`: prepares the store before anybody needs it, with the rights of the person who installs rather than
 * of the first user. Opening a store, or preparing it, creates what is missing; a request then shows that it works. */
#include <stdio.h>

#include "cli.h"

#define COMMAND "init"

static void count_row(const simba_listing *row, void *user)
{
    (void)row;
    ++*(size_t *)user;
}

int cmd_init(cli_globals *globals, int argc, char **argv)
{
    const cli_syntax syntax = {
        .command = COMMAND,
        .about = "Prepares the store: creates the file or the tables that are missing, and upgrades\n"
                 "those of an earlier version. MySQL, MariaDB and PostgreSQL need this once; in the\n"
                 "other stores the first command creates what it needs.",
        .takes = CLI_TAKES_URL,
    };
    simba_client *client = NULL;
    const int begun = cli_begin(&syntax, globals, &argc, argv, &client);
    if (begun != CLI_GO)
        return begun;
    simba_error error = {0, ""};
    size_t count = 0;
    error.code = simba_client_prepare(client, &error);
    if (error.code == 0)
        error.code = simba_client_list(client, NULL, count_row, &count, &error);
    int code = CLI_OK;
    if (error.code == 0)
        printf("%s is ready and has %zu %s.\n", simba_client_url(client), count, count == 1 ? "mutex" : "mutexes");
    else if (error.code == SIMBA_ENOTSUP)
        printf("%s is ready.\n", simba_client_url(client));
    else
        code = cli_failure(COMMAND, &error);
    return cli_close(client, code);
}
