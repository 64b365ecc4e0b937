/* The scheduler: a candidate whose serial queue of callbacks also runs periodic work while it leads. Notifications and work share
 * the queue, so it always waits for a run in progress before it gives leadership back. This file keeps the time of the next run
 * for schedules that begin anew with each leadership, client/schedule_driver.c for remembered ones. */
#include <simba.h>
#include <stdatomic.h>

#include "client/notes.h"
#include "client/schedule_driver.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/sized.h"

struct simba_run {
    simba_scheduler *scheduler;
    atomic_bool stopping;
    bool finished; /* the work has said how it ended */
    int result;
};

struct simba_scheduler {
    simba__candidate candidate; /* first */
    simba_schedule schedule;
    int64_t initial_delay_ns;
    int64_t period_ns;
    simba_work_fn work;
    void *user;
    simba_freed_fn on_freed;
    simba__schedule_driver *driver; /* NULL: the schedule begins anew with each leadership */
    simba_timer start_timer;        /* of the next run */
    simba_local next;
    simba_run run;
    bool acquired, released; /* not handled yet */
    bool leads;
    bool due;
};

static void told(simba__candidate *candidate, const simba__step *step)
{
    const simba__actions *actions = step->actions;
    simba_scheduler *scheduler = (simba_scheduler *)(void *)candidate;
    simba_client *client = candidate->handle.client;
    scheduler->acquired |= actions->acquired;
    if (actions->released) {
        scheduler->released = true;
        atomic_store(&scheduler->run.stopping, true);
        simba__timers_clear(&client->timers, &scheduler->start_timer);
        if (scheduler->driver)
            scheduler->driver->leads = false;
        simba__wake(client, &scheduler->run); /* it may be asleep */
    }
    if (actions->acquired || actions->released)
        simba__callbacks_add(&candidate->handle);
}

static void on_due(simba_timer *timer, simba_local now)
{
    (void)now;
    simba_scheduler *scheduler = (simba_scheduler *)(void *)((char *)timer - offsetof(simba_scheduler, start_timer));
    if (scheduler->driver) {
        simba__schedule_driver_timer(scheduler->driver);
        return;
    }
    scheduler->due = true;
    simba__callbacks_add(&scheduler->candidate.handle);
}

static void plan(simba_scheduler *scheduler, simba_local at)
{
    simba_client *client = scheduler->candidate.handle.client;
    scheduler->next = at;
    if (!scheduler->released)
        simba__timers_set(&client->timers, &scheduler->start_timer, at);
}

static void plan_next(simba_scheduler *scheduler)
{
    const simba_local now = scheduler->candidate.handle.client->now;
    if (scheduler->schedule == SIMBA_SCHEDULE_FIXED_DELAY) {
        plan(scheduler, simba__local_add(now, scheduler->period_ns));
        return;
    }
    /* Skip the starts that fell into the run, and keep to the due times. */
    const int64_t late_ns = now.ns - scheduler->next.ns;
    const int64_t beats = late_ns > 0 ? late_ns / scheduler->period_ns + 1 : 1;
    plan(scheduler, simba__local_add(scheduler->next, beats * scheduler->period_ns));
}

static void run_work(simba_scheduler *scheduler)
{
    simba_client *client = scheduler->candidate.handle.client;
    simba_run *run = &scheduler->run;
    run->finished = false;
    run->result = 0;
    simba__pause(client);
    scheduler->work(run, scheduler->user);
    const bool cut_short = simba_run_stopping(run) && !run->finished;
    simba__lock(client);
    if (!scheduler->driver)
        plan_next(scheduler);
    else if (cut_short)
        simba__schedule_driver_cut_short(scheduler->driver);
    else
        simba__schedule_driver_ran(scheduler->driver, run->result);
}

static bool is_due(const simba_scheduler *scheduler)
{
    return scheduler->leads && (scheduler->driver ? simba__schedule_driver_is_due(scheduler->driver) : scheduler->due);
}

static int run_callback(simba__handle *handle)
{
    simba_scheduler *scheduler = (simba_scheduler *)(void *)handle;
    if (scheduler->acquired || is_due(scheduler))
        simba__candidate_look(&scheduler->candidate);
    if (scheduler->released) {
        if (scheduler->driver && scheduler->driver->call.busy)
            return -1; /* the end of the last run is still being recorded */
        scheduler->acquired = false;
        scheduler->released = false;
        scheduler->leads = false;
        scheduler->due = false;
        simba__candidate_ack(&scheduler->candidate);
        return 0;
    }
    if (scheduler->acquired) {
        scheduler->acquired = false;
        scheduler->leads = true;
        atomic_store(&scheduler->run.stopping, false);
        if (scheduler->driver)
            simba__schedule_driver_lead(scheduler->driver);
        else
            plan(scheduler, simba__local_add(handle->client->now, scheduler->initial_delay_ns));
        return 0;
    }
    if (!is_due(scheduler))
        return -1;
    scheduler->due = false;
    run_work(scheduler);
    return 1;
}

