/* Work of stores that blocks (simba_job), and the threads that do it. A thread that waits for an outcome runs the job that its
 * own call has led to: then an uncontended lock needs no change of thread. So a job is announced to the workers only when the
 * lock is released. Everything happens under the client's lock, except running. */
#ifndef SIMBA_CLIENT_JOBS_H
#define SIMBA_CLIENT_JOBS_H

#include "client/client.h"

/* Without the lock. SIMBA_ESYSTEM. */
int simba__jobs_start(simba_client *client, unsigned threads, simba_error *err);
/* Without the lock, after the last job is done; also after a start that failed or never was. */
void simba__jobs_stop(simba_client *client);

void simba__jobs_add(simba__jobs *jobs, simba_job *job);
/* Wake workers for the jobs that nobody has taken. */
void simba__jobs_announce(simba_client *client);
/* Run a job that no worker knows of, if there is one. False: there is none. Releases the lock meanwhile. */
bool simba__jobs_help(simba_client *client);

#endif
