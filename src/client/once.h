/* Work that may begin only once in a period, on any machine. The holder records in the note of the mutex when the
 * work last began, in the form of core/record.h and on the store's clock. Under the lock; both functions wait for the
 * store. */
#ifndef SIMBA_CLIENT_ONCE_H
#define SIMBA_CLIENT_ONCE_H

#include "client/notes.h"
#include "core/record.h"

/* May it begin? SIMBA_ETOOSOON says when it last began. Otherwise the store's error. */
int simba__once_check(simba__candidate *candidate, int64_t once_per_ms, simba_error *err);

/* As the holder: the same, and record that it begins now. */
int simba__once_begin(simba__candidate *candidate, int64_t once_per_ms, simba_error *err);

#endif
