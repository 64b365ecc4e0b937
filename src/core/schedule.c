/* See schedule.h. */
#include "core/schedule.h"

#include <string.h>

#include "core/calendar.h"
#include "util/assert.h"
#include "util/saturate.h"

/* --- due times ----------------------------------------------------------------------------------- */

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

/* --- what to do ---------------------------------------------------------------------------------- */

/* At most once: a run that has begun is settled, whoever recorded it and under which policy. */
static int64_t settled_ms(const simba__policy *policy, const simba__record *record)
{
    return policy->at_least_once ? record->through_ms : simba__max64(record->through_ms, record->due_ms);
}

static bool owes_a_run(const simba__policy *policy, const simba__record *record)
{
    return policy->at_least_once && record->state != SIMBA__RUN_NONE && record->due_ms > record->through_ms;
}

/* The run to repeat: at once if it was cut short, after a pause if it failed. A clock that went back must not
 * prolong the pause. */
static simba__plan plan_again(const simba__record *record, int64_t now_ms)
{
    const bool cut_short = record->state == SIMBA__RUN_BEGUN;
    const int64_t doublings = simba__min64(simba__max64(record->tries, 1) - 1, 20);
    const int64_t pause_ms = simba__min64(SIMBA__RETRY_FIRST_MS << doublings, SIMBA__RETRY_LAST_MS);
    const int64_t retry_ms =
        simba__min64(simba__sat_add(record->ended_ms, pause_ms), simba__sat_add(now_ms, SIMBA__RETRY_LAST_MS));
    if (!cut_short && now_ms < retry_ms)
        return (simba__plan){.kind = SIMBA__PLAN_WAIT, .at_ms = retry_ms};
    return (simba__plan){SIMBA__PLAN_RUN, record->due_ms, record->missed, cut_short};
}

/* The due time after `from_ms` that leaves at most the limit of due times to run. */
static int64_t oldest_within_limit(const simba__policy *policy, int64_t anchor_ms, int64_t from_ms, int64_t now_ms)
{
    const simba__recurrence *recurrence = &policy->recurrence;
    if (simba__recurrence_count(recurrence, anchor_ms, from_ms, now_ms, policy->limit + 1) <= policy->limit)
        return simba__recurrence_next(recurrence, anchor_ms, from_ms);
    int64_t at_ms = simba__recurrence_last(recurrence, anchor_ms, from_ms, now_ms);
    for (int64_t i = 1; i < policy->limit; i++)
        at_ms = simba__recurrence_last(recurrence, anchor_ms, from_ms, at_ms - 1);
    return at_ms;
}

simba__plan simba__schedule_plan(const simba__policy *policy, const simba__record *record, int64_t since_ms,
                                 int64_t now_ms)
{
    if (!record || strcmp(record->spec, policy->spec) != 0)
        return (simba__plan){.kind = SIMBA__PLAN_NOTE};
    if (owes_a_run(policy, record))
        return plan_again(record, now_ms);
    const simba__recurrence *recurrence = &policy->recurrence;
    const int64_t anchor_ms = record->anchor_ms;
    const int64_t settled = settled_ms(policy, record);
    const int64_t from_ms = policy->catch_up == SIMBA_CATCH_UP_SKIP ? simba__max64(settled, since_ms - 1) : settled;
    const int64_t next_ms = simba__recurrence_next(recurrence, anchor_ms, from_ms);
    if (next_ms > now_ms)
        return (simba__plan){.kind = SIMBA__PLAN_WAIT, .at_ms = next_ms};
    const int64_t due_ms = policy->catch_up == SIMBA_CATCH_UP_ALL
                               ? oldest_within_limit(policy, anchor_ms, from_ms, now_ms)
                               : simba__recurrence_last(recurrence, anchor_ms, from_ms, now_ms);
    return (simba__plan){
        .kind = SIMBA__PLAN_RUN,
        .at_ms = due_ms,
        .missed = simba__recurrence_count(recurrence, anchor_ms, settled, due_ms - 1, SIMBA__MISSED_MAX),
        .cut_short = record->state == SIMBA__RUN_BEGUN,
    };
}

simba__record simba__schedule_adopt(const simba__policy *policy, const simba__record *before, int64_t now_ms)
{
    simba__record record = {.state = SIMBA__RUN_NONE};
    const bool by_interval = policy->recurrence.every_ms > 0;
    if (before)
        record = *before;
    /* An interval that has run keeps its anchor, so that a changed length does not cause a run at once. */
    const bool keeps_anchor = before && by_interval && record.state != SIMBA__RUN_NONE;
    if (!keeps_anchor)
        record.anchor_ms = by_interval ? simba__sat_add(now_ms, policy->first_delay_ms) : now_ms;
    const int64_t nothing_missed_ms = by_interval && !keeps_anchor ? record.anchor_ms - 1 : now_ms;
    if (!owes_a_run(policy, &record))
        record.through_ms = nothing_missed_ms;
    SIMBA__ASSERT(strlen(policy->spec) <= SIMBA__SPEC_MAX);
    strcpy(record.spec, policy->spec);
    return record;
}