static void free_scheduler(simba_scheduler *scheduler)
{
    if (scheduler->driver)
        simba__zonefile_free(&scheduler->driver->zone);
    simba__free(scheduler->driver);
    simba__free(scheduler);
}

static void destroy(simba__handle *handle)
{
    simba_scheduler *scheduler = (simba_scheduler *)(void *)handle;
    simba__candidate_fini(&scheduler->candidate);
    if (scheduler->on_freed)
        scheduler->on_freed(scheduler->user);
    free_scheduler(scheduler);
}

static const simba__candidate_type type = {
    .handle =
        {.step = simba__candidate_step, .callback = run_callback, .destroy = destroy, .contends = true, .timers = 1},
    .told = told,
};

static int check(const simba_scheduler_options *options, simba_error *err)
{
    if (!options->work)
        return simba__fail(err, SIMBA_EINVAL, "work is NULL");
    if ((unsigned)options->schedule > SIMBA_SCHEDULE_CRON)
        return simba__fail(err, SIMBA_EINVAL, "schedule is %d, which is no simba_schedule", (int)options->schedule);
    const bool by_cron = options->schedule == SIMBA_SCHEDULE_CRON;
    if (!by_cron && (options->period_ms < 1 || options->period_ms > SIMBA_LEASE_MAX_MS))
        return simba__fail(err, SIMBA_EINVAL, "period_ms is %lld; it must be from 1 to %lld",
                           (long long)options->period_ms, (long long)SIMBA_LEASE_MAX_MS);
    if (options->initial_delay_ms < 0 || options->initial_delay_ms > SIMBA_LEASE_MAX_MS)
        return simba__fail(err, SIMBA_EINVAL, "initial_delay_ms is %lld; it must be from 0 to %lld",
                           (long long)options->initial_delay_ms, (long long)SIMBA_LEASE_MAX_MS);
    return 0;
}

static int make_driver(simba_scheduler *scheduler, const simba_client *client, const simba_scheduler_options *options,
                       simba_error *err)
{
    if (options->schedule != SIMBA_SCHEDULE_INTERVAL && options->schedule != SIMBA_SCHEDULE_CRON) {
        const bool remembers =
            options->cron || options->time_zone || options->catch_up || options->catch_up_limit || options->guarantee;
        return remembers ? simba__fail(err, SIMBA_EINVAL,
                                       "cron, time_zone, catch_up and guarantee take SIMBA_SCHEDULE_INTERVAL or _CRON")
                         : 0;
    }
    if (!(client->backend->caps & SIMBA_CAP_NOTE))
        return simba__fail(err, SIMBA_ENOTSUP, "%s:// keeps no notes, in which a schedule is remembered",
                           simba_url_scheme(client->url));
    scheduler->driver = simba__calloc(1, sizeof *scheduler->driver);
    if (!scheduler->driver)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    scheduler->driver->candidate = &scheduler->candidate;
    scheduler->driver->timer = &scheduler->start_timer;
    return simba__schedule_driver_init(scheduler->driver, options, err);
}

int simba_scheduler_new(simba_client *client, const char *mutex, const simba_scheduler_options *options,
                        simba_error *err, simba_scheduler **ret_scheduler)
{
    if (!client || !ret_scheduler)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "ret_scheduler" : "client");
    if (!options)
        return simba__fail(err, SIMBA_EINVAL, "options are NULL; a scheduler needs at least work and period_ms");
    simba_scheduler_options own = SIMBA_SCHEDULER_OPTIONS_INIT;
    int rc = simba__sized_take("simba_scheduler_options", options, &own, err);
    if (rc == 0)
        rc = check(&own, err);
    if (rc < 0)
        return rc;
    simba_scheduler *scheduler = simba__calloc(1, sizeof *scheduler);
    if (!scheduler)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    scheduler->schedule = own.schedule;
    scheduler->initial_delay_ns = own.initial_delay_ms * SIMBA__NS_PER_MS;
    scheduler->period_ns = own.period_ms * SIMBA__NS_PER_MS;
    scheduler->work = own.work;
    scheduler->user = own.user;
    scheduler->on_freed = own.on_freed;
    scheduler->start_timer.fire = on_due;
    scheduler->run.scheduler = scheduler;
    rc = make_driver(scheduler, client, &own, err);
    if (rc == 0)
        rc = simba__candidate_init(&scheduler->candidate, &type, client, mutex, own.id, &own.timing, err);
    if (rc < 0) {
        free_scheduler(scheduler);
        return rc;
    }
    *ret_scheduler = scheduler;
    return 0;
}

