/* "Did you mean …?": finds the known name that is nearest to an unknown one. Used for schemes in the library, and
 * for commands and options in the command, which compiles this file too. */
#ifndef SIMBA_UTIL_GUESS_H
#define SIMBA_UTIL_GUESS_H

#include <stddef.h>

/* The nearest of the names offered so far; NULL: none is near enough. Begin with {0}. */
typedef struct simba__guess {
    const char *name;
    unsigned distance;
} simba__guess;

/* `given` has `length` bytes. A name is near enough if it takes one slip of the keys for every three bytes, or if
 * `given` is its beginning. */
void simba__guess_offer(simba__guess *guess, const char *given, size_t length, const char *name);

#endif
