/* The store's descriptors, and who reads from them.
 *
 * Usually that is the loop thread. But an answer that is read there has to be carried over to the thread that waits for
 * it, and that change of threads is a good part of what a lock on a fast server costs. So a thread of the application that
 * waits anyway watches the descriptors itself meanwhile: it is the reader, and there is at most one. The others, who come
 * when there is one, wait for it to read their answers too. When it goes, the loop thread is back.
 *
 *     set    epoll   every input of the store, and the bell. What the reader waits for
 *     gate   epoll   the set. What the loop watches; closed while there is a reader
 *     bell   eventfd wakes the reader, for what it waits for may come about without any input
 *
 * The gate is there because any thread may open and close it, while the loop's own handles are the loop thread's.
 *
 * A reader may be held up: in a signal handler, by a debugger, by its priority. Therefore the loop thread looks at the
 * inputs before it says that something is overdue. All functions are called in a turn, unless they say otherwise. */
#ifndef SIMBA_RUNTIME_INPUTS_H
#define SIMBA_RUNTIME_INPUTS_H

#include <pthread.h>
#include <simba/backend.h>
#include <uv.h>

typedef struct simba__inputs simba__inputs;
struct simba__inputs {
    void (*readable)(simba__inputs *inputs); /* on the loop thread, not in a turn: there is something to take */
    simba_input *first;
    bool made; /* the descriptors below: for the first input */
    bool open; /* and they are in use */
    int set, gate, bell;
    uv_poll_t poll;
    bool gate_open;
    const pthread_cond_t *awaited; /* by the reader; NULL: there is none */
    bool rung;
};

/* On the loop thread. SIMBA_ENOMEM, SIMBA_ESYSTEM. */
int simba__inputs_add(simba__inputs *inputs, uv_loop_t *loop, simba_input *input);
/* Any thread, before the descriptor is closed. Also for one that is not there. */
void simba__inputs_remove(simba__inputs *inputs, simba_input *input);

/* Have everything read that has come. */
void simba__inputs_take(simba__inputs *inputs);

/* Is there anything to read from, and nobody who does? Then the loop thread is kept away from now on, before anything is
 * sent: the answer may be quick. The caller may begin, leave the turn, wait, come back to a turn, and end, which has read
 * what came. What it waits for is signalled by `cond`, see simba__inputs_ring. */
bool simba__inputs_claim(simba__inputs *inputs);
void simba__inputs_begin(simba__inputs *inputs, const pthread_cond_t *cond);
enum { SIMBA__INPUTS_MOST = 8 };
typedef struct simba__arrivals {
    int count; /* 0: the time is over */
    const void *inputs[SIMBA__INPUTS_MOST];
} simba__arrivals;
/* Not in a turn. Up to so many milliseconds; -1: no limit. */
simba__arrivals simba__inputs_wait(const simba__inputs *inputs, int timeout_ms);
void simba__inputs_end(simba__inputs *inputs, const simba__arrivals *arrivals);

/* The condition was signalled: so that the reader hears of it, should it be waiting for that. */
void simba__inputs_ring(simba__inputs *inputs, const pthread_cond_t *cond);
/* The turn ends, and this thread is not going to read: if nobody does, the loop thread is to. */
void simba__inputs_mind(simba__inputs *inputs);

/* Is there a reader? */
bool simba__inputs_are_read(const simba__inputs *inputs);

/* On the loop thread, in a turn: let go of the loop. And when that has ended, in none: of the rest. Also if there never was
 * an input. */
void simba__inputs_close(simba__inputs *inputs);
void simba__inputs_fini(simba__inputs *inputs);

#endif
