/* Schedules: when work is due, what a leader does about it, and the steps that take it there. Pure: a record, a policy and a time
 * go in. The next leader, on any machine, finds the same record and decides the same. The scheduler and the simulator drive the
 * same code.
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

#include "core/cron.h"
#include "core/record.h"

/* --- due times: every so many milliseconds from an anchor on, or by a cron expression in a time zone ---- */

/* Times are milliseconds since 1970, on the store's clock if it has one. */
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

/* --- what to do ------------------------------------------------------------------------------------------- */

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

/* --- the steps of a leader --------------------------------------------------------------------------------
 *
 *   lead -> [write: a new schedule] -> wait or write: begun -> run -> write: ended -> wait or write: begun …
 *
 * A run starts only after the store has confirmed the record that it begins. If a write fails, the driver repeats it for as
 * long as it leads. The text is the same, so it does not matter whether the store carried out the first one. */

typedef enum simba__schedule_phase {
    SIMBA__SCHEDULE_AWAY,      /* does not lead, or is about to stop */
    SIMBA__SCHEDULE_ADOPTING,  /* writes: the schedule is new */
    SIMBA__SCHEDULE_WAITING,   /* for a due time */
    SIMBA__SCHEDULE_BEGINNING, /* writes: a run begins */
    SIMBA__SCHEDULE_RUNNING,
    SIMBA__SCHEDULE_ENDING, /* writes: a run has ended */
} simba__schedule_phase;

typedef enum simba__schedule_act {
    SIMBA__ACT_NONE,
    SIMBA__ACT_WRITE, /* `record` into the note, then call simba__schedule_written */
    SIMBA__ACT_WAIT,  /* until plan.at_ms, then call simba__schedule_look; SIMBA__RECURRENCE_NEVER: for ever */
    SIMBA__ACT_RUN,   /* the work, as in `plan`, then call simba__schedule_ran */
} simba__schedule_act;

typedef struct simba__schedule {
    const simba__policy *policy;
    simba__schedule_phase phase;
    simba__record record;
    simba__plan plan;
    int64_t since_ms; /* since when it has led without being busy */
} simba__schedule;

/* It leads, and found this record; NULL: none. */
simba__schedule_act simba__schedule_lead(simba__schedule *schedule, const simba__record *found, int64_t now_ms);
/* The store has confirmed the write. */
simba__schedule_act simba__schedule_written(simba__schedule *schedule, int64_t now_ms);
/* Time has passed. */
simba__schedule_act simba__schedule_look(simba__schedule *schedule, int64_t now_ms);
/* The run has ended by itself. If the end of leadership cut it short, simba__schedule_leave follows instead. */
simba__schedule_act simba__schedule_ran(simba__schedule *schedule, int result, int64_t now_ms);
/* Leadership has ended, or ends. */
void simba__schedule_leave(simba__schedule *schedule);

#endif
