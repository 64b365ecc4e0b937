/* How long to wait for other processes, and in which steps. SQLite's own busy_timeout sleeps for up to 100 ms at a
 * time and knows neither the deadline of a request nor that the client closes; this does. */
#ifndef SIMBA_BACKENDS_SQLITE_BUSY_H
#define SIMBA_BACKENDS_SQLITE_BUSY_H

#include <simba/backend.h>
#include <stdatomic.h>

typedef struct simba__sqlite_busy {
    simba_host *host;
    uint64_t seed;            /* for the thread that waits; only one does at a time */
    _Atomic int64_t until_ns; /* on the host's clock */
    atomic_bool over;         /* the client closes */
    atomic_bool waits;        /* a thread had to wait for another process */
} simba__sqlite_busy;

void simba__sqlite_busy_init(simba__sqlite_busy *busy, simba_host *host);

/* From now on, wait until `until` at the longest. */
void simba__sqlite_busy_set(simba__sqlite_busy *busy, simba_local until);
/* Has a thread had to wait since then? Any thread may ask. */
bool simba__sqlite_busy_waits(const simba__sqlite_busy *busy);
void simba__sqlite_busy_end(simba__sqlite_busy *busy);

/* Sleep a little: from 20 µs at attempt 0 up to 2 ms, at random. False, at once: no time is left. */
bool simba__sqlite_busy_wait(simba__sqlite_busy *busy, int attempt);

#endif
