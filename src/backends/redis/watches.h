/* The mutexes that we listen for: a table by name, and the order in which those that nobody watches any more are given up. */
#ifndef SIMBA_BACKENDS_REDIS_WATCHES_H
#define SIMBA_BACKENDS_REDIS_WATCHES_H

#include "backends/redis/node.h"
#include "util/clock.h"

enum { REDIS_LINGER_MS = 1000 }; /* how long a subscription outlives the interest in it */

/* A contender of this client that waits for a mutex, or has just stopped to. */
typedef struct redis_waiter redis_waiter;
struct redis_waiter {
    redis_waiter *next;
    uint64_t nonce;
    bool here; /* false: it waits no more, its channel is kept */
    char id[];
};

typedef struct redis_watch redis_watch;
struct redis_watch {
    redis_watch *next;  /* in its bucket */
    simba_topic *topic; /* NULL: nobody watches */
    redis_node *node;   /* where it is */
    redis_waiter *waiters;
    unsigned gone;
    bool asked;     /* SUBSCRIBE was sent on this connection */
    bool confirmed; /* and is in force */
    bool observed;  /* and not only waited for */
    bool missed;    /* something was heard that nobody was told */
    bool is_idle, will_look, is_stale;
    redis_watch *idle_prev, *idle_next;
    redis_watch *look_next, *stale_next;
    simba_local idle_since, look_at;
    char invited[SIMBA_ID_MAX + 1]; /* of our waiters */
    char mutex[];
};

typedef struct redis_subs {
    simba_host *host;
    redis_nodes *nodes;
    redis_watch **buckets;
    size_t watch_count, watch_capacity;
    redis_watch *idle_first, *idle_last; /* not watched any more, subscription kept for a moment; oldest first */
    redis_watch *looks;                  /* to be looked at, at a time of their own */
    redis_watch *stale;                  /* CHANGED is to be pushed */
    simba_timer chores;
} redis_subs;

static inline simba_local simba__redis_later(simba_local at, int64_t ms)
{
    return (simba_local){at.ns + ms * SIMBA__NS_PER_MS};
}

/* NULL: there is none. */
redis_watch *simba__redis_watch_find(redis_subs *self, const char *mutex);
/* Find or make; a new one is idle. NULL: out of memory. */
redis_watch *simba__redis_watch_make(redis_subs *self, const char *mutex);
void simba__redis_watch_drop(redis_subs *self, redis_watch *watch);
/* Nobody watches it: it is given up in a moment, unless somebody does again. */
void simba__redis_watch_idle(redis_subs *self, redis_watch *watch);
void simba__redis_watch_busy(redis_subs *self, redis_watch *watch);
/* Have the chores looked after at this time, or earlier. */
void simba__redis_watch_chores(redis_subs *self, simba_local at);

#endif
