/* See notes.h. */
#include "client/notes.h"

#include <stdio.h>
#include <string.h>

#include "util/assert.h"
#include "util/error.h"
#include "util/saturate.h"
#include "util/sized.h"

static const char *mutex_of(const simba__candidate *candidate)
{
    return candidate->handle.watch->mutex;
}

int simba__notes_read(simba_host *host, simba_request *request, const simba_stored_note *stored)
{
    (void)host;
    simba__note_call *call = ((simba__request *)(void *)request)->of;
    if (!call)
        return SIMBA_ETIMEDOUT;
    if (stored->size > SIMBA_NOTE_MAX)
        return SIMBA_ECORRUPT;
    if (stored->size == 0)
        return 0;
    call->note.length = stored->size;
    call->note.token = stored->token;
    call->note.written_at_ms = stored->written_at_ms;
    memcpy(call->note.bytes, stored->bytes, stored->size);
    call->note.bytes[stored->size] = '\0';
    return 0;
}

/* --- calls ------------------------------------------------------------------------------------------- */

static void answered(simba__request *request, const simba_error *error)
{
    simba__note_call *call = request->of;
    simba_client *client = call->client;
    const simba_reply *reply = &request->shown.reply;
    call->busy = false;
    call->rc = 0;
    if (error) {
        call->err = *error;
        call->rc = reply->status;
    } else {
        call->note.now_ms = reply->now_ms;
        if (call->writer && reply->outcome != SIMBA_MINE)
            call->rc = simba__fail(&call->err, SIMBA_ELOST, "write note %s: leadership %s before", request->shown.mutex,
                                   reply->outcome == SIMBA_REVOKED ? "was revoked" : "ended");
    }
    if (call->writer) {
        call->writer->writes_note = false;
        simba__wake(client, &call->writer->writes_note);
    }
    client->calls--;
    simba__wake(client, call);
    if (call->done)
        call->done(call);
}

static int check(simba__note_call *call, const simba_client *client)
{
    SIMBA__ASSERT(!call->busy);
    call->err = (simba_error){0};
    /* While the client closes, an on_released may still leave a note: closing waits for that. */
    if (client->closed)
        return simba__fail(&call->err, SIMBA_ECLOSED, "the client is closed");
    if (!(client->backend->caps & SIMBA_CAP_NOTE))
        return simba__fail(&call->err, SIMBA_ENOTSUP, "%s:// keeps no notes", simba_url_scheme(client->url));
    return 0;
}

static int begin(simba__note_call *call, simba_client *client, simba__candidate *writer, const simba_request *wanted)
{
    simba__request *request = simba__request_new(wanted, client->timing.op_timeout_ns);
    if (!request)
        return simba__fail(&call->err, SIMBA_ENOMEM, "%s: out of memory", wanted->mutex);
    call->client = client;
    call->writer = writer;
    call->note = (simba_note){.size = sizeof call->note};
    call->busy = true;
    request->done = answered;
    request->of = call;
    client->calls++;
    simba__window_add(&client->window, request);
    return 0;
}

int simba__note_read(simba__note_call *call, simba_client *client, const char *mutex)
{
    const int rc = check(call, client);
    return rc < 0 ? rc : begin(call, client, NULL, &(simba_request){.op = SIMBA_OP_READ_NOTE, .mutex = mutex});
}

int simba__note_write(simba__note_call *call, simba__candidate *candidate, const void *bytes, size_t length)
{
    simba_client *client = candidate->handle.client;
    const simba__contention *machine = &candidate->machine;
    const char *mutex = mutex_of(candidate);
    int rc = check(call, client);
    if (rc < 0)
        return rc;
    if (length > SIMBA_NOTE_MAX)
        return simba__fail(&call->err, SIMBA_EINVAL, "write note %s: it has %zu bytes, and may have %d", mutex, length,
                           SIMBA_NOTE_MAX);
    if (simba__contention_valid_until(machine).ns == 0)
        return simba__fail(&call->err, SIMBA_ESTATE, "write note %s: only its holder may, and this is not", mutex);
    if (candidate->writes_note)
        return simba__fail(&call->err, SIMBA_ESTATE, "write note %s: another write is under way", mutex);
    rc = begin(call, client, candidate,
               &(simba_request){.op = SIMBA_OP_WRITE_NOTE,
                                .mutex = mutex,
                                .id = candidate->id,
                                .nonce = machine->nonce,
                                .token = machine->token,
                                .note = length ? bytes : NULL,
                                .note_size = length,
                                .note_number = ++client->notes});
    candidate->writes_note = rc == 0;
    return rc;
}

