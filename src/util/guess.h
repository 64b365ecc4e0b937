/* "Did you mean …?": which of the names that there are was meant by one that there is not. For schemes in the library, for
 * commands and options in the command, which compiles this file too. */
#ifndef SIMBA_UTIL_GUESS_H
#define SIMBA_UTIL_GUESS_H

#include <stddef.h>

/* The nearest of the names offered so far; NULL: none is near enough. Begin with {0}. */
typedef struct simba__guess {
    const char *name;
    unsigned distance;
} simba__guess;

/* `given` has `length` bytes. Near enough is one slip of the keys for every three of them, or that it is the beginning of
 * the name. */
void simba__guess_offer(simba__guess *guess, const char *given, size_t length, const char *name);

#endif
