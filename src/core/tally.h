/* Counts what simba_stats reports about contenders. It compares a machine before and after each step: how long a
 * wait, a hold or a request took, why leadership ended. Pure, and takes a few nanoseconds per step. */
#ifndef SIMBA_CORE_TALLY_H
#define SIMBA_CORE_TALLY_H

#include "core/contention.h"

/* The bounds of the histogram buckets, in nanoseconds, and in seconds as OpenMetrics writes them. */
#define SIMBA__BOUNDS(X)                                                                                               \
    X(10000, "1e-05") /* 10 us */                                                                                      \
    X(30000, "3e-05")                                                                                                  \
    X(100000, "0.0001")                                                                                                \
    X(300000, "0.0003")                                                                                                \
    X(1000000, "0.001") /* 1 ms */                                                                                     \
    X(3000000, "0.003")                                                                                                \
    X(10000000, "0.01")                                                                                                \
    X(30000000, "0.03")                                                                                                \
    X(100000000, "0.1")                                                                                                \
    X(300000000, "0.3")                                                                                                \
    X(1000000000, "1.0") /* 1 s */                                                                                     \
    X(3000000000, "3.0")                                                                                               \
    X(10000000000, "10.0")                                                                                             \
    X(30000000000, "30.0")                                                                                             \
    X(60000000000, "60.0")       /* 1 min */                                                                           \
    X(300000000000, "300.0")     /* 5 min */                                                                           \
    X(900000000000, "900.0")     /* 15 min */                                                                          \
    X(3600000000000, "3600.0")   /* 1 h */                                                                             \
    X(21600000000000, "21600.0") /* 6 h */                                                                             \
    X(86400000000000, "86400.0") /* 1 day */

/* The state of a machine before a step. */
typedef struct simba__before {
    simba__phase phase;
    simba_op op;
    simba_local sent_at;
} simba__before;

static inline simba__before simba__tally_before(const simba__contention *machine)
{
    return (simba__before){(simba__phase)machine->phase, (simba_op)machine->op, machine->sent_at};
}

/* `since` belongs to the caller, one for each machine: when it began to wait, while it waits. */
void simba__tally_step(simba_stats *stats, const simba__before *before, const simba__contention *after,
                       const simba__event *event, const simba__actions *actions, simba_local *since);

/* A store failed a request with this code. */
void simba__tally_error(simba_stats *stats, int code);

/* A clock that stepped back makes a duration negative; it counts as 0. */
void simba__histogram_add(simba_histogram *histogram, int64_t ns);

#endif
