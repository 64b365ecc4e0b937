/* The grants of this client, so that it can tell a holder at once when another process forces its mutex away. Holders watch
 * nothing. A revocation rings the bell of every client, which then compares each of its grants with its slot. If a slot is not
 * as our own grant left it, the holder asks the store. All in a turn. */
#ifndef SIMBA_BACKENDS_SQLITE_HELD_H
#define SIMBA_BACKENDS_SQLITE_HELD_H

#include "backends/sqlite/news.h"
#include "util/table.h"

typedef struct simba__held {
    simba_host *host;
    simba__table grants;  /* by mutex */
    uint64_t revocations; /* as the cell was when the grants were last compared */
} simba__held;

void simba__held_init(simba__held *held, simba_host *host);
void simba__held_fini(simba__held *held);

static inline bool simba__held_is_empty(const simba__held *held)
{
    return simba__table_first(&held->grants) == NULL;
}

/* After a transaction: the request has succeeded. A grant for which there is no memory is not remembered; its holder
 * learns of a revocation when it renews. */
void simba__held_note(simba__held *held, const simba__notify *notify, const simba__effect *effect,
                      const simba_request *request);

/* A wish was made, perhaps: tell the holders that listen. */
void simba__held_wanted(simba__held *held, const simba__notify *notify);
/* Something was revoked, perhaps. */
void simba__held_scan(simba__held *held, const simba__notify *notify);
/* The file was replaced: let every holder ask. */
void simba__held_ask_all(simba__held *held);

#endif
