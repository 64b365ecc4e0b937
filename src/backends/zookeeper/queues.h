/* The queues of mutexes, and lists of their children that several contenders share. A client may have thousands of contenders for
 * one mutex. If each of them listed all children, the cost would grow with the square of their number.
 *
 * A contender needs a list that is asked for after it has made its own child. So while some lists of a queue are in flight, the
 * contenders that need one gather. When a list has come, those that have gathered get the next one together. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_QUEUES_H
#define SIMBA_BACKENDS_ZOOKEEPER_QUEUES_H

#include "backends/zookeeper/calls.h"
#include "backends/zookeeper/latch.h"
#include "util/table.h"

typedef struct zk_queues {
    zk_ops *ops;
    simba__table table; /* by path */
} zk_queues;

typedef struct zk_view zk_view;

typedef struct zk_queue {
    simba__node node;
    zk_queues *queues;
    unsigned refs;      /* nodes of contenders, and lists */
    unsigned lists;     /* in flight */
    zk_view *gathering; /* the next list; NULL: nobody waits for it */
    char path[];        /* of the mutex */
} zk_queue;

/* Find the queue or make it; NULL: out of memory. The last put frees it. */
zk_queue *simba__zk_queue_get(zk_queues *queues, const char *mutex);
void simba__zk_queue_put(zk_queue *queue);
void simba__zk_queues_fini(zk_queues *queues);

/* List the children. Counts as a call of `op`. `answered` gets the names that matter for this latch: perhaps not all of them. */
void simba__zk_queue_list(zk_queue *queue, zk_op *op, const zk_latch *latch, zk_answered *answered);

#endif
