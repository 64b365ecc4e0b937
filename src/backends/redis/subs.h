/* The subscription connections. The store connects to a server when a mutex on it is first watched; one connection
 * serves all. */
#ifndef SIMBA_BACKENDS_REDIS_SUBS_H
#define SIMBA_BACKENDS_REDIS_SUBS_H

#include "backends/redis/ears.h"
#include "backends/redis/node.h"
#include "util/ring.h"
#include "util/table.h"

typedef struct redis_subs {
    simba_host *host;
    redis_nodes *nodes;
    simba__table watches; /* by mutex: the channels that we listen to, and the mutexes that somebody waits for */
    simba__ring idle;     /* watches that nobody needs; the first to be forgotten comes first */
    simba__ring looks;    /* watches with a time at which to look at the mutex */
    simba__ring due;      /* watches to tell of when the turn ends */
    simba_timer chores;
    redis_ears ears;
} redis_subs;

extern const redis_conn_events simba__redis_subs_events;
int simba__redis_subs_init(redis_subs *self, redis_nodes *nodes);
int simba__redis_subs_watch(redis_subs *self, simba_topic *topic);
void simba__redis_subs_unwatch(redis_subs *self, simba_topic *topic);
/* Take in what the answer to a request says about the waiters here. */
void simba__redis_subs_waits(redis_subs *self, const simba_request *request);
void simba__redis_subs_left(redis_subs *self, const simba_request *request);
/* Somebody here holds a mutex of this node: listen, should it be forced away. */
void simba__redis_subs_holds(redis_node *node);
/* The owner of this mutex is a JVM contender. */
void simba__redis_subs_foreign(redis_subs *self, const char *mutex, const simba_reply *reply);
/* Somebody reads it, and will watch it for that. */
void simba__redis_subs_observed(redis_subs *self, const char *mutex);
/* Whose invitation to this mutex came here; "": nobody's. NULL: nobody here waits for it, or has a moment ago. */
const char *simba__redis_subs_invited(redis_subs *self, const char *mutex);
/* A request is sent that names that one. */
void simba__redis_subs_named(redis_subs *self, const char *mutex);
void simba__redis_subs_woken(redis_subs *self);
/* The topology has changed. */
void simba__redis_subs_moved(redis_subs *self);
/* Is there anything to be listened for on this node? */
bool simba__redis_subs_needs(const redis_node *node);
void simba__redis_subs_close(redis_subs *self);
void simba__redis_subs_fini(redis_subs *self);

#endif
