/* Numbers in decimal digits. Writing is for texts that are written for every request: printf takes twenty times as long. Reading is
 * for bytes that do not end with a zero byte. */
#ifndef SIMBA_UTIL_DIGITS_H
#define SIMBA_UTIL_DIGITS_H

#include <stddef.h>
#include <stdint.h>

enum { SIMBA__DIGITS_SIZE = 21 }; /* of the largest number, and the zero byte after it */

/* Write the number, with zeros in front if it has fewer than `least` digits, of which there may be 20, and a zero byte. Returns how
 * many digits there are. */
static inline size_t simba__digits(char out[SIMBA__DIGITS_SIZE], uint64_t number, size_t least)
{
    char backwards[SIMBA__DIGITS_SIZE];
    size_t count = 0;
    for (; number > 0 || count < least || count == 0; number /= 10)
        backwards[count++] = (char)('0' + number % 10);
    for (size_t i = 0; i < count; i++)
        out[i] = backwards[count - 1 - i];
    out[count] = '\0';
    return count;
}

/* Read digits up to `end`, and the character behind them; returns where the text goes on. NULL: there is something else, or the
 * number is too large. */
static inline const char *simba__digits_read(const char *at, const char *end, char behind, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *digits = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
            return NULL;
    *ret_number = number;
    return at > digits && at < end && *at == behind ? at + 1 : NULL;
}

#endif