int simba__note_finish(simba_client *client, simba__note_call *call, int rc, simba_error *err)
{
    while (rc == 0 && call->busy)
        simba__wait(client, call, SIMBA__NEVER);
    rc = rc == 0 ? call->rc : rc;
    if (rc < 0 && err)
        *err = call->err;
    return rc;
}

/* --- for those who wait ------------------------------------------------------------------------------ */

static int write_note(simba__candidate *candidate, uint64_t token, const void *bytes, size_t length, simba_error *err)
{
    simba_client *client = candidate->handle.client;
    simba__note_call call = {.busy = false};
    if (!bytes && length > 0)
        return simba__fail(err, SIMBA_EINVAL, "bytes is NULL");
    int rc = simba__lock_checked(client, false, err);
    if (rc < 0)
        return rc;
    while (candidate->writes_note) /* of another thread */
        simba__wait(client, &candidate->writes_note, SIMBA__NEVER);
    if (candidate->machine.token != token && simba__contention_valid_until(&candidate->machine).ns != 0)
        rc = simba__fail(&call.err, SIMBA_ELOST, "write note %s: leadership ended before", mutex_of(candidate));
    else
        rc = simba__note_write(&call, candidate, bytes, length);
    rc = simba__note_finish(client, &call, rc, err);
    simba__unlock(client);
    return rc;
}

int simba_client_note(simba_client *client, const char *mutex, simba_error *err, simba_note *ret_note)
{
    simba__note_call call = {.busy = false};
    if (!client || !ret_note)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "ret_note" : "client");
    int rc = simba__client_check_mutex(client, mutex, err);
    if (rc < 0)
        return rc;
    if (!simba__sized_possible(ret_note))
        return simba__fail(err, SIMBA_EINVAL,
                           "simba_note.size is %zu, which cannot be: initialise with its _INIT macro", ret_note->size);
    rc = simba__lock_checked(client, false, err);
    if (rc < 0)
        return rc;
    rc = simba__note_finish(client, &call, simba__note_read(&call, client, mutex), err);
    simba__unlock(client);
    return rc < 0 ? rc : simba__sized_tell(ret_note, &call.note);
}

/* --- the note of the work ---------------------------------------------------------------------------- */

/* Read the note. Returns how many bytes of it belong to the record. */
static int read_with_record(simba__candidate *candidate, simba_error *err, simba_note *ret_note)
{
    simba__record record;
    const int rc = simba_client_note(candidate->handle.client, mutex_of(candidate), err, ret_note);
    return rc < 0 ? rc : simba__record_read(ret_note->bytes, ret_note->length, err, &record);
}

int simba__work_note_set_behind(simba__candidate *candidate, uint64_t token, const char *record, size_t record_size,
                                const void *bytes, size_t length, simba_error *err)
{
    char note[SIMBA_NOTE_MAX];
    SIMBA__ASSERT(record_size <= SIMBA__RECORD_MAX);
    if (!bytes && length > 0)
        return simba__fail(err, SIMBA_EINVAL, "bytes is NULL");
    if (length > SIMBA_NOTE_MAX - record_size)
        return simba__fail(err, SIMBA_EINVAL,
                           "write note %s: it has %zu bytes; beside the record of the schedule there is room for %zu",
                           mutex_of(candidate), length, SIMBA_NOTE_MAX - record_size);
    memcpy(note, record, record_size);
    if (length > 0)
        memcpy(note + record_size, bytes, length);
    return write_note(candidate, token, note, record_size + length, err);
}

int simba__work_note_set(simba__candidate *candidate, const void *bytes, size_t length, simba_error *err)
{
    const uint64_t token = atomic_load(&candidate->token);
    simba_note note = SIMBA_NOTE_INIT;
    if (token == 0 || token == candidate->plain_token)
        return write_note(candidate, token, bytes, length, err);
    const int rc = read_with_record(candidate, err, &note);
    if (rc < 0)
        return rc;
    if (rc > 0)
        return simba__work_note_set_behind(candidate, token, note.bytes, (size_t)rc, bytes, length, err);
    candidate->plain_token = token;
    return write_note(candidate, token, bytes, length, err);
}

int simba__work_note_get(simba__candidate *candidate, simba_error *err, simba_note *ret_note)
{
    simba_note note = SIMBA_NOTE_INIT;
    if (!simba__sized_possible(ret_note))
        return simba__fail(err, SIMBA_EINVAL,
                           "simba_note.size is %zu, which cannot be: initialise with its _INIT macro", ret_note->size);
    const int rc = read_with_record(candidate, err, &note);
    if (rc < 0)
        return rc;
    note.length -= (size_t)rc;
    memmove(note.bytes, note.bytes + rc, note.length + 1);
    return simba__sized_tell(ret_note, &note);
}

/* --- once per period --------------------------------------------------------------------------------- */

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
