/* See worknote.h. */
#include "runtime/worknote.h"

#include <string.h>

#include "core/record.h"
#include "util/assert.h"
#include "util/error.h"
#include "util/sized.h"

int simba__worknote_set_behind(simba__member *member, simba__tenure tenure, const char *record, size_t record_size,
                               const void *bytes, size_t length, simba_error *err)
{
    char note[SIMBA_NOTE_MAX];
    SIMBA__ASSERT(record_size <= SIMBA__RECORD_MAX);
    if (!bytes && length > 0)
        return simba__fail(err, SIMBA_EINVAL, "bytes is NULL");
    if (length > SIMBA_NOTE_MAX - record_size)
        return simba__fail(err, SIMBA_EINVAL,
                           "write note %s: it has %zu bytes; beside the record of the schedule there is room for %zu",
                           member->party.topic->mutex, length, SIMBA_NOTE_MAX - record_size);
    memcpy(note, record, record_size);
    if (length > 0)
        memcpy(note + record_size, bytes, length);
    return simba__member_note_set(member, tenure, note, record_size + length, err);
}

int simba__worknote_set(simba__member *member, uint32_t use, const void *bytes, size_t length, simba_error *err)
{
    const uint64_t token = atomic_load(&member->token);
    const simba__tenure tenure = {token, use};
    simba_note note = SIMBA_NOTE_INIT;
    simba__record record;
    if (token == 0 || token == member->plain_token)
        return simba__member_note_set(member, tenure, bytes, length, err);
    int rc = simba__member_note(member, err, &note);
    if (rc == 0)
        rc = simba__record_read(note.bytes, note.length, err, &record);
    if (rc < 0)
        return rc;
    if (rc == 0)
        member->plain_token = token;
    return rc == 0 ? simba__member_note_set(member, tenure, bytes, length, err)
                   : simba__worknote_set_behind(member, tenure, note.bytes, (size_t)rc, bytes, length, err);
}

int simba__worknote_get(simba__member *member, simba_error *err, simba_note *ret_note)
{
    simba_note note = SIMBA_NOTE_INIT;
    simba__record record;
    if (!simba__sized_possible(ret_note))
        return simba__fail(err, SIMBA_EINVAL,
                           "simba_note.size is %zu, which cannot be: initialise with its _INIT macro", ret_note->size);
    int rc = simba__member_note(member, err, &note);
    if (rc == 0)
        rc = simba__record_read(note.bytes, note.length, err, &record);
    if (rc < 0)
        return rc;
    note.length -= (size_t)rc;
    memmove(note.bytes, note.bytes + rc, note.length + 1);
    return simba__sized_tell(ret_note, &note);
}
