/* See json.h. */
#include "json.h"

#include <inttypes.h>
#include <string.h>

#include "shown.h"
#include "util/escape.h"

static void put_string(FILE *to, const char *bytes, size_t length)
{
    const char *const end = bytes + length;
    fputc('"', to);
    for (const char *text = bytes; text < end;) {
        uint32_t code;
        const size_t size = simba__utf8_next(text, &code);
        if (*text == '\0')
            fputs("\\u0000", to);
        else if (size == 0)
            fputs("\\ufffd", to);
        else if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else if (simba__is_printable(code) || code > 0xffff)
            fwrite(text, 1, size, to);
        else
            fprintf(to, "\\u%04x", (unsigned)code);
        text += size > 0 ? size : 1;
    }
    fputc('"', to);
}

void json_name(json_writer *j, const char *name)
{
    if (j->comma)
        fputc(',', j->to);
    j->comma = true;
    if (name != NULL) {
        put_string(j->to, name, strlen(name));
        fputc(':', j->to);
    }
}

void json_open(json_writer *j, const char *name, char bracket)
{
    json_name(j, name);
    fputc(bracket, j->to);
    j->comma = false;
}

void json_close(json_writer *j, char bracket)
{
    fputc(bracket, j->to);
    j->comma = true;
}

void json_line_break(json_writer *j)
{
    if (j->comma)
        fputs(",\n ", j->to);
    j->comma = false;
}

void json_bytes(json_writer *j, const char *name, const char *bytes, size_t length)
{
    json_name(j, name);
    put_string(j->to, bytes, length);
}

void json_text(json_writer *j, const char *name, const char *text)
{
    json_name(j, name);
    if (text != NULL)
        put_string(j->to, text, strlen(text));
    else
        fputs("null", j->to);
}

void json_number(json_writer *j, const char *name, int64_t number)
{
    json_name(j, name);
    fprintf(j->to, "%" PRId64, number);
}

void json_count(json_writer *j, const char *name, int64_t number)
{
    if (number < 0)
        json_text(j, name, NULL);
    else
        json_number(j, name, number);
}

void json_real(json_writer *j, const char *name, double number, int decimals)
{
    json_name(j, name);
    fprintf(j->to, "%.*f", decimals, number);
}

void json_bool(json_writer *j, const char *name, bool value)
{
    json_name(j, name);
    fputs(value ? "true" : "false", j->to);
}

void json_token(json_writer *j, const char *name, const uint64_t *token)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, token != NULL ? *token : 0);
    json_text(j, name, token != NULL ? text : NULL);
}

void json_when(json_writer *j, const char *name, int64_t ms)
{
    char text[WHEN_SIZE];
    json_text(j, name, ms != 0 ? when_utc(ms, text) : NULL);
}

void json_owner(json_writer *j, const simba_owner *owner, int64_t now_ms)
{
    const lease_view lease = lease_look(owner, now_ms);
    json_text(j, "owner", lease.owned ? owner->id : NULL);
    json_token(j, "token", lease.owned ? &owner->token : NULL);
    json_count(j, "held_ms", lease.held_ms);
    json_count(j, "ttl_left_ms", lease.ttl_left_ms);
    json_count(j, "transition_left_ms", lease.left_ms);
}

void json_waiters(json_writer *j, int64_t waiters, const char *next)
{
    json_count(j, "waiters", waiters);
    json_text(j, "next", next);
}

void json_run(json_writer *j, const simba_schedule_info *run)
{
    json_when(j, "due", run->due_at_ms);
    json_when(j, "begun", run->begun_at_ms);
    json_when(j, "ended", run->ended_at_ms);
    if (run->ended_at_ms != 0)
        json_number(j, "result", run->result);
    else
        json_text(j, "result", NULL);
    json_number(j, "missed", run->missed);
}
