/* The way of a request: a step of a handle or a call of the application makes it and adds it to a queue, the client hands it to
 * the store as soon as there is room, and the store completes it.
 *
 * The store has at most so many requests at a time, and the rest waits here: renewals first, then releases and notes in the order
 * in which they came, then everything else. Each of the three is counted apart, so that a renewal waits only behind other
 * renewals. A deadline counts from handing over: an overload makes requests wait in a queue, and the queue is waited for as
 * long as the store answers anything at all. But a renewal that had to wait leaves time for another one before the lease ends.
 *
 * A request whose deadline has come fails for whoever made it, and keeps its place until the store has completed it: otherwise an
 * overload would feed itself, because the server still works on what is asked again.
 *
 * Everything happens under the client's lock. The hosts of the simulator, the fuzzers and the tests use this code too. */
#ifndef SIMBA_CLIENT_WINDOW_H
#define SIMBA_CLIENT_WINDOW_H

#include <simba/backend.h>

#include "util/list.h"

typedef struct simba__request simba__request;

struct simba__request {
    simba_request shown; /* first: the part that the store sees */
    simba__list_item item;
    /* The request is over: its reply is filled in, and `error` says why it failed (NULL: it did not). Not called once `of` is
     * NULL. The request is freed afterwards. */
    void (*done)(simba__request *request, const simba_error *error);
    void *of; /* who made it; NULL: nobody waits for the answer any more */
    void *extra;
    int64_t timeout_ns;  /* from handing over */
    simba_local latest;  /* the latest deadline, if it is handed over before; 0: any */
    simba_local sent_at; /* when it was handed over; 0: not yet */
    char id[SIMBA_ID_MAX + 1];
};

typedef struct simba__window {
    simba_host *host;
    const simba_backend *backend;
    void *store;
    unsigned room;      /* for as many requests of each queue */
    int64_t silence_ns; /* after so long without any answer the store counts as silent */
    /* The first queue whose requests fail then. Where leases are sessions, a release that is not sent would leave the mutex owned
     * for as long as the session lives: releases and notes stay until they are sent, or the session is over. */
    int first_to_fail;
    simba__list queued[3];    /* RENEW; RELEASE and WRITE_NOTE; all others */
    simba__list outstanding;  /* the store has them */
    unsigned handed_over[3];  /* how many of those are of each queue */
    simba__request *expiring; /* the store is being told of this one; NULL again if it has completed it */
    simba__request *staying;  /* this one fails, and keeps its place */
    uint64_t total;           /* requests that were ever handed over */
    simba_local answered_at;  /* the store's latest answer, or the beginning of the wait for the first */
    simba_timer timer;        /* the earliest deadline, or the end of the silence; may fire in vain */
} simba__window;

/* Adds a timer to the host. SIMBA_ENOMEM. */
int simba__window_init(simba__window *window, simba_host *host, const simba_backend *backend, void *store,
                       int64_t silence_ns);

/* Make a request. It has its own copies of the names and of the note. NULL: out of memory. */
simba__request *simba__request_new(const simba_request *shown, int64_t timeout_ns);

/* Put it in its queue. From now on it belongs to the window. */
void simba__window_add(simba__window *window, simba__request *request);
/* Whoever made the request does not need it any more: it fails now, unless the store has it. */
void simba__window_withdraw(simba__window *window, simba__request *request);
/* Hand over all that there is room for, and set the timer. True: there were some, and the caller flushes the store. */
bool simba__window_hand_over(simba__window *window, simba_local now);

/* For the host's `complete` and `fail`: the reply is filled in. Calls `done`, which may add requests, and frees the request. */
void simba__window_complete(simba__window *window, simba_request *shown, const simba_error *error, simba_local now);

/* The store is closed, and has no requests any more. Fails those that are still queued. */
void simba__window_close(simba__window *window);

#endif
