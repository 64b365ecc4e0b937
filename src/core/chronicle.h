/* Writes what a contender did as lines of the event log, from which `simba timeline` draws a picture. The runtime
 * and the simulator write the same lines. simba-timeline(1) lists the words. */
#ifndef SIMBA_CORE_CHRONICLE_H
#define SIMBA_CORE_CHRONICLE_H

#include "core/contention.h"

typedef void (*simba__chronicle_fn)(void *user, const char *words);

/* Call this after each step of the machine. It adds `shift_ns` to all times, to convert the machine's clock to the
 * log's. */
void simba__chronicle_step(const simba__contention *machine, const simba__event *event, const simba__actions *actions,
                           int64_t shift_ns, simba__chronicle_fn say, void *user);

#endif
