/* Deadlines on the boot-time clock, in a binary heap. The monotonic clock stands still while a machine sleeps: a
 * suspended leader would wake up and believe that no time had passed. */
#ifndef SIMBA_CLIENT_TIMERS_H
#define SIMBA_CLIENT_TIMERS_H

#include <simba/backend.h>

#include "core/timing.h"

typedef struct simba__timers {
    simba_timer **heap; /* heap[1] is the earliest */
    size_t count;
    size_t capacity;
    size_t reserved; /* timers that exist, set or not: setting one never allocates */
} simba__timers;

int simba__timers_reserve(simba__timers *timers, unsigned count); /* so many more; SIMBA_ENOMEM */
void simba__timers_unreserve(simba__timers *timers, unsigned count);
/* SIMBA__NEVER: clear it. */
void simba__timers_set(simba__timers *timers, simba_timer *timer, simba_local at);
void simba__timers_clear(simba__timers *timers, simba_timer *timer);
simba_local simba__timers_earliest(const simba__timers *timers);
/* Remove and return the earliest timer if it is due at `now`; NULL otherwise. */
simba_timer *simba__timers_pop(simba__timers *timers, simba_local now);
void simba__timers_fini(simba__timers *timers);

#endif
