/* Work that is to be begun once in a period, by whomever: when it was last begun is noted on the mutex, in the form of
 * core/record.h, by the holder and on the store's clock. In a turn; both wait for the store. */
#ifndef SIMBA_RUNTIME_ONCE_H
#define SIMBA_RUNTIME_ONCE_H

#include "core/record.h"
#include "runtime/notes.h"

/* May it begin? SIMBA_ETOOSOON says when it was begun last. Otherwise what the store answers. */
int simba__once_check(simba__member *member, int64_t once_per_ms, simba_error *err);

/* As the holder: the same, and note that it begins now. */
int simba__once_begin(simba__member *member, int64_t once_per_ms, simba_error *err);

#endif
