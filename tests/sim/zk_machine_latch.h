/* The world of the machine zk-latch: what it consists of, and which file does what with it.
 *
 *   zk_machine_latch.c          the clients, all that can happen, what comes of it, and what is promised
 *   zk_machine_latch_servers.c  the queue of the mutex: what was agreed on, and what each client's server knows and answers
 *   zk_machine_latch_normal.c   one form for all worlds that are alike
 */
#ifndef TESTS_SIM_ZK_MACHINE_LATCH_H
#define TESTS_SIM_ZK_MACHINE_LATCH_H

#include "sim/machine.h"
#include "stores/zookeeper/zookeeper.h"

enum { CLIENTS = 3, CHILDREN = 6, NEWS = 4, CALLS = 12, EVENTS = 4, SESSIONS = 4 };

/* In the order of the table at the end. */
enum { MEMBERS, BREAKS, REMOVALS, ENDS, LEAVES, TIDIES, LAG, TRIES };

typedef struct child {
    uint8_t client, session; /* whose, and the how manieth session of that client; client CLIENTS: none */
    int16_t number, zxid;
} child;

typedef struct queue {
    bool is_there; /* the node of the mutex */
    uint8_t count;
    int16_t next; /* number */
    child children[CHILDREN];
} queue;

/* What was agreed on: a child was made or removed, or the node of the mutex. */
typedef enum news_kind { NO_NEWS, CHILD_MADE, CHILD_REMOVED, MUTEX_MADE, MUTEX_REMOVED } news_kind;

typedef struct news {
    uint8_t kind;
    child child;
} news;

/* Whose call it is: the latch's, or that of the question by which a leader watches its child. An orphan is what is left of one whose
 * latch is no more. */
enum { LATEST, GUARDING, ORPHAN };

/* Calls, in the order in which they were made. Those that are answered are at the beginning, with what was answered; among them is
 * what watches have to tell. */
typedef enum call_kind {
    NO_CALL,
    CALL_SYNC,
    CALL_CONTAINERS,
    CALL_CREATE,
    CALL_LIST,
    CALL_OWN,
    CALL_GUARD,
    CALL_FIRST,
    CALL_BEFORE,
    CALL_DELETE,
    TOLD_BEFORE, /* by a watch */
    TOLD_GUARD,
} call_kind;

typedef struct call {
    uint8_t kind, procedure;
    bool is_missing; /* answered: there is no such node */
    bool is_listed;  /* LIST: as it was then */
    child child;     /* what it is about */
    queue list;
} call;

typedef struct client {
    bool is_connected, wants, has_later;
    int16_t forced; /* the zxid of a child by which it led, and which somebody has removed; 0: none */
    uint8_t session;
    uint8_t behind;   /* news that its server has not heard of */
    uint8_t answered; /* calls */
    uint8_t calls;
    call call[CALLS];
    child watch_before, watch_guard; /* at the server */
    child slot_before, slot_guard;   /* what the client wants to hear of */
    child first, before;             /* of the latest list */
    child name;                      /* in place of a text */
    zk_latch latch;
} client;

typedef struct world {
    machine_head head;
    uint8_t left[TRIES + 1]; /* of what the bounds allow */
    queue truth;
    uint8_t news_count;
    news news[NEWS]; /* that not all servers have heard of; the latest last */
    int16_t zxid, token;
    client client[CLIENTS];
} world;

static const child latch_nobody = {.client = CLIENTS};

/* By name. */
static inline bool latch_is_same(child a, child b)
{
    return a.client < CLIENTS && a.client == b.client && a.session == b.session && a.number == b.number;
}

static inline unsigned latch_clients(const world *w)
{
    return w->head.bounds[MEMBERS];
}

static inline unsigned latch_index_of(const world *w, const client *c)
{
    return (unsigned)(c - w->client);
}

/* --- zk_machine_latch_servers.c -------------------------------------------------------------------------- */

/* Where the child is in the queue; its count: nowhere. */
unsigned latch_find(const queue *q, child which);
bool latch_has(const queue *q, child which);
/* What this client's server knows. */
queue latch_view_of(const world *w, const client *c);
/* Something happens to the queue, and the servers hear of it as late as they may. */
void latch_agree(world *w, news_kind kind, child which);
/* The client's server hears the next of what was agreed on. */
void latch_apply(world *w, client *c);
/* Forget what all servers have heard. */
void latch_forget_news(world *w);
bool latch_is_write(const call *what);
/* The leader carries a write out. False: there is no such node. */
bool latch_carry_out(world *w, client *c, call *what);
/* The first question is answered. */
void latch_serve(world *w, client *c);
/* A watch of the client tells. */
void latch_tell_event(client *c, call_kind kind, child about);

/* --- zk_machine_latch_normal.c --------------------------------------------------------------------------- */

/* Between two choices a world has numbers in the place of the names that a latch keeps; a choice wakes its latches first, and lays them
 * down again in the end. */
void latch_wake(client *c, child self);
void latch_sleep(client *c);
/* The name of a child; "" for nobody. And the other way round, without the zxid, which is no part of a name. */
void latch_text_of(child which, char ret_text[ZK_NAME_MAX]);
child latch_child_of(const char *text);
/* One form for all worlds that differ in nothing that matters. */
void latch_normalise(void *of);

#endif
