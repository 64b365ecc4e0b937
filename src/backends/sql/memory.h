/* What this client remembers of the rows that it has seen. A server may forget what it has told: a replica is promoted that
 * had not got the latest writes, or its clock jumps. This client must not contradict itself then, so it remembers
 *   - the greatest version of each row: a new token is above it, whatever the row says now;
 *   - which grants of our own contenders have not ended by our own clock: no other contender of this client is granted the
 *     same mutex meanwhile, even if the row says that it is free.
 * What other clients hold it cannot know.
 *
 * It also knows which lane is at work on a mutex, so that no other lane begins: they would wait for each other's row locks;
 * and whose row somebody else keeps locked, so that no other mutex is made to wait for it.
 *
 * There is room for a number of mutexes. The entry that was used least recently is forgotten first, but never one that is
 * held or worked on. Pure: no I/O, and the time comes from the caller. */
#ifndef SIMBA_BACKENDS_SQL_MEMORY_H
#define SIMBA_BACKENDS_SQL_MEMORY_H

#include <simba/backend.h>

#include "util/table.h"

enum { SIMBA__SQL_ENTRIES_MAX = 1 << 16 };

typedef struct simba__sql_entry simba__sql_entry;

/* One of zeroes is empty. */
typedef struct simba__sql_memory {
    simba__table entries; /* by the hash of the name alone: two names that share it share an entry, which is safe */
    simba__sql_entry *newest, *oldest;
    size_t locked; /* how many entries are of rows that were found locked */
} simba__sql_memory;

void simba__sql_memory_fini(simba__sql_memory *memory);

/* The greatest version that was seen: a new token of this mutex is greater. */
uint64_t simba__sql_memory_floor(const simba__sql_memory *memory, const char *mutex);
/* Does a contender of ours hold it, by our own clock, under another nonce than this one? */
bool simba__sql_memory_is_held(const simba__sql_memory *memory, const char *mutex, uint64_t nonce, simba_local now);
/* The nonce of the latest grant of ours; 0: there was none. */
uint64_t simba__sql_memory_holder(const simba__sql_memory *memory, const char *mutex);

/* A lane, by its number from 1 on, is to work on a mutex. False: another lane does. With true goes one `finish`. */
bool simba__sql_memory_begin(simba__sql_memory *memory, const char *mutex, unsigned lane, simba_local now);
void simba__sql_memory_finish(simba__sql_memory *memory, const char *mutex, unsigned lane);

/* Was the row locked by somebody else when it was last worked on? */
void simba__sql_memory_found_locked(simba__sql_memory *memory, const char *mutex, bool is_locked);
bool simba__sql_memory_is_locked(const simba__sql_memory *memory, const char *mutex);

/* This version of the row was seen. Without memory for it, nothing happens. */
void simba__sql_memory_saw(simba__sql_memory *memory, const char *mutex, uint64_t version, simba_local now);
/* A request of one of ours was answered, which had been submitted by `since` and was sent after it. */
void simba__sql_memory_answered(simba__sql_memory *memory, const simba_request *request, simba_local since);
/* One of ours is about to release: it does not hold the mutex any more, whatever becomes of the request. */
void simba__sql_memory_releasing(simba__sql_memory *memory, const char *mutex, uint64_t nonce);

#endif
