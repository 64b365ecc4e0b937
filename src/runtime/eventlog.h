/* The event log: what contenders do, as lines for `simba timeline`, on the log hook. Costs a comparison where nobody
 * listens. */
#ifndef SIMBA_RUNTIME_EVENTLOG_H
#define SIMBA_RUNTIME_EVENTLOG_H

#include "runtime/member.h"

/* In a turn, after a step. */
void simba__eventlog_step(const simba__member *member, const simba__event *event, const simba__actions *actions);
/* Around a callback. Any thread. */
void simba__eventlog_say(const simba__member *member, const char *words);

#endif
