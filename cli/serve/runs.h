/* The schedule of a mutex, and its last runs. A note tells of one run, the latest; whoever reads every note of a mutex knows those
 * before it too. Pure: no I/O, no clock, no thread. */
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
    size_t record_length;         /* bytes of that note that tell it; what follows them is the note of the work */
    run last[RUNS_MAX];           /* oldest first */
    unsigned count;
} runs;

/* Take in the note of a mutex. `r` is what the notes before have told; NULL: nothing. Returns it, or what takes its place; NULL:
 * the note is of no schedule, or of one that cannot be read. */
runs *runs_take(runs *r, const void *note, size_t length);

#endif
