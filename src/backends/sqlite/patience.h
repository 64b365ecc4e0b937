/* How long to wait for other processes, and in which steps. SQLite's own busy_timeout sleeps for up to 100 ms at a
 * time and knows neither the deadline of a request nor that the client closes; this does. */
#ifndef SIMBA_BACKENDS_SQLITE_PATIENCE_H
#define SIMBA_BACKENDS_SQLITE_PATIENCE_H

#include <simba/backend.h>
#include <stdatomic.h>

typedef struct simba__patience {
    simba_host *host;
    uint64_t seed;            /* of whichever thread waits; only one does at a time */
    _Atomic int64_t until_ns; /* on the host's clock */
    atomic_bool over;         /* the client closes */
    atomic_bool waits;        /* another process had to be waited for */
} simba__patience;

void simba__patience_init(simba__patience *patience, simba_host *host);

/* From now on, wait until `until` at the longest. */
void simba__patience_set(simba__patience *patience, simba_local until);
/* Has any thread had to wait since then? Any thread. */
bool simba__patience_waits(const simba__patience *patience);
void simba__patience_end(simba__patience *patience);

/* Sleep a little: from 20 µs at attempt 0 up to 2 ms, randomised. False, at once: no time is left. */
bool simba__patience_wait(simba__patience *patience, int attempt);

#endif
