/* Arithmetic on numbers from outside, such as the times of a stored lease: instead of overflowing, it ends at the
 * smallest or the greatest number, which mean "long ago" and "never". */
#ifndef SIMBA_UTIL_SATURATE_H
#define SIMBA_UTIL_SATURATE_H

#include <stdint.h>

static inline int64_t simba__sat_add(int64_t a, int64_t b)
{
    int64_t sum;
    return !__builtin_add_overflow(a, b, &sum) ? sum : b < 0 ? INT64_MIN : INT64_MAX;
}

static inline int64_t simba__sat_sub(int64_t a, int64_t b)
{
    int64_t difference;
    return !__builtin_sub_overflow(a, b, &difference) ? difference : b > 0 ? INT64_MIN : INT64_MAX;
}

static inline int64_t simba__sat_mul(int64_t a, int64_t b)
{
    int64_t product;
    return !__builtin_mul_overflow(a, b, &product) ? product : (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

#endif
