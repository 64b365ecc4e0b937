/* The note as the doors show it. Where the note of a mutex begins with a record of core/record.h, which says when a schedule ran
 * last, the work sees and writes only what lies behind the record, whichever door it comes by. Not in a turn. */
#ifndef SIMBA_RUNTIME_WORKNOTE_H
#define SIMBA_RUNTIME_WORKNOTE_H

#include "runtime/notes.h"

/* Write `length` bytes as the holder; the record, if there is one, stays. It is looked for before the first write of a grant, and
 * since only the holder writes, it is still the same when that write comes. SIMBA_EINVAL: there is not that much room. */
int simba__worknote_set(simba__member *member, const void *bytes, size_t length, simba_error *err);
/* The same for whoever knows the record of the grant of `token`. */
int simba__worknote_set_behind(simba__member *member, uint64_t token, const char *record, size_t record_size,
                               const void *bytes, size_t length, simba_error *err);

/* Read what lies behind the record. */
int simba__worknote_get(simba__member *member, simba_error *err, simba_note *ret_note);

#endif
