/* Contenders of this client that listen: while they hold a mutex, they want to hear that others begin to wait for it
 * (SIMBA_PUSH_WANTED).
 *
 * Each has a channel of its own, "simba:{MUTEX}@@@ID". In the grant its nonce begins with 2 or 3 instead of 0 or 1. So
 * the script that puts a waiter into the queue sees in the grant whether it has to publish "wanted NONCE" on that
 * channel.
 *
 * The client subscribes when the contender asks for the mutex, and keeps the subscription after the release, for the
 * next time. It drops the oldest unused subscriptions. If the server granted the mutex before the subscription was in
 * force, the client asks the server whether anybody waits. */
#ifndef SIMBA_BACKENDS_REDIS_EARS_H
#define SIMBA_BACKENDS_REDIS_EARS_H

#include "backends/redis/node.h"
#include "util/ring.h"
#include "util/table.h"

typedef struct redis_ears {
    redis_nodes *nodes;
    simba__table table; /* by mutex and id */
    simba__ring idle;   /* those that no contender uses; the oldest comes first */
    size_t idle_count;
} redis_ears;

void simba__redis_ears_init(redis_ears *self, redis_nodes *nodes);
void simba__redis_ears_fini(redis_ears *self);

/* `listen`: a contender that listens asks this node for a mutex. `rest`: it did not get the mutex, or gives it back. */
void simba__redis_ears_listen(redis_ears *self, redis_node *node, const simba_request *request);
void simba__redis_ears_rest(redis_ears *self, const simba_request *request);

/* The connection to this node is up; it is down; the topology has changed. */
void simba__redis_ears_up(redis_ears *self, const redis_node *node);
void simba__redis_ears_down(redis_ears *self, const redis_node *node);
void simba__redis_ears_moved(redis_ears *self);

/* A subscription is in force; a message has come. */
void simba__redis_ears_confirmed(redis_ears *self, const char *channel);
void simba__redis_ears_heard(redis_ears *self, const char *channel, const char *text);

#endif
