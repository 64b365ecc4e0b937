/* The tools of every case of the conformance kit: the case's context, which owns everything that a case makes, so that
 * a case may give up at any line; checks that record the first failure; waits that end when the timeout is over;
 * clients.
 *
 * Locks. `tck.lock` guards everything that cases and callbacks share. A thread that holds it may call functions of the
 * library that do not wait. Callbacks of the library take it, except the log: that runs inside the library's own locks
 * and takes `tck_said.lock`. */
#ifndef TCK_KIT_H
#define TCK_KIT_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <simba.h>
#include <simba/backend.h>
#include <stdio.h>

#include "fault_wrapper.h"

#define TCK_NS_PER_MS INT64_C(1000000)
#define TCK_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct tck tck;
typedef struct tck_client tck_client;
typedef struct tck_arena tck_arena;
typedef struct tck_probe tck_probe;
typedef struct tck_cleanup tck_cleanup;
typedef struct tck_thread tck_thread;

/* The last warnings of a case's clients. If the store is to blame, they say so. */
typedef struct tck_said {
    pthread_mutex_t lock;
    unsigned count;
    char texts[8][160];
} tck_said;

struct tck {
    /* The store and the settings; the same during a whole run. */
    const char *url;
    unsigned caps;
    int64_t ttl_ms, transition_ms, timeout_ms;
    FILE *out;
    bool verbose;
    const volatile sig_atomic_t *interrupted;
    char slot[4]; /* a part of our mutexes' names that no other run has now, see tck.c */

    /* The case that runs now. */
    const char *name;
    int64_t began_ns;
    jmp_buf given_up;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled at every change that a case may wait for */
    bool ending;            /* callbacks that wait for something have to return */
    bool failed;
    char failure[700];
    tck_said said;
    tck_client *clients;
    tck_probe *probes;
    tck_cleanup *cleanups;
    tck_thread *threads;
};

struct tck_client {
    tck_client *next;
    tck *kit;
    simba_client *handle; /* NULL: closed */
    tck_fault *fault;     /* NULL: opened directly */
};

/* A case, the capabilities that a store needs for it, and those with which it makes no sense. */
typedef struct tck_case {
    const char *name;
    unsigned needs;
    unsigned unless;
    void (*run)(tck *t);
} tck_case;

/* The cases of each file; the last has no name. */
extern const tck_case tck_cases_lifecycle[];
extern const tck_case tck_cases_callbacks[];
extern const tck_case tck_cases_contention[];
extern const tck_case tck_cases_takeover[];
extern const tck_case tck_cases_faults[];
extern const tck_case tck_cases_pushes[];
extern const tck_case tck_cases_scheduler[];
extern const tck_case tck_cases_observer[];
extern const tck_case tck_cases_locker[];
extern const tck_case tck_cases_names[];
extern const tck_case tck_cases_limits[];
extern const tck_case tck_cases_notes[];
extern const tck_case tck_cases_words[];

/* --- checks ------------------------------------------------------------------------------------- */

