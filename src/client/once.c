/* See once.h. */
#include "client/once.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "util/saturate.h"

static const char once[] = "once per ";

/* A scheduler would take the place of our record for a new schedule, and begin anew. */
static int refuse_schedule(const char *mutex, const simba__record *record, simba_error *err)
{
    if (strncmp(record->spec, once, strlen(once)) == 0)
        return 0;
    return simba__fail(err, SIMBA_ESTATE,
                       "%s has a schedule (%.60s), whose record a run once per period would replace; use another mutex",
                       mutex, record->spec);
}

/* If the store's clock went back, the wait becomes longer: nobody can know whether the period is over. */
static int judge(const char *mutex, const simba__record *record, int64_t once_per_ms, int64_t now_ms, simba_error *err)
{
    const int64_t ago_ms = simba__sat_sub(now_ms, record->begun_ms);
    if (record->state == SIMBA__RUN_NONE || ago_ms >= once_per_ms)
        return 0;
    return simba__fail(err, SIMBA_ETOOSOON, "%s was begun %.1f s ago, and is to be begun once in %.1f s", mutex,
                       (double)ago_ms / 1e3, (double)once_per_ms / 1e3);
}

/* Returns how many bytes of the note belong to the record. */
static int look(simba__candidate *candidate, int64_t once_per_ms, simba__note_call *call, simba__record *ret_record,
                simba_error *err)
{
    const char *mutex = candidate->handle.watch->mutex;
    simba_client *client = candidate->handle.client;
    int rc = simba__note_finish(client, call, simba__note_read(call, client, mutex), err);
    if (rc < 0)
        return rc;
    *ret_record = (simba__record){.state = SIMBA__RUN_NONE};
    const int size = simba__record_read(call->note.bytes, call->note.length, err, ret_record);
    if (size < 0)
        return simba__wrap(err, size, "%s", mutex);
    rc = size > 0 ? refuse_schedule(mutex, ret_record, err) : 0;
    if (rc < 0)
        return rc;
    rc = judge(mutex, ret_record, once_per_ms, call->note.now_ms, err);
    return rc < 0 ? rc : size;
}

int simba__once_check(simba__candidate *candidate, int64_t once_per_ms, simba_error *err)
{
    simba__note_call call = {.busy = false};
    simba__record record;
    const int size = look(candidate, once_per_ms, &call, &record, err);
    return size < 0 ? size : 0;
}

int simba__once_begin(simba__candidate *candidate, int64_t once_per_ms, simba_error *err)
{
    simba__note_call call = {.busy = false};
    simba__record record;
    char text[SIMBA__RECORD_MAX + 1];
    char note[SIMBA_NOTE_MAX];
    const int old_size = look(candidate, once_per_ms, &call, &record, err);
    if (old_size < 0)
        return old_size;
    record.state = SIMBA__RUN_BEGUN;
    record.due_ms = record.begun_ms = record.through_ms = call.note.now_ms;
    record.missed = record.tries = 0;
    snprintf(record.spec, sizeof record.spec, "%s%" PRId64, once, once_per_ms);
    const size_t size = simba__record_write(&record, text);
    memcpy(note, text, size);
    const size_t rest = call.note.length - (size_t)old_size;
    if (rest > SIMBA_NOTE_MAX - size)
        return simba__fail(err, SIMBA_ESTATE,
                           "%s: its note of %zu bytes leaves no room for when it was begun: shorten it",
                           candidate->handle.watch->mutex, rest);
    memcpy(note + size, call.note.bytes + old_size, rest);
    return simba__note_finish(candidate->handle.client, &call, simba__note_write(&call, candidate, note, size + rest),
                              err);
}
