/* The note as contenders, lockers and schedulers see it. The note of a mutex may begin with a record of core/record.h, which says
 * when a schedule ran last: the work sees and writes only what follows the record. Not in a turn. */
#ifndef SIMBA_RUNTIME_WORKNOTE_H
#define SIMBA_RUNTIME_WORKNOTE_H

#include "runtime/notes.h"

/* Write `length` bytes as the holder, behind the record if there is one. The first write of a grant looks for it; later ones need
 * not, because only the holder writes. `use`: see member.h. SIMBA_EINVAL: there is not enough room. */
int simba__worknote_set(simba__member *member, uint32_t use, const void *bytes, size_t length, simba_error *err);
/* The same, for a caller that knows the record in this tenure. */
int simba__worknote_set_behind(simba__member *member, simba__tenure tenure, const char *record, size_t record_size,
                               const void *bytes, size_t length, simba_error *err);

/* Read what follows the record. */
int simba__worknote_get(simba__member *member, simba_error *err, simba_note *ret_note);

#endif
