/* Arithmetic on numbers from outside, such as the times of a stored lease: instead of overflowing, it ends at the
 * smallest or the greatest number, which mean "long ago" and "never". And the smaller and the greater of two. */
#ifndef SIMBA_UTIL_SATURATE_H
#define SIMBA_UTIL_SATURATE_H

#include <stdint.h>

static inline int64_t simba__sat_add(int64_t one, int64_t other)
{
    int64_t sum;
    return !__builtin_add_overflow(one, other, &sum) ? sum : other < 0 ? INT64_MIN : INT64_MAX;
}

static inline int64_t simba__sat_sub(int64_t one, int64_t other)
{
    int64_t difference;
    return !__builtin_sub_overflow(one, other, &difference) ? difference : other > 0 ? INT64_MIN : INT64_MAX;
}

static inline int64_t simba__sat_mul(int64_t one, int64_t other)
{
    int64_t product;
    return !__builtin_mul_overflow(one, other, &product) ? product : (one < 0) != (other < 0) ? INT64_MIN : INT64_MAX;
}

static inline int64_t simba__min64(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

static inline int64_t simba__max64(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

#endif
