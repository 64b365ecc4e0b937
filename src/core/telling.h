/* Decides what to tell a contender's application. It queues nothing: flags record what happened, and when the
 * callback can run, it derives from them what to tell. So it allocates nothing, and nothing can pile up. Pure, like
 * contention.h: the dispatcher asks here which callbacks to run. */
#ifndef SIMBA_CORE_TELLING_H
#define SIMBA_CORE_TELLING_H

#include "core/contention.h"

typedef struct simba__telling {
    simba_owner told; /* the owner as the application knows it */
    uint8_t reason;
    bool acquired, released, changed; /* to be told */
    bool noted;                       /* likewise: the note may be another one. Whoever runs callbacks takes it back */
} simba__telling;

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
bool simba__telling_note(simba__telling *telling, const simba__actions *actions, bool wants_changes);

/* Take what is to be told; `owner` is the one that the machine knows of, and the application knows of afterwards. False: nothing. */
bool simba__telling_take(simba__telling *telling, const simba_owner *owner, simba__tell *ret_tell);

#endif