int simba_scheduler_start(simba_scheduler *scheduler)
{
    return scheduler ? simba__candidate_start(&scheduler->candidate) : SIMBA_EINVAL;
}

int simba_scheduler_stop(simba_scheduler *scheduler)
{
    return scheduler ? simba__candidate_stop(&scheduler->candidate) : SIMBA_EINVAL;
}

void simba_scheduler_free(simba_scheduler *scheduler)
{
    if (scheduler)
        simba__handle_free(&scheduler->candidate.handle, true);
}

simba_status simba_scheduler_status(const simba_scheduler *scheduler)
{
    return scheduler ? simba__candidate_status(&scheduler->candidate) : SIMBA_STATUS_INITIAL;
}

bool simba_scheduler_is_leader(const simba_scheduler *scheduler)
{
    return scheduler && simba__candidate_held_for_ns(&scheduler->candidate) > 0;
}

const char *simba_scheduler_id(const simba_scheduler *scheduler)
{
    return scheduler ? scheduler->candidate.id : NULL;
}

int simba_scheduler_lease(const simba_scheduler *scheduler, simba_lease *ret_lease)
{
    return scheduler && ret_lease ? simba__candidate_lease(&scheduler->candidate, ret_lease) : SIMBA_EINVAL;
}

int simba_scheduler_owner(simba_scheduler *scheduler, simba_owner *ret_owner)
{
    return scheduler && ret_owner ? simba__candidate_owner(&scheduler->candidate, ret_owner) : SIMBA_EINVAL;
}

int64_t simba_scheduler_owner_left_ms(simba_scheduler *scheduler)
{
    return scheduler ? simba__candidate_owner_left_ms(&scheduler->candidate) : 0;
}

int simba_scheduler_grant(simba_scheduler *scheduler, simba_grant *ret_grant)
{
    return scheduler && ret_grant ? simba__candidate_grant(&scheduler->candidate, ret_grant) : SIMBA_EINVAL;
}

/* --- inside a run --------------------------------------------------------------------------------- */

bool simba_run_stopping(const simba_run *run)
{
    return atomic_load(&run->stopping) || simba__candidate_held_for_ns(&run->scheduler->candidate) == 0;
}

int64_t simba_run_held_for_ms(const simba_run *run)
{
    return simba__candidate_held_for_ns(&run->scheduler->candidate) / SIMBA__NS_PER_MS;
}

uint64_t simba_run_token(const simba_run *run)
{
    return simba__candidate_token(&run->scheduler->candidate);
}

bool simba_run_sleep(simba_run *run, int64_t ms)
{
    simba_client *client = run->scheduler->candidate.handle.client;
    if (simba__lock_checked(client, false, NULL) < 0)
        return true;
    const simba_local until =
        ms < SIMBA_LEASE_MAX_MS ? simba__local_add(client->now, (ms > 0 ? ms : 0) * SIMBA__NS_PER_MS) : SIMBA__NEVER;
    while (!atomic_load(&run->stopping) && !simba__local_reached(client->now, until))
        simba__wait(client, run, until);
    simba__unlock(client);
    return simba_run_stopping(run);
}

int simba_run_note_set(simba_run *run, const void *bytes, size_t length, simba_error *err)
{
    if (!run)
        return simba__fail(err, SIMBA_EINVAL, "run is NULL");
    return run->scheduler->driver ? simba__schedule_driver_note_set(run->scheduler->driver, bytes, length, err)
                                  : simba__work_note_set(&run->scheduler->candidate, bytes, length, err);
}

int simba_run_note(simba_run *run, simba_error *err, simba_note *ret_note)
{
    if (!run || !ret_note)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", run ? "ret_note" : "run");
    return simba__work_note_get(&run->scheduler->candidate, err, ret_note);
}

/* The plan does not change while a run goes on. */
static const simba__plan *plan_of(const simba_run *run)
{
    static const simba__plan none = {.kind = SIMBA__PLAN_WAIT};
    return run->scheduler->driver ? &run->scheduler->driver->schedule.plan : &none;
}

int64_t simba_run_due_at_ms(const simba_run *run)
{
    return plan_of(run)->at_ms;
}

int64_t simba_run_missed(const simba_run *run)
{
    return plan_of(run)->missed;
}

bool simba_run_cut_short(const simba_run *run)
{
    return plan_of(run)->cut_short;
}

void simba_run_finish(simba_run *run, int result)
{
    run->finished = true;
    run->result = result;
}
