/* The scheduler: a member whose strand runs periodic work while it leads. Notifications and work share the strand,
 * so it always waits for a run in progress before it gives leadership back. This file keeps the time of the next run
 * for schedules that begin anew with each leadership, runtime/timetable.c for remembered ones. */
#include <simba.h>
#include <stdatomic.h>

#include "runtime/timetable.h"
#include "runtime/worknote.h"
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
    simba__member member; /* first */
    simba_schedule schedule;
    int64_t initial_delay_ns;
    int64_t period_ns;
    simba_work_fn work;
    void *user;
    simba_freed_fn on_freed;
    simba__timetable *table; /* NULL: the schedule begins anew with each leadership */
    simba_timer start_timer; /* of the next run */
    simba_local next;
    simba_run run;
    bool acquired, released; /* not handled yet */
    bool leads;
    bool due;
};

static void told(simba__member *member, const simba__actions *actions)
{
    simba_scheduler *scheduler = (simba_scheduler *)(void *)member;
    simba_client *client = member->party.client;
    scheduler->acquired |= actions->acquired;
    if (actions->released) {
        scheduler->released = true;
        atomic_store(&scheduler->run.stopping, true);
        simba__timers_clear(&client->turn.timers, &scheduler->start_timer);
        if (scheduler->table)
            simba__timetable_leave(scheduler->table);
        simba__turn_signal(&client->turn, &client->turn.changed); /* a run may be asleep */
    }
    if (actions->acquired || actions->released)
        simba__strand_post(&member->party.strand);
}

static void on_due(simba_timer *timer, simba_local now)
{
    (void)now;
    simba_scheduler *scheduler = (simba_scheduler *)(void *)((char *)timer - offsetof(simba_scheduler, start_timer));
    if (scheduler->table) {
        simba__timetable_timer(scheduler->table);
        return;
    }
    scheduler->due = true;
    simba__strand_post(&scheduler->member.party.strand);
}

static void plan(simba_scheduler *scheduler, simba_local at)
{
    simba_client *client = scheduler->member.party.client;
    scheduler->next = at;
    if (!scheduler->released)
        simba__timers_set(&client->turn.timers, &scheduler->start_timer, at);
}

static void plan_next(simba_scheduler *scheduler)
{
    const simba_local now = scheduler->member.party.client->turn.now;
    if (scheduler->schedule == SIMBA_SCHEDULE_FIXED_DELAY) {
        plan(scheduler, simba__local_add(now, scheduler->period_ns));
        return;
    }
    /* Skip the starts that fell into the run, and keep to the due times. */
    const int64_t late_ns = now.ns - scheduler->next.ns;
    const int64_t beats = late_ns > 0 ? late_ns / scheduler->period_ns + 1 : 1;
    plan(scheduler, simba__local_add(scheduler->next, beats * scheduler->period_ns));
}

/* The first run of a leadership is planned. */
static void begin_to_lead(simba_scheduler *scheduler)
{
    simba_client *client = scheduler->member.party.client;
    scheduler->leads = true;
    atomic_store(&scheduler->run.stopping, false);
    if (scheduler->table)
        simba__timetable_lead(scheduler->table);
    else
        plan(scheduler, simba__local_add(client->turn.now, scheduler->initial_delay_ns));
}

static void run_work(simba_scheduler *scheduler)
{
    simba_client *client = scheduler->member.party.client;
    simba_run *run = &scheduler->run;
    run->finished = false;
    run->result = 0;
    simba__turn_pause(&client->turn);
    scheduler->work(run, scheduler->user);
    const bool cut_short = simba_run_stopping(run) && !run->finished;
    simba__enter(&client->turn);
    if (!scheduler->table)
        plan_next(scheduler);
    else if (cut_short)
        simba__timetable_cut_short(scheduler->table);
    else
        simba__timetable_ran(scheduler->table, run->result);
}

static bool is_due(const simba_scheduler *scheduler)
{
    return scheduler->leads && (scheduler->table ? simba__timetable_is_due(scheduler->table) : scheduler->due);
}

