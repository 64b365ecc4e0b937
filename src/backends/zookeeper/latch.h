/* Decides what the contender of a mutex does next. Pure: what it has seen goes in, the calls to make come out; no I/O,
 * no clock, no library.
 *
 * look: make our child and list all children, in flight together. That is enough for a free mutex. If nobody else has
 * come since we last led, making the child is enough (see zk_numbers).
 *
 * wait: watch the child before ours and, behind the leader, our own. When the leader goes, or has gone by then, ours leads.
 * When another child goes, look again.
 *
 * leave: remove our child, whatever we know about it.
 *
 * The server numbers children as it makes them, so no child ever gets in before ours: once ours is the first, it stays
 * the first until it goes. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_LATCH_H
#define SIMBA_BACKENDS_ZOOKEEPER_LATCH_H

#include "backends/zookeeper/names.h"

/* What is known about the numbers of a whole queue. When a child of ours has led and is gone, all children up to its
 * number are gone. If the next child that we make has the next number, it leads, without a list. That holds as long
 * as the node of the mutex is the same: in a new node, numbers begin at 0 again. A watch reports a new node before
 * any later answer. */
typedef struct zk_numbers {
    bool watched; /* otherwise nothing is known */
    int64_t gone; /* all children up to this number are gone; -1: not known */
} zk_numbers;

/* The node of the mutex has changed, or no watch would report that it has. */
void simba__zk_numbers_forget(zk_numbers *numbers);

/* Where our child is. */
typedef enum zk_place {
    ZK_ABSENT,   /* there is no child of ours */
    ZK_ENTERING, /* it is being made */
    ZK_UNSURE,   /* there may be one */
    ZK_HERE,     /* there is one */
    ZK_LEADS,    /* there is one, and it is the first */
    ZK_REVOKED,  /* it was the first, and somebody took it away */
} zk_place;

/* The child before ours, while ours is here. */
typedef enum zk_ahead {
    ZK_AHEAD_UNKNOWN,     /* nobody is watched */
    ZK_AHEAD_SOMEBODY,    /* a waiter, which we watch */
    ZK_AHEAD_LEADER,      /* the first of all, which we watch */
    ZK_AHEAD_LEADER_GONE, /* the leader before us is gone, and nobody else is before us */
} zk_ahead;

typedef struct zk_latch {
    zk_numbers *numbers;
    zk_place place;
    zk_ahead ahead;
    bool guarded;  /* its own child is watched: set when it leads, or is the next to lead */
    bool unwanted; /* it has to be removed */
    char prefix[ZK_PREFIX_MAX];
    char *name;              /* of the child, once it is known */
    int64_t czxid, ctime_ms; /* 0: not known */
} zk_latch;

/* Calls to make together, in this order. */
enum {
    ZK_CALL_SYNC = 1,
    ZK_CALL_PARENTS = 2, /* make the node of the mutex */
    ZK_CALL_CREATE = 4,  /* make our child */
    ZK_CALL_LIST = 8,
    ZK_CALL_OWN = 16,     /* read our child */
    ZK_CALL_GUARD = 32,   /* likewise, and watch it */
    ZK_CALL_LEADER = 64,  /* read the first child */
    ZK_CALL_BEFORE = 128, /* read and watch the one before ours */
    ZK_CALL_DELETE = 256, /* remove our child */
};

/* The purpose of a procedure about a latch. Of the wishes up to ZK_WISH_LEAVE only the latest counts. */
typedef enum zk_wish {
    ZK_WISH_WAIT,  /* lead, or get in line */
    ZK_WISH_TRY,   /* lead at once, or not at all */
    ZK_WISH_LOOK,  /* no request: something has happened to the waiter */
    ZK_WISH_LEAVE, /* remove our child */
    ZK_WISH_RENEW, /* is it still there? */
    ZK_WISH_GUARD, /* watch our child, which leads */
    ZK_WISH_ASK,   /* read the id of `leader`, for which we wait */
} zk_wish;

