/* The client's own places in the queues: a table by nonce of the nodes that it has made or may have made. A place
 * stays in it until it is known to be gone, so that no node is left behind. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_NODES_H
#define SIMBA_BACKENDS_ZOOKEEPER_NODES_H

#include "backends/zookeeper/queues.h"

typedef struct zk_nodes {
    zk_ops *ops;
    zk_queues queues;
    simba__table table;
    simba__list unattended; /* nodes to look after when their time comes, ordered by that time */
    simba_timer chores;     /* for that */
} zk_nodes;

typedef struct zk_node {
    simba__node node;
    simba__list_item unattended;
    simba_local since; /* since when it is unattended */
    zk_nodes *nodes;
    uint64_t nonce;
    char *mutex, *id;
    zk_queue *queue;
    zk_latch latch;
    zk_op *op;        /* the latest procedure about it */
    zk_watch *before; /* watches the child before it */
    zk_watch *guard;  /* watches its own child */
    char *leader;     /* the first of the queue, if nobody has asked who that is */
    unsigned refs;    /* procedures that are about it, and the table */
    bool in_table;
} zk_node;

/* Calls `chores` for nodes that have been unattended for long enough. SIMBA_ENOMEM, or 0. */
int simba__zk_nodes_init(zk_nodes *nodes, zk_ops *ops, void (*chores)(simba_timer *timer, simba_local now));
/* The session is over, and all its nodes with it. */
void simba__zk_nodes_drop(zk_nodes *nodes);
void simba__zk_nodes_fini(zk_nodes *nodes);

zk_node *simba__zk_node_find(zk_nodes *nodes, const simba_request *request);
/* True if this child of our session has a name of ours, but no place in the table. */
bool simba__zk_nodes_miss(zk_nodes *nodes, const char *child);
zk_node *simba__zk_node_new(zk_nodes *nodes, const simba_request *request); /* NULL: out of memory */
/* Remove it from the table. */
void simba__zk_node_drop(zk_node *node);
void simba__zk_node_unref(zk_node *node);
/* Look after it in a while. */
void simba__zk_node_later(zk_node *node);
/* The next node whose time has come; it is no longer unattended then. NULL: there is none now, and the timer is set. */
zk_node *simba__zk_nodes_due(zk_nodes *nodes, simba_local now);

#endif
