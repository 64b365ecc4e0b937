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
#include "runtime/gate.h"
#include "runtime/timers.h"
#include "runtime/worker.h"
#include "util/list.h"

typedef struct simba__turn simba__turn;

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
    simba__gate gate;       /* where threads of the application wait for the lock */
    pthread_cond_t changed; /* something that a thread may wait for has ended */
    simba_local now;        /* of this turn */

    simba__reactor reactor;
    simba__timers timers;
    simba__worker worker;
    const pthread_cond_t *led_for; /* a thread of the application waits at the reactor for this; NULL: none does */
    simba__list followers;         /* threads that wait for a condition */

    bool kept;             /* there is a keeper */
    bool aside;            /* the bell rings for the leading thread, which has not come yet; the keeper waits for it */
    pthread_cond_t hushed; /* it has come */

    int64_t boot_minus_mono_ns;
    uint64_t suspends; /* for the statistics, like the next one */
    uint64_t max_lag_ns;
};

/* The caller keeps the options alive. SIMBA_ESYSTEM. */
int simba__turn_init(simba__turn *turn, const simba__turn_hooks *hooks, const simba_client_options *options,
                     simba_error *err);
/* Does not free the reactor: it goes before, with the store. */
void simba__turn_fini(simba__turn *turn);
int simba__turn_start_workers(simba__turn *turn, unsigned count, simba_error *err);

void simba__enter(simba__turn *turn);
/* The same, for the threads of the application, of which there may be many. */
void simba__enter_in_line(simba__turn *turn);
/* Settle, and release the lock. */
void simba__leave(simba__turn *turn);
/* Is this thread in this turn? */
bool simba__in_turn(const simba__turn *turn);

/* All below: in a turn. */

bool simba__turn_settle(simba__turn *turn);
/* Release the lock; for the owner's `leave`. */
void simba__turn_end(simba__turn *turn);
/* Wait until `cond` is signalled or `until` has come (SIMBA__NEVER: no limit). False: `until` has come. Like any
 * condition variable it may return for no reason. */
bool simba__turn_wait(simba__turn *turn, pthread_cond_t *cond, simba_local until);
/* The same, for a thread that waits for the store's answer: it may read the answer itself, or run a job that is not
 * longer than `longest`. */
bool simba__turn_await(simba__turn *turn, pthread_cond_t *cond, simba_local until, simba_job_length longest);
/* A thread has what it came for, and is about to leave. If what others wait for has become a brief job meanwhile, it runs that
 * job: to wake a worker, which then wakes the thread that waits, takes longer than the job. */
void simba__turn_help(simba__turn *turn);
/* The event of this condition may have happened. */
void simba__turn_signal(simba__turn *turn, pthread_cond_t *cond);
/* Settle, and release the lock until simba__enter. For calling the application. */
void simba__turn_pause(simba__turn *turn);
/* Handle the events of the reactor, on any thread. */
void simba__turn_take(simba__turn *turn, const simba__arrivals *arrivals);
/* Set the timer to the earliest deadline. */
void simba__turn_arm(simba__turn *turn);

#endif
