#include "backends/zookeeper/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/assert.h"

#define VERSION "1 "

/* Digits, and the character behind them. NULL: there is something else, or the number does not fit. */
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

bool simba__zk_record_read(const char *data, size_t length, zk_record *ret_record)
{
    const size_t version = strlen(VERSION);
    const char *end = data + length;
    zk_record record = {0};
    if (length > ZK_RECORD_MAX || length < version || memcmp(data, VERSION, version) != 0)
        return false;
    const char *at = read_number(data + version, end, ' ', &record.token);
    at = at ? read_number(at, end, '\n', &record.number) : NULL;
    if (!at || end - at > SIMBA_NOTE_MAX || (record.token == 0 && at < end))
        return false;
    record.bytes = at;
    record.size = (size_t)(end - at);
    *ret_record = record;
    return true;
}

size_t simba__zk_record_write(const zk_record *record, char ret_data[ZK_RECORD_MAX])
{
    SIMBA__ASSERT(record->size <= SIMBA_NOTE_MAX);
    const int head =
        snprintf(ret_data, ZK_RECORD_MAX, VERSION "%" PRIu64 " %" PRIu64 "\n", record->token, record->number);
    SIMBA__ASSERT(head > 0 && (size_t)head + record->size <= ZK_RECORD_MAX);
    if (record->size > 0)
        memcpy(ret_data + head, record->bytes, record->size);
    return (size_t)head + record->size;
}

bool simba__zk_record_is_later(const zk_record *record, const simba_request *request)
{
    return record->token > request->token || (record->token == request->token && record->number > request->note_number);
}

bool simba__zk_record_is_of(const zk_record *record, const simba_request *request)
{
    return record->token == request->token && record->number == request->note_number;
}
