/* Watching a mutex without contending, as a step function like contention.h. It ends on the true owner whatever is lost
 * on the way: pushes make it fast, reading makes it right. */
#ifndef SIMBA_CORE_OBSERVATION_H
#define SIMBA_CORE_OBSERVATION_H

#include "core/contention.h"

typedef struct simba__observation {
    uint64_t seed;
    int64_t poll_ns; /* between two readings when nothing happens */
    simba_local wake;
    simba_owner owner;
    uint32_t generation;
    uint16_t failures;
    bool running;
    bool stop;
    bool in_flight;
    bool kick;  /* something was pushed while a reading was under way: what it brings may be older */
    bool known; /* the first owner has been told */
} simba__observation;

void simba__observation_init(simba__observation *machine, int64_t poll_ns);

/* Takes START, STOP, TIMER, REPLY and PUSH; of the actions it uses changed, submit (READ), done and timer. */
void simba__observation_step(simba__observation *machine, const simba__event *event, int64_t op_timeout_ns,
                             simba__actions *ret_actions);

#endif
