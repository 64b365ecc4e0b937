/* Threads for stores whose client libraries block. A job runs outside any turn; its result comes back in one.
 *
 * A thread of the application that will wait for the outcome anyway takes the job itself: then an uncontended lock
 * needs no change of thread. So the turn announces a posted job to the workers only if it ends without a thread
 * having taken the job. */
#ifndef SIMBA_RUNTIME_WORKER_H
#define SIMBA_RUNTIME_WORKER_H

#include <pthread.h>
#include <simba/backend.h>

enum { SIMBA__WORKERS_MAX = 16 };

/* Not in a turn: call the job's `done` in one. */
typedef void simba__bring_fn(void *context, simba_job *job);

typedef struct simba__worker {
    simba__bring_fn *bring; /* NULL: not started */
    void *context;
    pthread_mutex_t lock; /* its own lock: a thread may queue a job while another thread is in a turn */
    pthread_cond_t wanted;
    simba_job *first, **last;
    unsigned unannounced; /* how many at the end of the queue; guarded by the turn lock */
    pthread_t threads[SIMBA__WORKERS_MAX];
    unsigned count;
    bool quit;
} simba__worker;

int simba__worker_start(simba__worker *worker, unsigned threads, simba__bring_fn *bring, void *context,
                        simba_error *err);
/* In a turn. */
void simba__worker_post(simba__worker *worker, simba_job *job);
void simba__worker_announce(simba__worker *worker);
/* In a turn: take a job that no worker knows of and that is no longer than this; NULL: there is none. The thread
 * that takes it runs it outside the turn, and calls its `done` in one. */
simba_job *simba__worker_take(simba__worker *worker, simba_job_length longest);
/* Call it after the last job has been brought back. Also after a start that failed or never was. */
void simba__worker_stop(simba__worker *worker);

#endif
