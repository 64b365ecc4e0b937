/* The servers, as this client sees them. The topology says how many there are and which mutexes are on which. */
#ifndef SIMBA_BACKENDS_REDIS_NODE_H
#define SIMBA_BACKENDS_REDIS_NODE_H

#include "backends/redis/commands.h"

typedef struct redis_node redis_node;
typedef struct redis_nodes redis_nodes;

/* A server: a connection for requests and one for pushes, each made when it is first needed. */
struct redis_node {
    redis_node *next;
    redis_nodes *all;
    bool serves;        /* it has mutexes, as far as we know */
    bool has_no_shards; /* it does not know sharded pub/sub */
    redis_commands commands;
    redis_conn pushes;
};

/* How the servers that a URL names make up one store. */
typedef struct redis_topology {
    int (*init)(redis_nodes *nodes); /* SIMBA_ENOMEM */
    /* The node that has this mutex; or, if that is not known, a node that stands for it and takes requests, too. */
    redis_node *(*route)(redis_nodes *nodes, const char *mutex);
    /* This error says that another server has the slot: send the errand there, or fail it. False: it names no server.
     * NULL: there are no slots. */
    bool (*redirect)(redis_node *node, redis_errand *errand, const char *error);
    /* The command connection of this node has failed, or the server did not answer a request in time. NULL: it connects
     * again by itself. */
    void (*lost)(redis_node *node);
    void (*close)(redis_nodes *nodes); /* NULL: nothing to do */
    void (*fini)(redis_nodes *nodes);  /* also called after a failed init; NULL: nothing to do */
} redis_topology;

/* All servers of a store. */
struct redis_nodes {
    redis_conns conns;
    redis_node *first;
    const redis_topology *topology;
    void *topology_data;
    /* The owner of the connections hears of them through their node. */
    const redis_commands_events *commands_events;
    const redis_conn_events *push_events;
    struct redis_subs *subs;
    /* The topology has changed: requests that were not sent yet, scans and subscriptions may belong elsewhere. */
    void (*moved)(redis_nodes *nodes);
    unsigned scans; /* lists that may still visit any node: while there is one, no node is used for another server */
};

/* A new node, which lives as long as the store. NULL: out of memory. */
redis_node *simba__redis_node_new(redis_nodes *nodes, const simba__endpoint *at);
/* The first node from here on that has mutexes; NULL: none. */
redis_node *simba__redis_node_serving(redis_node *first);
/* The node that a request goes to: that of its mutex, or the first if it names no mutex. If that is not known, the node
 * that stands for it. */
redis_node *simba__redis_node_for(redis_nodes *nodes, const simba_request *request);
/* For topologies that have one server at a time. */
redis_node *simba__redis_node_only(redis_nodes *nodes, const char *mutex);
/* The topology has changed: requests that were not sent yet may belong elsewhere. */
void simba__redis_nodes_reroute(redis_nodes *nodes);
void simba__redis_nodes_close(redis_nodes *nodes, const simba_error *why);
void simba__redis_nodes_fini(redis_nodes *nodes);

#endif
