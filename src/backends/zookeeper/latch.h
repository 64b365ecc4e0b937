/* Decides what the contender of a mutex does next. Pure: what it has seen goes in, the calls to make come out; no I/O,
 * no clock, no library.
 *
 * look: make a child and list all children, in flight together. If the new child is the first, it leads.
 *
 * wait: watch the child right before the latch's own. When that changes, list again: whatever has happened, the list says it.
 *
 * leave: remove the child, whatever is known about it.
 *
 * The server numbers children as it makes them, so a later child never comes before an earlier one: a child that is the first
 * stays the first until it goes. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_LATCH_H
#define SIMBA_BACKENDS_ZOOKEEPER_LATCH_H

#include "backends/zookeeper/names.h"

/* Where the child of a latch is. */
typedef enum zk_place {
    ZK_ABSENT,   /* there is none */
    ZK_ENTERING, /* it is being made */
    ZK_UNSURE,   /* there may be one */
    ZK_HERE,     /* there is one */
    ZK_LEADS,    /* there is one, and it is the first */
    ZK_REVOKED,  /* it was the first, and somebody took it away */
} zk_place;

typedef struct zk_latch {
    zk_place place;
    bool stands;   /* HERE: the child before it is watched */
    bool guarded;  /* LEADS: its own child is watched, so that the leader hears of its removal */
    bool unwanted; /* it must be removed */
    char prefix[ZK_PREFIX_MAX];
    char *name;              /* of the child, once it is known */
    int64_t czxid, ctime_ms; /* 0: not known */
} zk_latch;

/* Calls to make together, in this order. */
enum {
    ZK_CALL_SYNC = 1,
    ZK_CALL_PARENTS = 2, /* make the node of the mutex */
    ZK_CALL_CREATE = 4,  /* make the child */
    ZK_CALL_LIST = 8,
    ZK_CALL_OWN = 16,     /* read the child */
    ZK_CALL_GUARD = 32,   /* likewise, and watch it */
    ZK_CALL_LEADER = 64,  /* read the first child */
    ZK_CALL_BEFORE = 128, /* read and watch the one before it */
    ZK_CALL_DELETE = 256, /* remove the child */
};

/* The purpose of a procedure about a latch. Of those up to ZK_WISH_LEAVE only the latest counts. */
typedef enum zk_wish {
    ZK_WISH_WAIT,  /* lead, or wait */
    ZK_WISH_TRY,   /* lead at once, or not at all */
    ZK_WISH_LOOK,  /* no request: something has happened to the waiter */
    ZK_WISH_LEAVE, /* remove the child */
    ZK_WISH_RENEW, /* is it still there? */
    ZK_WISH_GUARD, /* watch the child, which leads */
    ZK_WISH_ASK,   /* read the id of `leader`, for which it waits */
} zk_wish;

/* The step that a procedure is at. */
typedef enum zk_step {
    ZK_STEP_NONE,
    ZK_STEP_LOOK,       /* make the child if there is none, and list */
    ZK_STEP_READ,       /* read the child, which is the first */
    ZK_STEP_STAND,      /* watch the child before it */
    ZK_STEP_TRY,        /* it is not the first, and nobody will wait: remove it again */
    ZK_STEP_UNNUMBERED, /* there are no numbers left: remove it again */
    ZK_STEP_FIND,       /* find the child to remove */
    ZK_STEP_REMOVE,
    ZK_STEP_ASK,
} zk_step;

/* The result of the latest list. */
typedef enum zk_seen {
    ZK_SEEN_NOTHING,
    ZK_SEEN_NO_MUTEX, /* the mutex has no node */
    ZK_SEEN_OTHERS,   /* the child is not there */
    ZK_SEEN_FIRST,    /* the child leads */
    ZK_SEEN_BEHIND,   /* the child is behind `before` */
} zk_seen;

/* One procedure about a latch. All zero: not begun. */
typedef struct zk_attempt {
    zk_wish wish;
    zk_step step;
    zk_seen seen;
    bool vanished;   /* the node that the step reads or removes is gone */
    bool led;        /* the child that is removed was the first */
    unsigned rounds; /* how many children it has made */
    char *leader, *before;
} zk_attempt;

typedef enum zk_outcome {
    ZK_GO,          /* make these calls, and call simba__zk_latch_step when all are answered */
    ZK_IDLE,        /* there is nothing to do, and the mutex is not owned by this latch */
    ZK_WON,         /* the child leads from now on */
    ZK_LEADS_STILL, /* it led before */
    ZK_WAITS,       /* it stands behind `before` */
    ZK_LOST,        /* it was made for a try, and is gone again: `leader` has the mutex */
    ZK_FREED,       /* it had led, and is removed */
    ZK_NOTHING,     /* it is removed, or somebody else has removed it, or there was none */
    ZK_TAKEN,       /* it should lead, and is not there: see latch_taken */
    ZK_REFUSED,     /* it goes each time that it is made */
    ZK_NO_NUMBERS,  /* the mutex has had too many children; it is removed */
} zk_outcome;

typedef struct zk_move {
    zk_outcome outcome;
    unsigned calls; /* of ZK_GO */
} zk_move;

/* What the owner of the latch has to do after an event. */
typedef enum zk_alert {
    ZK_ALERT_NONE,
    ZK_ALERT_LOOK,    /* begin a procedure of ZK_WISH_LOOK */
    ZK_ALERT_GUARD,   /* set another guard */
    ZK_ALERT_REVOKED, /* it leads no more */
} zk_alert;

/* The child of an incarnation. `sessions_over`: how many sessions of the client have ended before this one. */
void simba__zk_latch_init(zk_latch *latch, uint64_t nonce, const char *id, unsigned sessions_over);
void simba__zk_latch_fini(zk_latch *latch);
/* Free its memory. */
void simba__zk_attempt_forget(zk_attempt *attempt);

/* Begin a procedure, or begin it anew after the connection was lost. */
zk_move simba__zk_latch_begin(zk_latch *latch, zk_attempt *attempt);
/* All calls have answers, none of them an error other than those below. */
zk_move simba__zk_latch_step(zk_latch *latch, zk_attempt *attempt);

/* The answers to CREATE. The child was made under this name, which begins with the prefix; it was not made; it may have
 * been made. False: out of memory. */
bool simba__zk_latch_made(zk_latch *latch, const char *name, int64_t czxid, int64_t ctime_ms);
void simba__zk_latch_not_made(zk_latch *latch, bool sure);
/* The answers to LIST: the children of the mutex; the mutex has no node. False: out of memory. */
bool simba__zk_latch_listed(zk_latch *latch, zk_attempt *attempt, char *const *names, size_t count);
void simba__zk_latch_mutex_missing(zk_attempt *attempt);
/* The child is there. */
void simba__zk_latch_own(zk_latch *latch, int64_t czxid, int64_t ctime_ms, bool guarded);
/* A node that was to be read, or the child that was to be removed, is gone. */
void simba__zk_latch_vanished(zk_attempt *attempt, unsigned call);

/* The watch of the child before it has fired, or the guard; the child was found to be gone. */
zk_alert simba__zk_latch_before_fired(zk_latch *latch);
zk_alert simba__zk_latch_guard_fired(zk_latch *latch, bool deleted);
zk_alert simba__zk_latch_taken(zk_latch *latch);

#endif
