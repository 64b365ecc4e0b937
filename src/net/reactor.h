/* Descriptors, one timer and one bell behind one epoll, for any number of threads.
 *
 * No thread is special: whoever has nothing better to do waits here, and takes what has come. Several may wait at once. The
 * kernel wakes the one that came last, so a thread of the application that waits for an answer reads it itself, while the
 * client's own thread, which came before, sleeps on.
 *
 *   io        edge-triggered: a change is reported to one thread, and only once. So `ready` reads until there is nothing
 *             left, and somebody looks again (simba__reactor_look) before anything is found to be overdue, because the
 *             thread that got the report may be held up.
 *   timer     a timerfd on the boot-time clock, level-triggered: while it has gone off and nobody has taken that, every
 *             thread that waits is woken. So no thread that is held up holds the timers up.
 *   bell      an eventfd, level-triggered too: it wakes all until somebody hushes it.
 *
 * An application may drive the client from a loop of its own. It waits elsewhere, at a descriptor that becomes readable when
 * there is something to do: a second epoll with the same descriptors, the same timer, and a bell of its own. One epoll for both
 * would not do. The bell that calls the loop would keep the threads busy until the loop comes, and the bell that calls a
 * thread would keep the loop busy.
 *
 * All functions are called under one lock of the owner's, except those marked "any thread". */
#ifndef SIMBA_NET_REACTOR_H
#define SIMBA_NET_REACTOR_H

#include <simba/backend.h>

/* Where somebody waits: an epoll, and the bell in it. */
typedef struct simba__waitset {
    int set, bell;
    bool rung; /* the bell is to be hushed */
} simba__waitset;

typedef struct simba__reactor {
    bool ready;
    int timer;
    simba__waitset threads;
    simba__waitset loop; /* of the application; -1: there is none */
    simba_io *first;
    unsigned answering; /* descriptors by which answers come */
    unsigned looks;
    simba_local armed; /* what the timer is set to */
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

/* What simba/backend.h promises of simba_io. SIMBA_ENOMEM, SIMBA_ESYSTEM. */
int simba__reactor_add(simba__reactor *reactor, simba_io *io);
int simba__reactor_change(simba__reactor *reactor, simba_io *io, unsigned interest);
void simba__reactor_remove(simba__reactor *reactor, simba_io *io);

/* Have the timer go off at this time, at the latest. False: the system does not let us. */
bool simba__reactor_arm(simba__reactor *reactor, simba_local at);

/* Any thread, and not under the lock unless it does not wait: wait up to so many milliseconds; -1: no limit. */
simba__arrivals simba__reactor_wait(const simba__reactor *reactor, const simba__waitset *at, int timeout_ms);
/* Have that read which has come. */
void simba__reactor_take(simba__reactor *reactor, const simba__arrivals *arrivals);
/* The same for all that there is, whoever was told of it. */
void simba__reactor_look(simba__reactor *reactor);

/* Any thread: wake those who wait there, if anybody can. */
void simba__waitset_ring(const simba__waitset *waitset);
void simba__waitset_hush(simba__waitset *waitset);

#endif
