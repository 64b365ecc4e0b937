/* See note.h. */
#include "child/note.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"

/* A new file with the note in it; -1: there is none, and the command gets no file. */
static int make_file(const simba_note *note)
{
    const int file = memfd_create("simba-note", MFD_CLOEXEC);
    if (file >= 0 && pwrite(file, note->bytes, note->length, 0) != (ssize_t)note->length) {
        close(file);
        return -1;
    }
    return file;
}

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
    ret_note->file = make_file(&ret_note->before);
    if (ret_note->file >= 0)
        snprintf(ret_note->path, sizeof ret_note->path, "/proc/%ld/fd/%d", (long)getpid(), ret_note->file);
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
