/* What this client remembers of the rows that it has seen. A server may forget what it has answered: a promoted replica may
 * lack the latest writes, or its clock jumps. This client must not contradict itself then, so it remembers
 *   - the greatest version of each row: a new token is above it, whatever the row says now;
 *   - which grants of its own contenders have not ended by its own clock: no other contender of this client gets the same
 *     mutex meanwhile, even if the row says that it is free.
 * It cannot know what other clients hold.
 *
 * It also knows which lane works on a mutex, so that no other lane begins: they would wait for each other's row locks. And it
 * knows which rows somebody else keeps locked, so that no other mutex has to wait for them.
 *
 * It has room for a number of mutexes. It forgets the least recently used entry first, but never one that is held or worked
 * on. Pure: no I/O, and the time comes from the caller. */
#ifndef SIMBA_BACKENDS_SQL_RECALL_H
#define SIMBA_BACKENDS_SQL_RECALL_H

#include <simba/backend.h>

#include "util/table.h"

enum { SIMBA__SQL_ENTRIES_MAX = 1 << 16 };

typedef struct simba__sql_entry simba__sql_entry;

/* One of zeroes is empty. */
typedef struct simba__sql_recall {
    simba__table entries; /* by the hash of the name alone: two names that share it share an entry, which is safe */
    simba__sql_entry *newest, *oldest;
    size_t locked; /* how many entries are of rows that were found locked */
} simba__sql_recall;

void simba__sql_recall_fini(simba__sql_recall *recall);

/* The greatest version seen: a new token of this mutex is greater. */
uint64_t simba__sql_recall_floor(const simba__sql_recall *recall, const char *mutex);
/* Does a contender of this client hold it, by our own clock, under another nonce? */
bool simba__sql_recall_is_held(const simba__sql_recall *recall, const char *mutex, uint64_t nonce, simba_local now);
/* The nonce of our latest grant; 0: there was none. */
uint64_t simba__sql_recall_holder(const simba__sql_recall *recall, const char *mutex);

/* A lane, by its number from 1 on, wants to work on a mutex. False: another lane does. Every true needs one
 * `finish`. */
bool simba__sql_recall_begin(simba__sql_recall *recall, const char *mutex, unsigned lane, simba_local now);
void simba__sql_recall_finish(simba__sql_recall *recall, const char *mutex, unsigned lane);
/* A renewal has waited in vain for the lane that works on this mutex. The connection of that lane may have gone silent, so
 * until the lane has finished, renewals do not wait for it. */
void simba__sql_recall_overtake(simba__sql_recall *recall, const char *mutex);
bool simba__sql_recall_is_overtaken(const simba__sql_recall *recall, const char *mutex);

/* Had somebody else locked the row when a lane last worked on it? */
void simba__sql_recall_found_locked(simba__sql_recall *recall, const char *mutex, bool is_locked);
bool simba__sql_recall_is_locked(const simba__sql_recall *recall, const char *mutex);

/* Remember that this version of the row was seen. Does nothing if there is no memory. */
void simba__sql_recall_saw(simba__sql_recall *recall, const char *mutex, uint64_t version, simba_local now);
/* The server answered a request of ours, which was submitted by `since` and sent after it. */
void simba__sql_recall_answered(simba__sql_recall *recall, const simba_request *request, simba_local since);
/* A contender of ours is about to release: from now on it does not hold the mutex, whatever becomes of the request. */
void simba__sql_recall_releasing(simba__sql_recall *recall, const char *mutex, uint64_t nonce);

#endif
