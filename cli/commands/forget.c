/* `simba forget`: remove mutexes without an owner from the store: one, or all that match a pattern. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "look.h"

#define COMMAND "forget"

static int forget(simba_client *client, const char *mutex)
{
    simba_error error = {0, ""};
    error.code = simba_client_forget(client, mutex, &error);
    if (error.code < 0)
        cli_error(COMMAND, "%s.", error.text);
    return error.code == 0 ? CLI_OK : error.code == SIMBA_ESTATE ? CLI_BUSY : cli_exit_code(error.code);
}

/* Those that have an owner stay. Any other failure ends it: it would meet the rest as well. */
static int forget_all(simba_client *client, const look *found)
{
    size_t removed = 0;
    int worst = CLI_OK;
    for (size_t i = 0; i < found->count && (worst == CLI_OK || worst == CLI_BUSY); i++) {
        simba_error error = {0, ""};
        error.code = simba_client_forget(client, found->rows[i].mutex, &error);
        removed += error.code == 0;
        if (error.code == 0 || error.code == SIMBA_ENOTFOUND)
            continue;
        cli_error(COMMAND, "%s.", error.text);
        worst = error.code == SIMBA_ESTATE ? CLI_BUSY : cli_exit_code(error.code);
    }
    cli_info(COMMAND, "%zu of %zu removed.", removed, found->count);
    return worst;
}

static int forget_like(simba_client *client, const char *pattern, bool yes)
{
    look *found = look_at(client, pattern, SIZE_MAX);
    size_t noted = 0;
    int code;
    for (size_t i = 0; i < found->count; i++)
        noted += found->rows[i].note_length > 0;
    if (found->code < 0)
        code = look_failure(COMMAND, found);
    else if (found->count == 0)
        code = cli_fail(COMMAND, CLI_FAILED, "the store has no mutex like %s.", pattern);
    else if (!yes && !cli_agrees("Remove %zu mutex%s like %s, %zu of them with a note?", found->count,
                                 found->count == 1 ? "" : "es", pattern, noted))
        code = cli_fail(COMMAND, CLI_FAILED, "nothing was done.");
    else
        code = forget_all(client, found);
    look_free(found);
    return code;
}

int cmd_forget(cli_globals *globals, int argc, char **argv)
{
    bool yes = false;
    const cli_option own[] = {
        {"yes", 'y', CLI_FLAG, NULL, "Do not ask whether to remove all that match", &yes},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX",
        .about = "Removes a mutex that has no owner from the store, together with its note. A later\n"
                 "contender creates it anew. If it has an owner, nothing happens, and the exit\n"
                 "code is 75; it is 1 if the store does not know the mutex.\n"
                 "A name with *, ? or [ is a pattern, as in a shell: it removes all mutexes that\n"
                 "match and have no owner. A \\ before such a character makes it an ordinary one.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_URL,
        .min_operands = 1,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    const bool is_pattern = strpbrk(argv[0], "*?[") != NULL;
    if (is_pattern && !yes && isatty(STDIN_FILENO) != 1)
        return cli_usage_error(COMMAND, "there is no terminal to ask at whether to remove all that match; "
                                        "if you are sure, say --yes");
    simba_client *client = NULL;
    const int opened = cli_open_once(COMMAND, globals, true, &client);
    if (opened != CLI_GO)
        return opened;
    return cli_close(client, is_pattern ? forget_like(client, argv[0], yes) : forget(client, argv[0]));
}
