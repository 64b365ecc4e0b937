/* See notetext.h. */
#include "notetext.h"

#include <assert.h>
#include <string.h>

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
