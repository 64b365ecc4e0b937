/* Procedures: operations of several calls. Calls that are in flight together form a step. When all calls of a step
 * are answered, the next step begins. When the connection is lost, the procedure waits for the next one and begins
 * anew. A request knows its procedure by backend_data. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_OPS_H
#define SIMBA_BACKENDS_ZOOKEEPER_OPS_H

#include "backends/zookeeper/session.h"
#include "util/list.h"
#include "util/table.h"

typedef struct zk_op zk_op;

/* Our own errors. Those of the library are not positive. If there are several errors, the highest counts. */
enum {
    ZK_MALFORMED = 1, /* the answer does not fit the question */
    ZK_TOO_MANY,      /* there are too many nodes to list */
    ZK_NO_MEMORY,
    ZK_BROKEN, /* the connection broke before there was an answer */
};

typedef struct zk_ops {
    zk_session *session;
    simba__list all, parked;
    simba__table spots; /* the watched paths, see calls.c */
    bool no_containers; /* the server is too old for them */
} zk_ops;

/* The functions of a procedure. */
typedef struct zk_procedure {
    void (*run)(zk_op *op);   /* begin from the start */
    void (*step)(zk_op *op);  /* all calls of the step are answered */
    void (*ended)(zk_op *op); /* nothing more to do, or the store closes; may be NULL */
    void (*fini)(zk_op *op);  /* free its members; may be NULL */
    bool persists;            /* it goes on without its request */
} zk_procedure;

typedef enum zk_phase {
    ZK_OP_RUNS,
    ZK_OP_ENDED,  /* it only waits for the answers to its calls */
    ZK_OP_CLOSED, /* the same, and the store is closed */
} zk_phase;

/* The first member of each procedure. */
struct zk_op {
    simba__list_item link, parked; /* parked: it waits for a connection */
    zk_ops *ops;
    const zk_procedure *procedure;
    simba_request *request; /* NULL: there is none, or it has been completed */
    simba_local begun;      /* when the request was handed over */
    bool expired;           /* nobody waits for the answer any more */
    zk_phase phase;
    int error;        /* an error of a call that nobody expects */
    unsigned awaited; /* calls in flight, and parts that are procedures of their own */
};

/* A procedure of this size, which begins with a zk_op. NULL: out of memory, and the request has failed. */
void *simba__zk_op_new(zk_ops *ops, const zk_procedure *procedure, size_t size, simba_request *request);
/* Run it, or let it wait for a connection. */
void simba__zk_op_start(zk_op *op);
/* All calls of a step are made, or one is answered: go on if none is in flight. */
void simba__zk_op_go(zk_op *op);
/* A call could not be made, or was answered with this error. */
void simba__zk_op_note(zk_op *op, int rc);
/* Does this error mean that nobody knows whether the server carried the call out? */
bool simba__zk_is_loss(int rc);
/* Does somebody wait for the answer to its request? */
bool simba__zk_op_is_wanted(const zk_op *op);
/* Nothing is left to do: free the procedure, now or when its calls are answered. */
void simba__zk_op_end(zk_op *op);
/* Answer its request, if there is one, and end it. */
void simba__zk_op_complete(zk_op *op, simba_outcome outcome, const simba_owner *owner);
void simba__zk_op_fail(zk_op *op, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* False: there was an unexpected error, and the operation has failed with it. */
bool simba__zk_op_good(zk_op *op);

/* The time of this request is over. It is completed when its calls under way are answered or their connection has ended. */
void simba__zk_ops_expire(zk_ops *ops, simba_request *request);
/* The connection is lost. */
void simba__zk_ops_disconnected(zk_ops *ops);
/* There is a connection. */
void simba__zk_ops_connected(zk_ops *ops);
/* Fail all requests that wait for a connection. A request of one session must not be carried out in the next one. */
void simba__zk_ops_fail_parked(zk_ops *ops, const char *what, const char *cause);
/* The store closes: no call comes back to it. */
void simba__zk_ops_close(zk_ops *ops);

#endif
