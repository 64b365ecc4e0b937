/* Structs that grow. Such a struct begins with `size_t size`, which its _INIT macro sets to the sizeof at the time
 * when the program was compiled. New fields come at the end, so the size says which of them the program knows: see
 * docs/abi.md. */
#ifndef SIMBA_UTIL_SIZED_H
#define SIMBA_UTIL_SIZED_H

#include <simba.h>

/* Read the options of a program. `own` holds the defaults, and its size is sizeof; the members of `given` replace
 * them; NULL: none. A program that was compiled with a newer header may have members that we do not know: they must
 * be zero, because we cannot do what they ask. SIMBA_EINVAL otherwise, and for an impossible size; `what` is its
 * type. */
int simba__sized_take(const char *what, const void *given, void *own, simba_error *err);

/* Copy as much of `from` as fits into `to`. The rest of `to` stays as it is, the rest of `from` is dropped.
 * SIMBA_EINVAL: an impossible size. */
int simba__sized_tell(void *to, const void *from);

/* Can this be the size of a struct? A struct that nobody initialised hardly has one. */
bool simba__sized_possible(const void *sized);

#endif
