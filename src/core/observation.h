/* Watching a mutex without contending, as a step function like contention.h. It ends on the true owner whatever is lost
 * on the way: pushes make it fast, reading makes it right. */
#ifndef SIMBA_CORE_OBSERVATION_H
#define SIMBA_CORE_OBSERVATION_H

#include "core/contention.h"

typedef enum simba__observing {
    SIMBA__OBSERVES_NOT, /* before start, and after the end */
    SIMBA__READS,        /* a reading is under way */
    SIMBA__RESTS,        /* until `wake`, or a push */
    SIMBA__LEAVES,       /* stopped: the reading that is under way is the last */
} simba__observing;

typedef struct simba__observation {
    uint64_t seed;
    int64_t poll_ns; /* between two readings when nothing happens */
    simba_local wake;
    simba_owner owner;
    uint32_t generation;
    uint16_t failures;
    uint8_t phase;
    bool kick;  /* something was pushed while a reading was under way: what it brings may be older */
    bool known; /* the first owner has been told */
} simba__observation;

void simba__observation_init(simba__observation *machine, int64_t poll_ns);

/* Has it been stopped, so that nothing is told any more? */
bool simba__observation_is_over(const simba__observation *machine);

/* Takes START, STOP, TIMER, REPLY and PUSH; of the actions it uses changed, submit (READ), done and timer. */
void simba__observation_step(simba__observation *machine, const simba__event *event, int64_t op_timeout_ns,
                             simba__actions *ret_actions);

#endif
