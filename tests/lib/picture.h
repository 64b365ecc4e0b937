/* A snapshot of what belongs to the program and not to its libraries: how signals are handled and which are blocked,
 * locale, environment, umask, working directory, limits, priority, and what descriptors 0 to 2 are. */
#ifndef TESTS_LIB_PICTURE_H
#define TESTS_LIB_PICTURE_H

#include <stdbool.h>

enum { PICTURE_SIZE = 65536 };

/* Write a line for each of these. */
void picture_take(char picture[PICTURE_SIZE]);

/* Are the two the same? If not, print the first lines that differ on standard error, as what happened `when`. */
bool picture_same(const char *before, const char *after, const char *when);

#endif
