/* Reads event logs into a timeline. A line is "TIME ROW EVENT [ARGUMENT…]", TIME in nanoseconds on the boot-time clock of its
 * host; see clocks.h for how hosts are put together. What the events are is in simba-timeline(1); lines with other events are passed over. */
#ifndef SIMBA_CLI_TIMELINE_LOG_H
#define SIMBA_CLI_TIMELINE_LOG_H

#include <stdbool.h>

#include "timeline/timeline.h"

typedef struct timeline_log timeline_log;

timeline_log *timeline_log_new(void);
void timeline_log_free(timeline_log *log);

/* Returns the number of the line that is not one of a log, 0 if there is none. */
unsigned timeline_log_read(timeline_log *log, FILE *in);

/* Puts the lines in order and fills in the picture, which belongs to the log. Once, when all is read. `from_ms`, `to_ms`: of the time since the
 * first line; to_ms 0: to the end. False: there is nothing to draw. */
bool timeline_log_draw(timeline_log *log, int64_t from_ms, int64_t to_ms, timeline *ret_line);

#endif
