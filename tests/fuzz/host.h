/* Takes the place of the client, so that a target drives a whole store: one thread, a clock that the target moves, and
 * connections whose other end is the target. It checks what a store answers as the client does. */
#ifndef SIMBA_TESTS_FUZZ_HOST_H
#define SIMBA_TESTS_FUZZ_HOST_H

#include <simba/backend.h>

#include "client/window.h"
#include "fuzz/fuzz.h"

enum { FUZZ_TIMERS = 256, FUZZ_REQUESTS = 24, FUZZ_IOS = 64 };

typedef struct fuzz_host {
    simba_host host; /* first */
    const simba_backend *backend;
    void *store;
    simba__window window;
    int64_t now_ns;
    uint64_t seed;
    bool woken, closed;
    simba_timer *timers[FUZZ_TIMERS];
    size_t timer_count;
    simba_job *first_job;
    simba_io *ios[FUZZ_IOS];
    size_t io_count;
    size_t waiting; /* requests whose answer somebody waits for */
} fuzz_host;

/* Open a store. False: it does not open; there is nothing to close then. */
bool fuzz_host_open(fuzz_host *h, const simba_backend *backend, const char *url);
/* Close it, and check that everything comes to an end. */
void fuzz_host_close(fuzz_host *h);
/* Ask for a copy of this, unless too much is asked for already. */
void fuzz_host_ask(fuzz_host *h, const simba_request *request);
/* Hand over what there is room for, and do what the store wants done. */
void fuzz_host_settle(fuzz_host *h);
/* Descriptors that are ready are told to the store, once around. */
void fuzz_host_poll(fuzz_host *h);
/* Let time pass, and the timers that are due go off. */
void fuzz_host_advance(fuzz_host *h, int64_t ms);

#endif
