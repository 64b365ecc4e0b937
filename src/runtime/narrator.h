/* Who says what happened to a contender and to the store: each thing once, as a notice (notice.h). All of it in a turn. */
#ifndef SIMBA_RUNTIME_NARRATOR_H
#define SIMBA_RUNTIME_NARRATOR_H

#include "core/contention.h"
#include "runtime/client.h"

/* What was said already. */
typedef struct simba__said {
    bool waits; /* for the owner of now */
    bool late;  /* that it could not be renewed */
} simba__said;

/* The story of one contender. */
typedef struct simba__narrator {
    const simba_client *client;
    const char *mutex, *id;
    const simba__contention *machine;
    simba_local owner_until; /* when the lease of the owner that the machine knows of ends */
    simba__said *said;
} simba__narrator;

/* After each step of its machine. */
void simba__narrate_step(const simba__narrator *who, const simba__event *event, const simba__actions *actions);
/* If it leads: a renewal has failed, or was granted. */
void simba__narrate_lease(const simba__narrator *who, bool renewed, simba_local now);

/* The store has answered a request, or the request has failed; `cause` without the name of the request, `whole` with it. */
void simba__narrate_answer(simba_client *client);
void simba__narrate_failure(simba_client *client, const simba_request *request, const simba_error *cause,
                            const simba_error *whole);
/* What a request is called. */
const char *simba__op_name(simba_op op);

#endif
