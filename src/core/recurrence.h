/* The due times of a schedule: every so many milliseconds from an anchor on, or by a cron expression in a time zone.
 * Times are milliseconds since 1970, on the store's clock if it has one. */
#ifndef SIMBA_CORE_RECURRENCE_H
#define SIMBA_CORE_RECURRENCE_H

#include "core/cron.h"

#define SIMBA__RECURRENCE_NEVER INT64_MAX

typedef struct simba__recurrence {
    int64_t every_ms; /* 0: by cron */
    simba__cron cron;
    const simba__zone *zone; /* of cron */
} simba__recurrence;

/* The first due time after `after_ms`. With an interval, the anchor itself is the first due time of all. */
int64_t simba__recurrence_next(const simba__recurrence *recurrence, int64_t anchor_ms, int64_t after_ms);

/* The last due time after `after_ms` that is not after `until_ms`; `after_ms`: there is none. */
int64_t simba__recurrence_last(const simba__recurrence *recurrence, int64_t anchor_ms, int64_t after_ms,
                               int64_t until_ms);

/* How many due times there are after `after_ms` and until `until_ms`, counted no further than `most`. */
int64_t simba__recurrence_count(const simba__recurrence *recurrence, int64_t anchor_ms, int64_t after_ms,
                                int64_t until_ms, int64_t most);

#endif
