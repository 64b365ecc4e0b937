/* Work that may begin only once in a period, on any machine. The holder records in the note of the mutex when the
 * work last began and how it ended, in the form of core/record.h and on the store's clock. core/once.h judges the
 * record. Under the lock; these functions wait for the store. */
#ifndef SIMBA_CLIENT_ONCE_H
#define SIMBA_CLIENT_ONCE_H

#include "client/notes.h"
#include "core/once.h"

/* May it begin? SIMBA_ETOOSOON says when it last began. Otherwise the store's error. */
int simba__once_check(simba__candidate *candidate, const simba__once *rule, simba_error *err);

/* As the holder: the same, and record that it begins now. */
int simba__once_begin(simba__candidate *candidate, const simba__once *rule, simba_error *err);

/* As the holder that began it: record that it has ended. SIMBA_ELOST, SIMBA_ESTATE: it no longer holds the mutex. SIMBA_EINVAL: the
 * note has no room for that. */
int simba__once_end(simba__candidate *candidate, int result, simba_error *err);

#endif
