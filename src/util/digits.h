/* Numbers in decimal digits, for texts that are written for every request: printf takes twenty times as long. */
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

#endif
