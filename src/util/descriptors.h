/* Descriptors 0 to 2 belong to the program, also while they are closed: printf writes to 1 whatever that is. */
#ifndef SIMBA_UTIL_DESCRIPTORS_H
#define SIMBA_UTIL_DESCRIPTORS_H

#include <stdbool.h>

/* Before a descriptor is made that will stay open: see to it that the kernel does not choose 0, 1 or 2 for it. Those of them
 * that are closed get a placeholder that can be neither read nor written, just as a closed one, and that no child inherits. It
 * stays, for nobody can tell later whether the program has put something else there in the same moment. False, and errno: one
 * cannot be made. Any thread; three system calls when nothing has to be done. */
bool simba__descriptors_hold(void);

#endif
