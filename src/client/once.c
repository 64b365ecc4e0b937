/* See once.h. */
#include "client/once.h"

#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "util/saturate.h"

static const char *mutex_of(const simba__candidate *candidate)
{
    return candidate->handle.watch->mutex;
}

/* Read the note. Returns how many bytes of it belong to the record. A scheduler would take the place of our record for a
 * new schedule, and begin anew: so its record is refused. */
static int read_record(simba__candidate *candidate, simba__note_call *call, simba__record *ret_record, simba_error *err)
{
    const char *mutex = mutex_of(candidate);
    simba_client *client = candidate->handle.client;
    const int rc = simba__note_finish(client, call, simba__note_read(call, client, mutex), err);
    if (rc < 0)
        return rc;
    *ret_record = (simba__record){.state = SIMBA__RUN_NONE};
    const int size = simba__record_read(call->note.bytes, call->note.length, err, ret_record);
    if (size < 0)
        return simba__wrap(err, size, "%s", mutex);
    if (size > 0 && !simba__once_is_record(ret_record))
        return simba__fail(err, SIMBA_ESTATE,
                           "%s has a schedule, whose record a run once per period would replace; use another mutex",
                           mutex);
    return size;
}

/* Replace the first `old_size` bytes of the note that was read, and keep the rest. SIMBA_EINVAL: there is no room. */
static int write_record(simba__candidate *candidate, simba__note_call *call, int old_size, const simba__record *record,
                        simba_error *err)
{
    char text[SIMBA__RECORD_MAX + 1];
    char note[SIMBA_NOTE_MAX];
    const size_t size = simba__record_write(record, text);
    const size_t rest = call->note.length - (size_t)old_size;
    if (rest > SIMBA_NOTE_MAX - size)
        return simba__fail(
            err, SIMBA_EINVAL,
            "%s: its note of %zu bytes leaves no room for when it was begun and how it ended: shorten it",
            mutex_of(candidate), rest);
    memcpy(note, text, size);
    memcpy(note + size, call->note.bytes + old_size, rest);
    return simba__note_finish(candidate->handle.client, call, simba__note_write(call, candidate, note, size + rest),
                              err);
}

/* May it begin? Returns how many bytes of the note belong to the record. */
static int look(simba__candidate *candidate, const simba__once *rule, simba__note_call *call, simba__record *ret_record,
                simba_error *err)
{
    char end[40] = "";
    const int size = read_record(candidate, call, ret_record, err);
    if (size < 0 || simba__once_may_begin(rule, ret_record, call->note.now_ms))
        return size;
    if (ret_record->state == SIMBA__RUN_ENDED)
        snprintf(end, sizeof end, ret_record->result == 0 ? " and succeeded" : " and failed (%d)", ret_record->result);
    return simba__fail(err, SIMBA_ETOOSOON, "%s was begun %.1f s ago%s; it may begin once in %.1f s",
                       mutex_of(candidate), (double)simba__sat_sub(call->note.now_ms, ret_record->begun_ms) / 1e3, end,
                       (double)rule->per_ms / 1e3);
}

int simba__once_check(simba__candidate *candidate, const simba__once *rule, simba_error *err)
{
    simba__note_call call = {.busy = false};
    simba__record record;
    const int size = look(candidate, rule, &call, &record, err);
    return size < 0 ? size : 0;
}

int simba__once_begin(simba__candidate *candidate, const simba__once *rule, simba_error *err)
{
    simba__note_call call = {.busy = false};
    simba__record record;
    const int old_size = look(candidate, rule, &call, &record, err);
    if (old_size < 0)
        return old_size;
    simba__once_begun(rule, &record, call.note.now_ms);
    const int rc = write_record(candidate, &call, old_size, &record, err);
    if (rc == SIMBA_EINVAL && err)
        err->code = SIMBA_ESTATE; /* the caller gave nothing that is too long */
    return rc == SIMBA_EINVAL ? SIMBA_ESTATE : rc;
}

int simba__once_end(simba__candidate *candidate, int result, simba_error *err)
{
    simba_client *client = candidate->handle.client;
    const uint64_t token = candidate->machine.token;
    simba__note_call call = {.busy = false};
    simba__record record;
    int size;
    if (simba__contention_valid_until(&candidate->machine).ns == 0)
        return simba__fail(err, SIMBA_ELOST, "once_end %s: leadership ended before", mutex_of(candidate));
    do { /* another thread may leave a note of the work meanwhile */
        while (candidate->writes_note)
            simba__wait(client, &candidate->writes_note, SIMBA__NEVER);
        size = read_record(candidate, &call, &record, err);
    } while (size >= 0 && candidate->writes_note);
    if (size < 0)
        return size;
    if (size == 0 || candidate->machine.token != token)
        return simba__fail(err, SIMBA_ELOST, "once_end %s: leadership ended before", mutex_of(candidate));
    simba__once_ended(&record, result, call.note.now_ms);
    return write_record(candidate, &call, size, &record, err);
}
