/* The callbacks of a contender that are still to run. There is no queue: flags record what happened, and when a callback can
 * run, simba__pending_take derives from them which ones. So nothing is allocated, and nothing can pile up. Pure, like
 * contention.h: the dispatcher asks here which callbacks to run. */
#ifndef SIMBA_CORE_PENDING_H
#define SIMBA_CORE_PENDING_H

#include "core/contention.h"

typedef struct simba__pending {
    simba_owner told; /* the owner as the application knows it */
    uint8_t reason;
    bool acquired, released, changed; /* to be told */
    bool noted;                       /* likewise: the note may be another one. Whoever runs callbacks takes it back */
} simba__pending;

/* The callbacks to run now, in this order. After them, if `ack`: send ACK. */
typedef struct simba__tell {
    bool acquired;
    bool released;
    bool changed;
    bool ack;
    simba_reason reason;
    simba_state state;
} simba__tell;

/* Note what happened. True: there is something to tell. */
bool simba__pending_note(simba__pending *pending, const simba__actions *actions, bool wants_changes);

/* Take what is to be told; `owner` is the one that the machine knows of, and the application knows of afterwards. False: nothing. */
bool simba__pending_take(simba__pending *pending, const simba_owner *owner, simba__tell *ret_tell);

#endif
