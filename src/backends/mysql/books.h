/* What this client remembers of the mutexes that went through its hands, so that a server which has forgotten something,
 * because a replica was promoted that had not got it, or whose clock has jumped, does not make us contradict ourselves:
 *   - the greatest token of each mutex that was seen: new ones are above it, whatever the row says;
 *   - which grants of our own contenders have not ended by our own clock: another contender of this client is not granted
 *     the same mutex meanwhile, even if the row says that it is free.
 * What other clients hold it cannot know.
 *
 * And it knows which lane is at work on a mutex, so that no other one begins: they would wait for each other's row locks.
 *
 * It has room for a number of mutexes, and forgets those that have not been asked about for longest; never one that is
 * held or worked on. All in turns. */
#ifndef SIMBA_BACKENDS_MYSQL_BOOKS_H
#define SIMBA_BACKENDS_MYSQL_BOOKS_H

#include <simba/backend.h>

typedef struct simba__my_page simba__my_page;

typedef struct simba__my_books {
    simba__my_page **buckets;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
    simba__my_page *newest, *oldest;
} simba__my_books;

void simba__my_books_fini(simba__my_books *books);

/* A new token of this mutex is greater. */
uint64_t simba__my_books_floor(const simba__my_books *books, const char *mutex);
/* Is it held here, under another nonce? Under which? */
bool simba__my_books_held(const simba__my_books *books, const char *mutex, uint64_t nonce, simba_local now);
uint64_t simba__my_books_holder(const simba__my_books *books, const char *mutex);

/* A lane, by its number from 1 on, is to work on a mutex. False: another one does. With true goes one `finish`. */
bool simba__my_books_begin(simba__my_books *books, const char *mutex, unsigned lane, simba_local now);
void simba__my_books_finish(simba__my_books *books, const char *mutex, unsigned lane);

/* Both without effect where there is no memory.
 * This version of the row was seen. */
void simba__my_books_see(simba__my_books *books, const char *mutex, uint64_t version, simba_local now);
/* A request of one of ours was answered, which was handed over no later than `since`. */
void simba__my_books_note(simba__my_books *books, const simba_request *answered, simba_local since);
/* One of ours is about to release: it does not hold the mutex any more, whatever becomes of that. */
void simba__my_books_let_go(simba__my_books *books, const char *mutex, uint64_t nonce);

#endif
