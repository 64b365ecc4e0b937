/* See json.h. */
#include "json.h"

#include <inttypes.h>
#include <string.h>

#include "lease.h"
#include "util/escape.h"

void json_bytes(FILE *stream, const char *bytes, size_t length)
{
    const char *const end = bytes + length;
    fputc('"', stream);
    for (const char *text = bytes; text < end;) {
        uint32_t code;
        const size_t size = simba__utf8_next(text, &code);
        if (*text == '\0')
            fputs("\\u0000", stream);
        else if (size == 0)
            fputs("\\ufffd", stream);
        else if (*text == '"' || *text == '\\')
            fprintf(stream, "\\%c", *text);
        else if (simba__is_printable(code) || code > 0xffff)
            fwrite(text, 1, size, stream);
        else
            fprintf(stream, "\\u%04x", (unsigned)code);
        text += size > 0 ? size : 1;
    }
    fputc('"', stream);
}

void json_string(FILE *stream, const char *text)
{
    json_bytes(stream, text, strlen(text));
}

static void json_span(FILE *stream, const char *name, int64_t ms)
{
    if (ms == LEASE_UNKNOWN)
        fprintf(stream, ",\"%s\":null", name);
    else
        fprintf(stream, ",\"%s\":%" PRId64, name, ms);
}

void json_owner(FILE *stream, const simba_owner *owner, int64_t now_ms)
{
    const lease_view lease = lease_look(owner, now_ms);
    fputs("\"owner\":", stream);
    if (lease.owned) {
        json_string(stream, owner->id);
        fprintf(stream, ",\"token\":\"%" PRIu64 "\"", owner->token);
    } else {
        fputs("null,\"token\":null", stream);
    }
    json_span(stream, "held_ms", lease.held_ms);
    json_span(stream, "ttl_left_ms", lease.ttl_left_ms);
    json_span(stream, "transition_left_ms", lease.left_ms);
}
