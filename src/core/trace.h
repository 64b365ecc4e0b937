/* What a step of a contender's machine looks like to those who only look on: it is counted for simba_stats, and written as lines
 * of the event log, from which `simba timeline` draws a picture (simba-timeline(1) lists the words). Pure; the simulator uses the
 * same code as the client. */
#ifndef SIMBA_CORE_TRACE_H
#define SIMBA_CORE_TRACE_H

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

/* A step that a machine has made. */
typedef struct simba__step {
    const simba__contention *machine;
    const simba__event *event;
    const simba__actions *actions;
} simba__step;

/* `since` belongs to the caller, one for each machine: when it began to wait, while it waits. */
void simba__count_step(simba_stats *stats, const simba__step *step, simba_local *since);
/* A store failed a request with this code. Stores outside this library may have codes of their own. */
void simba__count_error(simba_stats *stats, int code);
/* A clock that stepped back makes a duration negative; it counts as 0. */
void simba__histogram_add(simba_histogram *histogram, int64_t ns);

/* Say the step as lines. Adds `shift_ns` to all times, to convert the machine's clock to the log's. */
typedef void (*simba__trace_fn)(void *user, const char *words);
void simba__trace_step(const simba__step *step, int64_t shift_ns, simba__trace_fn say, void *user);

/* The names of requests, in messages. */
const char *simba__op_name(simba_op op);

#endif
