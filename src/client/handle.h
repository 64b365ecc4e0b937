/* What contenders, lockers, schedulers and observers have in common: a mutex, a timer, one request under way, callbacks, and a
 * reference count, because a callback or an executor may outlast the application's handle. */
#ifndef SIMBA_CLIENT_HANDLE_H
#define SIMBA_CLIENT_HANDLE_H

#include "client/client.h"
#include "core/contention.h"

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

/* The caller has checked the names. SIMBA_ENOMEM, SIMBA_ECLOSED. After success the handle belongs to the client's list and has one
 * reference; after a failure the caller frees it. Under the lock, as everything up to the next heading. */
int simba__handle_init(simba__handle *handle, const simba__handle_type *type, simba_client *client, const char *mutex,
                       simba_error *err);
void simba__handle_started(simba__handle *handle);
void simba__handle_stopped(simba__handle *handle);
/* Carry out what every machine asks for: a request, and the timer. If there is no memory for the request, it fails. `id` and
 * `timing` are the contender's; "" and NULL: it is an observer. */
void simba__handle_act(simba__handle *handle, const simba__actions *actions, const char *id,
                       const simba__timing *timing);
/* Does it want to hear what happens to the mutex? */
void simba__handle_want(simba__handle *handle, bool wants);
void simba__handle_send_stop(simba__handle *handle);
/* Send STOP, then wait until the handle has stopped and no callback of it runs. Runs its callbacks meanwhile. Does not wait inside
 * a callback of the handle itself. */
void simba__handle_stop(simba__handle *handle);
/* Wait until something has happened to it (simba__wake), running its callbacks; see simba__wait. */
void simba__handle_wait(simba__handle *handle, simba_local until);
void simba__handle_unref(simba__handle *handle);
/* It was freed inside its own callback, and may have stopped since. */
void simba__handle_let_orphan_go(simba__handle *handle);

/* --- without the lock -------------------------------------------------------------------------------- */

/* Stop it and drop the application's reference; inside its own callback, later. */
void simba__handle_free(simba__handle *handle);
/* The same, without waiting. */
void simba__handle_discard(simba__handle *handle);
/* Destroy the handles that were dead when the lock was released. */
void simba__handles_destroy(simba__list *dead);

#endif
