/* The contenders and observers of this client that wait for a mutex or watch it: what to subscribe to for them, and
 * whom to tell of a message. Pure: an event comes in, with the time if that matters, and actions come out. subs.c
 * carries them out. */
#ifndef SIMBA_BACKENDS_REDIS_WAITERS_H
#define SIMBA_BACKENDS_REDIS_WAITERS_H

#include <simba/backend.h>

#include "util/table.h"

/* The state of our subscription at the server. */
typedef enum redis_hearing {
    REDIS_DEAF,  /* nothing is subscribed */
    REDIS_ASKED, /* SUBSCRIBE was sent and may not be in force yet */
    REDIS_HEARS,
    REDIS_HEARINGS,
} redis_hearing;

/* Does the client hear of the messages? */
typedef enum redis_interest {
    REDIS_IDLE,    /* nobody watches; the subscription stays for a moment, in case somebody does again */
    REDIS_MISSED,  /* the same, and a message came that nobody was told of */
    REDIS_WATCHED, /* the client hears of every message */
    REDIS_DUE,     /* the same, and it hears of one with the next flush */
    REDIS_INTERESTS,
} redis_interest;

/* The actions, a set of bits. */
enum {
    REDIS_SUBSCRIBE = 1,       /* to all channels */
    REDIS_SUBSCRIBE_NEWS = 2,  /* to grants and releases */
    REDIS_SUBSCRIBE_ID = 4,    /* to the invitation of the contender that the event was about */
    REDIS_UNSUBSCRIBE = 8,     /* from all channels */
    REDIS_UNSUBSCRIBE_ID = 16, /* from that contender's invitation */
    REDIS_QUEUE_UP = 32,       /* put waiters whose channel is CONFIRMED back into the queue, if they are not in it */
    REDIS_TELL_CHANGED = 64,
    REDIS_TELL_RELEASED = 128,
    REDIS_TELL_ID = 256, /* push CHANGED only to the contender that the event was about */
    REDIS_TELL_NOTED = 512,
    REDIS_CONFIRM = 1024, /* send an echo that confirms the subscriptions */
    REDIS_UNSUBSCRIBE_NEWS = 2048,
};

/* The state of a contender's channel. Only one echo is under way at a time, however many contenders begin to wait
 * meanwhile. */
typedef enum redis_channel {
    REDIS_CHANNEL_NEW,       /* subscribed; the next echo will confirm it */
    REDIS_CHANNEL_ASKED,     /* the echo that is under way will confirm it */
    REDIS_CHANNEL_CONFIRMED, /* in force: a waiter that the server took for dead before that goes back into the queue */
    REDIS_CHANNEL_HEARD,     /* and it has gone back */
} redis_channel;

/* The server's echo says that the subscriptions before it are in force. */
typedef enum redis_echo {
    REDIS_ECHO_NONE,  /* no echo is needed */
    REDIS_ECHO_DUE,   /* one is under way */
    REDIS_ECHO_AGAIN, /* one is under way, and a later subscription needs another */
    REDIS_ECHOES,
} redis_echo;

/* A contender of this client that waits, or waited until a moment ago. */
typedef struct redis_waiter redis_waiter;
struct redis_waiter {
    simba__node entry; /* by id */
    redis_waiter *before, *next;
    uint64_t nonce;
    bool here; /* false: it waits no more, and its channel is kept */
    redis_channel channel;
    char id[];
};

typedef struct redis_waiters {
    redis_hearing hearing;
    redis_interest interest;
    bool observed;  /* somebody wants to hear of grants and releases, which waiters do not */
    bool will_look; /* look at the mutex at `look_at`, in case no push comes */
    simba_local look_at;
    simba_local idle_until;         /* IDLE, MISSED: keep it until then */
    char invited[SIMBA_ID_MAX + 1]; /* the contender that was invited; "": none */
    bool named;                     /* a request was sent that names the invited contender */
    redis_echo echo;
    redis_waiter *first; /* the newest; channels that are HEARD come last */
    simba__table ids;
    unsigned here, gone; /* how many of each */
} redis_waiters;

/* A mutex that nobody watches or waits for. */
void simba__redis_waiters_init(redis_waiters *w, simba_local now);
void simba__redis_waiters_fini(redis_waiters *w);

/* The client watches the mutex, and wants all news if it is `observed`; it does so no longer. */
unsigned simba__redis_waiters_watch(redis_waiters *w, bool observed);
unsigned simba__redis_waiters_unwatch(redis_waiters *w, simba_local now);
/* The client was to hear of a message, and hears of it now. */
unsigned simba__redis_waiters_woken(redis_waiters *w);
/* The store told a contender that it has to wait. */
unsigned simba__redis_waiters_waits(redis_waiters *w, const char *id, uint64_t nonce);
/* The contender waits no more: it was granted the mutex, or gives up. */
unsigned simba__redis_waiters_left(redis_waiters *w, const char *id, uint64_t nonce, bool granted);
/* The waiter here that was invited; "": none. */
const char *simba__redis_waiters_invited(const redis_waiters *w);
/* A request is sent that names the invited waiter. If the server refuses that request, the invitation did not help. */
void simba__redis_waiters_named(redis_waiters *w);
/* The owner is a JVM contender, which may tell nobody of its release. So look at the mutex before its lease ends in
 * `left_ms`; a waiter further back looks later. */
unsigned simba__redis_waiters_foreign(redis_waiters *w, simba_local now, int64_t left_ms, int64_t place);

/* The connection is up; the subscriptions are in force; the connection is down; the mutex has moved to another
 * server. */
unsigned simba__redis_waiters_up(redis_waiters *w);
unsigned simba__redis_waiters_confirmed(redis_waiters *w);
/* QUEUE_UP: the next waiter to put back into the queue. `from`: the first of all, or the one after the last result.
 * NULL: no more. */
redis_waiter *simba__redis_waiters_queue_up(redis_waiter *from);
unsigned simba__redis_waiters_down(redis_waiters *w);
unsigned simba__redis_waiters_moved(redis_waiters *w);

/* A message has come: a grant or a release; an invitation of this contender; one of ours is to stand by. */
unsigned simba__redis_waiters_news(redis_waiters *w);
/* The note has changed. */
unsigned simba__redis_waiters_noted(redis_waiters *w);
unsigned simba__redis_waiters_invitation(redis_waiters *w, const char *id);
unsigned simba__redis_waiters_standby(redis_waiters *w, simba_local now, uint64_t chance);
/* It is the time `look_at`. */
unsigned simba__redis_waiters_look(redis_waiters *w);

/* Does anybody watch? */
static inline bool simba__redis_waiters_watched(const redis_waiters *w)
{
    return w->interest == REDIS_WATCHED || w->interest == REDIS_DUE;
}

#endif
