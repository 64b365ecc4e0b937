/* See schedule_driver.h. */
#include "client/schedule_driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/saturate.h"
#include "util/sized.h"

/* The longest wait before it asks for the store's time again, and the wait after a failed note call. */
#define LEG_MS 600000
#define RETRY_MS 500
#define RETRY_LASTING_MS 5000

static simba_client *client_of(const simba__schedule_driver *driver)
{
    return driver->candidate->handle.client;
}

/* --- options and specs ------------------------------------------------------------------------------ */

static int check(const simba_scheduler_options *options, simba_error *err)
{
    if ((unsigned)options->catch_up > SIMBA_CATCH_UP_ALL)
        return simba__fail(err, SIMBA_EINVAL, "catch_up is %d, which is no simba_catch_up", (int)options->catch_up);
    if ((unsigned)options->guarantee > SIMBA_AT_LEAST_ONCE)
        return simba__fail(err, SIMBA_EINVAL, "guarantee is %d, which is no simba_guarantee", (int)options->guarantee);
    if (options->catch_up_limit < 0 || options->catch_up_limit > SIMBA__CATCH_UP_MAX)
        return simba__fail(err, SIMBA_EINVAL, "catch_up_limit is %lld; it must be from 1 to %d, or 0 for %d",
                           (long long)options->catch_up_limit, SIMBA__CATCH_UP_MAX, SIMBA_CATCH_UP_LIMIT);
    if (options->schedule == SIMBA_SCHEDULE_CRON) {
        if (!options->cron)
            return simba__fail(err, SIMBA_EINVAL, "cron is NULL");
        if (options->period_ms != 0 || options->initial_delay_ms != 0)
            return simba__fail(err, SIMBA_EINVAL, "%s has no meaning with a cron expression",
                               options->period_ms != 0 ? "period_ms" : "initial_delay_ms");
    } else if (options->cron || options->time_zone) {
        return simba__fail(err, SIMBA_EINVAL, "%s has no meaning without SIMBA_SCHEDULE_CRON",
                           options->cron ? "cron" : "time_zone");
    }
    return 0;
}

int simba__schedule_driver_parse_spec(const char *spec, simba_error *err, simba__recurrence *ret_recurrence,
                                      simba__zonefile *zone)
{
    static const char every[] = "every ";
    static const char cron[] = "cron ";
    static const char in[] = " in ";
    *ret_recurrence = (simba__recurrence){.every_ms = 0};
    if (strncmp(spec, every, strlen(every)) == 0) {
        char *end;
        ret_recurrence->every_ms = strtoll(spec + strlen(every), &end, 10);
        if (*end == '\0' && ret_recurrence->every_ms > 0 && ret_recurrence->every_ms <= SIMBA_LEASE_MAX_MS)
            return 0;
    } else if (strncmp(spec, cron, strlen(cron)) == 0 && strstr(spec, in)) {
        char expression[SIMBA__SPEC_MAX + 1];
        const char *end = strstr(spec, in);
        snprintf(expression, sizeof expression, "%.*s", (int)(end - spec - (ptrdiff_t)strlen(cron)),
                 spec + strlen(cron));
        const int rc = simba__cron_parse(expression, err, &ret_recurrence->cron);
        ret_recurrence->zone = &zone->zone;
        return rc < 0 ? rc : simba__zonefile_load(end + strlen(in), err, zone);
    }
    return simba__fail(err, SIMBA_EINVAL, "\"%s\" is no schedule that this version of simba knows", spec);
}

static int write_spec(const simba_scheduler_options *options, char ret_spec[SIMBA__SPEC_MAX + 1], simba_error *err)
{
    const char *zone = options->time_zone && options->time_zone[0] ? options->time_zone : "UTC";
    if (options->schedule == SIMBA_SCHEDULE_INTERVAL) {
        snprintf(ret_spec, SIMBA__SPEC_MAX + 1, "every %" PRId64, options->period_ms);
        return 0;
    }
    /* Check the parts before they become one text: a part must not contain another. */
    simba__cron cron;
    int rc = simba__cron_parse(options->cron, err, &cron);
    if (rc == 0)
        rc = simba__zone_check_name(zone, err);
    if (rc < 0)
        return rc;
    snprintf(ret_spec, SIMBA__SPEC_MAX + 1, "cron %s in %s", options->cron, zone);
    for (char *at = ret_spec; *at; at++)
        if (*at == '\t')
            *at = ' ';
    return 0;
}

