/* Whose bells are rung after a commit. A change of a mutex is told to all who want to hear of every change. A release is told
 * to the one that is next in line as well, and to the one after it, which sees to it that the first does take it: it may be
 * frozen, or be gone in a moment. All others are left in peace. On the worker. */
#ifndef SIMBA_BACKENDS_SQLITE_RINGING_H
#define SIMBA_BACKENDS_SQLITE_RINGING_H

#include "backends/sqlite/notify.h"

typedef struct simba__sqlite_ringing {
    const simba__sqlite_notify *notify;
    int folder; /* of the bells; negative: there is none */
    uint32_t now_ms;
    bool in_reserve; /* of those that were released one is ours to take, should the next in line not do it */
    unsigned char rung[SIMBA__SQLITE_BELLS];
    simba__sqlite_ears ears;
    simba__sqlite_line line;
    size_t line_number;
} simba__sqlite_ringing;

/* Who is to take what was released? */
typedef enum simba__sqlite_invited {
    SIMBA__SQLITE_INVITED_ANYBODY, /* nobody waits elsewhere, or nobody was told to let somebody else go first */
    SIMBA__SQLITE_INVITED_US,
    SIMBA__SQLITE_INVITED_OTHERS,
} simba__sqlite_invited;

/* Begin, tell of each change, end. */
void simba__sqlite_ringing_begin(simba__sqlite_ringing *ringing, const simba__sqlite_notify *notify, int64_t now_ns);
simba__sqlite_invited simba__sqlite_ringing_tell(simba__sqlite_ringing *ringing, uint64_t hash, bool released);
/* Tell everybody of a revocation. */
void simba__sqlite_ringing_tell_revoked(simba__sqlite_ringing *ringing);
void simba__sqlite_ringing_end(const simba__sqlite_ringing *ringing);

#endif
