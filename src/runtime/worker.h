/* Threads for stores whose client libraries block. A job runs outside any turn; its result is brought back in one.
 *
 * A thread of the application that is going to wait for the outcome anyway takes the job itself: an uncontended lock then
 * costs no change of thread. So a job that was posted is announced to the workers only when the turn ends without
 * anybody having taken it. */
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
    pthread_mutex_t lock; /* of its own: a job may be queued while another thread is in a turn */
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
/* In a turn: take a job that no worker has been told of and that is no longer than this; NULL: there is none. Whoever takes
 * it runs it out of the turn, and calls its `done` in one. */
simba_job *simba__worker_take(simba__worker *worker, simba_job_length longest);
/* After the last job has been brought back. Also after a start that failed or never was. */
void simba__worker_stop(simba__worker *worker);

#endif
