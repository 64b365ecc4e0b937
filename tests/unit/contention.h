/* What the tests of the contention machine have in common, besides lib/trace.h. */
#ifndef TESTS_UNIT_CONTENTION_H
#define TESTS_UNIT_CONTENTION_H

#include "lib/cm.h"
#include "lib/trace.h"

#define TRACE(expected, call) assert_string_equal(call, expected)

/* A machine that was made at 0 and asked at once. */
static inline void contend(trace *t)
{
    trace_init(t, 10000, 6000);
    TRACE("acquire", trace_start(t));
}

/* It leads since. */
static inline void lead(trace *t, uint64_t token)
{
    contend(t);
    TRACE("acquired changed wake@9250", trace_mine(t, token));
}

/* When its timer is set to, in ms, rounded up. */
static inline int64_t timer_ms(const trace *t)
{
    return (t->actions.timer.ns - INT64_C(5000000000000) + 999999) / 1000000;
}

#endif
