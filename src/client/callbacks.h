/* Runs the application's callbacks: on a pool of threads, in the application's own loop, or in its executor. The callbacks of one
 * handle run one at a time; those of different handles do not wait for each other. Whoever runs them has a reference to the
 * handle, because a callback or an executor may outlast it. */
#ifndef SIMBA_CLIENT_CALLBACKS_H
#define SIMBA_CLIENT_CALLBACKS_H

#include "client/client.h"

/* Without the lock. SIMBA_ENOMEM, SIMBA_ESYSTEM. */
int simba__callbacks_start(simba_client *client, simba_error *err);
/* Without the lock, after the last callback has run. Also if it was never started. */
void simba__callbacks_stop(simba_client *client);

/* --- under the lock ------------------------------------------------------------------------------------ */

/* This handle has something to run. */
void simba__callbacks_add(simba__handle *handle);
/* Run all that is queued on this thread. Returns how many callbacks ran. */
unsigned simba__callbacks_run(simba_client *client);
/* Run those of this handle on this thread, if they are queued: a thread that waits for them may be the very thread that is to run
 * them. False: there was nothing to run. */
bool simba__callbacks_help(simba__handle *handle);
/* Pass what is queued to the executor. False: there was nothing. */
bool simba__callbacks_hand_over(simba_client *client);

/* --- any thread -------------------------------------------------------------------------------------- */

/* Does this thread run a callback of this handle, or of any of this client? */
bool simba__callbacks_are_inside(const simba__handle *handle);
bool simba__callbacks_are_inside_client(const simba_client *client);

#endif
