/* See json.h. */
#include "json.h"

#include <inttypes.h>
#include <string.h>

#include "lease.h"
#include "util/escape.h"
#include "when.h"

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

void json_text(FILE *stream, const char *name, const char *text)
{
    fprintf(stream, "\"%s\":", name);
    if (text != NULL)
        json_string(stream, text);
    else
        fputs("null", stream);
}

void json_token(FILE *stream, const uint64_t *token)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, token != NULL ? *token : 0);
    json_text(stream, "token", token != NULL ? text : NULL);
}

void json_span(FILE *stream, const char *name, int64_t ms)
{
    if (ms == LEASE_UNKNOWN)
        fprintf(stream, ",\"%s\":null", name);
    else
        fprintf(stream, ",\"%s\":%" PRId64, name, ms);
}

void json_owner(FILE *stream, const simba_owner *owner, int64_t now_ms)
{
    const lease_view lease = lease_look(owner, now_ms);
    json_text(stream, "owner", lease.owned ? owner->id : NULL);
    fputc(',', stream);
    json_token(stream, lease.owned ? &owner->token : NULL);
    json_span(stream, "held_ms", lease.held_ms);
    json_span(stream, "ttl_left_ms", lease.ttl_left_ms);
    json_span(stream, "transition_left_ms", lease.left_ms);
}

void json_line(FILE *stream, int64_t waiters, const char *next)
{
    if (waiters < 0)
        fputs(",\"waiters\":null", stream);
    else
        fprintf(stream, ",\"waiters\":%" PRId64, waiters);
    fputc(',', stream);
    json_text(stream, "next", next);
}

void json_when(FILE *stream, const char *name, int64_t ms)
{
    char text[WHEN_SIZE];
    json_text(stream, name, ms != 0 ? when_utc(ms, text) : NULL);
}

void json_run(FILE *stream, const simba_schedule_info *run)
{
    json_when(stream, "due", run->due_at_ms);
    fputc(',', stream);
    json_when(stream, "begun", run->begun_at_ms);
    fputc(',', stream);
    json_when(stream, "ended", run->ended_at_ms);
    if (run->ended_at_ms != 0)
        fprintf(stream, ",\"result\":%d", run->result);
    else
        fputs(",\"result\":null", stream);
    fprintf(stream, ",\"missed\":%" PRId64, run->missed);
}
