/* Calls of the application that wait to be begun.
 *
 * A thread that comes while another one is in a turn need not wait for the lock, if it is going to wait for an answer of the store
 * anyhow: it leaves its call here and sleeps. The thread that is in the turn begins the call before it releases the lock, so
 * the requests of all who came meanwhile go to the store together; see simba__enter_or_post.
 *
 * The inbox is open while a thread is in a turn, or while one of the client's own is about to be. To close it, it has to be empty: so
 * whoever has posted a call knows that somebody is going to find it. Any thread may post; only the thread that holds the lock does
 * anything else. */
#ifndef SIMBA_RUNTIME_INBOX_H
#define SIMBA_RUNTIME_INBOX_H

#include "runtime/condition.h"

typedef struct simba__post simba__post;

/* On the stack of the thread that makes the call. */
struct simba__post {
    /* In a turn of any thread. False: the thread has to come itself. */
    bool (*begin)(simba__post *post);
    simba__condition *condition; /* that the thread waits for once the call has begun */
    bool begun;
    simba__sleeper sleeper;
    simba__post *next;
};

typedef struct simba__inbox {
    _Atomic(simba__post *) latest;
} simba__inbox;

/* The mark of a closed inbox, in the place of a post. */
static inline simba__post *simba__inbox_mark(const simba__inbox *inbox)
{
    return (simba__post *)(uintptr_t)inbox;
}

/* It is closed. */
static inline void simba__inbox_init(simba__inbox *inbox)
{
    atomic_init(&inbox->latest, simba__inbox_mark(inbox));
}

/* Unless it is open already. */
static inline void simba__inbox_open(simba__inbox *inbox)
{
    simba__post *mark = simba__inbox_mark(inbox);
    (void)atomic_compare_exchange_strong(&inbox->latest, &mark, NULL);
}

/* False: there are posts, and it stays open. It may be closed already. */
static inline bool simba__inbox_close(simba__inbox *inbox)
{
    simba__post *none = NULL;
    return atomic_load_explicit(&inbox->latest, memory_order_relaxed) == simba__inbox_mark(inbox) ||
           atomic_compare_exchange_strong(&inbox->latest, &none, simba__inbox_mark(inbox));
}

static inline bool simba__inbox_has_posts(const simba__inbox *inbox)
{
    const simba__post *latest = atomic_load_explicit(&inbox->latest, memory_order_relaxed);
    return latest && latest != simba__inbox_mark(inbox);
}

/* False: it is closed. */
bool simba__inbox_post(simba__inbox *inbox, simba__post *post);
/* All posts of an open inbox, in the order in which they came, linked by `next`. */
simba__post *simba__inbox_take(simba__inbox *inbox);

#endif
