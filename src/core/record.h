/* The record of a schedule: one line at the beginning of the note of its mutex. The note of the work follows the line.
 * Both are one note, so that a checkpoint of the work and the end of its run are written in one step.
 *
 *   simba-schedule 1 anchor=… through=… due=… begun=… ended=… result=0 tries=0 missed=0 state=ended spec=every 86400000
 *
 * All times are milliseconds on the clock that judges the schedule. A record comes from outside: anybody who can
 * write to the store can write one. So the reader bounds it, and refuses a record that makes no sense. It never
 * takes such a record for an empty one, since then work would run again. */
#ifndef SIMBA_CORE_RECORD_H
#define SIMBA_CORE_RECORD_H

#include <simba.h>

#define SIMBA__SPEC_MAX 384                         /* bytes of the text that says when a schedule is due */
#define SIMBA__RECORD_MAX SIMBA_SCHEDULE_RECORD_MAX /* bytes of a record with the end of its line */

typedef enum simba__run_state {
    SIMBA__RUN_NONE,  /* there was no run yet */
    SIMBA__RUN_BEGUN, /* it has begun, and goes on or was cut short */
    SIMBA__RUN_ENDED,
} simba__run_state;

typedef struct simba__record {
    int64_t anchor_ms;  /* intervals count from this */
    int64_t through_ms; /* due times up to this one will not run (again) */
    int64_t due_ms;     /* of the latest run */
    int64_t begun_ms;   /* when it began */
    int64_t ended_ms;   /* when it ended; while a run goes on, the end of the one before it */
    simba__run_state state;
    int result;     /* of the latest run that ended; 0: success */
    int64_t tries;  /* how often in a row the run of the latest due time has failed */
    int64_t missed; /* due times before it that were not run */
    char spec[SIMBA__SPEC_MAX + 1];
} simba__record;

/* Write the record, with the end of the line and the terminating zero. Returns its length. */
size_t simba__record_write(const simba__record *record, char ret_text[SIMBA__RECORD_MAX + 1]);

/* Read the beginning of a note. Returns how many bytes belong to the record; 0: the note has no record, and all of
 * it belongs to the work; SIMBA_ECORRUPT: the record makes no sense. */
int simba__record_read(const char *note, size_t size, simba_error *err, simba__record *ret_record);

/* --- work that is to begin once in a period ---------------------------------------------------------------
 *
 * Its record has the spec "once per N", in milliseconds.
 *
 *   begun   the work goes on, or was cut short: its process died or lost the mutex. Only a holder can tell the two apart, because
 *           while it holds the mutex nobody else runs the work.
 *   ended   with a result; 0 is success. */

typedef struct simba__once {
    int64_t per_ms;    /* 0: no such rule */
    bool retry_failed; /* a run that failed or was cut short does not count */
} simba__once;

/* Is it the record of such work? Otherwise it is that of a schedule. */
bool simba__once_is_record(const simba__record *record);

/* May it begin now? Before the mutex is held, "yes" means only that acquiring it makes sense: a run that goes on looks like one that
 * was cut short. */
bool simba__once_may_begin(const simba__once *rule, const simba__record *record, int64_t now_ms);

/* The record to write before and after a run. */
void simba__once_begun(const simba__once *rule, simba__record *record, int64_t now_ms);
void simba__once_ended(simba__record *record, int result, int64_t now_ms);

/* When its period is over. */
int64_t simba__once_next_ms(const simba__record *record);

#endif
