/* Lockers of one client that linger share a contender: it is a member of its own, and holds the grant that core/linger.h
 * passes from one locker to the next. Lockers share it if they have the same mutex, timing and id (given, or none).
 *
 * It lives as long as a locker uses it or a grant lingers, so that a program which makes a locker for every use finds the
 * grant that the one before has left. */
#ifndef SIMBA_RUNTIME_SHARED_H
#define SIMBA_RUNTIME_SHARED_H

#include "core/linger.h"
#include "runtime/member.h"

typedef struct simba__shared simba__shared;

/* A locker's half. */
typedef struct simba__sharer {
    simba__lingerer lingerer;  /* first */
    simba__shared *shared;     /* NULL: this locker does not linger */
    simba__condition *changed; /* signalled when anything below has changed */
    _Atomic bool has;          /* it has the mutex */
    uint32_t use;              /* which use of the member it is, see member.h */
    uint32_t asked;            /* `once`: the first request of the member that may answer it */
    bool once;                 /* wants one answer, and does not wait for its turn */
    uint8_t reason;            /* why it has the mutex no longer */
    simba_error error;         /* of the acquire that failed; 0: none did */
} simba__sharer;

/* Not in a turn. `like` is the locker's own member, which is checked and not started; `id` is as the program gave it.
 * SIMBA_ENOMEM, SIMBA_ECLOSED. */
int simba__shared_join(simba__sharer *sharer, const simba__member *like, const char *id, simba__condition *changed,
                       simba_error *err);
/* Not in a turn, before the locker is freed: leave the line, or release. Does nothing if it has not joined. */
void simba__shared_part(simba__sharer *sharer);

/* All below: in a turn, after join. */

/* It wants the mutex. Afterwards it has it, waits, or neither: then `once` has been answered. */
void simba__shared_want(simba__sharer *sharer, bool once);
/* It gives up waiting, or releases what it has. The store is told in the background. */
void simba__shared_leave(simba__sharer *sharer);
bool simba__shared_waits(const simba__sharer *sharer);
/* The end of a grant is under way: the next one has to wait for that. */
bool simba__shared_is_leaving(const simba__sharer *sharer);
/* The error of the latest acquire of the member; its code is 0 if that did not fail. */
const simba_error *simba__shared_error(const simba__sharer *sharer);
/* Look at the clock: does it still have what it had? */
void simba__shared_look(simba__sharer *sharer);

/* Any thread: the member whose grant is, or will be, the locker's. */
simba__member *simba__shared_member(const simba__sharer *sharer);

#endif
