/* Logs what happens to contenders and to the store: each event once, as a notice (notice.h). All functions run in a
 * turn. */
#ifndef SIMBA_RUNTIME_NARRATOR_H
#define SIMBA_RUNTIME_NARRATOR_H

#include "core/contention.h"
#include "runtime/client.h"

/* The events that were logged already. */
typedef struct simba__said {
    bool waits; /* that it waits for the present owner */
    bool late;  /* that the lease could not be renewed */
} simba__said;

/* The log of one contender. */
typedef struct simba__narrator {
    const simba_client *client;
    const char *mutex, *id;
    const simba__contention *machine;
    simba_local owner_until; /* when the lease of the known owner ends */
    simba__said *said;
} simba__narrator;

/* Call this after each step of its machine. */
void simba__narrate_step(const simba__narrator *who, const simba__event *event, const simba__actions *actions);
/* Call this when a renewal of a leader has failed, or has succeeded. */
void simba__narrate_lease(const simba__narrator *who, bool renewed, simba_local now);

/* The store has answered a request, or the request has failed. `cause` lacks the name of the request, `whole` has
 * it. */
void simba__narrate_answer(simba_client *client);
void simba__narrate_failure(simba_client *client, const simba_request *request, const simba_error *cause,
                            const simba_error *whole);
/* The name of a request. */
const char *simba__op_name(simba_op op);

#endif
