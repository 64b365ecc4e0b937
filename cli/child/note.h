/* The note of the mutex, for a command that runs while it is held. The command finds the note in SIMBA_NOTE, and in a
 * file whose path is in SIMBA_NOTE_FILE. If the command succeeds, the content of the file becomes the note, before the
 * mutex is given back.
 *
 * The file is in memory (memfd), and its path leads through /proc to this process: nobody else can read it, and it
 * is gone when we are, however we end. */
#ifndef SIMBA_CLI_CHILD_NOTE_H
#define SIMBA_CLI_CHILD_NOTE_H

#include <simba.h>

/* The holder of the mutex, and how it reads and writes the note. */
typedef struct child_note_holder {
    const char *command; /* of ours, for the words */
    int (*read)(void *holder, simba_error *err, simba_note *ret_note);
    int (*write)(void *holder, const void *bytes, size_t length, simba_error *err);
    void *holder;
} child_note_holder;

typedef struct child_note {
    const child_note_holder *holder;
    simba_note before;
    int file;         /* -1: there is none */
    const char *text; /* for SIMBA_NOTE; NULL: not known, or it has a zero byte in it */
    char path[64];    /* for SIMBA_NOTE_FILE; "": there is none */
} child_note;

/* Asks the store. If the store keeps no notes, the command gets none; if it does not answer, a message says so. */
void child_note_open(const child_note_holder *holder, child_note *ret_note);

/* The command has succeeded: write the content of the file as the note, unless it has not changed. CLI_GO, or the
 * exit code after a message. */
int child_note_keep(const child_note *note);

void child_note_close(child_note *note);

#endif
