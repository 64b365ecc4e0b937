/* The schedule of a mutex, and its last runs. A note tells of one run, the latest; a reader of every note of a mutex knows
 * the earlier runs too. Pure: no I/O, no clock, no thread. */
#ifndef SIMBA_CLI_SERVE_RUNS_H
#define SIMBA_CLI_SERVE_RUNS_H

#include <simba.h>

enum { RUNS_MAX = 16 }; /* that are remembered of a mutex */

typedef struct run {
    int64_t due_ms, begun_ms;
    int64_t ended_ms; /* 0: it goes on or was cut short, or nobody looked between its end and the next run */
    int result;       /* if it has ended; 0: well */
    int64_t missed;   /* due times before it that nobody ran */
} run;

typedef struct runs {
    simba_schedule_info schedule; /* as the latest note tells it */
    size_t record_length;         /* bytes of the note that are the record; the note of the work follows them */
    run last[RUNS_MAX];           /* oldest first */
    unsigned count;
} runs;

/* Take in the note of a mutex. `r` has the runs that earlier notes told of; NULL: none. Returns `r` or its replacement;
 * NULL: the note is of no schedule, or of one that cannot be read. */
runs *runs_take(runs *r, const void *note, size_t length);

#endif
