/* Reads event logs into a timeline. A line is "TIME ROW EVENT [ARGUMENT…]", TIME in nanoseconds on the boot-time
 * clock of its host; clocks.h aligns the hosts. simba-timeline(1) lists the events; lines with other events are
 * skipped. */
#ifndef SIMBA_CLI_TIMELINE_LOG_H
#define SIMBA_CLI_TIMELINE_LOG_H

#include <stdbool.h>

#include "timeline/timeline.h"

typedef struct timeline_log timeline_log;

timeline_log *timeline_log_new(void);
void timeline_log_free(timeline_log *log);

/* Returns the number of the first line that does not belong to a log, 0 if there is none. */
unsigned timeline_log_read(timeline_log *log, FILE *in);

/* Puts the lines in order and fills in the picture, which belongs to the log. Once, when all is read. `from_ms`,
 * `to_ms`: since the first line; to_ms 0: to the end. False: there is nothing to draw. */
bool timeline_log_draw(timeline_log *log, int64_t from_ms, int64_t to_ms, timeline *ret_line);

#endif
