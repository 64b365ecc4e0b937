/* See busy.h. */
#include "backends/sqlite/busy.h"

#include <time.h>

#include "util/random.h"

enum { FIRST_NS = 20000, LONGEST_NS = 2000000 };

void simba__sqlite_busy_init(simba__sqlite_busy *busy, simba_host *host)
{
    busy->host = host;
    busy->seed = host->random(host);
    atomic_init(&busy->until_ns, INT64_MAX);
    atomic_init(&busy->over, false);
    atomic_init(&busy->waits, false);
}

void simba__sqlite_busy_set(simba__sqlite_busy *busy, simba_local until)
{
    atomic_store(&busy->until_ns, until.ns);
    atomic_store(&busy->waits, false);
}

bool simba__sqlite_busy_waits(const simba__sqlite_busy *busy)
{
    return atomic_load(&busy->waits);
}

void simba__sqlite_busy_end(simba__sqlite_busy *busy)
{
    atomic_store(&busy->over, true);
}

bool simba__sqlite_busy_wait(simba__sqlite_busy *busy, int attempt)
{
    if (atomic_load(&busy->over))
        return false;
    const int64_t left_ns = atomic_load(&busy->until_ns) - busy->host->now(busy->host).ns;
    if (left_ns <= 0)
        return false;
    int64_t pause_ns = attempt < 7 ? (int64_t)FIRST_NS << attempt : LONGEST_NS;
    if (pause_ns > LONGEST_NS)
        pause_ns = LONGEST_NS;
    /* The pause is random, so that two processes that met once do not keep meeting. */
    pause_ns = simba__random_range(&busy->seed, pause_ns / 2, pause_ns);
    if (pause_ns > left_ns)
        pause_ns = left_ns;
    atomic_store(&busy->waits, true);
    const struct timespec pause = {0, (long)pause_ns};
    nanosleep(&pause, NULL);
    return true;
}
