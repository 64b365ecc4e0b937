#include "backends/zookeeper/stored_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/assert.h"

#define VERSION "1 "

/* Read digits, and the character behind them. NULL: there is something else, or the number is too large. */
static const char *read_number(const char *at, const char *end, char behind, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *digits = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
            return NULL;
    *ret_number = number;
    return at > digits && at < end && *at == behind ? at + 1 : NULL;
}

bool simba__zk_stored_note_read(const char *data, size_t length, zk_stored_note *ret_note)
{
    const size_t version = strlen(VERSION);
    zk_stored_note note = {0};
    if (length > ZK_STORED_NOTE_MAX || length < version || memcmp(data, VERSION, version) != 0)
        return false; /* a node without data may have no bytes at all */
    const char *end = data + length;
    const char *at = read_number(data + version, end, ' ', &note.token);
    at = at ? read_number(at, end, '\n', &note.number) : NULL;
    if (!at || end - at > SIMBA_NOTE_MAX || (note.token == 0 && at < end))
        return false;
    note.bytes = at;
    note.size = (size_t)(end - at);
    *ret_note = note;
    return true;
}

size_t simba__zk_stored_note_write(const zk_stored_note *note, char ret_data[ZK_STORED_NOTE_MAX])
{
    SIMBA__ASSERT(note->size <= SIMBA_NOTE_MAX);
    const int head =
        snprintf(ret_data, ZK_STORED_NOTE_MAX, VERSION "%" PRIu64 " %" PRIu64 "\n", note->token, note->number);
    SIMBA__ASSERT(head > 0 && (size_t)head + note->size <= ZK_STORED_NOTE_MAX);
    if (note->size > 0)
        memcpy(ret_data + head, note->bytes, note->size);
    return (size_t)head + note->size;
}

bool simba__zk_stored_note_is_later(const zk_stored_note *note, const simba_request *request)
{
    return note->token > request->token || (note->token == request->token && note->number > request->note_number);
}

bool simba__zk_stored_note_is_of(const zk_stored_note *note, const simba_request *request)
{
    return note->token == request->token && note->number == request->note_number;
}
