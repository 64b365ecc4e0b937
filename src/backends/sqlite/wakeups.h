/* Whose fifos to ring after a commit. A change of a mutex concerns all clients that want to hear of every change. A
 * release also concerns the next in line, and the one after it, which makes sure that the first does take the mutex:
 * the first may be frozen, or be gone in a moment. All others are left in peace. */
#ifndef SIMBA_BACKENDS_SQLITE_WAKEUPS_H
#define SIMBA_BACKENDS_SQLITE_WAKEUPS_H

#include "backends/sqlite/notify.h"

typedef struct simba__sqlite_wakeups {
    const simba__sqlite_notify *notify;
    int folder; /* of the fifos; negative: there is none */
    uint32_t now_ms;
    bool reserve; /* one of the released mutexes is ours to take if the next in line does not */
    unsigned char signalled[SIMBA__SQLITE_FIFOS];
    simba__sqlite_subscriptions subscriptions;
    simba__sqlite_queue line;
    size_t queue_number;
} simba__sqlite_wakeups;

/* Which client is to take the released mutex? */
typedef enum simba__sqlite_invited {
    SIMBA__SQLITE_INVITED_ANYBODY, /* no other client waits, or none was told to let another go first */
    SIMBA__SQLITE_INVITED_US,
    SIMBA__SQLITE_INVITED_OTHERS,
} simba__sqlite_invited;

/* Begin, tell of each change, end. */
void simba__sqlite_wakeups_begin(simba__sqlite_wakeups *wakeups, const simba__sqlite_notify *notify, int64_t now_ns);
simba__sqlite_invited simba__sqlite_wakeups_changed(simba__sqlite_wakeups *wakeups, uint64_t hash, bool released);
/* Tell everybody of a revocation. */
void simba__sqlite_wakeups_revoked(simba__sqlite_wakeups *wakeups);
void simba__sqlite_wakeups_end(const simba__sqlite_wakeups *wakeups);

#endif
