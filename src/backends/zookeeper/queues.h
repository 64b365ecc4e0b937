/* The queues of mutexes, and the watches that keep their numbers known (see latch.h). */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_QUEUES_H
#define SIMBA_BACKENDS_ZOOKEEPER_QUEUES_H

#include "backends/zookeeper/calls.h"
#include "backends/zookeeper/latch.h"
#include "util/table.h"

/* A table by path. A queue that nobody refers to stays for a while: a mutex that was locked will probably be locked
 * again. */
typedef struct zk_queues {
    zk_ops *ops;
    simba__table table;
    simba__list idle; /* the one that has been idle for longest comes first */
} zk_queues;

typedef struct zk_queue {
    simba__node node;
    simba__list_item idle; /* in `idle` while nobody refers to it */
    zk_queues *queues;
    char *path;    /* of the mutex */
    unsigned refs; /* nodes of ours, and the procedure that sets the watch */
    unsigned wins;
    bool arming;     /* a procedure is setting the watch */
    zk_watch *watch; /* of the mutex's node */
    zk_numbers numbers;
} zk_queue;

/* Find the queue or make it; NULL: out of memory. */
zk_queue *simba__zk_queue_get(zk_queues *queues, const char *mutex);
void simba__zk_queue_put(zk_queue *queue);
/* A child of ours leads the queue. From the second time on, its numbers are worth a watch. */
void simba__zk_queue_won(zk_queue *queue);
/* The connection is lost: nothing is known any more. */
void simba__zk_queues_forget(zk_queues *queues);
void simba__zk_queues_fini(zk_queues *queues);

#endif
