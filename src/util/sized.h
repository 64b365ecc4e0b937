/* Structs that grow. Such a struct begins with `size_t size`, which its _INIT macro sets to what sizeof was when the program
 * was compiled. New fields come at the end, so the size says which of them the program knows: see docs/abi.md. */
#ifndef SIMBA_UTIL_SIZED_H
#define SIMBA_UTIL_SIZED_H

#include <simba.h>

/* What a program asks for. `own` holds the defaults, and its size is sizeof; what `given` has replaces them, and NULL stands
 * for nothing. A program that was compiled with a newer header may have members that we do not know: they must be zero, for
 * we cannot do what they ask. SIMBA_EINVAL otherwise, and when its size cannot be that of a struct; `what` is its type. */
int simba__sized_take(const char *what, const void *given, void *own, simba_error *err);

/* What one side tells the other: as much of `from` as there is in `to`. The rest of `to` stays as it is, the rest of `from`
 * is dropped. SIMBA_EINVAL: one of the sizes cannot be that of a struct. */
int simba__sized_tell(void *to, const void *from);

/* Can this be the size of a struct? Of one that nobody initialised it hardly can. */
bool simba__sized_possible(const void *sized);

#endif
