/* The inside of a client. A client has one lock, one thread that polls, and one window of requests. Everything happens under the
 * lock, except what is marked "any thread" or "without the lock". handle.h has what contenders, lockers, schedulers and observers
 * are made of. */
#ifndef SIMBA_CLIENT_CLIENT_H
#define SIMBA_CLIENT_CLIENT_H

#include <pthread.h>
#include <simba/backend.h>
#include <stdatomic.h>

#include "client/timers.h"
#include "client/window.h"
#include "core/timing.h"
#include "net/reactor.h"
#include "util/list.h"
#include "util/table.h"

typedef struct simba__handle simba__handle;

/* --- watches.c: the mutexes that handles name ------------------------------------------------------------ */

typedef struct simba__watch simba__watch;
struct simba__watch {
    simba_watch shown; /* first: the part that the store sees */
    simba__node node;
    simba__watch *changed_next;
    simba__list handles; /* started ones, in the order in which they started */
    unsigned refs;       /* handles that name it, started or not */
    unsigned interested; /* how many of them want to hear of it */
    unsigned observing;  /* and how many of every change */
    bool watched;        /* the store watches it */
    bool changed;        /* look whether the store should */
    char mutex[];
};

typedef struct simba__watches {
    simba__table table; /* by name */
    simba__watch *changed;
    bool keeps;  /* watching costs the store nothing: what is watched stays watched while it is named */
    bool ending; /* unwatch everything */
} simba__watches;

/* Find or make. NULL: out of memory. Counts as a reference until simba__watches_put. */
simba__watch *simba__watches_get(simba__watches *watches, const char *mutex);
void simba__watches_put(simba__watches *watches, simba__watch *watch);
/* NULL: there is none. */
simba__watch *simba__watches_find(const simba__watches *watches, const char *mutex);
/* Does this handle want to hear what happens to its mutex? Said in each of its steps: if the store had no memory to watch, it is
 * asked again. */
void simba__watches_want(simba__watches *watches, simba__handle *handle, bool wants);
/* Tell the store: watch, unwatch; and free what nobody names any more. */
void simba__watches_settle(simba__watches *watches, const simba_backend *backend, void *store);
/* The client closes: unwatch everything. */
void simba__watches_end(simba__watches *watches);
void simba__watches_fini(simba__watches *watches);
/* A push of the store for all handles of this mutex. News goes to all of them. An invitation (RELEASED, CHANGED) goes to observers
 * and the holder, and to waiting contenders until one can use it: the others would only lose against that one. */
void simba__watches_push(simba__watch *watch, const simba_push *push, simba_local now);
/* A push for one incarnation of a contender. */
void simba__watches_push_to(const simba__watches *watches, const char *mutex, uint64_t nonce, const simba_push *push,
                            simba_local now);
/* Tell a handle that the note may be another one, if the push says so: one that was lost may have been about the note. */
void simba__watches_tell_note(simba__handle *handle, const simba_push *push);

/* --- jobs.c: work of stores that blocks, and the threads that do it ------------------------------------- */

enum { SIMBA__WORKERS_MAX = 16 };

typedef struct simba__jobs {
    simba_job *first, **last;
    unsigned unannounced; /* how many at the end of the queue no worker was told of */
    pthread_t threads[SIMBA__WORKERS_MAX];
    unsigned count; /* of threads */
    bool ready, quit;
} simba__jobs;

/* Without the lock. SIMBA_ESYSTEM. */
int simba__jobs_start(simba_client *client, unsigned threads, simba_error *err);
/* Without the lock, after the last job is done; also after a start that failed or never was. */
void simba__jobs_stop(simba_client *client);
/* A thread that waits for an outcome runs the job that its own call has led to: then an uncontended lock needs no change of
 * thread. So workers hear of a job only when the lock is released. */
void simba__jobs_add(simba__jobs *jobs, simba_job *job);
void simba__jobs_announce(simba_client *client);
/* Run a job that no worker knows of, if there is one. False: there is none. Releases the lock meanwhile. */
bool simba__jobs_help(simba_client *client);

/* --- callbacks.c: runs the application's callbacks ------------------------------------------------------- */

typedef struct simba__callbacks {
    simba__list queued;      /* handles that have something to run */
    simba__list dead;        /* handles to be destroyed when the lock is released */
    simba__list threads;     /* of the pool */
    unsigned idle;           /* how many of those have nothing to do */
    simba_timer stalled;     /* looks whether any thread of the pool makes progress */
    simba_local progress_at; /* when one of them last began with a handle */
    bool ready, quit;
} simba__callbacks;

