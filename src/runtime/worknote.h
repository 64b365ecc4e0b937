/* The note of the work, if the note of its mutex begins with a record of core/record.h: the work sees and writes
 * only what follows the record. Not in a turn. */
#ifndef SIMBA_RUNTIME_WORKNOTE_H
#define SIMBA_RUNTIME_WORKNOTE_H

#include "runtime/notes.h"

/* Write `length` bytes behind the record, as the holder. SIMBA_EINVAL: there is not enough room. */
int simba__worknote_set(simba__member *member, const char *record, size_t record_size, const void *bytes, size_t length,
                        simba_error *err);

/* Read what follows the record. */
int simba__worknote_get(simba__member *member, simba_error *err, simba_note *ret_note);

#endif
