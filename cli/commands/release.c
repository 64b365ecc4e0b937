/* `simba release --force`: takes a mutex away from its owner. Without --yes it asks a person, at a terminal. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "util/escape.h"

#define COMMAND "release"

typedef struct search {
    const char *mutex;
    simba_owner owner;
} search;

static void compare(const simba_listing *row, void *user)
{
    search *s = user;
    if (strcmp(row->mutex, s->mutex) == 0 && simba_owner_has_owner(row->owner, row->now_ms))
        s->owner = *row->owner;
}

static int release(simba_client *client, const char *mutex, bool yes)
{
    search s = {.mutex = mutex};
    simba_error error = {0, ""};
    /* Not every store can list; then the question does not name the owner. */
    if (!yes)
        simba_client_list(client, NULL, compare, &s, NULL);
    char name[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
    char id[SIMBA__ESCAPED_SIZE(SIMBA_ID_MAX)];
    const bool known = !simba_owner_is_none(&s.owner);
    if (!yes && !cli_agrees("Take \"%s\" away from %s? What runs there may act until it learns of it.",
                            simba__escape(mutex, name, sizeof name),
                            known ? simba__escape(s.owner.id, id, sizeof id) : "whoever owns it"))
        return cli_fail(COMMAND, CLI_FAILED, "nothing was done.");
    error.code = simba_client_force_release(client, mutex, &error);
    if (error.code < 0)
        return cli_failure(COMMAND, &error);
    cli_show_warnings(true); /* the store may know that the owner will not be told */
    return CLI_OK;
}

int cmd_release(cli_globals *globals, int argc, char **argv)
{
    bool force = false;
    bool yes = false;
    const cli_option own[] = {
        {"force", 0, CLI_FLAG, NULL, "Required: there is no other way", &force},
        {"yes", 'y', CLI_FLAG, NULL, "Do not ask", &yes},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX",
        .about = "Takes a mutex away from its owner. The owner learns that it was revoked as\n"
                 "soon as the store can tell it, at the latest when it renews. Until then it may\n"
                 "act while another contender already owns the mutex.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_URL,
        .min_operands = 1,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (!force)
        return cli_usage_error(COMMAND, "an owner gives a mutex back by itself; to take it away, say --force");
    if (!yes && isatty(STDIN_FILENO) != 1)
        return cli_usage_error(COMMAND, "there is no terminal to ask at; if you are sure, say --yes");

    simba_client *client = NULL;
    const int opened = cli_open_once(COMMAND, globals, true, &client);
    if (opened != CLI_GO)
        return opened;
    return cli_close(client, release(client, argv[0], yes));
}