int simba__schedule_driver_init(simba__schedule_driver *driver, const simba_scheduler_options *options,
                                simba_error *err)
{
    int rc = check(options, err);
    if (rc == 0)
        rc = write_spec(options, driver->spec, err);
    if (rc == 0)
        rc = simba__schedule_driver_parse_spec(driver->spec, err, &driver->policy.recurrence, &driver->zone);
    if (rc < 0)
        return rc;
    driver->policy.spec = driver->spec;
    driver->policy.catch_up = options->catch_up;
    driver->policy.limit = options->catch_up_limit ? options->catch_up_limit : SIMBA_CATCH_UP_LIMIT;
    driver->policy.at_least_once = options->guarantee == SIMBA_AT_LEAST_ONCE;
    driver->policy.first_delay_ms = options->initial_delay_ms;
    driver->schedule.policy = &driver->policy;
    return 0;
}

/* --- the store's time ------------------------------------------------------------------------------- */

static int64_t now_ms(const simba__schedule_driver *driver)
{
    return driver->clock_ms + (client_of(driver)->now.ns - driver->clock_at.ns) / SIMBA__NS_PER_MS;
}

static void set_timer(simba__schedule_driver *driver, int64_t in_ms)
{
    simba_client *client = client_of(driver);
    simba__timers_set(&client->timers, driver->timer, simba__local_add(client->now, in_ms * SIMBA__NS_PER_MS));
}

/* --- note calls ------------------------------------------------------------------------------------- */

static void read_note(simba__schedule_driver *driver);
static void write_record(simba__schedule_driver *driver);

/* Try again soon after a transient error; log a lasting one once. */
static void after_failure(simba__schedule_driver *driver, int rc)
{
    simba_client *client = client_of(driver);
    if (!driver->leads || rc == SIMBA_ELOST || rc == SIMBA_ESTATE || rc == SIMBA_ECLOSED)
        return;
    const bool lasts = !simba__is_transient(rc);
    if (lasts && !driver->complained) {
        client->host.log(&client->host, SIMBA_LOG_ERROR, "the schedule of %s stands still: %s",
                         driver->candidate->handle.watch->mutex, driver->call.err.text);
        driver->complained = true;
    }
    set_timer(driver, lasts ? RETRY_LASTING_MS : RETRY_MS);
}

static void act(simba__schedule_driver *driver, simba__schedule_act what)
{
    switch (what) {
    case SIMBA__ACT_WRITE:
        write_record(driver);
        break;
    case SIMBA__ACT_WAIT: {
        const int64_t left_ms = driver->schedule.plan.at_ms - now_ms(driver);
        set_timer(driver, left_ms < 0 ? 0 : left_ms < LEG_MS ? left_ms : LEG_MS);
        break;
    }
    case SIMBA__ACT_RUN:
    case SIMBA__ACT_NONE:
        break;
    }
    simba__callbacks_add(&driver->candidate->handle);
}

static void answered(simba__note_call *call)
{
    simba__schedule_driver *driver =
        (simba__schedule_driver *)(void *)((char *)call - offsetof(simba__schedule_driver, call));
    simba__callbacks_add(&driver->candidate->handle);
    if (call->rc < 0) {
        after_failure(driver, call->rc);
        return;
    }
    driver->clock_ms = call->note.now_ms;
    driver->clock_at = client_of(driver)->now;
    if (!driver->leads)
        return;
    if (call->writer) {
        act(driver, simba__schedule_written(&driver->schedule, now_ms(driver)));
        return;
    }
    if (driver->schedule.phase != SIMBA__SCHEDULE_AWAY) {
        act(driver, simba__schedule_look(&driver->schedule, now_ms(driver)));
        return;
    }
    /* This is the record that the last leader left. */
    simba__record record;
    const int size = simba__record_read(call->note.bytes, call->note.length, &call->err, &record);
    if (size < 0) {
        after_failure(driver, size);
        return;
    }
    memcpy(driver->note, call->note.bytes, call->note.length);
    driver->record_size = (size_t)size;
    driver->note_size = call->note.length;
    act(driver, simba__schedule_lead(&driver->schedule, size > 0 ? &record : NULL, now_ms(driver)));
}

static void read_note(simba__schedule_driver *driver)
{
    driver->call.done = answered;
    const int rc = simba__note_read(&driver->call, client_of(driver), driver->candidate->handle.watch->mutex);
    if (rc < 0)
        after_failure(driver, rc);
}

/* Replace the record; the note of the work moves along. */
static void write_record(simba__schedule_driver *driver)
{
    char text[SIMBA__RECORD_MAX + 1];
    const size_t size = simba__record_write(&driver->schedule.record, text);
    const size_t rest = driver->note_size - driver->record_size;
    const size_t room = SIMBA_NOTE_MAX - size;
    const size_t kept = rest < room ? rest : room; /* a note that is too long for us was not written by a run */
    memmove(driver->note + size, driver->note + driver->record_size, kept);
    memcpy(driver->note, text, size);
    driver->record_size = size;
    driver->note_size = size + kept;
    driver->call.done = answered;
    const int rc = simba__note_write(&driver->call, driver->candidate, driver->note, driver->note_size);
    if (rc < 0)
        after_failure(driver, rc);
}

