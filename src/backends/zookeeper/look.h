/* Looks at mutexes without contending: READ and FORCE_RELEASE, and how LIST and observers see who leads. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_LOOK_H
#define SIMBA_BACKENDS_ZOOKEEPER_LOOK_H

#include "backends/zookeeper/calls.h"

/* READ or FORCE_RELEASE. */
void simba__zk_look(zk_ops *ops, simba_request *request);

/* How much a procedure has seen of a mutex. Table: look.c. */
typedef enum zk_sight {
    ZK_SIGHT_NONE,     /* nothing yet */
    ZK_SIGHT_MISSING,  /* it has no node */
    ZK_SIGHT_FREE,     /* it has a node, and nobody leads */
    ZK_SIGHT_LED,      /* `leader` is the first of its children */
    ZK_SIGHT_ASKED,    /* the step under way reads the leader: then `owner` is known, */
    ZK_SIGHT_VANISHED, /* unless the leader has gone or been removed before that */
    ZK_SIGHTS,
} zk_sight;

/* What a procedure has found out about a mutex. First member of the procedure. */
typedef struct zk_look {
    zk_op op; /* first */
    char *path;
    zk_sight sight;
    char *leader; /* LED, ASKED, VANISHED */
    size_t contenders;
    simba_owner owner;
} zk_look;

/* A procedure of this size about a mutex. NULL: out of memory, and the request has failed. */
void *simba__zk_look_new(zk_ops *ops, const zk_procedure *procedure, size_t size, simba_request *request,
                         const char *mutex);
void simba__zk_look_fini(zk_op *op);
/* Begin anew: nothing is known. */
void simba__zk_look_forget(zk_look *look);
/* The procedure has seen this now. */
void simba__zk_look_see(zk_look *look, zk_sight sight);
/* An answer to a call for its children. */
void simba__zk_look_listed(zk_op *op, const zk_result *result);
/* Read the leader. */
void simba__zk_look_ask(zk_look *look);

#endif
