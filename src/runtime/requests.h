/* The way of a request: an application's call or a timer submits it, the end of the turn hands it to the store, the store
 * completes it, and the turn takes the answer. Here is also the only place that keeps the deadlines of requests. When the time
 * of a request is over, the store is told to let go of it and to fail it.
 *
 * Everything in here is called in a turn. The host of the simulator and that of the tests use it too, so that they run what
 * ships. */
#ifndef SIMBA_RUNTIME_REQUESTS_H
#define SIMBA_RUNTIME_REQUESTS_H

#include <simba/backend.h>

typedef struct simba__requests {
    simba_host *host;
    const simba_backend *backend;
    void *store;
    simba_request *outbox_first, **outbox_last;       /* submitted, not yet handed to the store */
    simba_request *outstanding;                       /* the store has it, and its deadline is the earliest; a heap */
    simba_request *completed_first, **completed_last; /* the answer has not been taken yet */
    simba_timer deadline; /* at the latest when the time of `outstanding` is over; may be set for nothing */
} simba__requests;

/* Adds a timer to the host. SIMBA_ENOMEM. */
int simba__requests_init(simba__requests *requests, simba_host *host, const simba_backend *backend, void *store);
void simba__requests_submit(simba__requests *requests, simba_request *request);
/* Hand everything that was submitted to the store, which the caller then flushes. A request whose time is over by then fails
 * without the store having seen it. Returns how many the store was given. */
size_t simba__requests_hand_over(simba__requests *requests, simba_local now);
/* After the flush: have the deadlines of the requests that the store still has kept. */
void simba__requests_arm(simba__requests *requests);
/* For the host's `complete` and `fail`: the store has let go of the request, whose reply is filled in. */
void simba__requests_complete(simba__requests *requests, simba_request *request);
/* Does the store have it, or is it about to be handed over? */
bool simba__requests_has(const simba_request *request);
/* The next completed request; NULL: there is none. */
simba_request *simba__requests_take(simba__requests *requests);
/* The store is closed, and has nothing any more. */
void simba__requests_close(simba__requests *requests);

#endif
