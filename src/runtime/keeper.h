/* The thread that a client has of its own. It waits at the reactor when nobody else does, and runs what comes in turns. A thread
 * of the application that waits for an answer waits there too: it leads then, and the keeper, which the kernel does not
 * wake, is behind it for whatever it leaves undone. */
#ifndef SIMBA_RUNTIME_KEEPER_H
#define SIMBA_RUNTIME_KEEPER_H

#include "runtime/turn.h"

typedef struct simba__keeper {
    simba__turn *turn; /* NULL: not started */
    pthread_t thread;
    bool quit;
} simba__keeper;

int simba__keeper_start(simba__keeper *keeper, simba__turn *turn, simba_error *err);
/* Not in a turn, after the store has closed. Also if it was never started. */
void simba__keeper_stop(simba__keeper *keeper);

#endif
