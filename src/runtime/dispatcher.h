/* Runs the application's callbacks: on a pool of threads, in the application's own loop, or in its executor. A
 * strand is a sequence of callbacks of which one runs at a time; different strands do not wait for each other. The
 * thread that runs a strand has a reference to it, because a callback or an executor may outlast the handle that the
 * strand belongs to. */
#ifndef SIMBA_RUNTIME_DISPATCHER_H
#define SIMBA_RUNTIME_DISPATCHER_H

#include "runtime/turn.h"

typedef struct simba__strand simba__strand;
typedef struct simba__dispatcher simba__dispatcher;

typedef struct simba__strand_type {
    /* In a turn: run the next callback of the strand, pausing the turn around the application. Returns how many
     * callbacks ran; negative: there is nothing to do. */
    int (*run_one)(simba__strand *strand);
    /* In a turn: the strand has run, and is idle. */
    void (*ran)(simba__strand *strand);
    /* In a turn: the last reference is gone. */
    void (*gone)(simba__strand *strand);
    /* Not in a turn, after `gone`: free the memory. */
    void (*destroy)(simba__strand *strand);
} simba__strand_type;

typedef enum simba__strand_state {
    SIMBA__STRAND_IDLE,
    SIMBA__STRAND_QUEUED,
    SIMBA__STRAND_RUNNING,
} simba__strand_state;

struct simba__strand {
    simba__dispatcher *dispatcher;
    simba__list_item item; /* of `queued` or `dead` */
    unsigned refs;         /* the owner's, and one of the thread that runs it */
    uint8_t state;
    bool handed; /* the executor has it */
};

struct simba__dispatcher {
    simba__turn *turn;
    const simba__strand_type *type; /* of all its strands */
    simba__list queued;             /* strands with something to run */
    simba__list dead;               /* to be destroyed at the end of the turn */
    simba__condition wanted;        /* pool: a strand was queued */
    simba__list threads;            /* pool: running threads, and ended ones to be joined */
    simba__list ended;
    unsigned idle;
    simba_timer stalled;     /* pool: checks whether any thread makes progress */
    simba_local progress_at; /* pool: when a thread last took a strand */
    bool quit;
    bool ready;
    uint64_t callbacks; /* how many have run */
};

int simba__dispatcher_init(simba__dispatcher *dispatcher, simba__turn *turn, const simba__strand_type *type,
                           simba_error *err);
/* After the last strand has ended. Not in a turn. */
void simba__dispatcher_fini(simba__dispatcher *dispatcher);

/* In a turn: run all queued strands on this thread. Returns how many callbacks ran. */
unsigned simba__dispatcher_run(simba__dispatcher *dispatcher);
/* In a turn, before it ends or waits: pass queued strands to the executor. Pauses the turn. False: there were none. */
bool simba__dispatcher_hand_over(simba__dispatcher *dispatcher);
/* Does this thread run a callback of any strand of this dispatcher? */
bool simba__dispatcher_inside(const simba__dispatcher *dispatcher);

/* In a turn: the strand has something to run. */
void simba__strand_post(simba__strand *strand);
/* In a turn: run the strand on this thread if it is queued. A thread that waits for it then need not wait for
 * another thread (which may be itself). False: it is not queued. Pauses the turn. */
bool simba__strand_help(simba__strand *strand);
/* Does this thread run a callback of this strand? */
bool simba__strand_inside(const simba__strand *strand);
/* In a turn. */
void simba__strand_unref(simba__strand *strand);
/* Not in a turn: destroy the strands that were in `dead` when the turn ended. */
void simba__strands_destroy(simba__list *dead);

#endif
