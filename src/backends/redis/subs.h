/* The subscription connections. The store connects to a server when a mutex on it is first watched; one connection
 * serves all. */
#ifndef SIMBA_BACKENDS_REDIS_SUBS_H
#define SIMBA_BACKENDS_REDIS_SUBS_H

#include "backends/redis/node.h"
#include "util/list.h"
#include "util/table.h"

typedef struct redis_subs {
    simba_host *host;
    redis_nodes *nodes;
    simba__table watches; /* by mutex: the channels that we listen to, and the mutexes that somebody waits for */
    simba__list idle;     /* watches that nobody needs; the one to drop next comes first */
    simba__list looks;    /* watches of mutexes to look at, at a set time */
    simba__list due;      /* watches about which to tell the client when it flushes */
    simba_timer chores;
} redis_subs;

extern const redis_conn_events simba__redis_subs_events;
int simba__redis_subs_init(redis_subs *self, redis_nodes *nodes);
int simba__redis_subs_watch(redis_subs *self, simba_topic *topic);
void simba__redis_subs_unwatch(redis_subs *self, simba_topic *topic);
/* Note which contenders here wait, from the answer to a request. */
void simba__redis_subs_waits(redis_subs *self, const simba_request *request);
void simba__redis_subs_left(redis_subs *self, const simba_request *request);
/* A contender here holds a mutex of this node: listen for a forced release. */
void simba__redis_subs_holds(redis_node *node);
/* The owner of this mutex is a JVM contender. */
void simba__redis_subs_foreign(redis_subs *self, const char *mutex, const simba_reply *reply);
/* The id of the contender here that was invited to this mutex; "": none was. NULL: no contender here waits for it or
 * waited until a moment ago. */
const char *simba__redis_subs_invited(redis_subs *self, const char *mutex);
/* A request is sent that names that one. */
void simba__redis_subs_named(redis_subs *self, const char *mutex);
void simba__redis_subs_woken(redis_subs *self);
/* The topology has changed. */
void simba__redis_subs_moved(redis_subs *self);
/* Does this node have anything to listen for? */
bool simba__redis_subs_needs(const redis_node *node);
void simba__redis_subs_close(redis_subs *self);
void simba__redis_subs_fini(redis_subs *self);

#endif
