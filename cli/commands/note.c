/* `simba note`: reads the note of a mutex, or writes it as its holder, which this command is for as long as that
 * takes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "json.h"
#include "shown.h"

#define COMMAND "note"

/* --- get ------------------------------------------------------------------------------------------- */

static int get(simba_client *client, const char *mutex, bool json)
{
    simba_note note = SIMBA_NOTE_INIT;
    simba_error error = {0, ""};
    error.code = simba_client_note(client, mutex, &error, &note);
    if (error.code < 0)
        return cli_failure(COMMAND, &error);
    const size_t record = note_record(note.bytes, note.length);
    note.length -= record;
    memmove(note.bytes, note.bytes + record, note.length + 1);
    if (note.length == 0)
        return cli_fail(COMMAND, CLI_FAILED, "%s has no note.", mutex);
    if (json) {
        json_writer j = {.to = stdout};
        json_open(&j, NULL, '{');
        json_text(&j, "mutex", mutex);
        json_bytes(&j, "note", note.bytes, note.length);
        json_token(&j, "token", &note.token);
        json_number(&j, "written_at_ms", note.written_at_ms);
        json_number(&j, "now_ms", note.now_ms);
        json_close(&j, '}');
        putchar('\n');
    } else if (isatty(STDOUT_FILENO) == 1) { /* a program gets the bytes as they are; a terminal must not */
        char shown[NOTE_TEXT_SIZE];
        puts(note_text(note.bytes, note.length, shown, sizeof shown));
    } else {
        fwrite(note.bytes, 1, note.length, stdout);
    }
    return CLI_OK;
}

/* --- set ------------------------------------------------------------------------------------------- */

static int set(simba_client *client, const cli_globals *globals, const char *mutex, const char *text)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    simba_error error = {0, ""};
    simba_error at_release = {0, ""};
    char bytes[SIMBA_NOTE_MAX + 1]; /* one byte more than fits says that it does not */
    size_t length = strlen(text);
    if (strcmp(text, "-") == 0)
        length = fread(bytes, 1, sizeof bytes, stdin);
    else
        memcpy(bytes, text, length < sizeof bytes ? length : sizeof bytes);
    if (length > SIMBA_NOTE_MAX)
        return cli_usage_error(COMMAND, "a note has at most %d bytes", SIMBA_NOTE_MAX);
    options.id = globals->id;
    error.code = simba_locker_new(client, mutex, &options, &error, &locker);
    if (error.code == 0)
        error.code = simba_locker_acquire(locker, 0, &error);
    int code = CLI_OK;
    if (error.code == SIMBA_ETIMEDOUT) {
        code = cli_fail(COMMAND, CLI_BUSY, "not written, for only its holder writes a note: %s.", error.text);
    } else if (error.code == 0) {
        error.code = simba_locker_note_set(locker, bytes, length, &error);
        if (simba_locker_release(locker, &at_release) < 0 && error.code == 0)
            cli_error(COMMAND, "the note is written, but %s; the mutex becomes free when its lease ends.",
                      at_release.text);
    }
    if (error.code < 0 && code == CLI_OK)
        code = cli_failure(COMMAND, &error);
    simba_locker_free(locker);
    return code;
}

int cmd_note(cli_globals *globals, int argc, char **argv)
{
    bool json = false;
    const cli_option own[] = {
        {"json", 0, CLI_FLAG, NULL, "get: print an object, with the token and the times", &json},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "ACTION MUTEX [TEXT]",
        .about = "A note is up to 1024 bytes that belong to a mutex and stay when it changes hands.\n"
                 "The ACTION is get or set. get prints the note; if there is none it exits\n"
                 "with 1. set takes the mutex, writes and gives it back; it exits with 75 if the\n"
                 "mutex has an owner. A TEXT of - stands for standard input, and an empty\n"
                 "one removes the note.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_URL | CLI_TAKES_ID,
        .min_operands = 2,
        .max_operands = 3,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    const bool gets = strcmp(argv[0], "get") == 0;
    if (!gets && strcmp(argv[0], "set") != 0)
        return cli_usage_error(COMMAND, "\"%s\" is neither get nor set", argv[0]);
    if (gets && argc > 2)
        return cli_usage_error(COMMAND, "get takes the name of a mutex and nothing else");
    if (!gets && argc < 3)
        return cli_usage_error(COMMAND, "set takes the name of a mutex and the note");
    if (!gets && json)
        return cli_usage_error(COMMAND, "--json is for get");
    simba_client *client = NULL;
    const int opened = cli_open_once(COMMAND, globals, gets, &client);
    if (opened != CLI_GO)
        return opened;
    return cli_close(client, gets ? get(client, argv[1], json) : set(client, globals, argv[1], argv[2]));
}
