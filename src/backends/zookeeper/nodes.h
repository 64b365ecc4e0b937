/* Our own places in the queues: a table by nonce of what this client has made or may have made in the store. A place stays in
 * it until it is known to be gone, so that nothing of ours is forgotten there. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_NODES_H
#define SIMBA_BACKENDS_ZOOKEEPER_NODES_H

#include "backends/zookeeper/queues.h"

typedef struct zk_nodes {
    zk_ops *ops;
    zk_queues queues;
    simba__table table;
    simba__list unattended; /* to be looked after when their time comes, the first of them first */
    simba_timer chores;     /* for that */
} zk_nodes;

typedef struct zk_node {
    simba__node node;
    simba__list_item unattended;
    simba_local since; /* when it is */
    zk_nodes *nodes;
    uint64_t nonce;
    char *mutex, *id;
    zk_queue *queue;
    zk_latch latch;
    zk_op *op;        /* the latest procedure about it */
    zk_watch *before; /* of the one before it */
    zk_watch *guard;  /* of its own child */
    char *leader;     /* the first of the queue, when nobody has asked who that is */
    unsigned refs;    /* procedures that are about it, and the table */
    bool in_table;
} zk_node;

/* `chores` is called for nodes that are unattended for long enough. SIMBA_ENOMEM, or 0. */
int simba__zk_nodes_init(zk_nodes *nodes, zk_ops *ops, void (*chores)(simba_timer *timer, simba_local now));
/* The connection is lost. */
void simba__zk_nodes_disconnected(zk_nodes *nodes);
/* The session is over, and with it everything that it had made. */
void simba__zk_nodes_drop(zk_nodes *nodes);
void simba__zk_nodes_fini(zk_nodes *nodes);

zk_node *simba__zk_node_find(zk_nodes *nodes, const simba_request *request);
/* Has this child, which our session has, a name of ours, and no place in the table? */
bool simba__zk_nodes_miss(zk_nodes *nodes, const char *child);
zk_node *simba__zk_node_new(zk_nodes *nodes, const simba_request *request); /* NULL: out of memory */
/* Take it out of the table. */
void simba__zk_node_drop(zk_node *node);
void simba__zk_node_unref(zk_node *node);
/* Look after it in a while. */
void simba__zk_node_later(zk_node *node);
/* The next one whose time has come, which is not unattended then any more. NULL: there is none by now, and the timer is set. */
zk_node *simba__zk_nodes_due(zk_nodes *nodes, simba_local now);

#endif
