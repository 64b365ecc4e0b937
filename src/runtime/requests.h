/* The path of a request: an application's call or a timer submits it, the end of the turn hands it to the store, the
 * store completes it, and the turn takes the answer. Only this code keeps the deadlines of requests. When the time of a
 * request is over, it tells the store to let go of the request and to fail it. But while a request stands in line behind
 * others that are being answered, it puts the deadline off: if the request failed and was made again, the line would only get
 * longer.
 *
 * Call everything in here in a turn. The hosts of the simulator and of the tests use it too, so that they run the
 * code that ships. */
#ifndef SIMBA_RUNTIME_REQUESTS_H
#define SIMBA_RUNTIME_REQUESTS_H

#include <simba/backend.h>

typedef struct simba__requests {
    simba_host *host;
    const simba_backend *backend;
    void *store;
    simba_request *outbox_first, **outbox_last; /* submitted, not yet handed to the store */
    simba_request *outstanding;                 /* a heap of the requests that the store has; this one is due first */
    simba_request *completed_first, **completed_last; /* nobody has taken the answer yet */
    simba_timer deadline; /* fires at the latest when the time of `outstanding` is over; may fire in vain */
} simba__requests;

/* Adds a timer to the host. SIMBA_ENOMEM. */
int simba__requests_init(simba__requests *requests, simba_host *host, const simba_backend *backend, void *store);
void simba__requests_submit(simba__requests *requests, simba_request *request);
/* Hand all submitted requests to the store; the caller then flushes it. A request whose time is already over fails,
 * and the store does not see it. Returns how many requests the store got. */
size_t simba__requests_hand_over(simba__requests *requests, simba_local now);
/* After the flush: set the timer for the deadlines of the requests that the store still has. */
void simba__requests_arm(simba__requests *requests);
/* For the host's `complete` and `fail`: the store has let go of the request and filled in its reply. */
void simba__requests_complete(simba__requests *requests, simba_request *request);
/* Does the store have the request, or will it be handed over soon? */
bool simba__requests_has(const simba_request *request);
/* Has the store answered, and has nobody taken the answer yet? */
bool simba__requests_answered(const simba_request *request);
/* The next completed request; NULL: there is none. */
simba_request *simba__requests_take(simba__requests *requests);
/* The store is closed, and has no requests any more. */
void simba__requests_close(simba__requests *requests);

#endif
