/* What a contender did, as words: the lines of the event log, of which `simba timeline` draws a picture. The runtime and
 * the simulator write the same. The words are in simba-timeline(1). */
#ifndef SIMBA_CORE_CHRONICLE_H
#define SIMBA_CORE_CHRONICLE_H

#include "core/contention.h"

typedef void (*simba__chronicle_fn)(void *user, const char *words);

/* To be called after each step of the machine. `shift_ns` is added to all points in time: from the clock of the machine to
 * that of the log. */
void simba__chronicle_step(const simba__contention *machine, const simba__event *event, const simba__actions *actions,
                           int64_t shift_ns, simba__chronicle_fn say, void *user);

#endif