void simba__schedule_begin(const simba__policy *policy, simba__record *record, const simba__plan *plan, int64_t now_ms)
{
    SIMBA__ASSERT(plan->kind == SIMBA__PLAN_RUN);
    if (record->due_ms != plan->at_ms || record->state == SIMBA__RUN_NONE)
        record->tries = 0;
    record->due_ms = plan->at_ms;
    record->missed = plan->missed;
    record->begun_ms = now_ms;
    record->state = SIMBA__RUN_BEGUN;
    if (!policy->at_least_once)
        record->through_ms = plan->at_ms;
}

void simba__schedule_end(const simba__policy *policy, simba__record *record, int result, int64_t now_ms)
{
    SIMBA__ASSERT(record->state == SIMBA__RUN_BEGUN);
    record->state = SIMBA__RUN_ENDED;
    record->result = result;
    record->ended_ms = now_ms;
    record->tries = result == 0 ? 0 : simba__min64(record->tries + 1, INT32_MAX);
    if (result == 0 || !policy->at_least_once)
        record->through_ms = simba__max64(record->through_ms, record->due_ms);
}

int64_t simba__schedule_next_due(const simba__policy *policy, const simba__record *record)
{
    return simba__recurrence_next(&policy->recurrence, record->anchor_ms, settled_ms(policy, record));
}

/* --- the steps of a leader ----------------------------------------------------------------------- */

static simba__schedule_act go_on(simba__schedule *schedule, const simba__record *record, int64_t now_ms)
{
    schedule->plan = simba__schedule_plan(schedule->policy, record, schedule->since_ms, now_ms);
    switch (schedule->plan.kind) {
    case SIMBA__PLAN_NOTE:
        schedule->record = simba__schedule_adopt(schedule->policy, record, now_ms);
        schedule->phase = SIMBA__SCHEDULE_ADOPTING;
        return SIMBA__ACT_WRITE;
    case SIMBA__PLAN_RUN:
        simba__schedule_begin(schedule->policy, &schedule->record, &schedule->plan, now_ms);
        schedule->phase = SIMBA__SCHEDULE_BEGINNING;
        return SIMBA__ACT_WRITE;
    case SIMBA__PLAN_WAIT:
        break;
    }
    schedule->phase = SIMBA__SCHEDULE_WAITING;
    return SIMBA__ACT_WAIT;
}

simba__schedule_act simba__schedule_lead(simba__schedule *schedule, const simba__record *found, int64_t now_ms)
{
    SIMBA__ASSERT(schedule->phase == SIMBA__SCHEDULE_AWAY);
    schedule->since_ms = now_ms;
    if (found)
        schedule->record = *found;
    return go_on(schedule, found ? &schedule->record : NULL, now_ms);
}

simba__schedule_act simba__schedule_written(simba__schedule *schedule, int64_t now_ms)
{
    switch (schedule->phase) {
    case SIMBA__SCHEDULE_BEGINNING:
        schedule->phase = SIMBA__SCHEDULE_RUNNING;
        return SIMBA__ACT_RUN;
    case SIMBA__SCHEDULE_ADOPTING:
    case SIMBA__SCHEDULE_ENDING:
        return go_on(schedule, &schedule->record, now_ms);
    case SIMBA__SCHEDULE_AWAY:
    case SIMBA__SCHEDULE_WAITING:
    case SIMBA__SCHEDULE_RUNNING:
        break;
    }
    return SIMBA__ACT_NONE; /* the store wrote it, but leadership has ended since */
}

simba__schedule_act simba__schedule_look(simba__schedule *schedule, int64_t now_ms)
{
    return schedule->phase == SIMBA__SCHEDULE_WAITING ? go_on(schedule, &schedule->record, now_ms) : SIMBA__ACT_NONE;
}

simba__schedule_act simba__schedule_ran(simba__schedule *schedule, int result, int64_t now_ms)
{
    SIMBA__ASSERT(schedule->phase == SIMBA__SCHEDULE_RUNNING);
    simba__schedule_end(schedule->policy, &schedule->record, result, now_ms);
    schedule->since_ms = now_ms;
    schedule->phase = SIMBA__SCHEDULE_ENDING;
    return SIMBA__ACT_WRITE;
}

void simba__schedule_leave(simba__schedule *schedule)
{
    schedule->phase = SIMBA__SCHEDULE_AWAY;
}
