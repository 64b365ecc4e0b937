/* What contenders, lockers, schedulers and observers have in common: a mutex, a timer, one request under way, callbacks, and a
 * reference count, because a callback or an executor may outlast the application's handle. */
#ifndef SIMBA_CLIENT_HANDLE_H
#define SIMBA_CLIENT_HANDLE_H

#include "client/callbacks.h"

/* The caller has checked the names. SIMBA_ENOMEM, SIMBA_ECLOSED. After success the handle belongs to the client's list and has one
 * reference; after a failure the caller frees it. Under the lock, as everything up to the next heading. */
int simba__handle_init(simba__handle *handle, const simba__handle_type *type, simba_client *client, const char *mutex,
                       simba_error *err);
/* Does it run, or does a callback of it? */
bool simba__handle_is_busy(const simba__handle *handle);
void simba__handle_started(simba__handle *handle);
void simba__handle_stopped(simba__handle *handle);
/* Carry out what every machine asks for: a request, and the timer. If there is no memory for the request, it fails. `id` and
 * `timing` are the contender's; "" and NULL: it is an observer. */
void simba__handle_act(simba__handle *handle, const simba__actions *actions, const char *id,
                       const simba__timing *timing);
/* Does it want to hear what happens to the mutex? */
void simba__handle_want(simba__handle *handle, bool wants);
void simba__handle_send_stop(simba__handle *handle);
/* Send STOP, then wait until the handle has stopped and no callback of it runs. Runs its callbacks meanwhile. Does not wait inside
 * a callback of the handle itself. */
void simba__handle_stop(simba__handle *handle);
/* Wait until something has happened to it (simba__wake), running its callbacks; see simba__wait. */
void simba__handle_wait(simba__handle *handle, simba_local until);

/* --- without the lock -------------------------------------------------------------------------------- */

/* Stop it and drop the application's reference. It is freed as soon as it has stopped; `wait` for that, but not inside its own
 * callback. */
void simba__handle_free(simba__handle *handle, bool wait);

#endif
