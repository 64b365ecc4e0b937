/* See notice.h. */
#include "runtime/notice.h"

#include <inttypes.h>
#include <stdio.h>

#include "util/escape.h"

static const struct {
    const char *event;
    const char *sentence;
    simba_log_level level;
    unsigned facts;
} notices[] = {
#define ROW(name, event, level, sentence, facts) {event, sentence, SIMBA_LOG_##level, facts},
    SIMBA__NOTICES(ROW)
#undef ROW
};

/* The values as text: this writes numbers, and points to existing text. */
typedef struct record {
    simba_log_field fields[SIMBA__FACT_COUNT];
    size_t count;
    char numbers[SIMBA__FACT_COUNT][24];
} record;

static const char *number_text(record *r, uint64_t number)
{
    snprintf(r->numbers[r->count], sizeof r->numbers[0], "%" PRIu64, number);
    return r->numbers[r->count];
}

static const char *span_text(record *r, int64_t ms)
{
    if (ms == SIMBA__SPAN_UNKNOWN)
        return "";
    return number_text(r, ms > 0 ? (uint64_t)ms : 0);
}

static void add(record *r, const char *key, const char *value)
{
    r->fields[r->count++] = (simba_log_field){key, value};
}

static void fill(record *r, unsigned wanted, const simba__facts *facts)
{
#define TEXT(member) facts->member ? facts->member : ""
#define NUMBER(member) number_text(r, facts->member)
#define SPAN(member) span_text(r, facts->member)
#define ADD(name, member, kind)                                                                                        \
    if (wanted & SIMBA__HAS(name))                                                                                     \
        add(r, #member, kind(member));
    SIMBA__FACTS(ADD)
#undef ADD
#undef SPAN
#undef NUMBER
#undef TEXT
}

/* The sentence, followed by the fields. */
static void write_text(const simba_log_record *said, char *out, size_t size)
{
    int at = snprintf(out, size, "%s%s", said->message, said->field_count > 0 ? ";" : "");
    for (size_t i = 0; i < said->field_count && at >= 0 && (size_t)at < size; i++) {
        char value[SIMBA__FORMAT_MAX];
        at += snprintf(out + at, size - (size_t)at, " %s=%s", said->fields[i].key,
                       simba__quote(said->fields[i].value, value, sizeof value));
    }
}

static void hand_over(const simba_client_options *to, const simba_log_record *said)
{
    char text[2 * SIMBA__FORMAT_MAX];
    if (to->log_record) {
        to->log_record(to->log_user, said);
        return;
    }
    write_text(said, text, sizeof text);
    to->log(to->log_user, said->level, text);
}

bool simba__is_heard(const simba_client_options *to, simba_log_level level)
{
    return simba__has_listener(to) && level <= to->log_level;
}

void simba__notice_say_at(const simba_client_options *to, simba_log_level level, simba__notice notice,
                          const char *sentence, const simba__facts *facts)
{
    if (!simba__is_heard(to, level))
        return;
    record r;
    r.count = 0;
    fill(&r, notices[notice].facts, facts);
    const simba_log_record said = {
        .size = sizeof said,
        .level = level,
        .event = notices[notice].event,
        .message = sentence ? sentence : notices[notice].sentence,
        .fields = r.fields,
        .field_count = r.count,
    };
    hand_over(to, &said);
}

void simba__notice_say(const simba_client_options *to, simba__notice notice, const simba__facts *facts)
{
    simba__notice_say_at(to, notices[notice].level, notice, NULL, facts);
}

/* --- what is no event ------------------------------------------------------------------------------ */

static void say_note(const simba_client_options *to, simba_log_level level, const char *text)
{
    const simba_log_record said = {.size = sizeof said, .level = level, .event = "note", .message = text};
    if (simba__is_heard(to, level))
        hand_over(to, &said);
}

void simba__vlog(const simba_client_options *to, simba_log_level level, const char *format, va_list args)
{
    char text[512];
    simba__escape_format(text, sizeof text, format, args);
    say_note(to, level, text);
}

void simba__log(const simba_client_options *to, simba_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    simba__vlog(to, level, format, args);
    va_end(args);
}

void simba__log_event(const simba_client_options *to, const char *line)
{
    say_note(to, SIMBA_LOG_EVENT, line);
}
