/* The remote control of a store that fails on command (fault_wrapper.h). The case says which requests, replies and
 * pushes get lost. So faults need no hook in the library, and work the same over every store.
 *
 * One tck_fault is for one client: make it, open a client on its URL, script faults, close the client, free it. Any
 * thread may call its functions. */
#ifndef TCK_FAULT_H
#define TCK_FAULT_H

#include <simba/backend.h>

typedef struct tck_fault tck_fault;

#define TCK_OPS (SIMBA_OP_FORGET + 1)
#define TCK_ANY_OP TCK_OPS

typedef enum tck_cut {
    TCK_CUT_NONE,
    TCK_CUT_SILENT, /* requests and replies vanish: failed with SIMBA_ETIMEDOUT at their deadline, not executed */
    TCK_CUT_REFUSE, /* requests fail at once with SIMBA_EUNAVAILABLE, not executed */
} tck_cut;

typedef enum tck_pushes {
    TCK_PUSHES_PASS,
    TCK_PUSHES_DROP,
    TCK_PUSHES_TWICE,
} tck_pushes;

/* The counters, one of each per operation. */
typedef enum tck_count {
    TCK_SUBMITTED, /* came from the client */
    TCK_WON,       /* answered to the client with SIMBA_MINE */
    TCK_ANSWERED,  /* answered to the client with any outcome */
    TCK_FAILED,    /* failed towards the client, for whatever reason */
    TCK_HELD,      /* replies that are held back now */
    TCK_SWALLOWED, /* vanished in a silent cut */
    TCK_EXPIRED,   /* the inner store has completed a request whose time was over */
    TCK_BREACHES, /* of the contract by the inner store: it failed an expired request without a reason, never completed a request,
                    * or touched one that it had completed; counted when the client closes */
    TCK_COUNTS,
} tck_count;

/* Call it after its client has been closed, or failed to open. */
void tck_fault_free(tck_fault *fault);
/* The URL to open. */
const char *tck_fault_url(const tck_fault *fault);

void tck_fault_cut(tck_fault *fault, tck_cut cut);
/* The `nth` request of `op` from now on (1: the next) fails with SIMBA_EUNAVAILABLE and is not executed. */
void tck_fault_fail_nth(tck_fault *fault, int op, unsigned nth);
/* The `nth` request of `op` from now on is executed, but its reply becomes SIMBA_ETIMEDOUT. */
void tck_fault_lose_reply_nth(tck_fault *fault, int op, unsigned nth);
/* Hold back every reply of `op` until it is let go. A request that reaches its deadline meanwhile fails with
 * SIMBA_ETIMEDOUT. Do not let go while the client is being closed. */
void tck_fault_hold(tck_fault *fault, int op);
void tck_fault_let_go(tck_fault *fault, int op);
/* End the time of every request of `op` as soon as the inner store has sent it. */
void tck_fault_expire(tck_fault *fault, int op);
void tck_fault_pushes(tck_fault *fault, tck_pushes pushes);
/* Undo all of the above. Replies that were lost do not come back. */
void tck_fault_heal(tck_fault *fault);

uint64_t tck_fault_count(tck_fault *fault, int op, tck_count what);

/* --- for the wrapper ---------------------------------------------------------------------------- */

typedef enum tck_verdict {
    TCK_PASS,
    TCK_REFUSE,
    TCK_SWALLOW,
    TCK_LOSE,
    TCK_HOLD,
} tck_verdict;

/* Find it by the handle in a URL; NULL: none. */
tck_fault *tck_fault_find(const char *handle);

/* Attach a client that is open (host), or detach it (NULL). SIMBA_ESTATE: there is one already. */
int tck_fault_attach(tck_fault *fault, simba_host *host);
void tck_fault_detach(tck_fault *fault, const simba_host *host);

void tck_fault_add(tck_fault *fault, int op, tck_count what, int by);
tck_verdict tck_fault_judge_request(tck_fault *fault, int op, bool *ret_lose_reply);
tck_verdict tck_fault_judge_reply(tck_fault *fault, int op, bool lose_reply);
bool tck_fault_is_held(tck_fault *fault, int op);
bool tck_fault_expires(tck_fault *fault, int op);
bool tck_fault_is_cut(tck_fault *fault);
/* How often to deliver a push. */
int tck_fault_push_times(tck_fault *fault);

/* See tck_fault_new. NULL: out of memory. */
tck_fault *tck_fault_make(const char *inner_scheme, const char *inner_url, void (*notify)(void *user), void *user);

#endif
