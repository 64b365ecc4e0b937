/* What a command finds: the note of its mutex, as a file, and the environment that tells it about its lease. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child/child.h"
#include "health.h"
#include "secret.h"

/* --- the note ----------------------------------------------------------------------------------- */

void child_note_open(const child_note_holder *holder, child_note *ret_note)
{
    simba_error error = {0, ""};
    *ret_note = (child_note){.holder = holder, .before = SIMBA_NOTE_INIT, .file = -1};
    const int code = holder->read(holder->holder, &error, &ret_note->before);
    if (code < 0 && code != SIMBA_ENOTSUP)
        cli_warn(holder->command, "the command gets no note: %s.", error.text);
    if (code < 0)
        return;
    if (strlen(ret_note->before.bytes) == ret_note->before.length)
        ret_note->text = ret_note->before.bytes;
    const int file = memfd_create("simba-note", MFD_CLOEXEC);
    if (file < 0)
        return;
    if (pwrite(file, ret_note->before.bytes, ret_note->before.length, 0) != (ssize_t)ret_note->before.length) {
        close(file);
        return;
    }
    ret_note->file = file;
    snprintf(ret_note->path, sizeof ret_note->path, "/proc/%ld/fd/%d", (long)getpid(), file);
}

int child_note_keep(const child_note *note)
{
    char bytes[SIMBA_NOTE_MAX + 1];
    simba_error error = {0, ""};
    if (note->file < 0)
        return CLI_GO;
    const ssize_t length = pread(note->file, bytes, sizeof bytes, 0);
    if (length < 0)
        return cli_fail(note->holder->command, CLI_SYSTEM, "the note cannot be read: %s.", strerror(errno));
    if (length > SIMBA_NOTE_MAX) {
        return cli_fail(note->holder->command, CLI_DATA, "the note was not kept: it has more than %d bytes.",
                        SIMBA_NOTE_MAX);
    }
    if ((size_t)length == note->before.length && memcmp(bytes, note->before.bytes, (size_t)length) == 0)
        return CLI_GO;
    error.code = note->holder->write(note->holder->holder, bytes, (size_t)length, &error);
    if (error.code == 0)
        return CLI_GO;
    const int code = cli_failure(note->holder->command, &error);
    return error.code == SIMBA_ELOST || error.code == SIMBA_ESTATE ? CLI_LOST : code;
}

void child_note_close(child_note *note)
{
    if (note->file >= 0)
        close(note->file);
    note->file = -1;
}

/* --- the environment ------------------------------------------------------------------------------ */

#define OWN_VARIABLES 10

static const char *const own_names[OWN_VARIABLES] = {
    "SIMBA_MUTEX=",     "SIMBA_TOKEN=", "SIMBA_ID=",     "SIMBA_REASON=",    "SIMBA_NOTE=",
    "SIMBA_NOTE_FILE=", "SIMBA_DUE=",   "SIMBA_MISSED=", "SIMBA_CUT_SHORT=", "SIMBA_SLOT="};

static bool is_named(const char *variable, const char *name)
{
    return strncmp(variable, name, strlen(name)) == 0;
}

/* Does the variable hold the password of the store? A URL does not count: the command gets it without its password. */
static bool is_password(const cli_globals *globals, const char *variable)
{
    const char *const names[] = {"SIMBA_PASSWORD", globals->password_variable};
    for (size_t i = 0; i < 2 && !globals->keep_password; i++) {
        const size_t length = names[i] != NULL ? strlen(names[i]) : 0;
        if (length > 0 && strncmp(variable, names[i], length) == 0 && variable[length] == '=')
            return true;
    }
    return false;
}

/* One block: the array, followed by our strings. */
char **child_environment(const cli_globals *globals, const child_lease *lease)
{
    char number[32] = ""; /* a check has no token */
    const char *text_of_note = lease->note != NULL ? lease->note->text : NULL;
    const char *file_of_note = lease->note != NULL && lease->note->path[0] != '\0' ? lease->note->path : NULL;
    const char *const values[OWN_VARIABLES] = {lease->mutex, number,     lease->id,     lease->reason,    text_of_note,
                                               file_of_note, lease->due, lease->missed, lease->cut_short, lease->slot};
    size_t count = OWN_VARIABLES + 1;
    size_t room = 0; /* for text of our own, which follows the array */
    if (lease->token != 0)
        snprintf(number, sizeof number, "%" PRIu64, lease->token);
    for (char **variable = environ; *variable != NULL; variable++, count++)
        room += is_named(*variable, "SIMBA_URL=") ? strlen(*variable) + 1 : 0;
    for (size_t i = 0; i < OWN_VARIABLES; i++)
        room += values[i] != NULL ? strlen(own_names[i]) + strlen(values[i]) + 1 : 0;

    char **made = malloc(count * sizeof *made + room);
    if (made == NULL)
        return NULL;
    char *text = (char *)(made + count);
    size_t at = 0;
    for (char **variable = environ; *variable != NULL; variable++) {
        bool is_own = false;
        for (size_t i = 0; i < OWN_VARIABLES; i++)
            is_own = is_own || is_named(*variable, own_names[i]);
        if (is_own || is_password(globals, *variable) || health_is_variable(globals, *variable))
            continue;
        made[at++] = *variable;
        if (is_named(*variable, "SIMBA_URL=") && !globals->keep_password) {
            made[at - 1] = strcpy(text, *variable);
            text += strlen(text) + 1;
            secret_strip(made[at - 1]);
        }
    }
    for (size_t i = 0; i < OWN_VARIABLES; i++) {
        if (values[i] == NULL)
            continue;
        made[at++] = text;
        text += sprintf(text, "%s%s", own_names[i], values[i]) + 1;
    }
    made[at] = NULL;
    return made;
}
