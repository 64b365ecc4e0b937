/* The parts of the ZooKeeper store, for one another.
 *
 *   options.c   what the URL says                        names.c     mutexes and incarnations as names of nodes
 *   session.c   the connection                           resolve.c   names of hosts
 *   liveness.c  what it proves, and for how long to try
 *   frames.c    which messages the library may see       intake.c    how it comes to see them
 *   ops.c       procedures of several calls each         calls.c     the calls, and watches
 *   nodes.c     our own places in the queues             queues.c    what is known about whole queues
 *   contend.c   ACQUIRE, RELEASE                         look.c      READ, LIST, FORCE_RELEASE; observers
 *   renew.c     RENEW                                    beats.c     signs of life
 *   backend.c   the table of functions
 *
 * libzookeeper_st is used from one thread at a time, in turns.
 */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_H
#define SIMBA_BACKENDS_ZOOKEEPER_H

#include <simba/backend.h>

#include "backends/zookeeper/names.h"
#include "backends/zookeeper/session.h"

extern const simba_backend simba__backend_zookeeper;

typedef struct zk_store zk_store;
typedef struct zk_op zk_op;
typedef struct zk_node zk_node;
typedef struct zk_watch zk_watch;
typedef struct zk_queue zk_queue;
typedef struct zk_topic zk_topic;

/* --- procedures ------------------------------------------------------------------------------------- */

/* Errors of ours beside those of the library, which are not positive. */
enum {
    ZK_MALFORMED = 1, /* the answer is not one to what was asked */
    ZK_TOO_MANY,      /* nodes to list */
};
enum { ZK_NAMES_MAX = ZK_FRAME_NAMES_MAX }; /* of a list */

/* Something that takes several calls. Calls that are in flight together are a step. When all of a step are answered the
 * next one begins; when the connection was lost, the procedure waits for it and begins anew. */
struct zk_op {
    zk_op *previous, *next;
    zk_op *parked_previous, *parked_next;
    zk_store *store;             /* NULL: closed; the calls in flight are all that is left of it */
    simba_request *request;      /* NULL: nobody waits for it, or not any more */
    void (*run)(zk_op *op);      /* from the beginning */
    void (*step)(zk_op *op);     /* what comes after the calls in flight */
    void (*finished)(zk_op *op); /* before it is freed; may be NULL */
    bool persists;               /* goes on without a request */
    bool parked;                 /* waits for a connection */
    bool lost;                   /* so was a call of this step */
    bool ended;
    unsigned calls;    /* in flight */
    unsigned rows;     /* of a list, under way */
    bool refused;      /* the parents could not be made */
    bool make_parents; /* they are missing */
    bool led;          /* what is released was the first */
    bool busy;         /* a list is going through its names */
    unsigned rounds;   /* begun anew for other reasons */
    int error;         /* of a call, as the library has it, when nobody expects it */
    bool no_memory;

    /* What the calls found. */
    bool missing;  /* the mutex has no node */
    bool vanished; /* a node that was there a moment ago is not any more */
    size_t children;
    char *leader, *before; /* the first contender, and the one before ours */
    bool found;            /* ours */
    simba_owner owner;

    zk_node *node;   /* of contenders */
    zk_watch *watch; /* about to be set */
    zk_watch *guard; /* likewise, of op->node's own child */
    zk_topic *topic; /* of observers */
    zk_queue *queue; /* whose watch is to be set */
    bool unlisted;   /* the queue was not asked for, being empty for all we know */
    zk_op *parent;   /* of a row of a list */
    char *path;      /* of the mutex */
    char **names;    /* of a list: mutexes; of a row of it: children that are no contenders */
    size_t name_count, name_room, name_next;
};

