/* What a command finds: the note of its mutex, as a file, and the environment that tells it about its lease. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child/child.h"
#include "secret.h"

/* --- the note ----------------------------------------------------------------------------------- */

void child_note_open(const char *command, const child_holder *holder, child_note *ret_note, child_facts *facts)
{
    simba_note *before = &ret_note->before;
    simba_error error = {0, ""};
    *ret_note = (child_note){.before = SIMBA_NOTE_INIT, .file = -1};
    const int code = holder->read_note != NULL ? holder->read_note(holder->handle, &error, before) : SIMBA_ENOTSUP;
    if (code < 0 && code != SIMBA_ENOTSUP)
        cli_warn(command, "the command gets no note: %s.", error.text);
    if (code < 0)
        return;
    if (strlen(before->bytes) == before->length)
        facts->note = before->bytes;
    ret_note->file = memfd_create("simba-note", MFD_CLOEXEC);
    if (ret_note->file >= 0 && pwrite(ret_note->file, before->bytes, before->length, 0) != (ssize_t)before->length) {
        close(ret_note->file);
        ret_note->file = -1;
    }
    snprintf(ret_note->path, sizeof ret_note->path, "/proc/%ld/fd/%d", (long)getpid(), ret_note->file);
    if (ret_note->file >= 0)
        facts->note_file = ret_note->path;
}

int child_note_close(const char *command, const child_holder *holder, const child_note *note, bool success)
{
    char bytes[SIMBA_NOTE_MAX + 1];
    simba_error error = {0, ""};
    if (note->file < 0)
        return CLI_GO;
    const ssize_t length = pread(note->file, bytes, sizeof bytes, 0);
    const int failure = errno;
    close(note->file);
    if (!success)
        return CLI_GO;
    if (length < 0)
        return cli_fail(command, CLI_SYSTEM, "the note cannot be read: %s.", strerror(failure));
    if (length > SIMBA_NOTE_MAX)
        return cli_fail(command, CLI_DATA, "the note was not kept: it has more than %d bytes.", SIMBA_NOTE_MAX);
    if ((size_t)length == note->before.length && memcmp(bytes, note->before.bytes, (size_t)length) == 0)
        return CLI_GO;
    error.code = holder->write_note(holder->handle, bytes, (size_t)length, &error);
    if (error.code == 0)
        return CLI_GO;
    const int code = cli_failure(command, &error);
    return error.code == SIMBA_ELOST || error.code == SIMBA_ESTATE ? CLI_LOST : code;
}

/* --- the environment ------------------------------------------------------------------------------ */

static bool is_any_of(const char *variable, const char *const *names, size_t count)
{
    const size_t length = strcspn(variable, "=");
    for (size_t i = 0; i < count; i++)
        if (names[i] != NULL && strlen(names[i]) == length && strncmp(variable, names[i], length) == 0)
            return true;
    return false;
}

/* One block: the array, followed by the strings. */
char **child_environment(const cli_globals *globals, const child_facts *facts)
{
    char token[32];
    snprintf(token, sizeof token, "%" PRIu64, facts->token);
    const char *const own[] = {"SIMBA_MUTEX", "SIMBA_TOKEN",     "SIMBA_ID",  "SIMBA_REASON", "SIMBA_SLOT",
                               "SIMBA_NOTE",  "SIMBA_NOTE_FILE", "SIMBA_DUE", "SIMBA_MISSED", "SIMBA_CUT_SHORT"};
    const char *const values[] = {facts->mutex,     facts->token != 0 ? token : "",
                                  facts->id,        facts->reason,
                                  facts->slot,      facts->note,
                                  facts->note_file, facts->due,
                                  facts->missed,    facts->cut_short};
    enum { OWN = sizeof own / sizeof own[0] };
    /* The password of the store: a command gets the URL without it. And how systemd talks to this process. */
    const char *const secrets[] = {"SIMBA_PASSWORD", globals->password_variable};
    const char *const notify[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"};
    const bool is_notified = globals->notify != NULL && strcmp(globals->notify, "child") == 0;
    size_t count = OWN + 1;
    size_t room = 0;
    for (char **variable = environ; *variable != NULL; variable++, count++)
        room += strlen(*variable) + 1;
    for (size_t i = 0; i < OWN; i++)
        room += values[i] != NULL ? strlen(own[i]) + strlen(values[i]) + 2 : 0;

    char **made = malloc(count * sizeof *made + room);
    if (made == NULL)
        return NULL;
    char *text = (char *)(made + count);
    size_t at = 0;
    for (char **variable = environ; *variable != NULL; variable++) {
        if (is_any_of(*variable, own, OWN) || (!globals->keep_password && is_any_of(*variable, secrets, 2)) ||
            (!is_notified && is_any_of(*variable, notify, 3)))
            continue;
        made[at++] = strcpy(text, *variable);
        if (!globals->keep_password && strncmp(text, "SIMBA_URL=", strlen("SIMBA_URL=")) == 0)
            secret_strip(text);
        text += strlen(text) + 1;
    }
    for (size_t i = 0; i < OWN; i++) {
        if (values[i] == NULL)
            continue;
        made[at++] = text;
        text += sprintf(text, "%s=%s", own[i], values[i]) + 1;
    }
    made[at] = NULL;
    return made;
}
