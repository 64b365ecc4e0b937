/* The event log: what contenders do, as lines for `simba timeline`, on the log hook. Costs one comparison if nobody
 * listens. */
#ifndef SIMBA_RUNTIME_EVENTLOG_H
#define SIMBA_RUNTIME_EVENTLOG_H

#include "core/contention.h"
#include "runtime/client.h"

/* The contender of the lines. */
typedef struct simba__speaker {
    const simba_client *client;
    const char *mutex;
    const char *id;
} simba__speaker;

/* In a turn, after a step. */
void simba__eventlog_step(const simba__speaker *who, const simba__contention *machine, const simba__event *event,
                          const simba__actions *actions);
/* Any thread. */
void simba__eventlog_say(const simba__speaker *who, const char *words);

#endif
