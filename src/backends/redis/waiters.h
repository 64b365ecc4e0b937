/* Which parties of this client wait for a mutex or watch it: what to subscribe for them, and whom to tell of a
 * message. Pure: an event comes in, with the time if that matters, and actions come out. subs.c carries them out. */
#ifndef SIMBA_BACKENDS_REDIS_WAITERS_H
#define SIMBA_BACKENDS_REDIS_WAITERS_H

#include <simba/backend.h>

#include "util/table.h"

/* The state of our subscription at the server. */
typedef enum redis_hearing {
    REDIS_DEAF,  /* nothing is subscribed */
    REDIS_ASKED, /* SUBSCRIBE was sent, and may not be in force */
    REDIS_HEARS,
    REDIS_HEARINGS,
} redis_hearing;

/* Which of the messages the runtime knows of. */
typedef enum redis_interest {
    REDIS_IDLE,    /* nobody watches; the subscription is kept for a moment, should somebody again */
    REDIS_MISSED,  /* likewise, and something was heard that nobody was told */
    REDIS_WATCHED, /* whatever is heard is told */
    REDIS_DUE,     /* likewise, and the runtime hears of it when the turn ends */
    REDIS_INTERESTS,
} redis_interest;

/* What to do, a set of these. */
enum {
    REDIS_SUBSCRIBE = 1,       /* to everything */
    REDIS_SUBSCRIBE_NEWS = 2,  /* to grants and releases */
    REDIS_SUBSCRIBE_ID = 4,    /* to the invitation of the contender that the event was about */
    REDIS_UNSUBSCRIBE = 8,     /* from everything */
    REDIS_UNSUBSCRIBE_ID = 16, /* from that contender's invitation */
    REDIS_QUEUE_UP = 32,       /* put waiters whose channel is CONFIRMED back into the queue, if they are not there */
    REDIS_TELL_CHANGED = 64,
    REDIS_TELL_RELEASED = 128,
    REDIS_TELL_ID = 256, /* CHANGED, to the contender that the event was about alone */
    REDIS_TELL_NOTED = 512,
    REDIS_CONFIRM = 1024, /* have the subscriptions confirmed, by an echo */
};

/* What is known of the channel of a contender. One echo is under way at a time, however many begin to wait meanwhile. */
typedef enum redis_channel {
    REDIS_CHANNEL_NEW,       /* subscribed, and the next echo will say that this is in force */
    REDIS_CHANNEL_ASKED,     /* the echo that is under way will */
    REDIS_CHANNEL_CONFIRMED, /* in force: a waiter that was taken for dead before goes back into the queue */
    REDIS_CHANNEL_HEARD,     /* and that was done */
} redis_channel;

/* By an echo the server says that the subscriptions before it are in force. */
typedef enum redis_echo {
    REDIS_ECHO_NONE,  /* is wanted */
    REDIS_ECHO_DUE,   /* one is under way, */
    REDIS_ECHO_AGAIN, /* and something was subscribed after it that needs another one */
    REDIS_ECHOES,
} redis_echo;

/* A contender of this client that waits, or has just stopped to. */
typedef struct redis_waiter redis_waiter;
struct redis_waiter {
    simba__node entry; /* by id */
    redis_waiter *before, *next;
    uint64_t nonce;
    bool here; /* false: it waits no more, its channel is kept */
    redis_channel channel;
    char id[];
};

typedef struct redis_waiters {
    redis_hearing hearing;
    redis_interest interest;
    bool observed;  /* and not only waited for: since somebody has asked to READ it */
    bool will_look; /* at `look_at`: a push may not come */
    simba_local look_at;
    simba_local idle_until;         /* IDLE, MISSED: then it may be forgotten */
    char invited[SIMBA_ID_MAX + 1]; /* whose invitation came; "": nobody's */
    bool named;                     /* a request was sent that names it */
    redis_echo echo;
    redis_waiter *first; /* the newest; channels that are HEARD come last */
    simba__table ids;
    unsigned here, gone; /* of them */
} redis_waiters;

/* Nobody watches, nobody waits. */
void simba__redis_waiters_init(redis_waiters *w, simba_local now);
void simba__redis_waiters_fini(redis_waiters *w);

/* The runtime watches it, or does not any more. */
unsigned simba__redis_waiters_watch(redis_waiters *w);
unsigned simba__redis_waiters_unwatch(redis_waiters *w, simba_local now);
/* The end of the turn in which it was due. */
unsigned simba__redis_waiters_woken(redis_waiters *w);
/* Somebody reads it. */
unsigned simba__redis_waiters_observed(redis_waiters *w);

/* A contender was told that it waits. */
unsigned simba__redis_waiters_waits(redis_waiters *w, const char *id, uint64_t nonce);
/* It does so no more: it was granted the mutex, or it gives up. */
unsigned simba__redis_waiters_left(redis_waiters *w, const char *id, uint64_t nonce, bool granted);
/* The waiter here that was invited; "": none. */
const char *simba__redis_waiters_invited(const redis_waiters *w);
/* A request is sent that names this one. If it is refused, the invitation was of no use. */
void simba__redis_waiters_named(redis_waiters *w);
/* The owner is a JVM contender, which may tell nobody of its release: look before its lease ends in `left_ms`, the later the
 * more wait in front. */
unsigned simba__redis_waiters_foreign(redis_waiters *w, simba_local now, int64_t left_ms, int64_t place);

/* The connection is up; the subscriptions are in force; it is down; the mutex has moved to another server. */
unsigned simba__redis_waiters_up(redis_waiters *w);
unsigned simba__redis_waiters_confirmed(redis_waiters *w);
/* QUEUE_UP: the next waiter to put back into the queue, beginning with `from`: the first of all, or the one after the last.
 * NULL: that was all. */
redis_waiter *simba__redis_waiters_queue_up(redis_waiter *from);
unsigned simba__redis_waiters_down(redis_waiters *w);
unsigned simba__redis_waiters_moved(redis_waiters *w);

/* A message was heard: a grant or a release; that this contender is invited; that one of ours comes next. */
unsigned simba__redis_waiters_news(redis_waiters *w);
/* The note is another one. */
unsigned simba__redis_waiters_noted(redis_waiters *w);
unsigned simba__redis_waiters_invitation(redis_waiters *w, const char *id);
unsigned simba__redis_waiters_standby(redis_waiters *w, simba_local now, uint64_t chance);
/* It is `look_at`. */
unsigned simba__redis_waiters_look(redis_waiters *w);

/* Does anybody watch? */
static inline bool simba__redis_waiters_watched(const redis_waiters *w)
{
    return w->interest == REDIS_WATCHED || w->interest == REDIS_DUE;
}

#endif
