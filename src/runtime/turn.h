/* Turns: how threads share the state of a client, and how they wait for their next turn.
 *
 * One lock guards everything of a client that is not atomic. The thread that holds it is "in a turn": the keeper for
 * timers and I/O, a worker that brings results, an application's thread in a call or in its loop. So a blocking lock on
 * a fast store needs no trip through another thread. No callback of the application runs in a turn.
 *
 * A thread that waits for an answer of the store waits at the reactor, to read it itself: it leads. One thread leads
 * at a time; the others follow, which means that they wait for a condition. The keeper (keeper.h) backs up the
 * leading thread; if the application's loop drives the client, the next following thread does. */
#ifndef SIMBA_RUNTIME_TURN_H
#define SIMBA_RUNTIME_TURN_H

#include <pthread.h>
#include <simba/backend.h>

#include "net/reactor.h"
#include "runtime/condition.h"
#include "runtime/gate.h"
#include "runtime/inbox.h"
#include "runtime/timers.h"
#include "runtime/worker.h"
#include "util/list.h"

typedef struct simba__turn simba__turn;

/* How a wait ended. */
typedef enum simba__awaited {
    SIMBA__TIME_OVER,
    SIMBA__MAYBE,  /* look whether the awaited event has happened, and wait again otherwise */
    SIMBA__LET_GO, /* see simba__turn_let_go: the thread is in no turn */
} simba__awaited;

/* What the owner of the state does in a turn. */
typedef struct simba__turn_hooks {
    bool (*settle)(simba__turn *turn); /* until nothing is left to do; true: there was something */
    bool (*hand_over)(
        simba__turn *turn);           /* before it waits: call the executor, pausing the turn; true: there was cause */
    void (*leave)(simba__turn *turn); /* settle, hand over, simba__turn_end, and the work after that */
} simba__turn_hooks;

struct simba__turn {
    const simba__turn_hooks *hooks;
    const simba_client_options *options;
    pthread_mutex_t lock;
    _Atomic pthread_t thread; /* that holds the lock; 0: none. Any thread may look whether it is itself */
    simba__gate gate;         /* where threads of the application wait for the lock */
    simba__inbox inbox;       /* calls to begin in this turn */
    simba__condition changed; /* something that a thread may wait for has ended */
    simba__wakeups wakeups;   /* to make when the lock is released */
    simba_local now;          /* of this turn */

    simba__reactor reactor;
    simba__timers timers;
    simba__worker worker;
    const simba__condition *led_for; /* a thread of the application waits at the reactor for this; NULL: none does */
    simba__list followers;           /* threads that sleep for a condition */

    /* Of threads that leave while others wait, see simba__turn_help: */
    pthread_t left;         /* the latest */
    simba_local left_at;    /* 0: it has come back */
    unsigned quick_returns; /* how often in a row such a thread was back at once */
    int64_t job_ns;         /* how long the latest job took that a thread of the application ran */
    bool puts_off;          /* settling hands nothing to the store now */

    bool kept;  /* there is a keeper */
    bool aside; /* the bell rings for the leading thread, which has not come yet; the keeper waits for it */
    simba__condition hushed; /* it has come */

    int64_t boot_minus_mono_ns;
    uint64_t suspends; /* for the statistics, like the next one */
    uint64_t max_lag_ns;
};

/* The caller keeps the options alive. */
void simba__turn_init(simba__turn *turn, const simba__turn_hooks *hooks, const simba_client_options *options);
/* Does not free the reactor: it goes before, with the store. */
void simba__turn_fini(simba__turn *turn);
int simba__turn_start_workers(simba__turn *turn, unsigned count, simba_error *err);

void simba__enter(simba__turn *turn);
/* The same, if no other thread is in a turn and none of the client's own wants to be. False: no turn has begun. */
bool simba__enter_if_free(simba__turn *turn);
/* The same, for the threads of the application, of which there may be many. */
void simba__enter_in_line(simba__turn *turn);
/* The same, for a call that waits for the store until a time. If another thread is in a turn just now, that thread begins the call
 * for this one, which sleeps meanwhile. Afterwards this thread is in a turn, and post->begun says whether the call has begun; or it
 * has been let go. */
simba__awaited simba__enter_or_post(simba__turn *turn, simba__post *post, simba_local until);
/* Settle, and release the lock. */
void simba__leave(simba__turn *turn);
/* Is this thread in this turn? */
bool simba__in_turn(const simba__turn *turn);

/* All below: in a turn. */

bool simba__turn_settle(simba__turn *turn);
/* Release the lock; for the owner's `leave`. */
void simba__turn_end(simba__turn *turn);
/* Wait until the condition is signalled or `until` has come (SIMBA__NEVER: no limit). False: `until` has come. Like any
 * condition it may return for no reason. */
bool simba__turn_wait(simba__turn *turn, simba__condition *condition, simba_local until);
/* The same, for a thread that waits for the store's answer: it may read the answer itself, or run a job that is not
 * longer than `longest`. */
simba__awaited simba__turn_await(simba__turn *turn, simba__condition *condition, simba_local until,
                                 simba_job_length longest);
/* A thread has what it came for, and is about to leave. If what others wait for has become a brief job meanwhile, it runs that
 * job: to wake a worker, which then wakes the thread that waits, takes longer than the job.
 *
 * But a thread that comes back at once, as a rule, puts the requests of a few others off until then: they share a job with its next
 * request, which costs little more than a job with one of them. Should it stay away, a thread that waits looks after them itself,
 * after a moment. Any other turn hands them to the store as well. */
void simba__turn_help(simba__turn *turn);
/* Wake the threads that wait for this condition. */
void simba__turn_wake(simba__turn *turn, simba__condition *condition);
/* The event of this condition may have happened. */
static inline void simba__turn_signal(simba__turn *turn, simba__condition *condition)
{
    if (condition->sleepers.first || turn->led_for == condition)
        simba__turn_wake(turn, condition);
}
/* The same, for one of the threads that sleep for it. */
void simba__turn_signal_one(simba__turn *turn, simba__condition *condition);
/* It has happened, and the thread that sleeps for it in simba__turn_await, or that has posted a call, needs nothing else: it does not
 * come back into the turn. */
void simba__turn_let_go(simba__turn *turn, simba__condition *condition);
/* Settle, and release the lock until simba__enter. For calling the application. */
void simba__turn_pause(simba__turn *turn);
/* Handle the events of the reactor, on any thread. */
void simba__turn_take(simba__turn *turn, const simba__arrivals *arrivals);
/* Set the timer to the earliest deadline. */
void simba__turn_arm(simba__turn *turn);

#endif
