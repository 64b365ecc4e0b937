/* The scheduler: a member whose strand runs periodic work while it leads. Being told and working share the strand, so
 * a run in progress is always awaited before leadership is given back. */
#include <simba.h>
#include <stdatomic.h>

#include "runtime/notes.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/sized.h"

struct simba_run {
    simba_scheduler *scheduler;
    atomic_bool stopping;
};

struct simba_scheduler {
    simba__member member; /* first */
    simba_schedule schedule;
    int64_t initial_delay_ns;
    int64_t period_ns;
    simba_work_fn work;
    void *user;
    simba_freed_fn on_freed;
    simba_timer start_timer; /* of the next run */
    simba_local next;
    simba_run run;
    bool acquired, released; /* to be taken note of */
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
        simba__turn_signal(&client->turn, &client->turn.changed); /* a run may be asleep */
    }
    if (actions->acquired || actions->released)
        simba__strand_post(&member->party.strand);
}

static void on_due(simba_timer *timer, simba_local now)
{
    (void)now;
    simba_scheduler *scheduler = (simba_scheduler *)(void *)((char *)timer - offsetof(simba_scheduler, start_timer));
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
    /* Starts that fell into the run are skipped, and the beat is kept. */
    const int64_t late_ns = now.ns - scheduler->next.ns;
    const int64_t beats = late_ns > 0 ? late_ns / scheduler->period_ns + 1 : 1;
    plan(scheduler, simba__local_add(scheduler->next, beats * scheduler->period_ns));
}

static int run_one(simba__party *party)
{
    simba_scheduler *scheduler = (simba_scheduler *)(void *)party;
    if (scheduler->acquired || scheduler->due)
        simba__member_look(&scheduler->member);
    if (scheduler->released) {
        scheduler->acquired = false;
        scheduler->released = false;
        scheduler->leads = false;
        scheduler->due = false;
        simba__member_ack(&scheduler->member);
        return 0;
    }
    if (scheduler->acquired) {
        scheduler->acquired = false;
        scheduler->leads = true;
        atomic_store(&scheduler->run.stopping, false);
        plan(scheduler, simba__local_add(party->client->turn.now, scheduler->initial_delay_ns));
        return 0;
    }
    if (!scheduler->due || !scheduler->leads)
        return -1;
    scheduler->due = false;
    simba__turn_pause(&party->client->turn);
    scheduler->work(&scheduler->run, scheduler->user);
    simba__enter(&party->client->turn);
    plan_next(scheduler);
    return 1;
}

static void destroy(simba__party *party)
{
    simba_scheduler *scheduler = (simba_scheduler *)(void *)party;
    simba__member_fini(&scheduler->member);
    if (scheduler->on_freed)
        scheduler->on_freed(scheduler->user);
    simba__free(scheduler);
}

static const simba__member_type type = {
    .party = {.event = simba__member_step, .run_one = run_one, .destroy = destroy, .is_member = true, .timers = 1},
    .told = told,
};

static int check(const simba_scheduler_options *options, simba_error *err)
{
    if (!options->work)
        return simba__fail(err, SIMBA_EINVAL, "work is NULL");
    if ((unsigned)options->schedule > SIMBA_SCHEDULE_FIXED_DELAY)
        return simba__fail(err, SIMBA_EINVAL,
                           "schedule is %d, which is neither SIMBA_SCHEDULE_FIXED_RATE nor SIMBA_SCHEDULE_FIXED_DELAY",
                           (int)options->schedule);
    if (options->period_ms < 1 || options->period_ms > SIMBA_LEASE_MAX_MS)
        return simba__fail(err, SIMBA_EINVAL, "period_ms is %lld; it must be from 1 to %lld",
                           (long long)options->period_ms, (long long)SIMBA_LEASE_MAX_MS);
    if (options->initial_delay_ms < 0 || options->initial_delay_ms > SIMBA_LEASE_MAX_MS)
        return simba__fail(err, SIMBA_EINVAL, "initial_delay_ms is %lld; it must be from 0 to %lld",
                           (long long)options->initial_delay_ms, (long long)SIMBA_LEASE_MAX_MS);
    return 0;
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
    rc = simba__member_init(&scheduler->member, &type, client, mutex, own.id, &own.timing, err);
    if (rc < 0) {
        simba__free(scheduler);
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
    return run ? simba__member_note_set(&run->scheduler->member, bytes, length, err)
               : simba__fail(err, SIMBA_EINVAL, "run is NULL");
}

int simba_run_note(simba_run *run, simba_error *err, simba_note *ret_note)
{
    if (!run || !ret_note)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", run ? "ret_note" : "run");
    return simba__member_note(&run->scheduler->member, err, ret_note);
}
