/* A command that runs under a lease. It is started behind a supervisor and gets the signals and the terminal of this
 * process, the wrapper. It is stopped when leadership ends, and dead before the lease ends. Everything that runs commands
 * uses this. */
#ifndef SIMBA_CLI_CHILD_H
#define SIMBA_CLI_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#include "cli.h"
#include "log.h"
#include "signals.h"

/* --- how much of a lease is for stopping ---------------------------------------------------------- */

/* SIGTERM comes when the margin begins; the deadline, at which the supervisor kills everything, is the lead before the
 * end. A supervisor whose wrapper is frozen sends no SIGTERM, and keeps the same deadline.
 *
 *     leads        SIGTERM                 deadline     end by the wrapper's clock      the store may grant it
 *      ├────────────┼───── grace ───────────┼─── lead ───┼────────────── drift bound ────┤
 *                   └───────────── margin ──────────────┘ */
typedef struct child_times {
    int64_t grace_ms;
    int64_t lead_ms;
    int64_t margin_ms;   /* the sum of both, for the stop margin of the handle */
    int64_t lease_ms;    /* from end to end */
    int64_t max_hold_ms; /* 0: none */
} child_times;

/* For the leases of this client. `grace_ms` below 0: half of the longest that fits. Returns CLI_GO, or an exit code
 * after a message that says what would fit. */
int child_times_choose(const char *command, simba_client *client, int64_t grace_ms, child_times *ret_times);

/* The same where the server may yet say how long its sessions last: asks it, and waits until it has answered, a signal
 * comes (which stays to be read), or `limit_ms` have passed, unless that is negative. Reports problems of the store if
 * this takes long. Without an answer, freeing *ret_asking may take as long as that does; otherwise it is NULL. */
int child_times_await(const char *command, simba_client *client, int64_t grace_ms, const char *mutex,
                      const cli_signals *signals, int64_t limit_ms, child_times *ret_times,
                      simba_observer **ret_asking);

/* --- running ---------------------------------------------------------------------------------------- */

/* The handle that holds the mutex, and what it is asked. */
typedef struct child_holder {
    void *handle;
    /* The command is stopped when its held_for_ms are over, and dead before its left_ms are. Asked often. */
    void (*lease)(void *handle, simba_lease *ret_lease);
    /* For the supervisor, which gives the mutex back if the wrapper is killed; NULL: the lease ends by itself then. */
    int (*grant)(void *handle, simba_grant *ret_grant);
    /* NULL: the command gets no note. */
    int (*read_note)(void *handle, simba_error *err, simba_note *ret_note);
    int (*write_note)(void *handle, const void *bytes, size_t length, simba_error *err);
} child_holder;

/* What the environment of a command says about its lease. NULL: nothing. */
typedef struct child_facts {
    const char *mutex;
    uint64_t token; /* 0: none */
    const char *id;
    const char *reason; /* why it ended */
    const char *slot;   /* its number, where several hold the mutex */
    /* `simba schedule`, for a remembered schedule. */
    const char *due, *missed, *cut_short;
    const char *note, *note_file;
} child_facts;

typedef struct child_plan {
    const char *command; /* of simba, for the messages */
    const char *mutex;
    char *const *argv;
    const cli_globals *globals;
    child_times times;
    cli_signals *signals;
    simba_client *client; /* to be dispatched while the command runs */
    child_holder holder;
    child_facts facts; /* the note is added */
    /* The terminal sends its signals to the wrapper, which passes them on and goes on when the command has ended. */
    bool keeps_terminal;
    outage_words *outage; /* what to print while the lease cannot be renewed; NULL: the caller prints it */
} child_plan;

/* Why the command is over. */
typedef enum child_why {
    CHILD_ENDED,        /* by itself, or by a signal that was passed on */
    CHILD_NO_EXEC,      /* it never began */
    CHILD_LOST,         /* leadership ended, and it was stopped */
    CHILD_HOLD_LIMIT,   /* its time was over, and it was stopped */
    CHILD_TOO_LATE,     /* the wrapper was frozen, and the supervisor killed it */
    CHILD_UNSUPERVISED, /* the supervisor was killed, and so was it */
} child_why;

typedef struct child_end {
    child_why why;
    int code;      /* the exit code: the command's own, or that of simba. 0 is success */
    int note_code; /* CLI_GO; or it succeeded, but its note could not be kept, and a message says why */
    int status;    /* as of waitpid */
    int error;     /* CHILD_NO_EXEC: errno */
    bool killed;   /* SIGTERM was not enough */
    bool left;     /* it left processes behind, which were ended */
    bool immortal; /* something of it could not be killed */
    int passed_on; /* the last signal that was, other than SIGCONT, or 0 */
    int ending;    /* the last signal that was to end a program, or 0 */
} child_end;

/* Can commands be supervised on this system? Returns CLI_GO, or an exit code after a message that says what is missing. */
int child_check(const char *command);

/* Run it to its end. It finds the facts in its environment, and the note in a file, whose content becomes the note if it
 * succeeds. Returns 0, or a negative errno if nothing was started. */
int child_run(const child_plan *plan, child_end *ret_end);

/* Print one line about why it ended, unless that is obvious. `reason` is what ended leadership before that, if it is
 * known. */
void child_explain(const child_plan *plan, const child_end *end, simba_reason reason);

/* --- environment.c: what the command finds ------------------------------------------------------------ */

/* The environment of this process without the password of the store (unless --keep-password was given), and the facts as
 * SIMBA_MUTEX, SIMBA_TOKEN and so on. NULL: no memory. free() it. */
char **child_environment(const cli_globals *globals, const child_facts *facts);

/* The note of the mutex, for a command that runs while it is held. The command finds the note in SIMBA_NOTE, and in a
 * file whose path is in SIMBA_NOTE_FILE. The file is in memory (memfd), and its path leads through /proc to this process:
 * nobody else can read it, and it is gone when this process is, however that ends. */
typedef struct child_note {
    simba_note before;
    int file; /* -1: there is none */
    char path[64];
} child_note;

/* Asks the store, and adds the note to the facts. If the store keeps no notes, the command gets none; if it does not
 * answer, a message says so. */
void child_note_open(const char *command, const child_holder *holder, child_note *ret_note, child_facts *facts);
/* The command has succeeded, or not: then the note stays as it was. Otherwise write the content of the file as the note,
 * unless it has not changed. CLI_GO, or the exit code after a message. */
int child_note_close(const char *command, const child_holder *holder, const child_note *note, bool success);

#endif
