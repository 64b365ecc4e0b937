/* Work of stores that blocks (simba_job), and the threads that do it. Everything happens under the client's lock, except
 * running. */
#include "client/client.h"
#include "util/clock.h"
#include "util/error.h"

/* A thread of the application has a time limit, or can be cancelled, and cannot leave a job before it is done. */
#define HELP_NS (5 * SIMBA__NS_PER_MS)

/* NULL: there is none. */
static simba_job *take_first(simba__jobs *jobs)
{
    simba_job *job = jobs->first;
    if (job)
        jobs->first = job->next;
    if (!jobs->first)
        jobs->last = &jobs->first;
    return job;
}

void simba__jobs_add(simba__jobs *jobs, simba_job *job)
{
    job->next = NULL;
    *jobs->last = job;
    jobs->last = &job->next;
    jobs->unannounced++;
}

void simba__jobs_announce(simba_client *client)
{
    for (; client->jobs.unannounced > 0; client->jobs.unannounced--)
        simba__wake_one(client, &client->jobs);
}

bool simba__jobs_help(simba_client *client)
{
    simba__jobs *jobs = &client->jobs;
    simba_job *job = jobs->unannounced > 0 ? take_first(jobs) : NULL;
    if (!job)
        return false;
    jobs->unannounced--;
    const simba_local until = simba__local_add(client->now, HELP_NS);
    simba__pause(client);
    const bool done = job->run(job, until);
    simba__lock(client);
    if (done) {
        job->done(job);
    } else {
        job->next = jobs->first;
        if (!jobs->first)
            jobs->last = &job->next;
        jobs->first = job;
        jobs->unannounced++;
        simba__jobs_announce(client);
    }
    return true;
}

static void *run(void *arg)
{
    simba_client *client = arg;
    simba__jobs *jobs = &client->jobs;
    simba__lock(client);
    while (!jobs->quit) {
        simba_job *job = take_first(jobs);
        if (!job) {
            simba__sleep(client, jobs, SIMBA__NEVER);
            continue;
        }
        simba__pause(client);
        (void)job->run(job, SIMBA__NEVER);
        simba__lock(client);
        job->done(job);
        simba__unlock(client); /* callbacks may need to go to the executor */
        simba__lock(client);
    }
    simba__unlock(client);
    return NULL;
}

int simba__jobs_start(simba_client *client, unsigned threads, simba_error *err)
{
    simba__jobs *jobs = &client->jobs;
    jobs->last = &jobs->first;
    jobs->ready = true;
    for (; jobs->count < threads && jobs->count < SIMBA__WORKERS_MAX; jobs->count++)
        if (simba__thread_create(&jobs->threads[jobs->count], run, client) != 0)
            return simba__fail(err, SIMBA_ESYSTEM, "cannot start a thread for the store");
    return 0;
}

void simba__jobs_stop(simba_client *client)
{
    simba__jobs *jobs = &client->jobs;
    if (!jobs->ready)
        return;
    simba__lock(client);
    jobs->quit = true;
    simba__wake(client, jobs);
    simba__unlock(client);
    for (unsigned i = 0; i < jobs->count; i++)
        pthread_join(jobs->threads[i], NULL);
    jobs->ready = false;
}
