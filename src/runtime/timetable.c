/* See timetable.h. */
#include "runtime/timetable.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/worknote.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/saturate.h"
#include "util/sized.h"

/* The longest wait before it asks for the store's time again, and the wait after a failed note call. */
#define LEG_MS 600000
#define RETRY_MS 500
#define RETRY_LASTING_MS 5000

static simba_client *client_of(const simba__timetable *table)
{
    return table->member->party.client;
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

int simba__timetable_parse_spec(const char *spec, simba_error *err, simba__recurrence *ret_recurrence,
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

int simba__timetable_init(simba__timetable *table, const simba_scheduler_options *options, simba_error *err)
{
    int rc = check(options, err);
    if (rc == 0)
        rc = write_spec(options, table->spec, err);
    if (rc == 0)
        rc = simba__timetable_parse_spec(table->spec, err, &table->policy.recurrence, &table->zone);
    if (rc < 0)
        return rc;
    table->policy.spec = table->spec;
    table->policy.catch_up = options->catch_up;
    table->policy.limit = options->catch_up_limit ? options->catch_up_limit : SIMBA_CATCH_UP_LIMIT;
    table->policy.at_least_once = options->guarantee == SIMBA_AT_LEAST_ONCE;
    table->policy.first_delay_ms = options->initial_delay_ms;
    table->conductor.policy = &table->policy;
    return 0;
}

void simba__timetable_fini(simba__timetable *table)
{
    simba__zonefile_free(&table->zone);
}

/* --- the store's time ------------------------------------------------------------------------------- */

static int64_t now_ms(const simba__timetable *table)
{
    return table->clock_ms + (client_of(table)->turn.now.ns - table->clock_at.ns) / SIMBA__NS_PER_MS;
}

static void set_timer(simba__timetable *table, int64_t in_ms)
{
    simba_client *client = client_of(table);
    simba__timers_set(&client->turn.timers, table->timer, simba__local_add(client->turn.now, in_ms * SIMBA__NS_PER_MS));
}

/* --- note calls ------------------------------------------------------------------------------------- */

static void read_note(simba__timetable *table);
static void write_record(simba__timetable *table);

/* Try again soon after a transient error; log a lasting one once. */
static void after_failure(simba__timetable *table, int rc)
{
    simba_client *client = client_of(table);
    if (!table->leads || rc == SIMBA_ELOST || rc == SIMBA_ESTATE || rc == SIMBA_ECLOSED)
        return;
    const bool lasts = !simba__is_transient(rc);
    if (lasts && !table->complained) {
        client->host.log(&client->host, SIMBA_LOG_ERROR, "the schedule of %s stands still: %s",
                         table->member->party.topic->mutex, table->call.err.text);
        table->complained = true;
    }
    set_timer(table, lasts ? RETRY_LASTING_MS : RETRY_MS);
}

static void act(simba__timetable *table, simba__conductor_act what)
{
    switch (what) {
    case SIMBA__ACT_WRITE:
        write_record(table);
        break;
    case SIMBA__ACT_WAIT: {
        const int64_t left_ms = table->conductor.plan.at_ms - now_ms(table);
        set_timer(table, left_ms < 0 ? 0 : left_ms < LEG_MS ? left_ms : LEG_MS);
        break;
    }
    case SIMBA__ACT_RUN:
    case SIMBA__ACT_NONE:
        break;
    }
    simba__strand_post(&table->member->party.strand);
}

/* Read the record that the last leader left. */
static void found(simba__timetable *table)
{
    simba_note *note = &table->call.note;
    simba__record record;
    const int size = simba__record_read(note->bytes, note->length, &table->call.err, &record);
    if (size < 0) {
        after_failure(table, size);
        return;
    }
    memcpy(table->note, note->bytes, note->length);
    table->record_size = (size_t)size;
    table->note_size = note->length;
    act(table, simba__conductor_lead(&table->conductor, size > 0 ? &record : NULL, now_ms(table)));
}

static void answered(simba__note_call *call)
{
    simba__timetable *table = (simba__timetable *)(void *)((char *)call - offsetof(simba__timetable, call));
    simba__strand_post(&table->member->party.strand);
    if (call->rc < 0) {
        after_failure(table, call->rc);
        return;
    }
    table->clock_ms = call->note.now_ms;
    table->clock_at = client_of(table)->turn.now;
    if (!table->leads)
        return;
    if (call->writer)
        act(table, simba__conductor_written(&table->conductor, now_ms(table)));
    else if (table->conductor.phase == SIMBA__CONDUCTOR_AWAY)
        found(table);
    else
        act(table, simba__conductor_look(&table->conductor, now_ms(table)));
}

static void read_note(simba__timetable *table)
{
    table->call.done = answered;
    const int rc = simba__note_read(&table->call, client_of(table), table->member->party.topic->mutex);
    if (rc < 0)
        after_failure(table, rc);
}

/* Replace the record; the note of the work moves along. */
static void write_record(simba__timetable *table)
{
    char text[SIMBA__RECORD_MAX + 1];
    const size_t size = simba__record_write(&table->conductor.record, text);
    const size_t rest = table->note_size - table->record_size;
    const size_t room = SIMBA_NOTE_MAX - size;
    const size_t kept = rest < room ? rest : room; /* a note that is too long for us was not written by a run */
    memmove(table->note + size, table->note + table->record_size, kept);
    memcpy(table->note, text, size);
    table->record_size = size;
    table->note_size = size + kept;
    table->call.done = answered;
    const int rc = simba__note_write(&table->call, table->member, table->note, table->note_size);
    if (rc < 0)
        after_failure(table, rc);
}

/* --- for the scheduler ------------------------------------------------------------------------------- */

void simba__timetable_lead(simba__timetable *table)
{
    SIMBA__ASSERT(!table->call.busy);
    simba__conductor_leave(&table->conductor);
    table->leads = true;
    table->complained = false;
    read_note(table);
}

void simba__timetable_timer(simba__timetable *table)
{
    if (!table->leads || table->call.busy)
        return;
    switch (table->conductor.phase) {
    case SIMBA__CONDUCTOR_AWAY:
        read_note(table);
        break;
    case SIMBA__CONDUCTOR_WAITING:
        if (now_ms(table) >= table->conductor.plan.at_ms)
            act(table, simba__conductor_look(&table->conductor, now_ms(table)));
        else
            read_note(table);
        break;
    case SIMBA__CONDUCTOR_ADOPTING:
    case SIMBA__CONDUCTOR_BEGINNING:
    case SIMBA__CONDUCTOR_ENDING:
        write_record(table);
        break;
    case SIMBA__CONDUCTOR_RUNNING:
        break;
    }
}

void simba__timetable_leave(simba__timetable *table)
{
    table->leads = false;
}

bool simba__timetable_busy(const simba__timetable *table)
{
    return table->call.busy;
}

bool simba__timetable_is_due(const simba__timetable *table)
{
    return table->leads && table->conductor.phase == SIMBA__CONDUCTOR_RUNNING;
}

void simba__timetable_ran(simba__timetable *table, int result)
{
    if (simba__conductor_ran(&table->conductor, result, now_ms(table)) == SIMBA__ACT_WRITE)
        write_record(table);
}

void simba__timetable_cut_short(simba__timetable *table)
{
    simba__conductor_leave(&table->conductor);
    if (table->leads)
        set_timer(table, RETRY_MS); /* leadership ended before we heard of it: if it goes on after all, begin anew */
}

int simba__timetable_note_set(simba__timetable *table, const void *bytes, size_t length, simba_error *err)
{
    simba_client *client = client_of(table);
    char record[SIMBA__RECORD_MAX];
    int rc = simba__client_enter(client, err);
    if (rc < 0)
        return rc;
    const size_t size = table->record_size;
    const uint64_t token = table->member->machine.token;
    memcpy(record, table->note, size);
    simba__leave(&client->turn);
    rc = simba__worknote_set_behind(table->member, (simba__tenure){.token = token}, record, size, bytes, length, err);
    if (rc == 0) {
        simba__enter(&client->turn);
        if (length > 0)
            memcpy(table->note + size, bytes, length);
        table->note_size = size + length;
        simba__leave(&client->turn);
    }
    return rc;
}

/* --- for everybody ----------------------------------------------------------------------------------- */

static int64_t next_at_ms(const simba__record *record)
{
    static const char once[] = "once per ";
    if (strncmp(record->spec, once, strlen(once)) == 0)
        return simba__sat_add(record->begun_ms, strtoll(record->spec + strlen(once), NULL, 10));
    simba__policy policy = {.spec = record->spec};
    simba__zonefile zone = {.bytes = NULL};
    if (simba__timetable_parse_spec(record->spec, NULL, &policy.recurrence, &zone) < 0)
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
