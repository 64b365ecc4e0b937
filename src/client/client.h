/* The inside of a client: one lock, one thread that polls, one window of requests. Everything here happens under the lock, except
 * what is marked "any thread" or "without the lock". loop.c has the lock and all waiting, client.c opens and closes. */
#ifndef SIMBA_CLIENT_CLIENT_H
#define SIMBA_CLIENT_CLIENT_H

#include <pthread.h>
#include <simba/backend.h>
#include <stdatomic.h>

#include "client/callbacks.h"
#include "client/jobs.h"
#include "client/timers.h"
#include "client/watches.h"
#include "client/window.h"
#include "core/timing.h"
#include "net/reactor.h"
#include "util/list.h"

typedef enum simba__store_state { SIMBA__STORE_UNKNOWN, SIMBA__STORE_ANSWERS, SIMBA__STORE_FAILS } simba__store_state;

struct simba_client {
    simba_host host; /* first: a host is its client */
    const simba_backend *backend;
    void *store; /* the back end's instance */
    simba_url *url;
    simba__timing timing;
    simba_client_options options;
    unsigned fork_generation;
    _Atomic unsigned refs; /* the application's, and one for every handle */

    pthread_mutex_t lock;
    _Atomic pthread_t locked_by; /* 0: nobody. Any thread may look whether it is itself */
    simba_local now;             /* read when the lock was taken */
    simba__list waiters;         /* threads that sleep in simba__wait */
    simba__list woken;           /* of those: to be woken when the lock is released */
    bool polled;                 /* a thread waits at the reactor, or is about to: the loop thread always */
    const void *polled_for;      /* what a thread of the application waits for there; NULL: none does */
    pthread_t loop;              /* the client's own thread */
    bool looped, quit;           /* it runs; it is to end */

    simba__reactor reactor;
    simba__timers timers;
    simba__jobs jobs;
    simba__callbacks callbacks;
    simba__watches watches;
    simba__window window;
    atomic_bool wake_wanted; /* the store wants `woken` to be called */

    simba__list handles;
    unsigned running;  /* handles that are started and not yet stopped */
    unsigned calls;    /* of calls.c and notes.c, under way */
    uint64_t notes;    /* that were written, or tried to be */
    bool closing;      /* the client begins nothing new */
    bool closed;       /* nothing is left to end */
    bool store_closed; /* or not opened yet */

    _Atomic int64_t session_until_ns; /* INT64_MAX where leases are not sessions */
    _Atomic int64_t session_ms;       /* where they are: how long one lasts, as asked for and later as granted */
    simba_timer session_overdue;      /* likewise: when a sign of life is overdue */

    simba__store_state store_state; /* as last logged */
    char said_server[64];
    bool said_forgets;      /* that the store forgets what it grants when its server restarts */
    simba_error last_cause; /* the latest error of the store, so that 100,000 contenders do not all report it */
    simba_local last_cause_at;
    uint64_t last_cause_successes; /* grants and renewals until then */

    simba_stats stats;
    int64_t boot_minus_mono_ns; /* to see that the machine slept */
};

/* --- client.c: any thread, without the lock ---------------------------------------------------------- */

/* The last reference frees the memory. */
void simba__client_unref(simba_client *client);
/* 0 or SIMBA_EFORKED; also under the lock. */
int simba__client_forked(const simba_client *client, simba_error *err);
/* Is this a valid name for a mutex, also in this store? SIMBA_EINVAL. */
int simba__client_check_mutex(const simba_client *client, const char *mutex, simba_error *err);

/* host.c: fill in client->host. The client's back end and timing must be set. SIMBA_ENOMEM. */
int simba__host_init(simba_client *client);

/* --- loop.c ------------------------------------------------------------------------------------------ */

int simba__loop_init(simba_client *client);
/* Start the client's own thread. SIMBA_ESYSTEM. */
int simba__loop_start(simba_client *client, simba_error *err);
void simba__loop_stop(simba_client *client);
void simba__loop_fini(simba_client *client);

/* Take the lock, and release it. Before it is released, the store gets what it is to get and callbacks go to the executor. */
void simba__lock(simba_client *client);
void simba__unlock(simba_client *client);
/* Take the lock, but not in a child of fork(), where it belongs to the parent: SIMBA_EFORKED; `open`: nor if the client is closed:
 * SIMBA_ECLOSED. After an error the lock is not taken. */
int simba__lock_checked(simba_client *client, bool open, simba_error *err);
/* Release the lock until this thread takes it again at once, around code of the application. */
void simba__pause(simba_client *client);
/* Is the lock this thread's? Any thread. */
bool simba__is_locked_here(const simba_client *client);

/* Wait until something has happened that another thread tells by simba__wake of the same pointer, or until the time has come.
 * Meanwhile this thread may read what the store says, or run a job of its own. Like any wait it may return for no reason: the
 * caller looks, and waits again. */
void simba__wait(simba_client *client, const void *awaits, simba_local until);
/* The same, but this thread only sleeps. */
void simba__sleep(simba_client *client, const void *awaits, simba_local until);
void simba__wake(simba_client *client, const void *awaits);
void simba__wake_one(simba_client *client, const void *awaits);

/* Any thread: look after the store soon (host->wake). */
void simba__loop_wake(simba_client *client);

#endif
