/* Contenders of this client that listen: they want to hear when others begin to wait for what they hold (SIMBA_PUSH_WANTED).
 *
 * Each has a channel of its own, "simba:{MUTEX}@@@ID". Its nonces begin with 2 or 3 instead of 0 or 1 where the server sees
 * them, so a script that puts a waiter into the queue finds in the grant whether it has to publish "wanted NONCE" there. The
 * subscription is made when the contender asks for the mutex, and stays when it has given it back, for the next time; of those
 * that are not used any more, the oldest go. If the mutex was granted before the subscription was in force, the server is asked
 * whether anybody waits. */
#ifndef SIMBA_BACKENDS_REDIS_EARS_H
#define SIMBA_BACKENDS_REDIS_EARS_H

#include "backends/redis/node.h"
#include "util/ring.h"
#include "util/table.h"

typedef struct redis_ears {
    redis_nodes *nodes;
    simba__table table; /* by mutex and id */
    simba__ring idle;   /* those that are not used; the oldest comes first */
    size_t idle_count;
} redis_ears;

void simba__redis_ears_init(redis_ears *self, redis_nodes *nodes);
void simba__redis_ears_fini(redis_ears *self);

/* A contender that listens asks for a mutex of this node; and it does not have it, or gives it back. */
void simba__redis_ears_listen(redis_ears *self, redis_node *node, const simba_request *request);
void simba__redis_ears_rest(redis_ears *self, const simba_request *request);

/* The connection to this node is up, or down; the topology has changed. */
void simba__redis_ears_up(redis_ears *self, const redis_node *node);
void simba__redis_ears_down(redis_ears *self, const redis_node *node);
void simba__redis_ears_moved(redis_ears *self);

/* A subscription is in force; a message has come. */
void simba__redis_ears_confirmed(redis_ears *self, const char *channel);
void simba__redis_ears_heard(redis_ears *self, const char *channel, const char *text);

#endif
