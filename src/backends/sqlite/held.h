/* The grants of this client, so that it can tell a holder at once when another process forces its mutex away. Holders
 * watch nothing. A revocation rings the bell of every client, which then compares each of its grants with its slot. If
 * a slot is not as our own grant left it, the holder asks the store. All of this runs in a turn. */
#ifndef SIMBA_BACKENDS_SQLITE_HELD_H
#define SIMBA_BACKENDS_SQLITE_HELD_H

#include "backends/sqlite/news.h"
#include "util/table.h"

typedef struct simba__sqlite_held {
    simba_host *host;
    simba__table grants;  /* by mutex */
    uint64_t revocations; /* as the cell was when the grants were last compared */
} simba__sqlite_held;

void simba__sqlite_held_init(simba__sqlite_held *held, simba_host *host);
void simba__sqlite_held_fini(simba__sqlite_held *held);

static inline bool simba__sqlite_held_is_empty(const simba__sqlite_held *held)
{
    return simba__table_first(&held->grants) == NULL;
}

/* A transaction has carried out this request: remember or drop the grant. If there is no memory for a grant, its holder
 * learns of a revocation when it renews. */
void simba__sqlite_held_note(simba__sqlite_held *held, const simba__sqlite_effect *effect,
                             const simba_request *request);

/* Something may have been revoked: compare the grants with their slots. */
void simba__sqlite_held_scan(simba__sqlite_held *held, const simba__sqlite_notify *notify);
/* The file was replaced: let every holder ask. */
void simba__sqlite_held_ask_all(simba__sqlite_held *held);

#endif
