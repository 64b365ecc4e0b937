/* Watching a mutex without contending, as a step function like contention.h. Pushes make it fast, and reading makes
 * it end on the true owner even if pushes are lost. */
#ifndef SIMBA_CORE_OBSERVATION_H
#define SIMBA_CORE_OBSERVATION_H

#include "core/contention.h"

typedef enum simba__observing {
    SIMBA__OBSERVES_NOT, /* before start, and after the end */
    SIMBA__READS,        /* a read is under way */
    SIMBA__RESTS,        /* until `wake`, or a push */
    SIMBA__LEAVES,       /* stopped: the read that is under way is the last */
} simba__observing;

typedef struct simba__observation {
    uint64_t seed;
    int64_t poll_ns; /* between two reads when nothing happens */
    simba_local wake;
    simba_owner owner;
    uint32_t generation;
    uint16_t failures;
    uint8_t phase;
    bool kick;  /* a push came while a read was under way: the result may be older than the push */
    bool known; /* the application has been told the first owner */
} simba__observation;

void simba__observation_init(simba__observation *machine, int64_t poll_ns);

/* Has it been stopped, so that it tells nothing any more? */
bool simba__observation_is_over(const simba__observation *machine);

/* Takes START, STOP, TIMER, REPLY and PUSH; of the actions it uses changed, submit (READ), done and timer. */
void simba__observation_step(simba__observation *machine, const simba__event *event, int64_t op_timeout_ns,
                             simba__actions *ret_actions);

#endif
