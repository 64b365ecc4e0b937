/* What a contender's application is to be told, and has been told. Nothing is queued: what happened is noted in flags, and
 * what is told is made of them at the time the callback can run, so nothing has to be allocated and nothing can pile up.
 * Pure, like contention.h: whoever runs callbacks asks here what to call. */
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

/* Take note. True: there is something to tell. */
bool simba__telling_note(simba__telling *telling, const simba__actions *actions, bool wants_changes);

/* Take what there is to tell; `owner` is the one that the machine knows of. False: nothing. */
bool simba__telling_take(simba__telling *telling, const simba_owner *owner, simba__tell *ret_tell);

#endif
