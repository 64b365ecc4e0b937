/* See worker.h. */
#include "runtime/worker.h"

#include "util/error.h"
#include "util/thread.h"

/* Under the worker's lock: remove it from the queue. */
static simba_job *unlink_job(simba__worker *worker, simba_job **link)
{
    simba_job *job = *link;
    *link = job->next;
    if (!*link)
        worker->last = link;
    return job;
}

static simba_job *next_job(simba__worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (!worker->first && !worker->quit)
        pthread_cond_wait(&worker->wanted, &worker->lock);
    simba_job *job = worker->first ? unlink_job(worker, &worker->first) : NULL;
    pthread_mutex_unlock(&worker->lock);
    return job;
}

static void *run(void *arg)
{
    simba__worker *worker = arg;
    for (simba_job *job = next_job(worker); job; job = next_job(worker)) {
        job->run(job);
        worker->bring(worker->context, job);
    }
    return NULL;
}

int simba__worker_start(simba__worker *worker, unsigned threads, simba__bring_fn *bring, void *context,
                        simba_error *err)
{
    worker->bring = bring;
    worker->context = context;
    worker->last = &worker->first;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->wanted, NULL);
    for (; worker->count < threads && worker->count < SIMBA__WORKERS_MAX; worker->count++)
        if (simba__thread_create(&worker->threads[worker->count], run, worker) != 0)
            return simba__fail(err, SIMBA_ESYSTEM, "cannot start a thread for the store");
    return 0;
}

void simba__worker_post(simba__worker *worker, simba_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&worker->lock);
    *worker->last = job;
    worker->last = &job->next;
    pthread_mutex_unlock(&worker->lock);
    worker->unannounced++;
}

void simba__worker_announce(simba__worker *worker)
{
    for (; worker->unannounced > 0; worker->unannounced--)
        pthread_cond_signal(&worker->wanted);
}

simba_job *simba__worker_take(simba__worker *worker, simba_job_length longest)
{
    if (worker->unannounced == 0)
        return NULL;
    simba_job *job = NULL;
    pthread_mutex_lock(&worker->lock);
    simba_job **link = &worker->first; /* a busy worker may have come by */
    while (*link && (*link)->length > longest)
        link = &(*link)->next;
    if (*link)
        job = unlink_job(worker, link);
    pthread_mutex_unlock(&worker->lock);
    worker->unannounced -= job != NULL;
    return job;
}

void simba__worker_stop(simba__worker *worker)
{
    if (!worker->bring)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->quit = true;
    pthread_mutex_unlock(&worker->lock);
    pthread_cond_broadcast(&worker->wanted);
    for (unsigned i = 0; i < worker->count; i++)
        pthread_join(worker->threads[i], NULL);
    pthread_cond_destroy(&worker->wanted);
    pthread_mutex_destroy(&worker->lock);
    worker->bring = NULL;
}
