/* Contenders, lockers, schedulers and observers. A handle has a mutex, a timer, one request under way, callbacks, and a reference
 * count, because a callback or an executor may outlast the application's handle. A candidate is a handle that contends: it runs
 * the machine of core/contention.h. Contenders, lockers and schedulers differ only in what they do when they are told what has
 * happened. */
#ifndef SIMBA_CLIENT_HANDLES_H
#define SIMBA_CLIENT_HANDLES_H

#include "client/client.h"
#include "core/contention.h"
#include "core/trace.h"

/* --- handle.c ------------------------------------------------------------------------------------------- */

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
    unsigned refs;           /* the application's, one while it runs, and one of whoever runs its callbacks */
    uint8_t callback_state;
    bool running;  /* started and not yet stopped */
    bool unasked;  /* there was no memory for its request, and the machine has not heard of that yet */
    bool wants;    /* counts among those that the watch is for */
    bool observes; /* reports every change; set before it is started */
    bool handed;   /* the executor has it */
};

/* Without the lock. Checks the name, and adds the handle to the client; all of it that the client looks at must be there. SIMBA_EINVAL,
 * SIMBA_ENOMEM, SIMBA_ECLOSED, SIMBA_EFORKED: then the caller frees it. Afterwards it has one reference. */
int simba__handle_init(simba__handle *handle, const simba__handle_type *type, simba_client *client, const char *mutex,
                       simba_error *err);
void simba__handle_unref(simba__handle *handle);
void simba__handle_started(simba__handle *handle);
void simba__handle_stopped(simba__handle *handle);
/* Carry out what every machine asks for: a request, and the timer. If there is no memory for the request, it fails. `id` and
 * `timing` are the contender's; "" and NULL: it is an observer. */
void simba__handle_act(simba__handle *handle, const simba__actions *actions, const char *id,
                       const simba__timing *timing);
void simba__handle_send_stop(simba__handle *handle);
/* Send STOP, then wait until the handle has stopped and no callback of it runs. Runs its callbacks meanwhile. Does not wait inside
 * a callback of the handle itself. */
void simba__handle_stop(simba__handle *handle);
/* Wait until something has happened to it (simba__wake), running its callbacks; see simba__wait. */
void simba__handle_wait(simba__handle *handle, simba_local until);
/* Without the lock: stop it and drop the application's reference. It is freed as soon as it has stopped; `wait` for that, but not
 * inside its own callback. */
void simba__handle_free(simba__handle *handle, bool wait);

/* --- candidate.c ---------------------------------------------------------------------------------------- */

typedef struct simba__candidate simba__candidate;

/* The events that a contender has logged already. */
typedef struct simba__said {
    bool waits; /* that it waits for the present owner */
    bool late;  /* that the lease could not be renewed */
} simba__said;

typedef struct simba__candidate_type {
    simba__handle_type handle; /* first */
    /* Under the lock: the machine has made a step. */
    void (*told)(simba__candidate *candidate, const simba__step *step);
    bool acks_at_once; /* it gives a mutex back without waiting for a callback */
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

/* Without the lock. Checks everything, makes the id, and adds the candidate to the client. After a failure nothing of it is left,
 * and the caller frees its memory. */
int simba__candidate_init(simba__candidate *candidate, const simba__candidate_type *type, simba_client *client,
                          const char *mutex, const char *id, const simba_timing *timing, simba_error *err);
/* Free what init made; for the type's destroy. */
void simba__candidate_fini(simba__candidate *candidate);
void simba__candidate_step(simba__handle *handle, simba__event *event); /* for the type */
void simba__candidate_begin(simba__candidate *candidate);
void simba__candidate_ack(simba__candidate *candidate);
/* Look at the clock before calling the application: a process that did not run for a while may have lost the lease of which it is
 * about to tell. */
void simba__candidate_look(simba__candidate *candidate);

/* Without the lock: the public functions of contenders, lockers and schedulers. Times and token read atomics alone. */
int simba__candidate_start(simba__candidate *candidate);
int simba__candidate_stop(simba__candidate *candidate);
int64_t simba__candidate_held_for_ns(const simba__candidate *candidate);
int64_t simba__candidate_ttl_for_ns(const simba__candidate *candidate);
uint64_t simba__candidate_token(const simba__candidate *candidate);
int simba__candidate_lease(const simba__candidate *candidate, simba_lease *ret_lease);
int simba__candidate_owner(simba__candidate *candidate, simba_owner *ret_owner);
int64_t simba__candidate_owner_left_ms(simba__candidate *candidate);
int simba__candidate_grant(simba__candidate *candidate, simba_grant *ret_grant);
simba_status simba__candidate_status(const simba__candidate *candidate);

#endif
