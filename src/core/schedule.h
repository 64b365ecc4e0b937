/* Decides what a leader does about its schedule: a pure function of the record, of the policy, and of the time. The next
 * leader, on any machine, finds the same record and decides the same.
 *
 *   at most once    the leader records that a run begins, then starts it. If the leader dies, nobody repeats the run; the
 *                   next run learns that the last one was cut short.
 *   at least once   a run counts when it has succeeded. If its leader dies, the next leader repeats it, and tells it so. If
 *                   it fails, the leader repeats it after a pause that grows. Until then no later due time runs.
 *
 * A due time is missed when it passes while nobody leads, or while a run is in progress. Of the missed ones
 *
 *   skip   runs none,
 *   once   runs the last one, in place of all,
 *   all    runs each, in order; above the limit, it leaves out the oldest.
 */
#ifndef SIMBA_CORE_SCHEDULE_H
#define SIMBA_CORE_SCHEDULE_H

#include "core/record.h"
#include "core/recurrence.h"

#define SIMBA__MISSED_MAX 10000     /* counting stops here */
#define SIMBA__CATCH_UP_MAX 1000    /* the greatest limit of "all" */
#define SIMBA__RETRY_FIRST_MS 1000  /* the pause after a run that failed, with at least once; doubles, up to … */
#define SIMBA__RETRY_LAST_MS 300000 /* … this */

typedef struct simba__policy {
    simba__recurrence recurrence;
    const char *spec; /* the recurrence as text; a changed text is a new schedule */
    simba_catch_up catch_up;
    int64_t limit; /* of SIMBA_CATCH_UP_ALL */
    bool at_least_once;
    int64_t first_delay_ms; /* intervals: from the first leadership of all to the first run */
} simba__policy;

typedef enum simba__plan_kind {
    SIMBA__PLAN_NOTE, /* the schedule is new: write what simba__schedule_adopt says, then ask again */
    SIMBA__PLAN_WAIT, /* until at_ms; SIMBA__RECURRENCE_NEVER: for ever */
    SIMBA__PLAN_RUN,  /* what was due at at_ms */
} simba__plan_kind;

typedef struct simba__plan {
    simba__plan_kind kind;
    int64_t at_ms;
    int64_t missed; /* RUN: due times between the last run and this one that will not run */
    bool cut_short; /* RUN: the last run began and did not end; with at least once, this run repeats it */
} simba__plan;

/* What to do at `now_ms`. `since_ms`: since when this leader has led without being busy; no due time after that
 * counts as missed. `record` NULL: there is none. */
simba__plan simba__schedule_plan(const simba__policy *policy, const simba__record *record, int64_t since_ms,
                                 int64_t now_ms);

/* The record of a schedule that is new here. It keeps what `before` says of runs; `before` may be NULL. Due times
 * until now do not count as missed. */
simba__record simba__schedule_adopt(const simba__policy *policy, const simba__record *before, int64_t now_ms);

/* The record to write before and after a run. A `result` of 0 is success. */
void simba__schedule_begin(const simba__policy *policy, simba__record *record, const simba__plan *plan, int64_t now_ms);
void simba__schedule_end(const simba__policy *policy, simba__record *record, int result, int64_t now_ms);

/* The next due time that is not settled, for people. */
int64_t simba__schedule_next_due(const simba__policy *policy, const simba__record *record);

#endif