/* Without the lock. SIMBA_ENOMEM, SIMBA_ESYSTEM. */
int simba__callbacks_start(simba_client *client, simba_error *err);
/* Without the lock, after the last callback has run. Also if it was never started. */
void simba__callbacks_stop(simba_client *client);
/* This handle has something to run. */
void simba__callbacks_add(simba__handle *handle);
/* Run all that is queued on this thread. Returns how many callbacks ran. */
unsigned simba__callbacks_run(simba_client *client);
/* Run those of this handle on this thread, if they are queued: a thread that waits for them may be the very thread that is to run
 * them. False: there was nothing to run. */
bool simba__callbacks_help(simba__handle *handle);
/* Pass what is queued to the executor. False: there was nothing. */
bool simba__callbacks_hand_over(simba_client *client);
/* Any thread: does this thread run a callback of this handle (NULL: of any) of the client? */
bool simba__callbacks_are_inside(const simba_client *client, const simba__handle *handle);

/* --- the client --------------------------------------------------------------------------------------- */

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
    pthread_mutex_t door;        /* the poller has it while it waits for the lock; the others wait there then */
    _Atomic pthread_t locked_by; /* 0: nobody. Any thread may look whether it is itself */
    simba_local now;             /* read when the lock was taken */
    simba__list waiters;         /* threads that sleep in simba__wait */
    simba__list woken;           /* of those: to be woken when the lock has been released */
    const void *polled_for;      /* what a thread of the application waits for at the reactor; NULL: none does */
    pthread_t loop;              /* the client's own thread */
    bool polled;                 /* a thread waits at the reactor, or is about to: the loop thread always */
    bool looped, quit;           /* the loop thread runs; it is to end */
    atomic_bool poller_waits;    /* at the lock */
    atomic_bool wake_wanted;     /* the store wants `woken` to be called */
    bool closing;                /* the client begins nothing new */
    bool closed;                 /* nothing is left to end */
    bool store_closed;           /* or not opened yet */

    simba__reactor reactor;
    simba__timers timers;
    simba__jobs jobs;
    simba__callbacks callbacks;
    simba__watches watches;
    simba__window window;

    simba__list handles;
    unsigned running; /* handles that are started and not yet stopped */
    unsigned calls;   /* of calls.c and notes.c, under way */
    uint64_t notes;   /* that were written, or tried to be */

    _Atomic int64_t session_until_ns; /* INT64_MAX where leases are not sessions */
    _Atomic int64_t session_ms;       /* where they are: how long one lasts, as asked for and later as granted */
    simba_timer session_overdue;      /* likewise: when a sign of life is overdue */

    simba__store_state store_state; /* as last logged */
    bool said_forgets;              /* that the store forgets what it grants when its server restarts */
    char said_server[64];
    simba_error last_cause; /* the latest error of the store, so that 100,000 contenders do not all report it */
    simba_local last_cause_at;
    uint64_t last_cause_successes; /* grants and renewals until then */

    simba_stats stats;
    int64_t boot_minus_mono_ns; /* to see that the machine slept */
};

/* --- open.c: any thread, without the lock ---------------------------------------------------------- */

/* The last reference frees the memory. */
void simba__client_unref(simba_client *client);
/* Is this a valid name for a mutex, also in this store? SIMBA_EINVAL. */
int simba__client_check_mutex(const simba_client *client, const char *mutex, simba_error *err);

/* --- host.c: the client as its store sees it ---------------------------------------------------------- */

/* Fill in client->host. The client's back end and timing must be set. SIMBA_ENOMEM. */
int simba__host_init(simba_client *client);
/* The host's `listed` and `found` (calls.c) and `noted` (notes.c). SIMBA_ETIMEDOUT: nobody waits for it any more. */
int simba__calls_listed(simba_host *host, simba_request *request, const simba_listing *listing);
int simba__calls_found(simba_host *host, simba_request *request, const simba_finding *finding);
int simba__notes_read(simba_host *host, simba_request *request, const simba_stored_note *stored);

/* --- loop.c ------------------------------------------------------------------------------------------ */

/* Begin to count forks; any thread, more than once. */
void simba__loop_watch_forks(simba_client *client);
/* Start a thread that takes no signals, so that they go to the application's threads. 0 or an errno. */
int simba__thread_create(pthread_t *thread, void *(*run)(void *), void *arg);
/* Start the client's own thread. SIMBA_ESYSTEM. */
int simba__loop_start(simba_client *client, simba_error *err);
void simba__loop_stop(simba_client *client);

/* 0, or SIMBA_EFORKED in a child of fork(). Any thread, also under the lock. */
int simba__client_forked(const simba_client *client, simba_error *err);

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