/* The step that a procedure is at. */
typedef enum zk_step {
    ZK_STEP_NONE,
    ZK_STEP_LOOK,       /* make our child if there is none, and list */
    ZK_STEP_MAKE,       /* make our child alone: the queue is empty for all we know */
    ZK_STEP_READ,       /* read our child, which is the first */
    ZK_STEP_STAND,      /* watch the child before ours */
    ZK_STEP_TRY,        /* our child is not the first, and nobody will wait: remove it again */
    ZK_STEP_UNNUMBERED, /* there are no numbers left: remove it again */
    ZK_STEP_FIND,       /* find the child to remove */
    ZK_STEP_REMOVE,
    ZK_STEP_ASK,
} zk_step;

/* The result of the latest list. */
typedef enum zk_seen {
    ZK_SEEN_NOTHING,
    ZK_SEEN_NO_MUTEX, /* the mutex has no node */
    ZK_SEEN_OTHERS,   /* others are there, and no child of ours */
    ZK_SEEN_FIRST,    /* ours leads */
    ZK_SEEN_BEHIND,   /* ours is behind `before` */
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
    ZK_IDLE,        /* there is nothing to do, and nothing is ours */
    ZK_WON,         /* ours leads from now on */
    ZK_LEADS_STILL, /* ours led before */
    ZK_WAITS,       /* it stands behind `before` */
    ZK_LOST,        /* ours was made for a try, and is gone again: `leader` has the mutex */
    ZK_FREED,       /* ours is removed; it had led, and the next child is right behind it */
    ZK_NOTHING,     /* ours is removed, or somebody else has removed it, or there was none */
    ZK_TAKEN,       /* ours should lead, and is not there: see latch_taken */
    ZK_REFUSED,     /* ours goes each time that it is made */
    ZK_NO_NUMBERS,  /* the mutex has had too many children; ours is removed */
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
void simba__zk_latch_init(zk_latch *latch, zk_numbers *numbers, uint64_t nonce, const char *id, unsigned sessions_over);
void simba__zk_latch_fini(zk_latch *latch);
/* Free its memory. */
void simba__zk_attempt_forget(zk_attempt *attempt);

/* Begin a procedure, or begin it anew after the connection was lost. */
zk_move simba__zk_latch_begin(zk_latch *latch, zk_attempt *attempt);
/* All calls have answers, none of them an error other than those below. */
zk_move simba__zk_latch_step(zk_latch *latch, zk_attempt *attempt);

/* The answers to CREATE. Our child was made under this name, which begins with our prefix; it was not made; it may have
 * been made. False: out of memory. */
bool simba__zk_latch_made(zk_latch *latch, const char *name, int64_t czxid, int64_t ctime_ms);
void simba__zk_latch_not_made(zk_latch *latch, bool sure);
/* The answers to LIST: the children of the mutex; the mutex has no node. False: out of memory. */
bool simba__zk_latch_listed(zk_latch *latch, zk_attempt *attempt, char *const *names, size_t count);
void simba__zk_latch_mutex_missing(zk_attempt *attempt);
/* Our child is there. */
void simba__zk_latch_own(zk_latch *latch, int64_t czxid, int64_t ctime_ms, bool guarded);
/* A node that was to be read, or our child that was to be removed, is gone. */
void simba__zk_latch_vanished(zk_attempt *attempt, unsigned call);

/* The connection is lost: after that, watches may fire in any order. */
void simba__zk_latch_disconnected(zk_latch *latch);
/* The watch of the child before ours has fired, or our guard; our child was found to be gone. */
zk_alert simba__zk_latch_before_fired(zk_latch *latch, bool deleted);
zk_alert simba__zk_latch_guard_fired(zk_latch *latch, bool deleted);
zk_alert simba__zk_latch_taken(zk_latch *latch);

#endif