/* --- for the scheduler ------------------------------------------------------------------------------- */

void simba__schedule_driver_lead(simba__schedule_driver *driver)
{
    SIMBA__ASSERT(!driver->call.busy);
    simba__schedule_leave(&driver->schedule);
    driver->leads = true;
    driver->complained = false;
    read_note(driver);
}

void simba__schedule_driver_timer(simba__schedule_driver *driver)
{
    if (!driver->leads || driver->call.busy)
        return;
    switch (driver->schedule.phase) {
    case SIMBA__SCHEDULE_AWAY:
        read_note(driver);
        break;
    case SIMBA__SCHEDULE_WAITING:
        if (now_ms(driver) >= driver->schedule.plan.at_ms)
            act(driver, simba__schedule_look(&driver->schedule, now_ms(driver)));
        else
            read_note(driver);
        break;
    case SIMBA__SCHEDULE_ADOPTING:
    case SIMBA__SCHEDULE_BEGINNING:
    case SIMBA__SCHEDULE_ENDING:
        write_record(driver);
        break;
    case SIMBA__SCHEDULE_RUNNING:
        break;
    }
}

bool simba__schedule_driver_is_due(const simba__schedule_driver *driver)
{
    return driver->leads && driver->schedule.phase == SIMBA__SCHEDULE_RUNNING;
}

void simba__schedule_driver_ran(simba__schedule_driver *driver, int result)
{
    if (simba__schedule_ran(&driver->schedule, result, now_ms(driver)) == SIMBA__ACT_WRITE)
        write_record(driver);
}

void simba__schedule_driver_cut_short(simba__schedule_driver *driver)
{
    simba__schedule_leave(&driver->schedule);
    if (driver->leads)
        set_timer(driver, RETRY_MS); /* leadership ended before we heard of it: if it goes on after all, begin anew */
}

int simba__schedule_driver_note_set(simba__schedule_driver *driver, const void *bytes, size_t length, simba_error *err)
{
    simba_client *client = client_of(driver);
    char record[SIMBA__RECORD_MAX];
    int rc = simba__lock_checked(client, false, err);
    if (rc < 0)
        return rc;
    const size_t size = driver->record_size;
    const uint64_t token = driver->candidate->machine.token;
    memcpy(record, driver->note, size);
    simba__unlock(client);
    rc = simba__work_note_set_behind(driver->candidate, token, record, size, bytes, length, err);
    if (rc == 0) {
        simba__lock(client);
        if (length > 0)
            memcpy(driver->note + size, bytes, length);
        driver->note_size = size + length;
        simba__unlock(client);
    }
    return rc;
}

/* --- for everybody ----------------------------------------------------------------------------------- */

static int64_t next_at_ms(const simba__record *record)
{
    if (simba__once_is_record(record))
        return simba__once_next_ms(record);
    simba__policy policy = {.spec = record->spec};
    simba__zonefile zone = {.bytes = NULL};
    if (simba__schedule_driver_parse_spec(record->spec, NULL, &policy.recurrence, &zone) < 0)
        return 0;
    const int64_t next_ms = simba__schedule_next_due(&policy, record);
    simba__zonefile_free(&zone);
    return next_ms == SIMBA__RECURRENCE_NEVER ? 0 : next_ms;
}

int simba_schedule_read(const void *note, size_t length, simba_error *err, simba_schedule_info *ret_info)
{
    simba__record record;
    if ((!note && length > 0) || !ret_info)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", ret_info ? "note" : "ret_info");
    const int rc = length > 0 ? simba__record_read(note, length, err, &record) : 0;
    if (rc < 0)
        return rc;
    if (rc == 0)
        return simba__fail(err, SIMBA_ENOTFOUND, "the note is of no schedule");
    simba_schedule_info info;
    memset(&info, 0, sizeof info);
    info.size = sizeof info;
    strcpy(info.when, record.spec);
    if (record.state != SIMBA__RUN_NONE) {
        info.due_at_ms = record.due_ms;
        info.begun_at_ms = record.begun_ms;
        info.ended_at_ms = record.state == SIMBA__RUN_ENDED ? record.ended_ms : 0;
        info.result = record.state == SIMBA__RUN_ENDED ? record.result : 0;
        info.missed = record.missed;
    }
    info.next_at_ms = next_at_ms(&record);
    info.length = (size_t)rc;
    return simba__sized_tell(ret_info, &info);
}
