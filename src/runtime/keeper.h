/* The client's own thread. It waits at the reactor when nobody else does, and runs what comes in turns. A thread of the
 * application that waits for an answer waits there too: it leads then, and the keeper, which the kernel does not wake,
 * is behind it for whatever it leaves undone. */
#ifndef SIMBA_RUNTIME_KEEPER_H
#define SIMBA_RUNTIME_KEEPER_H

#include <pthread.h>
#include <simba/backend.h>

#include "net/reactor.h"

typedef struct simba__keeper {
    pthread_t thread;
    bool started;
    bool quit;
    bool aside; /* the bell rings for the one who leads, who has not come yet */
    pthread_cond_t hushed;
} simba__keeper;

int simba__keeper_start(simba_client *client, simba_error *err);
/* Not in a turn, after the store has closed. Also if it was never started. */
void simba__keeper_stop(simba_client *client);

/* In a turn: deal with what the reactor had to report, on whatever thread. */
void simba__keeper_take(simba_client *client, const simba__arrivals *arrivals);
/* In a turn: have the timer go off at the earliest deadline. */
void simba__keeper_arm(simba_client *client);

#endif
