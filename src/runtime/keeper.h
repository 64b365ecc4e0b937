/* The client's own thread. It waits at the reactor when no other thread does, and handles events in turns. A thread
 * of the application that waits for an answer waits there too: then it leads, the kernel does not wake the keeper,
 * and the keeper handles whatever that thread leaves undone. */
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