/* Record a failure; only the first of a case counts. Any thread may call it; tck_fail_locked needs the lock. */
void tck_fail(tck *t, const char *file, int line, const char *format, ...) __attribute__((format(printf, 4, 5)));
void tck_fail_locked(tck *t, const char *file, int line, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Record a failure and end the case, from wherever its own thread is. What makes clients and handles for a case does so, so it never
 * returns without them. */
_Noreturn void tck_give_up(tck *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Give up the case (a function that returns nothing) unless the condition holds. */
#define TCK_REQUIRE(t, condition)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            tck_fail((t), __FILE__, __LINE__, "%s", #condition);                                                       \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

/* The same for a call of the library; the failure names the code that it answered. */
#define TCK_REQUIRE_RC(t, expected, call)                                                                              \
    do {                                                                                                               \
        const int rc_ = (call);                                                                                        \
        if (rc_ != (expected)) {                                                                                       \
            tck_fail((t), __FILE__, __LINE__, "%s is %s, not %s", #call, tck_code(rc_), tck_code(expected));           \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

/* "0" or the name of the error. */
const char *tck_code(int code);

/* --- waiting ------------------------------------------------------------------------------------ */

void tck_lock(tck *t);
void tck_unlock(tck *t);
void tck_notify(tck *t); /* with or without the lock */
int64_t tck_now_ns(void);

/* Somebody wants the run to end. */
bool tck_is_interrupted(const tck *t);

/* With the lock held: wait for a notification, but only for a moment, because not every change notifies. False: the deadline
 * has passed, the case has failed, it ends, or the run is interrupted. */
bool tck_pause(tck *t, int64_t deadline_ns);

/* Wait until the condition, which is evaluated under the lock, holds. The value says whether it does. */
#define TCK_WAIT_UNTIL(t, condition, ms)                                                                               \
    ({                                                                                                                 \
        const int64_t deadline_ = tck_now_ns() + (ms)*TCK_NS_PER_MS;                                                   \
        bool met_;                                                                                                     \
        tck_lock(t);                                                                                                   \
        while (!(met_ = (condition)) && tck_pause((t), deadline_)) {                                                   \
        }                                                                                                              \
        tck_unlock(t);                                                                                                 \
        met_;                                                                                                          \
    })

/* Give up the case unless the condition comes to hold before the timeout. */
#define TCK_AWAIT(t, condition)                                                                                        \
    do {                                                                                                               \
        if (!TCK_WAIT_UNTIL(t, condition, (t)->timeout_ms)) {                                                          \
            tck_fail((t), __FILE__, __LINE__, "waited in vain for: %s", #condition);                                   \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

/* Give up the case unless the condition, evaluated under the lock, holds now. */
#define TCK_REQUIRE_NOW(t, condition)                                                                                  \
    do {                                                                                                               \
        tck_lock(t);                                                                                                   \
        const bool holds_ = (condition);                                                                               \
        tck_unlock(t);                                                                                                 \
        if (!holds_) {                                                                                                 \
            tck_fail((t), __FILE__, __LINE__, "%s", #condition);                                                       \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

/* Give up the case if the condition comes to hold within `ms`. */
#define TCK_NEVER(t, condition, ms)                                                                                    \
    do {                                                                                                               \
        if (TCK_WAIT_UNTIL(t, condition, ms)) {                                                                        \
            tck_fail((t), __FILE__, __LINE__, "must not happen: %s", #condition);                                      \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

/* --- leases ------------------------------------------------------------------------------------- */

static inline int64_t tck_lease_ms(const tck *t)
{
    return t->ttl_ms + t->transition_ms;
}

/* The leases of the run. They have a stop margin, so that a callback thread that gets the processor late is no breach
 * of promise, and a known jitter. */
simba_timing tck_timing(const tck *t);
/* Leases that are renewed as often, but last as long as the timeout: a holder that gets the processor late keeps them.
 * If the store pushes nothing, waiters would sleep that long, so there they are the leases of the run. */
simba_timing tck_timing_steady(const tck *t);
/* Leases so long that an event well before their end cannot be due to their end. */
simba_timing tck_timing_long(const tck *t);
/* Either of them as an option: leases that are sessions leave out the members that do not apply to them. */
simba_timing tck_timing_option(const tck *t, simba_timing timing);

/* --- what a case makes -------------------------------------------------------------------------- */

/* The kit undoes all of this after the case: it heals faults, joins threads, frees handles, closes clients. NULL: it
 * failed, and the case knows. */

/* Zeroed memory, freed after everything else. Never NULL. */
void *tck_alloc(tck *t, size_t size);

/* After the case: `interrupt` (may be NULL) makes threads return, then `destroy` frees. The last made goes first. */
void tck_defer(tck *t, void (*interrupt)(void *arg), void (*destroy)(void *arg), void *arg);

tck_client *tck_client_new(tck *t);
/* A client with a remote control. `op_timeout_ms`: how long it waits for one answer; 0: the default. */
tck_client *tck_client_faulty(tck *t, int64_t op_timeout_ms);
/* A fault client for cuts: it gives up an answer after a quarter of the lease. */
tck_client *tck_client_nervous(tck *t);
/* A fault client for held replies: it waits as long as the kit does. */
tck_client *tck_client_patient(tck *t);
/* A fault client whose log, from SIMBA_LOG_INFO on, goes to the case. */
tck_client *tck_client_heard(tck *t, simba_log_record_fn hear, void *user);
/* Close it before the case is over. */
int tck_client_close(tck_client *client);
/* All zero if the library refuses to tell. */
simba_stats tck_client_stats(const tck_client *client);

/* A locker of this client. */
simba_locker *tck_locker_new(tck *t, tck_client *client, const char *mutex, simba_timing timing);
simba_locker *tck_locker_slots(tck *t, tck_client *client, const char *mutex, simba_timing timing, int slots);

/* How often something happened at the store of a client with a remote control. */
static inline uint64_t tck_client_count(const tck_client *client, int op, tck_count what)
{
    return tck_fault_count(client->fault, op, what);
}

/* Let leases pass while the client holds one mutex: wait for that many renewals, or in a store of sessions for as long
 * as they would take. False: they did not come. */
bool tck_outlive(tck_client *client, unsigned renewals);

void tck_thread_run(tck *t, void (*run)(void *arg), void *arg);
/* Wait for the threads that the case has made until now. */
void tck_threads_join(tck *t);

/* "tck-SLOT-CASE" and, unless it is NULL, "-SUFFIX". */
const char *tck_mutex(tck *t, const char *suffix);
/* The name that has no "tck-": 66 characters of four bytes, so the slot as well. */
void tck_mutex_widest(const tck *t, char ret_name[SIMBA_MUTEX_BYTES + 1]);

/* --- for the runner ----------------------------------------------------------------------------- */

void tck_begin(tck *t, const char *name);
/* Undo everything that the case made, except for memory: the runner can still read its failure and its records. */
void tck_settle(tck *t);
void tck_said_dump(tck *t);
void tck_end(tck *t);

#endif