static int run_one(simba__party *party)
{
    simba_scheduler *scheduler = (simba_scheduler *)(void *)party;
    if (scheduler->acquired || is_due(scheduler))
        simba__member_look(&scheduler->member);
    if (scheduler->released) {
        if (scheduler->table && simba__timetable_busy(scheduler->table))
            return -1; /* the end of the last run is still being recorded */
        scheduler->acquired = false;
        scheduler->released = false;
        scheduler->leads = false;
        scheduler->due = false;
        simba__member_ack(&scheduler->member);
        return 0;
    }
    if (scheduler->acquired) {
        scheduler->acquired = false;
        begin_to_lead(scheduler);
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
    if (scheduler->table)
        simba__timetable_fini(scheduler->table);
    simba__free(scheduler->table);
    simba__free(scheduler);
}

static void destroy(simba__party *party)
{
    simba_scheduler *scheduler = (simba_scheduler *)(void *)party;
    simba__member_fini(&scheduler->member);
    if (scheduler->on_freed)
        scheduler->on_freed(scheduler->user);
    free_scheduler(scheduler);
}

static const simba__member_type type = {
    .party = {.event = simba__member_step, .run_one = run_one, .destroy = destroy, .is_member = true, .timers = 1},
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

static int make_table(simba_scheduler *scheduler, const simba_client *client, const simba_scheduler_options *options,
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
    scheduler->table = simba__calloc(1, sizeof *scheduler->table);
    if (!scheduler->table)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    scheduler->table->member = &scheduler->member;
    scheduler->table->timer = &scheduler->start_timer;
    return simba__timetable_init(scheduler->table, options, err);
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
    rc = make_table(scheduler, client, &own, err);
    if (rc == 0)
        rc = simba__member_init(&scheduler->member, &type, client, mutex, own.id, &own.timing, err);
    if (rc < 0) {
        free_scheduler(scheduler);
        return rc;
    }
    *ret_scheduler = scheduler;
    return 0;
}

int simba_scheduler_start(simba_scheduler *scheduler)
{
    return scheduler ? simba__member_public_start(&scheduler->member) : SIMBA_EINVAL;
}

int simba_scheduler_stop(simba_scheduler *scheduler)
{
    return scheduler ? simba__member_public_stop(&scheduler->member) : SIMBA_EINVAL;
}

void simba_scheduler_free(simba_scheduler *scheduler)
{
    if (scheduler)
        simba__party_free(&scheduler->member.party);
}

simba_status simba_scheduler_status(const simba_scheduler *scheduler)
{
    return scheduler ? simba__member_status(&scheduler->member) : SIMBA_STATUS_INITIAL;
}

bool simba_scheduler_is_leader(const simba_scheduler *scheduler)
{
    return scheduler && simba__member_held_for_ns(&scheduler->member) > 0;
}

const char *simba_scheduler_id(const simba_scheduler *scheduler)
{
    return scheduler ? scheduler->member.id : NULL;
}

int simba_scheduler_lease(const simba_scheduler *scheduler, simba_lease *ret_lease)
{
    return scheduler && ret_lease ? simba__member_lease(&scheduler->member, ret_lease) : SIMBA_EINVAL;
}

int simba_scheduler_owner(simba_scheduler *scheduler, simba_owner *ret_owner)
{
    return scheduler && ret_owner ? simba__member_owner(&scheduler->member, ret_owner) : SIMBA_EINVAL;
}

int64_t simba_scheduler_owner_left_ms(simba_scheduler *scheduler)
{
    return scheduler ? simba__member_owner_left_ms(&scheduler->member) : 0;
}

int simba_scheduler_grant(simba_scheduler *scheduler, simba_grant *ret_grant)
{
    return scheduler && ret_grant ? simba__member_grant(&scheduler->member, ret_grant) : SIMBA_EINVAL;
}

/* --- inside a run --------------------------------------------------------------------------------- */

bool simba_run_stopping(const simba_run *run)
{
    return atomic_load(&run->stopping) || simba__member_held_for_ns(&run->scheduler->member) == 0;
}

int64_t simba_run_held_for_ms(const simba_run *run)
{
    return simba__member_held_for_ns(&run->scheduler->member) / SIMBA__NS_PER_MS;
}

uint64_t simba_run_token(const simba_run *run)
{
    return simba__member_token(&run->scheduler->member);
}

bool simba_run_sleep(simba_run *run, int64_t ms)
{
    simba_client *client = run->scheduler->member.party.client;
    if (simba__client_enter(client, NULL) < 0)
        return true;
    const simba_local until = ms < SIMBA_LEASE_MAX_MS
                                  ? simba__local_add(client->turn.now, (ms > 0 ? ms : 0) * SIMBA__NS_PER_MS)
                                  : SIMBA__NEVER;
    while (!atomic_load(&run->stopping) && !simba__local_reached(client->turn.now, until))
        simba__turn_wait(&client->turn, &client->turn.changed, until);
    simba__leave(&client->turn);
    return simba_run_stopping(run);
}

int simba_run_note_set(simba_run *run, const void *bytes, size_t length, simba_error *err)
{
    if (!run)
        return simba__fail(err, SIMBA_EINVAL, "run is NULL");
    return run->scheduler->table ? simba__timetable_note_set(run->scheduler->table, bytes, length, err)
                                 : simba__worknote_set(&run->scheduler->member, 0, bytes, length, err);
}

int simba_run_note(simba_run *run, simba_error *err, simba_note *ret_note)
{
    if (!run || !ret_note)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", run ? "ret_note" : "run");
    return simba__worknote_get(&run->scheduler->member, err, ret_note);
}

/* The plan does not change while a run goes on. */
static const simba__plan *plan_of(const simba_run *run)
{
    static const simba__plan none = {.kind = SIMBA__PLAN_WAIT};
    return run->scheduler->table ? &run->scheduler->table->conductor.plan : &none;
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
