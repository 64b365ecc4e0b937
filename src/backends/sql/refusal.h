/* How often to try a connection while there is no server: after 20 ms, then twice as long each time, up to 500 ms.
 * Many requests may come in between; they do not all try, and get the latest error instead. */
#ifndef SIMBA_BACKENDS_SQL_REFUSAL_H
#define SIMBA_BACKENDS_SQL_REFUSAL_H

#include <simba/backend.h>

#include "backends/sql/failure.h"
#include "util/clock.h"

/* Zeroes: nothing has failed. */
typedef struct simba__sql_refusal {
    unsigned failures;      /* in a row */
    simba_local not_before; /* when to try again */
    simba__sql_failure why; /* the latest */
} simba__sql_refusal;

static inline void simba__sql_refusal_note(simba__sql_refusal *refusal, const simba__sql_failure *why, simba_local now)
{
    const int64_t pause_ms = INT64_C(20) << (refusal->failures < 5 ? refusal->failures : 5);
    refusal->failures++;
    refusal->why = *why;
    refusal->not_before.ns = now.ns + (pause_ms < 500 ? pause_ms : 500) * SIMBA__NS_PER_MS;
}

/* Is it too early to try? */
static inline bool simba__sql_refusal_stands(const simba__sql_refusal *refusal, simba_local now)
{
    return refusal->failures > 0 && now.ns < refusal->not_before.ns;
}

#endif
