/* What this client remembers of the rows that it has seen. A server may forget what it has answered: a promoted replica may lack the
 * latest writes, or its clock jumps. This client must not contradict itself then, so it remembers
 *   - the greatest version of each row: a new token is above it, whatever the row says now;
 *   - which grants of its own contenders have not ended by its own clock: no other contender of this client gets the same
 *     mutex meanwhile, even if the row says that it is free.
 * It cannot know what other clients hold. It has room for a number of mutexes, and forgets the least recently used entry first, but
 * never one that is held. Pure: the time comes from the caller. */
#ifndef SIMBA_STORES_SQL_GRANTS_H
#define SIMBA_STORES_SQL_GRANTS_H

#include <simba/backend.h>

#include "util/list.h"
#include "util/table.h"

enum { SIMBA__SQL_GRANTS_MAX = 1 << 16 };

/* One of zeroes is empty. */
typedef struct simba__sql_grants {
    simba__table entries; /* by the hash of the name alone: two names that share it share an entry, which is safe */
    simba__list used;     /* the least recently used one first */
} simba__sql_grants;

void simba__sql_grants_fini(simba__sql_grants *grants);

/* The greatest version seen: a new token of this mutex is greater. */
uint64_t simba__sql_grants_floor(const simba__sql_grants *grants, const char *mutex);
/* Does a contender of this client hold it, by its own clock, under another nonce? */
bool simba__sql_grants_is_held(const simba__sql_grants *grants, const char *mutex, uint64_t nonce, simba_local now);
/* The nonce of the latest grant of this client; 0: there was none. */
uint64_t simba__sql_grants_holder(const simba__sql_grants *grants, const char *mutex);

/* This version of the row was seen. Does nothing if there is no memory. */
void simba__sql_grants_saw(simba__sql_grants *grants, const char *mutex, uint64_t version, simba_local now);
/* The server has carried out a request, which was sent at `since` or later. */
void simba__sql_grants_answered(simba__sql_grants *grants, const simba_request *request, simba_local since);
/* A contender of this client is about to release: from now on it does not hold the mutex, whatever becomes of the request. */
void simba__sql_grants_releasing(simba__sql_grants *grants, const char *mutex, uint64_t nonce);

#endif
