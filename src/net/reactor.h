/* Descriptors, one timer and a wakeup descriptor (an eventfd) in an epoll.
 *
 * One thread at a time waits here (simba__reactor_wait) and then, under the lock of the owner, has `ready` called for what it
 * found (simba__reactor_take). Everything is level-triggered: what is left undone is reported again. The wakeup descriptor
 * wakes that thread.
 *
 * An application may drive the client from a loop of its own. It waits at a descriptor that is readable when there is something
 * to do: a second epoll with all that is in the first, but with a wakeup descriptor for the loop. Each wakeup descriptor has one
 * reader, so neither keeps the other side awake. The first is not simply put into the second: who waits at an epoll itself is woken
 * in less time.
 *
 * The owner calls all functions under its lock, except those marked "any thread". */
#ifndef SIMBA_NET_REACTOR_H
#define SIMBA_NET_REACTOR_H

#include <simba/backend.h>

typedef struct simba__reactor {
    bool ready;
    int set;         /* the epoll */
    int timer;       /* a timerfd on the boot-time clock */
    int wakeup;      /* an eventfd */
    int loop_set;    /* the epoll of an application's loop; -1: there is none */
    int loop_wakeup; /* likewise */
    simba_io *first;
    simba_local armed; /* the time that the timer is set to */
} simba__reactor;

/* SIMBA_ESYSTEM, SIMBA_ENOMEM. */
int simba__reactor_init(simba__reactor *reactor, bool with_loop, simba_error *err);
/* Also after a failed init, or none. */
void simba__reactor_fini(simba__reactor *reactor);

/* As simba/backend.h describes for simba_io. SIMBA_ENOMEM, SIMBA_ESYSTEM. */
int simba__reactor_add(simba__reactor *reactor, simba_io *io);
int simba__reactor_change(simba__reactor *reactor, simba_io *io, unsigned interest);
void simba__reactor_remove(simba__reactor *reactor, simba_io *io);

/* Let the timer fire at this time, at the latest. False: the system refuses. */
bool simba__reactor_arm(simba__reactor *reactor, simba_local at);

/* Any thread, without the lock: wait until a descriptor or the timer is ready or the wakeup is raised, up to so many
 * milliseconds; -1: no limit. */
void simba__reactor_wait(const simba__reactor *reactor, int timeout_ms);
/* Call `ready` for all descriptors that are ready now. True: the timer has fired. */
bool simba__reactor_take(simba__reactor *reactor);
/* Any thread. */
void simba__wakeup_raise(int wakeup);
void simba__wakeup_clear(int wakeup);

#endif
