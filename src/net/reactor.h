/* Descriptors, one timer and one bell behind one epoll, for any number of threads.
 *
 * No thread is special: a thread with nothing better to do waits here, and handles the events. Several may wait at once. The
 * kernel wakes the one that came last, so a thread of the application that waits for an answer reads it itself, while the
 * client's own thread, which came before, sleeps on.
 *
 *   io        edge-triggered: the kernel reports a change to one thread, and only once. So `ready` reads until there is
 *             nothing left, and a thread looks again (simba__reactor_look) before anything counts as overdue, because the
 *             thread that got the report may be held up.
 *   timer     a timerfd on the boot-time clock, level-triggered: after it has fired, it wakes every waiting thread until one
 *             has taken it. So a thread that is held up does not hold the timers up.
 *   bell      an eventfd, level-triggered too: it wakes all threads until one hushes it.
 *
 * An application may drive the client from a loop of its own. The loop waits elsewhere, at a descriptor that becomes readable
 * when there is something to do: a second epoll with the same descriptors, the same timer, and a bell of its own. With one
 * epoll for both, the bell that calls the loop would keep the threads busy until the loop comes, and the bell that calls a
 * thread would keep the loop busy.
 *
 * The owner calls all functions under one lock of its own, except those marked "any thread". */
#ifndef SIMBA_NET_REACTOR_H
#define SIMBA_NET_REACTOR_H

#include <simba/backend.h>
#include <stdatomic.h>

/* Where threads wait: an epoll, and the bell in it. */
typedef struct simba__waitset {
    int set, bell;
    bool rung; /* somebody has to hush the bell */
} simba__waitset;

typedef struct simba__reactor {
    bool ready;
    int timer;
    simba__waitset threads;
    simba__waitset loop; /* of the application; -1: there is none */
    simba_io *first;
    atomic_uint answering; /* descriptors on which answers arrive; any thread may look */
    unsigned looks;
    simba_local armed; /* the time that the timer is set to */
} simba__reactor;

enum { SIMBA__ARRIVALS_MOST = 16 };
typedef struct simba__arrivals {
    int count; /* of `ios` */
    bool timer, bell;
    bool any; /* false: the time is over */
    struct {
        const simba_io *io; /* may be gone by now */
        unsigned events;
    } ios[SIMBA__ARRIVALS_MOST];
} simba__arrivals;

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

/* Any thread, and not under the lock unless it does not wait: wait up to so many milliseconds; -1: no limit. */
simba__arrivals simba__reactor_wait(const simba__reactor *reactor, const simba__waitset *at, int timeout_ms);
/* Call `ready` for the events that were found. */
void simba__reactor_take(simba__reactor *reactor, const simba__arrivals *arrivals);
/* The same for all descriptors, whichever thread was told of their events. */
void simba__reactor_look(simba__reactor *reactor);

/* Any thread: wake the threads that wait there, if there are any. */
void simba__waitset_ring(const simba__waitset *waitset);
void simba__waitset_hush(simba__waitset *waitset);

#endif