zk_op *simba__zk_op_new(zk_store *self, simba_request *request, void (*run)(zk_op *op));
/* Run it, or wait for a connection with it. */
void simba__zk_op_start(zk_op *op);
/* Nothing more is to be done: free it, at once or when its calls are answered. */
void simba__zk_op_end(zk_op *op);
/* Answer its request, if there is one, and end it. */
void simba__zk_op_complete(zk_op *op, simba_outcome outcome, const simba_owner *owner);
void simba__zk_op_fail(zk_op *op, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The step is made of the calls that follow; `then` comes after them. */
void simba__zk_op_step(zk_op *op, void (*then)(zk_op *op));
/* All calls of a step are made, or one is answered: go on, if none is in flight. */
void simba__zk_op_go(zk_op *op);
/* The answer to a call of the procedure `data` is there. NULL: there is nobody any more who would care. */
zk_op *simba__zk_op_answered(const void *data);
/* What its calls have found is of no use any more. */
void simba__zk_op_forget(zk_op *op);
/* False: something went wrong that nobody expects, and the operation was failed for it. */
bool simba__zk_op_good(zk_op *op);
void simba__zk_ops_connected(zk_store *self);
void simba__zk_ops_expire(zk_store *self, simba_local now);
/* Fail all that have a request, because there is no connection. */
void simba__zk_ops_unavailable(zk_store *self);
/* The same because the session is over: what was asked for while it lasted must not be done in the next one. */
void simba__zk_ops_session_over(zk_store *self);
/* The store closes: no call comes back to it. */
void simba__zk_ops_close(zk_store *self);

/* Keep a copy of a name. Returns false, and sets no_memory or error, if there is no room for it. */
bool simba__zk_op_add_name(zk_op *op, const char *parent, const char *name);

/* The calls. Each counts as one of the step's. */
void simba__zk_call_sync(zk_op *op);
void simba__zk_call_make_parents(zk_op *op, const char *path);
void simba__zk_call_enter(zk_op *op);                      /* make op->node's child */
void simba__zk_call_children(zk_op *op, const char *path); /* leader, before, found, children, missing */
void simba__zk_call_names(zk_op *op, const char *path);    /* names of all children */
void simba__zk_call_row(zk_op *op,
                        const char *path); /* like call_children, and names of those that are no contenders */
void simba__zk_call_children_watch(zk_op *op, const char *path, zk_watch *watch);
void simba__zk_call_queue_watch(zk_op *op, zk_watch *watch);                    /* of op->queue */
void simba__zk_call_exists_watch(zk_op *op, const char *path, zk_watch *watch); /* missing */
void simba__zk_call_owner(zk_op *op, const char *path);                         /* of op->leader: owner, vanished */
void simba__zk_call_stand_behind(zk_op *op, zk_watch *watch); /* of op->before: vanished, and owner if it leads */
void simba__zk_call_own(zk_op *op, zk_watch *guard); /* token and time of op->node, vanished; guard may be NULL */
void simba__zk_call_delete(zk_op *op, const char *path, const char *child); /* vanished */

/* --- watches ---------------------------------------------------------------------------------------- */

/* What the library calls when a node changes. It belongs to the session: it goes when it has fired, or with that. */
struct zk_watch {
    zk_watch *previous, *next;
    zk_store *store;
    void (*fired)(zk_watch *watch, int type);
    zk_node *node;   /* NULL: not of interest any more */
    zk_topic *topic; /* likewise */
    zk_queue *queue; /* likewise */
};

zk_watch *simba__zk_watch_new(zk_store *self, void (*fired)(zk_watch *watch, int type));
void simba__zk_watch_free(zk_watch *watch);
void simba__zk_watches_drop(zk_store *self);

/* --- our places in the queues ------------------------------------------------------------------------ */

typedef enum zk_place {
    ZK_ABSENT,   /* there is no child */
    ZK_ENTERING, /* it is being made */
    ZK_UNSURE,   /* there may be one */
    ZK_HERE,     /* there is */
    ZK_LEADS,    /* and it is the first */
    ZK_REVOKED,  /* it was the first, and somebody took it away */
} zk_place;

struct zk_node {
    zk_node *next; /* in its bucket */
    zk_node *unattended_previous, *unattended_next;
    zk_store *store;
    uint64_t nonce;
    char *mutex, *id;
    zk_queue *queue;
    char *name;   /* of the child, once it is known */
    char *leader; /* the first of the queue, when nobody has asked who that is */
    char prefix[ZK_PREFIX_MAX];
    zk_place place;
    unsigned refs; /* procedures that are about it, and the table */
    bool in_table;
    bool unwanted;    /* to be removed */
    bool behind_lead; /* the one before it was the first of all */
    bool called;      /* the one before it has gone, or its own child, and nobody has looked since */
    bool unattended;  /* it is to be looked after in a while */
    simba_local since;
    zk_op *op;               /* the latest procedure about it */
    zk_watch *before;        /* of the one before it */
    zk_watch *guard;         /* of its own child: set when it leads, or is the next to lead */
    int64_t czxid, ctime_ms; /* 0: not known */
};

zk_node *simba__zk_node_find(zk_store *self, const simba_request *request);
zk_node *simba__zk_node_new(zk_store *self, const simba_request *request); /* NULL: out of memory */
/* Take it out of the table. */
void simba__zk_node_drop(zk_node *node);
void simba__zk_node_ref(zk_node *node);
void simba__zk_node_unref(zk_node *node);
/* The session is over, and with it everything that it had made. */
void simba__zk_nodes_drop(zk_store *self);
void simba__zk_nodes_fini(zk_store *self);
simba_owner simba__zk_node_owner(const zk_node *node);
/* Look after it in a while; that is done, or there is no need any more. */
void simba__zk_node_unattended(zk_node *node);
void simba__zk_node_attended(zk_node *node);

/* --- what is known about whole queues ----------------------------------------------------------------- */

/* Children are numbered in the order in which they are made. So when ours has led and is gone, all up to its number are; and
 * if the next one that we make has the next number, it leads, and nobody needs to be asked. That holds as long as the node of
 * the mutex is the same: should it go and be made anew, numbers begin at 0 again. A watch tells of that, before any answer
 * that comes after it. */
struct zk_queue {
    zk_queue *next; /* in its bucket */
    zk_queue *idle_previous, *idle_next;
    zk_store *store;
    char *path;    /* of the mutex */
    unsigned refs; /* nodes of ours, and the procedure that sets the watch */
    unsigned wins;
    bool idle;       /* nobody refers to it; it is kept for a while */
    bool arming;     /* the watch is being set */
    zk_watch *watch; /* NULL: not set, and then nothing is known */
    int64_t gone;    /* all up to this number are; -1: not known */
};

/* Find or make; NULL: out of memory. */
zk_queue *simba__zk_queue_get(zk_store *self, const char *mutex);
void simba__zk_queue_put(zk_queue *queue);
/* A child of this name leads; it is gone after it has led. */
void simba__zk_queue_led(zk_queue *queue, const char *name);
void simba__zk_queue_left(zk_queue *queue, const char *name);
/* Would a child that is made now be the first, if it gets the next number? And did it? */
bool simba__zk_queue_may_be_empty(const zk_queue *queue);
bool simba__zk_queue_is_first(const zk_queue *queue, const char *name);
/* The connection is lost: nothing is known any more. */
void simba__zk_queues_forget(zk_store *self);
void simba__zk_queues_fini(zk_store *self);

/* --- the store -------------------------------------------------------------------------------------- */

struct zk_store {
    simba_host *host;
    zk_options options;
    zk_session session;
    zk_op *ops, *parked_first, *parked_last;
    simba_timer deadlines;
    zk_watch *watches;
    zk_topic *topics;

    zk_node **buckets;
    size_t node_count, node_capacity;
    zk_queue **queues;
    size_t queue_count, queue_capacity;
    zk_queue *idle_first, *idle_last; /* the longest idle first */
    size_t idle_count;
    zk_node *unattended_first, *unattended_last;
    simba_timer chores;

    bool no_containers; /* the server is too old for them */
};

/* contend.c */
void simba__zk_acquire(zk_store *self, simba_request *request);
void simba__zk_release(zk_store *self, simba_request *request);
/* What has time, also because there was no memory for it; and have that done in a while. */
void simba__zk_chores(simba_timer *timer, simba_local now);
void simba__zk_chores_later(zk_store *self);

/* renew.c */
void simba__zk_renew(zk_store *self, simba_request *request);

/* look.c */
void simba__zk_read(zk_store *self, simba_request *request);
void simba__zk_list(zk_store *self, simba_request *request);
void simba__zk_force_release(zk_store *self, simba_request *request);
int simba__zk_observe(zk_store *self, simba_topic *topic);
void simba__zk_unobserve(zk_store *self, simba_topic *topic);
/* There is a new session: set the watches anew. There may be memory again: likewise, where it was missing. */
void simba__zk_topics_connected(zk_store *self);
void simba__zk_topics_chores(zk_store *self);
void simba__zk_topics_fini(zk_store *self);

#endif
