/* The inside of a client: what it is made of, and its lock. A client has one lock, one thread that polls, and one window of requests.
 * Everything happens under the lock, except what is marked "any thread" or "without the lock". loop.c has the lock and all waiting,
 * open.c opens and closes. */
#ifndef SIMBA_CLIENT_CLIENT_H
#define SIMBA_CLIENT_CLIENT_H

#include <pthread.h>
#include <simba/backend.h>
#include <stdatomic.h>

#include "client/timers.h"
#include "client/window.h"
#include "core/contention.h"
#include "core/timing.h"
#include "core/trace.h"
#include "net/reactor.h"
#include "util/list.h"
#include "util/table.h"

typedef struct simba__handle simba__handle;
typedef struct simba__candidate simba__candidate;

/* --- watches.c: the mutexes that handles name ------------------------------------------------------------ */

typedef struct simba__watch simba__watch;
struct simba__watch {
    simba_topic shown; /* first: the part that the store sees */
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
    bool
        keeps; /* what is watched stays watched while it is named: watching costs the store nothing (SIMBA_CAP_WATCH_FREE) */
    bool ending; /* unwatch everything */
} simba__watches;

/* --- jobs.c, callbacks.c: what blocks, and what the application does -------------------------------- */

enum { SIMBA__WORKERS_MAX = 16 };

typedef struct simba__jobs {
    simba_job *first, **last;
    unsigned unannounced; /* how many at the end of the queue no worker was told of */
    pthread_t threads[SIMBA__WORKERS_MAX];
    unsigned count; /* of threads */
    bool ready, quit;
} simba__jobs;

typedef struct simba__callbacks {
    simba__list queued;      /* handles that have something to run */
    simba__list dead;        /* handles to be destroyed when the lock is released */
    simba__list threads;     /* of the pool: those that run */
    simba__list ended;       /* and those that are to be joined */
    unsigned idle;           /* how many of the pool have nothing to do */
    simba_timer stalled;     /* looks whether any thread of the pool makes progress */
    simba_local progress_at; /* when one of them last began with a handle */
    bool ready, quit;
} simba__callbacks;

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
    simba__list woken;           /* of those: to be woken when the lock is released */
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

/* --- handle.c: contenders, lockers, schedulers, observers --------------------------------------------- */

typedef struct simba__handle_type {
    /* Under the lock: something has happened to it. Fills in event->now. */
    void (*step)(simba__handle *handle, simba__event *event);
    /* Under the lock: run the next callback, releasing the lock around it. Returns how many ran; negative: there is nothing to
     * run. */
    int (*callback)(simba__handle *handle);
    /* Under the lock, while it is started: the note of the mutex may have changed. May be NULL. */
    void (*noted)(simba__handle *handle);
    /* Without the lock: tell the application, and free the memory. */
    void (*destroy)(simba__handle *handle);
    bool contends;   /* it begins with a simba__candidate */
    unsigned timers; /* besides its own */
} simba__handle_type;

enum { SIMBA__CALLBACKS_IDLE, SIMBA__CALLBACKS_QUEUED, SIMBA__CALLBACKS_RUNNING };

struct simba__handle {
    const simba__handle_type *type;
    simba_client *client;
    simba__watch *watch; /* of its mutex */
    simba__list_item of_client;
    simba__list_item of_watch;     /* while started */
    simba__list_item of_callbacks; /* `queued` or `dead` */
    simba_timer timer;
    simba__request *request; /* under way; NULL: none is, or there was no memory for it */
    uint32_t generation;     /* of the latest request */
    uint32_t starts;         /* tells one start from the next */
    unsigned refs;           /* the application's, and one of whoever runs its callbacks */
    uint8_t callback_state;
    bool running;  /* started and not yet stopped */
    bool unasked;  /* there was no memory for its request, and the machine has not heard of that yet */
    bool wants;    /* counts among those that the watch is for */
    bool observes; /* reports every change; set before it is started */
    bool orphaned; /* the application has freed it: destroy it when it has stopped */
    bool handed;   /* the executor has it */
};

/* Under the lock: what ran its callbacks is done with it. */
void simba__handle_unref(simba__handle *handle);
/* It was freed inside its own callback, and may have stopped since. */
void simba__handle_let_orphan_go(simba__handle *handle);

/* --- candidate.c: a handle that contends --------------------------------------------------------------- */

/* The events that a contender has logged already. */
typedef struct simba__said {
    bool waits; /* that it waits for the present owner */
    bool late;  /* that the lease could not be renewed */
} simba__said;

typedef struct simba__candidate_type {
    simba__handle_type handle; /* first */
    /* Under the lock: the machine has made a step. */
    void (*told)(simba__candidate *candidate, const simba__step *step);
    bool
        acks_at_once; /* nothing has to return before it gives a mutex back; otherwise it sends ACK when on_released has */
} simba__candidate_type;

struct simba__candidate {
    simba__handle handle; /* first */
    simba__contention machine;
    simba_local owner_until; /* when the lease of the known owner ends unless it is renewed */
    simba_local waits_since; /* while it looks for leadership, for the statistics */
    /* For reading without the lock. Where leases are sessions, INT64_MAX means the end of the session, which moves by itself. */
    _Atomic int64_t valid_until_ns;
    _Atomic int64_t ttl_until_ns;
    _Atomic uint64_t token;
    _Atomic bool has_margin; /* the lease ends a stop margin after `valid_until_ns` */
    simba__said said;
    bool writes_note;             /* a write of the note is under way */
    bool hears_notes;             /* reports changes of the note while it runs */
    _Atomic uint64_t plain_token; /* under this grant the note is known to have no record of a schedule */
    simba__timing *own_timing;    /* NULL: it has the client's */
    char id[SIMBA_ID_MAX + 1];
};

/* --- open.c: any thread, without the lock ---------------------------------------------------------- */

/* The last reference frees the memory. */
void simba__client_unref(simba_client *client);
/* 0 or SIMBA_EFORKED; also under the lock. */
int simba__client_forked(const simba_client *client, simba_error *err);
/* Is this a valid name for a mutex, also in this store? SIMBA_EINVAL. */
int simba__client_check_mutex(const simba_client *client, const char *mutex, simba_error *err);

/* host.c: fill in client->host. The client's back end and timing must be set. SIMBA_ENOMEM. */
int simba__host_init(simba_client *client);

/* --- loop.c ------------------------------------------------------------------------------------------ */

/* Start the client's own thread. SIMBA_ESYSTEM. */
int simba__loop_start(simba_client *client, simba_error *err);
void simba__loop_stop(simba_client *client);

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
