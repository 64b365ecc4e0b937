/* A schedule that the note of its mutex remembers: drives core/conductor.h by note calls and a timer. The scheduler
 * owns it, tells it when leadership begins and ends, and runs the work when it says so. All in a turn, except init and
 * fini.
 *
 * Time is the store's: every answer to a note call has the store's time, and from then on we count on our own clock.
 * During a long wait it asks again now and then, so that the two do not drift apart. */
#ifndef SIMBA_RUNTIME_TIMETABLE_H
#define SIMBA_RUNTIME_TIMETABLE_H

#include "core/conductor.h"
#include "runtime/notes.h"
#include "util/zonefile.h"

typedef struct simba__timetable {
    simba__policy policy;
    simba__zonefile zone;
    char spec[SIMBA__SPEC_MAX + 1];
    simba__conductor conductor;
    simba__member *member;
    simba_timer *timer; /* the scheduler's; when it fires, the scheduler calls simba__timetable_timer */
    simba__note_call call;
    simba_local clock_at; /* when the store's clock showed clock_ms */
    int64_t clock_ms;
    char note[SIMBA_NOTE_MAX]; /* as in the store, or as being written: the record, then the note of the work */
    size_t record_size, note_size;
    bool leads;
    bool complained; /* has logged a lasting problem in this leadership */
} simba__timetable;

/* Check the options. Errors as of simba_scheduler_new. */
int simba__timetable_init(simba__timetable *table, const simba_scheduler_options *options, simba_error *err);
void simba__timetable_fini(simba__timetable *table);

/* Leadership begins. The member and the timer have been set. */
void simba__timetable_lead(simba__timetable *table);
void simba__timetable_timer(simba__timetable *table);
/* Leadership ends: begins nothing new. A write that is under way goes on: see `busy`. */
void simba__timetable_leave(simba__timetable *table);
/* A note call is under way. The member must not stop before it is over; then the strand is posted. */
bool simba__timetable_busy(const simba__timetable *table);

/* Must the work run now? If so, as conductor.plan says; then report how it went. */
bool simba__timetable_is_due(const simba__timetable *table);
void simba__timetable_ran(simba__timetable *table, int result);
void simba__timetable_cut_short(simba__timetable *table);

/* Not in a turn, inside a run: write the note of the work. */
int simba__timetable_note_set(simba__timetable *table, const void *bytes, size_t length, simba_error *err);

/* Read "every 3600000" or "cron 15 3 * * 1-5 in Europe/Berlin", as in a record. Loads the zone; the recurrence points to
 * it. */
int simba__timetable_parse_spec(const char *spec, simba_error *err, simba__recurrence *ret_recurrence,
                                simba__zonefile *zone);

#endif
