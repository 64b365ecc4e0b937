/* What the two doors of `simba hold` share: the mutexes that the process holds or asks for, and the lines that it prints.
 *
 * One thread does everything but wait for the store. It reads standard input, looks at the leases, drives the client and
 * writes standard output. A call that waits for the store runs on a thread of its own, at most one for each mutex, so that a
 * slow store delays no answer about another mutex. */
#ifndef SIMBA_CLI_HOLD_H
#define SIMBA_CLI_HOLD_H

#include <pthread.h>
#include <sys/queue.h>

#include "check.h"
#include "child/child.h"
#include "json.h"

enum {
    HOLD_VERSION = 1,        /* of the lines of --stdio */
    HOLD_MUTEXES_MAX = 256,  /* held or asked for at the same time */
    HOLD_LINE_MAX = 16384,   /* bytes of a request; a note may have six for each of its own */
    HOLD_ANSWER_ID_MAX = 64, /* bytes of the `id` of a request, as it was written */
};

typedef enum hold_work { HOLD_IDLE, HOLD_ACQUIRE, HOLD_READ_NOTE, HOLD_WRITE_NOTE, HOLD_RELEASE } hold_work;

typedef struct hold hold;

/* The `id` of a request as JSON, for the answer; "": it has none. */
typedef struct hold_id {
    char json[HOLD_ANSWER_ID_MAX + 1];
} hold_id;

/* One mutex that is held, asked for, or being given back. */
typedef struct held {
    TAILQ_ENTRY(held) in_all;
    hold *of;
    char mutex[SIMBA_MUTEX_BYTES + 1];
    simba_locker *locker; /* of the thread that gives it back, while that runs */
    uint64_t token;       /* 0: not held yet */
    int64_t end_ns;       /* of the lease, as last seen */
    bool lost;            /* and that was printed */
    bool leaves;          /* give it back as soon as no other work is in progress */
    bool asked;           /* because of a request, whose id this is */
    hold_id leave_id;
    bool again; /* and then ask for it anew, because of another request */
    hold_id again_id;
    int64_t again_wait_ms;
    /* What its thread does, and with which result. */
    hold_work work;
    pthread_t thread;
    hold_id id; /* of the request */
    int64_t wait_ms;
    simba_note note;
    simba_error error;
    simba_reason reason; /* why leadership had ended when it was given back */
} held;

struct hold {
    cli_globals *globals;
    const char *mutex; /* NULL: --stdio */
    int64_t wait_ms;   /* -1: for ever, 0: try once */
    int64_t grace_ms;  /* -1: as long as seems good */
    int busy_code;     /* exit code for "not obtained" */
    bool renewals;     /* print them */
    check check;       /* nothing is taken before it succeeds, or held when it fails */
    child_times times;
    cli_signals signals;
    simba_client *client;
    TAILQ_HEAD(, held) all;
    unsigned count;
    int done[2]; /* a pipe: a thread writes the address of its mutex when its work is done */
    /* How it begins and ends. */
    bool begun;
    bool ending;
    int exit_code;
    int64_t until_ns; /* when to give back what the reader still holds */
    /* Standard input: the beginning of a line. */
    bool input_ended;
    bool too_long; /* skip the rest of this line */
    size_t line_length;
    char line[HOLD_LINE_MAX];
    /* Standard output: what was not written yet. */
    char *output;
    size_t output_length;
    int64_t stuck_ns; /* since when nothing of it could be written */
    bool nobody_reads;
    FILE *line_to; /* the line that is being made */
    char *line_text;
    size_t line_size;
};

/* Print one line: {"event":…,"id":…,"mutex":…, then what the caller adds. Without an id or a mutex that member is missing. */
json_writer hold_begin_line(hold *h, const char *event, const hold_id *id, const char *mutex);
void hold_end_line(hold *h, json_writer *j);
void hold_print_error(hold *h, const hold_id *id, const char *mutex, int code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* NULL: it is neither held nor asked for. */
held *hold_find(hold *h, const char *mutex);
/* Ask for it. What comes of that is printed, at once or later. */
void hold_acquire(hold *h, const char *mutex, int64_t wait_ms, const hold_id *id);
/* Do this with the mutex, which is idle, on a thread of its own. False: there is none. */
bool hold_begin_work(held *m, hold_work work, const hold_id *id);

/* Carry out one request of --stdio. */
void hold_serve(hold *h, const char *line, size_t length);
void hold_greet(hold *h);

#endif
