/* Descriptors 0 to 2 belong to the program, even while they are closed: printf writes to 1 whatever that is. */
#ifndef SIMBA_UTIL_DESCRIPTORS_H
#define SIMBA_UTIL_DESCRIPTORS_H

#include <stdbool.h>

/* Call this before you make a descriptor that will stay open, so that the kernel does not choose 0, 1 or 2 for it.
 * It fills those that are closed with a placeholder that nobody can read or write, and that no child inherits. The
 * placeholder stays, because the program may put something else there at any moment. False, and errno: it cannot be
 * made. Any thread; three system calls when there is nothing to do. */
bool simba__descriptors_hold(void);

#endif
