/* Takes a leader through its schedule, as a step function: events go in, the next action comes out. The scheduler and the
 * simulator drive the same code.
 *
 *   lead -> [write: a new schedule] -> wait or write: begun -> run -> write: ended -> wait or write: begun …
 *
 * A run starts only after the store has confirmed the record that it begins. If a write fails, the driver repeats it for as
 * long as it leads. The text is the same, so it does not matter whether the store carried out the first one. */
#ifndef SIMBA_CORE_CONDUCTOR_H
#define SIMBA_CORE_CONDUCTOR_H

#include "core/schedule.h"

typedef enum simba__conductor_phase {
    SIMBA__CONDUCTOR_AWAY,      /* does not lead, or is about to stop */
    SIMBA__CONDUCTOR_ADOPTING,  /* writes: the schedule is new */
    SIMBA__CONDUCTOR_WAITING,   /* for a due time */
    SIMBA__CONDUCTOR_BEGINNING, /* writes: a run begins */
    SIMBA__CONDUCTOR_RUNNING,
    SIMBA__CONDUCTOR_ENDING, /* writes: a run has ended */
} simba__conductor_phase;

typedef enum simba__conductor_act {
    SIMBA__ACT_NONE,
    SIMBA__ACT_WRITE, /* `record` into the note, then call simba__conductor_written */
    SIMBA__ACT_WAIT,  /* until plan.at_ms, then call simba__conductor_look; SIMBA__RECURRENCE_NEVER: for ever */
    SIMBA__ACT_RUN,   /* the work, as in `plan`, then call simba__conductor_ran */
} simba__conductor_act;

typedef struct simba__conductor {
    const simba__policy *policy;
    simba__conductor_phase phase;
    simba__record record;
    simba__plan plan;
    int64_t since_ms; /* since when it has led without being busy */
} simba__conductor;

/* It leads, and found this record; NULL: none. */
simba__conductor_act simba__conductor_lead(simba__conductor *c, const simba__record *found, int64_t now_ms);
/* The store has confirmed the write. */
simba__conductor_act simba__conductor_written(simba__conductor *c, int64_t now_ms);
/* Time has passed. */
simba__conductor_act simba__conductor_look(simba__conductor *c, int64_t now_ms);
/* The run has ended by itself. If the end of leadership cut it short, simba__conductor_leave follows instead. */
simba__conductor_act simba__conductor_ran(simba__conductor *c, int result, int64_t now_ms);
/* Leadership has ended, or ends. */
void simba__conductor_leave(simba__conductor *c);

#endif
