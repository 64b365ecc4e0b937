/* See shown.h. */
#include "shown.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const char *when_utc(int64_t ms, char ret_text[WHEN_SIZE])
{
    const int64_t fraction = (ms % 1000 + 1000) % 1000;
    const time_t seconds = (time_t)((ms - fraction) / 1000);
    struct tm parts;
    size_t length = 0;
    if (ms != 0 && gmtime_r(&seconds, &parts) != NULL)
        length = strftime(ret_text, WHEN_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    if (length == 0)
        snprintf(ret_text, WHEN_SIZE, "-");
    else if (fraction != 0)
        snprintf(ret_text + length, WHEN_SIZE - length, ".%03dZ", (int)fraction);
    else
        snprintf(ret_text + length, WHEN_SIZE - length, "Z");
    return ret_text;
}

/* From one moment to a later one; 0 if it is not later. */
static int64_t span_ms(int64_t from_ms, int64_t to_ms)
{
    int64_t span;
    if (to_ms <= from_ms)
        return 0;
    return __builtin_sub_overflow(to_ms, from_ms, &span) ? INT64_MAX : span;
}

lease_view lease_look(const simba_owner *owner, int64_t now_ms)
{
    lease_view view = {false, LEASE_UNKNOWN, LEASE_UNKNOWN, LEASE_UNKNOWN};
    view.owned = simba_owner_has_owner(owner, now_ms);
    if (!view.owned)
        return view;
    if (owner->acquired_at_ms > 0) /* contenders that do not write it leave 0 */
        view.held_ms = span_ms(owner->acquired_at_ms, now_ms);
    if (owner->transition_at_ms != INT64_MAX) {
        view.left_ms = span_ms(now_ms, owner->transition_at_ms);
        view.ttl_left_ms = span_ms(now_ms, owner->ttl_at_ms);
        if (view.ttl_left_ms > view.left_ms)
            view.ttl_left_ms = view.left_ms;
    }
    return view;
}

const char *note_text(const char *bytes, size_t length, char *out, size_t size)
{
    assert(size >= SIMBA__ESCAPED_SIZE(length) && size >= 8);
    char *end = out;
    *end = '\0';
    /* From zero byte to zero byte: for all else, these are where a string ends. */
    for (size_t at = 0; at < length;) {
        const size_t piece = strlen(bytes + at);
        simba__escape(bytes + at, end, size - (size_t)(end - out));
        end += strlen(end);
        at += piece;
        if (at < length) {
            end = strcpy(end, "\\x00") + 4;
            at++;
        }
    }
    return out;
}

size_t note_record(const void *bytes, size_t length)
{
    simba_schedule_info info = SIMBA_SCHEDULE_INFO_INIT;
    return simba_schedule_read(bytes, length, NULL, &info) == 0 ? info.length : 0;
}

const char *note_for_people(const char *bytes, size_t length, size_t *ret_length)
{
    const size_t record = note_record(bytes, length);
    *ret_length = length - record;
    return *ret_length > 0 ? bytes + record : NULL;
}
