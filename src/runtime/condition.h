/* Conditions that the threads of a client sleep for.
 *
 * They differ from those of POSIX in two ways. A thread that is to wake up is noted under the lock of the client, and called after the
 * lock has been released: otherwise it would run into the lock on another processor, and sleep a second time. And it may be
 * let go: then all that it came for is done, and it goes home without taking the lock again.
 *
 * A zeroed condition is ready for use. Everything here happens under the lock, except for sleeping and waking. */
#ifndef SIMBA_RUNTIME_CONDITION_H
#define SIMBA_RUNTIME_CONDITION_H

#include <simba/backend.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "util/list.h"

typedef struct simba__condition {
    simba__list sleepers;
} simba__condition;

typedef struct simba__sleeper simba__sleeper;

/* What a sleeper's futex says: whoever calls a thread that is still awake need not ask the kernel to. */
enum { SIMBA__AWAKE, SIMBA__ASLEEP, SIMBA__CALLED };

/* A thread that sleeps; on the stack of that thread. */
struct simba__sleeper {
    simba__list_item of_condition;
    simba__list_item of_turn; /* for the owner of the lock */
    simba__sleeper *next;     /* that is to be called after this one */
    bool noted;               /* it is going to be called, and in no list any more */
    bool let_go;
    bool awaits;        /* an answer of the store */
    bool watchful;      /* and looks after it itself if nobody calls for a moment */
    atomic_uint called; /* the futex that it sleeps at */
};

/* The threads that are to be called, in order. */
typedef struct simba__wakeups {
    simba__sleeper *first, *last;
} simba__wakeups;

/* Note all threads that sleep for this condition. */
void simba__condition_wake(simba__condition *condition, simba__wakeups *wakeups, bool let_go);
/* Note this one. */
void simba__sleeper_wake(simba__sleeper *sleeper, simba__wakeups *wakeups, bool let_go);

/* Without the lock: call them. */
void simba__wakeups_make(simba__wakeups *wakeups);
/* Without the lock: sleep until this thread is called or the time has come. False: the time has come. */
bool simba__sleep(simba__sleeper *self, simba_local until);

#endif
