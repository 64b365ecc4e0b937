/* A schedule that the note of its mutex remembers: drives core/schedule.c by note calls and a timer. The scheduler
 * owns it, tells it when leadership begins and ends, and runs the work when it says so. All under the lock, except init.
 *
 * Time is the store's: every answer to a note call has the store's time, and from then on we count on our own clock.
 * During a long wait it asks again now and then, so that the two do not drift apart. */
#ifndef SIMBA_CLIENT_SCHEDULE_DRIVER_H
#define SIMBA_CLIENT_SCHEDULE_DRIVER_H

#include "client/notes.h"
#include "core/schedule.h"
#include "util/zonefile.h"

typedef struct simba__schedule_driver {
    simba__policy policy;
    simba__zonefile zone; /* the scheduler frees it */
    char spec[SIMBA__SPEC_MAX + 1];
    simba__schedule schedule;
    simba__candidate *candidate;
    simba_timer *timer;    /* the scheduler's; when it fires, the scheduler calls simba__schedule_driver_timer */
    simba__note_call call; /* the candidate must not stop while it is busy; then callbacks are added */
    simba_local clock_at;  /* when the store's clock showed clock_ms */
    int64_t clock_ms;
    char note[SIMBA_NOTE_MAX]; /* as in the store, or as being written: the record, then the note of the work */
    size_t record_size, note_size;
    bool leads;      /* cleared when leadership ends: nothing new begins, and a write that is under way goes on */
    bool complained; /* has logged a lasting problem in this leadership */
} simba__schedule_driver;

/* Check the options. Errors as of simba_scheduler_new. */
int simba__schedule_driver_init(simba__schedule_driver *driver, const simba_scheduler_options *options,
                                simba_error *err);

/* Leadership begins. The candidate and the timer have been set. */
void simba__schedule_driver_lead(simba__schedule_driver *driver);
void simba__schedule_driver_timer(simba__schedule_driver *driver);

/* Must the work run now? If so, as schedule.plan says; then report how it went. */
bool simba__schedule_driver_is_due(const simba__schedule_driver *driver);
void simba__schedule_driver_ran(simba__schedule_driver *driver, int result);
void simba__schedule_driver_cut_short(simba__schedule_driver *driver);

/* Without the lock, inside a run: write the note of the work. */
int simba__schedule_driver_note_set(simba__schedule_driver *driver, const void *bytes, size_t length, simba_error *err);

/* Read "every 3600000" or "cron 15 3 * * 1-5 in Europe/Berlin", as in a record. Loads the zone; the recurrence points to
 * it. */
int simba__schedule_driver_parse_spec(const char *spec, simba_error *err, simba__recurrence *ret_recurrence,
                                      simba__zonefile *zone);

#endif
