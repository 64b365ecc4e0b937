/* The clocks that commands read, and what they compute with times. */
#ifndef SIMBA_CLI_CLOCK_H
#define SIMBA_CLI_CLOCK_H

#include <stdint.h>
#include <time.h>

#define MS INT64_C(1000000) /* in nanoseconds */

static inline int64_t clock_read_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* CLOCK_BOOTTIME, which all processes of a host share, and on which all deadlines are. */
static inline int64_t clock_boot_ns(void)
{
    return clock_read_ns(CLOCK_BOOTTIME);
}

static inline int64_t clock_read_ms(clockid_t id)
{
    return clock_read_ns(id) / MS;
}

static inline double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* For qsort: times in ascending order. */
static inline int by_value(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

#endif
