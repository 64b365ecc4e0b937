/* Whose bells to ring after a commit. A change of a mutex concerns all clients that want to hear of every change. A
 * release also concerns the next in line, and the one after it, which makes sure that the first does take the mutex:
 * the first may be frozen, or be gone in a moment. All others are left in peace. */
#ifndef SIMBA_BACKENDS_SQLITE_RINGING_H
#define SIMBA_BACKENDS_SQLITE_RINGING_H

#include "backends/sqlite/notify.h"

typedef struct simba__sqlite_ringing {
    const simba__sqlite_notify *notify;
    int folder; /* of the bells; negative: there is none */
    uint32_t now_ms;
    bool in_reserve; /* one of the released mutexes is ours to take if the next in line does not */
    unsigned char rung[SIMBA__SQLITE_BELLS];
    simba__sqlite_ears ears;
    simba__sqlite_line line;
    size_t line_number;
} simba__sqlite_ringing;

/* Which client is to take the released mutex? */
typedef enum simba__sqlite_invited {
    SIMBA__SQLITE_INVITED_ANYBODY, /* no other client waits, or none was told to let another go first */
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
