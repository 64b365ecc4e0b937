/* A command that runs under a lease. It is started behind a supervisor and gets our signals and our terminal; we stop
 * it when leadership ends, and it is dead before the lease ends. Everything that runs commands uses this. */
#ifndef SIMBA_CLI_CHILD_H
#define SIMBA_CLI_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#include "child/give_back.h"
#include "cli.h"
#include "signals.h"
#include "waiting.h"

/* How much of a lease is set aside for stopping. SIGTERM comes at margin before the end, SIGKILL at lead before it
 * at the latest, and the supervisor's SIGKILL at half of the lead.
 *
 *     told        SIGTERM                    SIGKILL  supervisor  end by our clock      the store may grant it
 *      ├────────────┼───── grace ──────────────┼── lead/2 ─┼─ lead/2 ─┼──── drift bound ────┤
 *      └── stop margin of the lease: grace + lead ────────────────────┘ */
typedef struct child_times {
    int64_t grace_ms;
    int64_t lead_ms;
    int64_t lease_ms;    /* from end to end */
    int64_t max_hold_ms; /* 0: none */
} child_times;

/* Where leases are sessions, the server says how long they last. Ask it, and wait until it has answered, a signal
 * comes (which stays to be read), or `limit_ms` have passed, unless that is negative. Reports problems of the store
 * if this takes long. If the server has not answered, freeing *ret_asking may take as long as that does; otherwise
 * it is NULL. */
void child_times_await(simba_client *client, const char *mutex, const cli_signals *signals, int64_t limit_ms,
                       simba_observer **ret_asking);

/* For the leases of this client. `grace_ms` below 0: half of the longest that fits. Returns CLI_GO, or an exit code
 * after a message that says what would fit. */
int child_times_choose(const char *command, simba_client *client, int64_t grace_ms, child_times *ret_times);
/* The value for the stop margin. */
int64_t child_margin_ms(const child_times *times);

typedef struct child_plan {
    const char *command; /* of ours, for the words */
    const char *mutex;
    char *const *argv;
    char *const *envp;
    child_times times;
    cli_signals *signals;
    simba_client *client;       /* to be dispatched while the command runs; NULL: it has threads of its own */
    const give_back *give_back; /* for the supervisor, if this process is killed; NULL: the lease ends by itself then */
    /* The terminal sends its signals to us, and we pass them on: we go on when the command has ended. */
    bool keeps_terminal;
    /* The lease: the command is stopped when its held_for_ms are over, and dead before its left_ms are. Asked often. */
    void (*lease)(void *user, simba_lease *ret_lease);
    void *user;
    outage_words *outage; /* what to say while the lease cannot be renewed; NULL: the caller says it itself */
} child_plan;

/* Why the command is over. */
typedef enum child_why {
    CHILD_ENDED,        /* by itself, or by a signal that was passed on */
    CHILD_NO_EXEC,      /* it never began */
    CHILD_LOST,         /* leadership ended, and it was stopped */
    CHILD_HOLD_LIMIT,   /* its time was over, and it was stopped */
    CHILD_TOO_LATE,     /* we were frozen, and the supervisor killed it */
    CHILD_UNSUPERVISED, /* the supervisor was killed, and so was it */
} child_why;

typedef struct child_end {
    child_why why;
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

/* Run it to its end. Returns 0, or a negative errno if nothing was started. */
int child_run(const child_plan *plan, child_end *ret_end);

/* It ended by itself, with exit code 0. */
bool child_ended_well(const child_end *end);

/* The exit code that matches a wait status. */
int child_exit_code(int status);

/* The exit code for how it ended: its own, or that of simba. 0 is success. */
int child_result(const child_end *end);

/* --- what the command finds --------------------------------------------------------------------- */

/* The note of the mutex, for a command that runs while it is held. The command finds the note in SIMBA_NOTE, and in a
 * file whose path is in SIMBA_NOTE_FILE. If the command succeeds, the content of the file becomes the note, before the
 * mutex is given back.
 *
 * The file is in memory (memfd), and its path leads through /proc to this process: nobody else can read it, and it
 * is gone when we are, however we end. */
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

/* What the environment of a command says about its lease. */
typedef struct child_lease {
    const char *mutex;
    uint64_t token;
    const char *id;
    const char *reason;     /* why it ended; NULL: it has not */
    const child_note *note; /* NULL: it gets none */
    const char *slot;       /* its number, where several hold the mutex; NULL otherwise */
    /* `simba schedule`, for a remembered schedule; NULL otherwise. */
    const char *due;
    const char *missed;
    const char *cut_short;
} child_lease;

/* Our environment without the password of the store (unless --keep-password was given), and SIMBA_MUTEX, SIMBA_TOKEN,
 * SIMBA_ID, SIMBA_REASON, SIMBA_NOTE, SIMBA_NOTE_FILE, SIMBA_DUE, SIMBA_MISSED, SIMBA_CUT_SHORT and SIMBA_SLOT. NULL: no
 * memory. free() it. */
char **child_environment(const cli_globals *globals, const child_lease *lease);

/* Print one line about why it ended, unless that is obvious, and return child_result(). `reason` is what ended
 * leadership before that, if it is known. */
int child_explain(const child_plan *plan, const child_end *end, simba_reason reason);

#endif
