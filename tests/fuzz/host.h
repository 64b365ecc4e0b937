/* Takes the place of the client, so that a target drives a whole store: one thread, a clock that the target moves, and
 * connections whose other end is the target. It checks what a store answers as the client does. */
#ifndef SIMBA_TESTS_FUZZ_HOST_H
#define SIMBA_TESTS_FUZZ_HOST_H

#include <simba/backend.h>

#include "client/window.h"
#include "fuzz/fuzz.h"
#include "net/link.h"

enum { FUZZ_TIMERS = 256, FUZZ_LINKS = 128, FUZZ_REQUESTS = 24, FUZZ_IOS = 32 };

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

/* Connections, in place of net/link.c: they find nothing out by themselves. All that are there, in the order of their making. */
extern simba__link *fuzz_links[FUZZ_LINKS];
extern size_t fuzz_link_count;
/* One that was asked for is made, or refused. */
void fuzz_link_connect(simba__link *link, bool refused);
/* Is called with what is sent by them; NULL: it is read as commands of Redis. */
extern void (*fuzz_link_sent)(const simba__link *link, const char *bytes, size_t length);
/* The first word of the next command that was sent by it, as Redis's clients write commands, and that was not taken yet. False:
 * there is none. */
enum { FUZZ_WORD = 16 };
bool fuzz_link_asked(const simba__link *link, char ret_word[FUZZ_WORD]);
/* These bytes come by one that is up. */
void fuzz_link_deliver(simba__link *link, const char *data, size_t length);

#endif
