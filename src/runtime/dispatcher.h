/* Where the application's callbacks run: a pool of threads, the application's own loop, or its executor. Each party has
 * a strand, and a strand runs on one thread at a time, so callbacks are serial per party and no party waits for
 * another's. */
#ifndef SIMBA_RUNTIME_DISPATCHER_H
#define SIMBA_RUNTIME_DISPATCHER_H

#include <pthread.h>
#include <simba/backend.h>

struct simba__party;
typedef struct simba__pool_thread simba__pool_thread;

typedef struct simba__dispatcher {
    simba_dispatch form;
    struct simba__party *first, **last; /* strands with something to run */
    unsigned queued;
    pthread_cond_t wanted;       /* pool: a strand was queued */
    simba__pool_thread *running; /* pool: its threads, and those that ended and are to be joined */
    simba__pool_thread *ended;
    unsigned threads;
    unsigned idle;
    simba_timer stalled;     /* pool: is anybody getting on? */
    simba_local progress_at; /* pool: when a thread last took a strand */
    bool quit;
    bool ready;
} simba__dispatcher;

int simba__dispatcher_init(simba_client *client, simba_error *err);
/* After the last strand has ended. Not in a turn. */
void simba__dispatcher_fini(simba_client *client);

/* In a turn: the party's strand has something to run. */
void simba__dispatch_post(simba_client *client, struct simba__party *party);

/* In a turn: run a queued strand on this thread, so that a thread that waits for it need not wait for another to get
 * around to it (the other may be this one). False: it is not queued. Pauses the turn. */
bool simba__dispatch_help(simba_client *client, struct simba__party *party);

/* In a turn, before it ends or waits: pass queued strands to the executor. Pauses the turn. False: there were none. */
bool simba__dispatch_hand_over(simba_client *client);

/* Does this thread run a callback of this party, or of any party of this client? */
bool simba__inside_party(const struct simba__party *party);
bool simba__inside_client(const simba_client *client);

#endif
