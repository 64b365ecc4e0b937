/* Where threads of the application wait for the lock of a client.
 *
 * If all of them waited at the lock itself, each unlock could wake another one, and those that are awake would wrest the lock
 * from each other, with a system call and a change of processor every time: four threads got done half of what one did.
 *
 * So they stand in line, and only the first in line tries to get the lock. Who leaves the lock calls the first in line. But a
 * thread that takes the lock again and again calls nobody: it goes on for a moment (SIMBA__GATE_MOMENT_US), until the first in line
 * tries by itself. A thread that finds the lock free takes it, whoever stands in line: the lock is never idle because the next
 * thread still has to wake up. When the first in line has got the lock, the next one has to be woken, to wait for its own moment.
 * As a rule the thread that was busy until then does that: it joins the line and has nothing else to do, while the one that
 * has the lock does the work of all.
 *
 * The client's own threads do not stand in line. While one of them waits for the lock, nobody who comes takes the lock before it: a
 * program that locks and unlocks in a loop must not keep the client from renewing, or from reading what a store says. */
#ifndef SIMBA_RUNTIME_GATE_H
#define SIMBA_RUNTIME_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "util/list.h"

enum { SIMBA__GATE_MOMENT_US = 200 };

/* What the first in line does. Each state comes after the one before it. */
typedef enum simba__first {
    SIMBA__FIRST_SLEEPS, /* it does not know yet that it is the first */
    SIMBA__FIRST_WAITS,  /* to be called, but not for longer than a moment */
    SIMBA__FIRST_CALLED, /* it tries to get the lock */
} simba__first;

typedef struct simba__gate {
    pthread_mutex_t line_lock; /* nobody waits for the client's lock while they hold this one */
    simba__list line;          /* threads, in the order in which they came */
    atomic_size_t length;      /* of the line */
    _Atomic simba__first first;
    atomic_uint urgent; /* the client's own threads that wait for the lock */

    /* Under the client's lock: */
    pthread_t last; /* the thread that came through last */
    /* How often it came through in a row; what is left of that when another one comes is half of it. Others may look. */
    atomic_uint heat;
} simba__gate;

void simba__gate_init(simba__gate *gate);
void simba__gate_fini(simba__gate *gate);

/* Take the lock that is behind the gate if it is free, and no thread of the client's own waits for it. */
bool simba__gate_try(simba__gate *gate, pthread_mutex_t *lock);
/* Take the lock that is behind the gate. */
void simba__gate_pass(simba__gate *gate, pthread_mutex_t *lock);
/* The same for the client's own threads, past the line. */
void simba__gate_pass_by(simba__gate *gate, pthread_mutex_t *lock);
/* The caller holds the lock: does a thread of the client's own wait for it? */
static inline bool simba__gate_is_urgent(const simba__gate *gate)
{
    return atomic_load(&gate->urgent) > 0;
}
/* Under the lock: call the first in line, unless this thread comes again and again. */
void simba__gate_call_first(simba__gate *gate);
/* The caller, who holds the lock, is about to release it. Who comes just now and is overlooked tries by itself, after a moment. */
static inline void simba__gate_leave(simba__gate *gate)
{
    if (atomic_load_explicit(&gate->length, memory_order_relaxed) > 0)
        simba__gate_call_first(gate);
}

#endif
