/* See give_back.h. */
#include "child/give_back.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define COMMAND "give-back"
enum { PART_URL, PART_MUTEX, PART_ID, PART_NONCE, PART_TOKEN, PARTS };

/* --- the supervisor's side ----------------------------------------------------------------------------- */

void give_back_prepare(const char *url, const char *mutex, const simba_grant *grant, give_back *ret_what)
{
    ret_what->length = 0;
    /* Each part ends with a zero byte, which none of them can contain. */
    const int length = snprintf(ret_what->text, sizeof ret_what->text, "%s%c%s%c%s%c%" PRIu64 "%c%" PRIu64 "%c",
                                url != NULL ? url : "", 0, mutex, 0, grant->id, 0, grant->nonce, 0, grant->token, 0);
    if (length > 0 && (size_t)length < sizeof ret_what->text)
        ret_what->length = (size_t)length;
}

void give_back_exec(const give_back *what)
{
    static char *const argv[] = {"simba", COMMAND, NULL};
    int ends[2];
    if (what->length == 0 || pipe2(ends, O_CLOEXEC) < 0)
        return;
    /* A pipe has room for all of it. */
    if (write(ends[1], what->text, what->length) != (ssize_t)what->length || dup2(ends[0], STDIN_FILENO) < 0)
        return;
    close(ends[1]);
    execve("/proc/self/exe", argv, environ);
}

/* --- the command -------------------------------------------------------------------------------------- */

int cmd_give_back(cli_globals *globals, int argc, char **argv)
{
    char text[sizeof((give_back *)NULL)->text];
    const char *parts[PARTS];
    const cli_syntax syntax = {
        .command = COMMAND,
        .about = "Used by the supervisor of `simba run`: gives back the mutex of one that was killed.",
        .takes = CLI_TAKES_NONE,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    const size_t length = fread(text, 1, sizeof text, stdin);
    const char *at = text;
    for (size_t i = 0; i < PARTS && at != NULL; i++) {
        parts[i] = at;
        at = memchr(at, '\0', length - (size_t)(at - text));
        at = at != NULL ? at + 1 : NULL;
    }
    if (at != text + length)
        return cli_usage_error(COMMAND, "standard input does not name a grant");
    simba_grant grant = {.nonce = strtoull(parts[PART_NONCE], NULL, 10),
                         .token = strtoull(parts[PART_TOKEN], NULL, 10)};
    snprintf(grant.id, sizeof grant.id, "%s", parts[PART_ID]);

    /* Nobody waits for this process, and if it fails, the lease ends by itself: so it prints nothing. */
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.log_level = SIMBA_LOG_ERROR;
    simba_client *client = NULL;
    int code = simba_client_open(parts[PART_URL][0] != '\0' ? parts[PART_URL] : NULL, &options, NULL, &client);
    if (code < 0)
        return cli_exit_code(code);
    code = simba_client_give_back(client, parts[PART_MUTEX], &grant, NULL);
    simba_client_close(client);
    return code == 0 ? CLI_OK : cli_exit_code(code);
}
