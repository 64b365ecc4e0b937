/* See recurrence.h. */
#include "core/recurrence.h"

#include "core/calendar.h"
#include "util/assert.h"
#include "util/saturate.h"

int64_t simba__recurrence_next(const simba__recurrence *recurrence, int64_t anchor_ms, int64_t after_ms)
{
    const int64_t every_ms = recurrence->every_ms;
    SIMBA__ASSERT(every_ms >= 0);
    if (every_ms > 0 && after_ms < anchor_ms)
        return anchor_ms;
    if (every_ms > 0)
        return simba__sat_add(after_ms, every_ms - simba__sat_sub(after_ms, anchor_ms) % every_ms);
    const int64_t next_s = simba__cron_next(&recurrence->cron, recurrence->zone, simba__floor_div(after_ms, 1000));
    return simba__sat_mul(next_s, 1000);
}

/* A binary search: up to the last due time, a point has a due time between itself and `until_ms`; from it on, none. */
int64_t simba__recurrence_last(const simba__recurrence *recurrence, int64_t anchor_ms, int64_t after_ms,
                               int64_t until_ms)
{
    int64_t low_ms = after_ms;
    int64_t high_ms = until_ms;
    if (simba__recurrence_next(recurrence, anchor_ms, after_ms) > until_ms)
        return after_ms;
    while (high_ms - low_ms > 1) {
        const int64_t middle_ms = low_ms + (high_ms - low_ms) / 2;
        if (simba__recurrence_next(recurrence, anchor_ms, middle_ms) <= until_ms)
            low_ms = middle_ms;
        else
            high_ms = middle_ms;
    }
    return simba__recurrence_next(recurrence, anchor_ms, low_ms);
}

int64_t simba__recurrence_count(const simba__recurrence *recurrence, int64_t anchor_ms, int64_t after_ms,
                                int64_t until_ms, int64_t most)
{
    int64_t count = 0;
    while (count < most) {
        after_ms = simba__recurrence_next(recurrence, anchor_ms, after_ms);
        if (after_ms > until_ms || after_ms == SIMBA__RECURRENCE_NEVER)
            break;
        count++;
    }
    return count;
}
