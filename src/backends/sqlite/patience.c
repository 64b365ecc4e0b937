/* See patience.h. */
#include "backends/sqlite/patience.h"

#include <time.h>

#include "util/random.h"

enum { FIRST_NS = 20000, LONGEST_NS = 2000000 };

void simba__sqlite_patience_init(simba__sqlite_patience *patience, simba_host *host)
{
    patience->host = host;
    patience->seed = host->random(host);
    atomic_init(&patience->until_ns, INT64_MAX);
    atomic_init(&patience->over, false);
    atomic_init(&patience->waits, false);
}

void simba__sqlite_patience_set(simba__sqlite_patience *patience, simba_local until)
{
    atomic_store(&patience->until_ns, until.ns);
    atomic_store(&patience->waits, false);
}

bool simba__sqlite_patience_waits(const simba__sqlite_patience *patience)
{
    return atomic_load(&patience->waits);
}

void simba__sqlite_patience_end(simba__sqlite_patience *patience)
{
    atomic_store(&patience->over, true);
}

bool simba__sqlite_patience_wait(simba__sqlite_patience *patience, int attempt)
{
    if (atomic_load(&patience->over))
        return false;
    const int64_t left_ns = atomic_load(&patience->until_ns) - patience->host->now(patience->host).ns;
    if (left_ns <= 0)
        return false;
    int64_t pause_ns = attempt < 7 ? (int64_t)FIRST_NS << attempt : LONGEST_NS;
    if (pause_ns > LONGEST_NS)
        pause_ns = LONGEST_NS;
    /* The pause is random, so that two processes that met once do not keep meeting. */
    pause_ns = simba__random_range(&patience->seed, pause_ns / 2, pause_ns);
    if (pause_ns > left_ns)
        pause_ns = left_ns;
    atomic_store(&patience->waits, true);
    const struct timespec pause = {0, (long)pause_ns};
    nanosleep(&pause, NULL);
    return true;
}
