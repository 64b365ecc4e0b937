/* Takes the place of the client, so that a test or a fuzz target can drive a back end at the level of its contract: one thread, a
 * reactor and jobs that run only when the test says so, and clocks that the test can shift. It checks what the back end says as the
 * client does. The store behind the back end is the real one, or what the test plays. */
#ifndef SIMBA_TESTS_LIB_TESTHOST_H
#define SIMBA_TESTS_LIB_TESTHOST_H

#include <simba/backend.h>

#include "client/window.h"
#include "net/reactor.h"

enum { TESTHOST_TIMERS = 256, TESTHOST_PUSHES = 64, TESTHOST_LISTED = 64, TESTHOST_FOUND = 16 };

typedef struct testhost_push {
    simba_watch *watch;
    uint64_t nonce; /* of push_to; 0: it was push */
    simba_push push;
} testhost_push;

typedef struct testhost_listed {
    char mutex[SIMBA_MUTEX_BYTES + 1];
    simba_owner owner;
    int64_t now_ms;
    int64_t waiters;
    char next[SIMBA_ID_MAX + 1]; /* "": not known */
    size_t note_length;
} testhost_listed;

typedef struct testhost_found {
    simba_verdict verdict;
    char what[32];
    char text[256];
} testhost_found;

typedef struct testhost testhost;
struct testhost {
    simba_host host; /* first */
    simba__reactor reactor;
    const simba_backend *backend;
    void *store;
    simba__window window;

    int64_t now_shift_ns; /* added to the real clocks */
    simba_local still_at; /* 0, or the time at which the clock stands still but for now_shift_ns */
    int64_t epoch_shift_us;
    uint64_t seed;               /* not 0: of random numbers, and the time of day goes by the clock that stands still */
    void (*on_now)(testhost *h); /* called whenever the back end looks at the clock; may be NULL */
    void *user;

    simba_job *first_job, **last_job;
    unsigned jobs_run;
    bool wake_wanted;
    bool closing, closed;
    simba_timer *timers[TESTHOST_TIMERS];
    size_t timer_count;

    testhost_push pushes[TESTHOST_PUSHES]; /* but for NOTED */
    size_t push_count;
    testhost_listed listed[TESTHOST_LISTED];
    size_t listed_count;
    testhost_found found[TESTHOST_FOUND];
    size_t found_count;
    simba_note note; /* of the latest READ_NOTE that found one */
    unsigned noted_count;
    unsigned warnings;
    unsigned forgets; /* how often the store has said that it keeps nothing */
    char log[512];    /* the latest line */
};

/* A request of the test's own. The store gets a copy of it; the reply is filled in here. */
typedef struct testhost_request {
    simba_request request;
    simba__request *sent; /* what the store has; NULL: nothing, or no more */
    bool unasked;         /* there was no memory for it: it has failed, and the store never saw it */
    bool done;
    simba_error error;
} testhost_request;

/* Open a store. After a failure there is nothing to close. */
int testhost_open(testhost *h, const simba_backend *backend, const char *url, simba_error *err);
/* The same, where nothing is left to chance: the clock stands still, and random numbers are the same each time. */
int testhost_open_still(testhost *h, const simba_backend *backend, const char *url, simba_error *err);
/* Close the store as the client would, and check that it ends. */
void testhost_close(testhost *h);

/* Shorthand for a request with ttl 10 s, transition 6 s and a deadline in 4 s. */
testhost_request testhost_request_of(testhost *h, simba_op op, const char *mutex, const char *id, uint64_t nonce,
                                     uint64_t token);
/* Submit without flushing; flush; run the queued jobs and the jobs that follow from them. */
void testhost_submit(testhost *h, testhost_request *r);
void testhost_flush(testhost *h);
/* Its time is over: nobody waits for the answer any more, and the store may keep the request. */
void testhost_expire(testhost *h, testhost_request *r);
void testhost_run_jobs(testhost *h);
/* Call it after the test itself has called the back end: carries out its wake-ups. */
void testhost_end_section(testhost *h);
/* Do all three, and then run the reactor until the request is done. Returns its reply. */
const simba_reply *testhost_ask(testhost *h, testhost_request *r);

int testhost_watch(testhost *h, simba_watch *watch);
void testhost_unwatch(testhost *h, simba_watch *watch);

/* Fire the timers that are due, and timers that these set for now. */
void testhost_fire(testhost *h);
/* Let time pass: shift the clock, fire each timer when it is due, run the jobs. */
void testhost_advance(testhost *h, int64_t ms);
/* Run the loop and the jobs until `push_count` has reached `count`. False: ten seconds have passed. */
bool testhost_await_pushes(testhost *h, size_t count);
/* Run the loop, the jobs and the timers that are due in real time for this long, or until *until holds (may be NULL).
 * True: it does. */
bool testhost_pump(testhost *h, const bool *until, int64_t ms);
/* Run the loop and the jobs as far as they go without waiting. */
void testhost_settle(testhost *h);

#endif
