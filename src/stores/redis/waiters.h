/* Who is listened for: an entry for each contender of this client that waits for a mutex, and for each mutex that the client
 * watches. Pure: an event comes in, with the time if that matters, and actions come out. push.c carries them out. */
#ifndef SIMBA_STORES_REDIS_WAITERS_H
#define SIMBA_STORES_REDIS_WAITERS_H

#include <simba/backend.h>

#include "util/list.h"
#include "util/table.h"

/* The state of the subscription at the server. */
typedef enum redis_hearing {
    REDIS_DEAF,  /* nothing is subscribed */
    REDIS_ASKED, /* SUBSCRIBE was sent, and is not confirmed */
    REDIS_HEARS,
    REDIS_HEARINGS,
} redis_hearing;

/* The actions, a set of bits. */
enum {
    REDIS_SUBSCRIBE = 1,
    REDIS_UNSUBSCRIBE = 2,
    REDIS_TELL_CHANGED = 4, /* all that wait here, or the watcher */
    REDIS_TELL_RELEASED = 8,
    REDIS_TELL_NOTED = 16,
    REDIS_DROP = 32, /* nobody needs it any more */
};

/* A contender that waits here. Two may have one id, and so one channel and one place in the queue. */
typedef struct redis_waiter redis_waiter;
struct redis_waiter {
    redis_waiter *next;
    uint64_t nonce;
};

typedef struct redis_listener {
    redis_hearing hearing;
    unsigned unconfirmed;   /* how many subscriptions the server has yet to confirm */
    bool watched;           /* the client watches the mutex */
    bool queued;            /* the id may be in the queue: it said that it hears */
    redis_waiter *waiters;  /* NULL: none */
    simba_local look_at;    /* tell of a change then, in case no message comes; 0: never */
    simba_local idle_until; /* nobody waits or watches: kept until then; 0: somebody does */
} redis_listener;

/* Nobody waits or watches. */
void simba__redis_listener_init(redis_listener *l, simba_local now);
void simba__redis_listener_fini(redis_listener *l);

/* This contender waits, if it did not before. False: out of memory; then its timers have to do. */
bool simba__redis_listener_join(redis_listener *l, uint64_t nonce);
/* It waits no more. */
void simba__redis_listener_leave(redis_listener *l, uint64_t nonce, simba_local now);
/* Nothing of this id is in the queue any more. Another contender of the same id must enter it again. */
unsigned simba__redis_listener_unqueued(redis_listener *l);
/* The client watches the mutex; it does so no longer. */
void simba__redis_listener_watch(redis_listener *l);
void simba__redis_listener_unwatch(redis_listener *l, simba_local now);

/* The connection is up: subscribe to this many channels. One of them is confirmed. The connection is down, or the channel is
 * elsewhere. */
unsigned simba__redis_listener_up(redis_listener *l, unsigned channels);
unsigned simba__redis_listener_confirmed(redis_listener *l);
void simba__redis_listener_down(redis_listener *l);

/* What is heard. `standby`: ask in a moment, should the invited contender not come. */
unsigned simba__redis_listener_invited(redis_listener *l);
void simba__redis_listener_standby(redis_listener *l, simba_local now, uint64_t chance);
/* The owner is a JVM contender, which may tell nobody of its release. So look at the mutex before its lease ends in `left_ms`; a
 * waiter further back looks less often. */
void simba__redis_listener_foreign(redis_listener *l, simba_local now, int64_t left_ms, int64_t place);
/* Look at this time, or earlier. */
void simba__redis_listener_look(redis_listener *l, simba_local at);
/* Time has passed. */
unsigned simba__redis_listener_tick(redis_listener *l, simba_local now);

/* What an ACQUIRE says of its hearing: '1' it hears; '2' no more, but it may be in the queue; '0'. */
char simba__redis_listener_says(const redis_listener *l);

#endif
