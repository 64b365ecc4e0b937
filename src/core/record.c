/* See record.h. */
#include "core/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/calendar.h"
#include "util/assert.h"
#include "util/error.h"
#include "util/saturate.h"

#define MARK "simba-schedule "
#define VERSION "1 "

/* No clock is right beyond these, and sums could overflow. */
#define FIRST_MS (SIMBA__CALENDAR_FIRST_S * 1000)
#define LAST_MS (SIMBA__CALENDAR_LAST_S * 1000)

static const char *const state_names[] = {
    [SIMBA__RUN_NONE] = "none", [SIMBA__RUN_BEGUN] = "begun", [SIMBA__RUN_ENDED] = "ended"};

size_t simba__record_write(const simba__record *record, char ret_text[SIMBA__RECORD_MAX + 1])
{
    const int length =
        snprintf(ret_text, SIMBA__RECORD_MAX + 1,
                 MARK VERSION "anchor=%" PRId64 " through=%" PRId64 " due=%" PRId64 " begun=%" PRId64 " ended=%" PRId64
                              " result=%d tries=%" PRId64 " missed=%" PRId64 " state=%s spec=%s\n",
                 record->anchor_ms, record->through_ms, record->due_ms, record->begun_ms, record->ended_ms,
                 record->result, record->tries, record->missed, state_names[record->state], record->spec);
    SIMBA__ASSERT(length > 0 && length <= SIMBA__RECORD_MAX);
    return (size_t)length;
}

/* --- reading -------------------------------------------------------------------------------------- */

typedef struct reader {
    const char *at, *end;
} reader;

static bool take(reader *r, const char *text)
{
    const size_t length = strlen(text);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, text, length) != 0)
        return false;
    r->at += length;
    return true;
}

/* "key=number " */
static bool take_number(reader *r, const char *key, int64_t low, int64_t high, int64_t *ret_number)
{
    int64_t number = 0;
    if (!take(r, key))
        return false;
    const bool negative = take(r, "-");
    const char *begin = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *r->at - '0', &number))
            return false;
    *ret_number = negative ? -number : number;
    return r->at > begin && *ret_number >= low && *ret_number <= high && take(r, " ");
}

static bool take_time(reader *r, const char *key, int64_t *ret_ms)
{
    return take_number(r, key, FIRST_MS, LAST_MS, ret_ms);
}

static bool take_state(reader *r, simba__run_state *ret_state)
{
    if (!take(r, "state="))
        return false;
    for (unsigned i = 0; i < sizeof state_names / sizeof *state_names; i++) {
        if (take(r, state_names[i])) {
            *ret_state = (simba__run_state)i;
            return take(r, " ");
        }
    }
    return false;
}

/* The rest of the line, of printable characters. */
static bool take_spec(reader *r, char ret_spec[SIMBA__SPEC_MAX + 1])
{
    const size_t length = (size_t)(r->end - r->at) - 5;
    if (!take(r, "spec=") || length > SIMBA__SPEC_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (r->at[i] < ' ' || r->at[i] > '~')
            return false;
    memcpy(ret_spec, r->at, length);
    ret_spec[length] = '\0';
    return true;
}

int simba__record_read(const char *note, size_t size, simba_error *err, simba__record *ret_record)
{
    reader r = {note, note + size};
    simba__record record = {.state = SIMBA__RUN_NONE};
    int64_t result;
    if (!take(&r, MARK))
        return 0;
    if (!take(&r, VERSION))
        return simba__fail(err, SIMBA_ECORRUPT, "its schedule was noted by a newer version of simba");
    const char *end = memchr(note, '\n', size < SIMBA__RECORD_MAX ? size : SIMBA__RECORD_MAX);
    r.end = end ? end : r.at;
    if (!take_time(&r, "anchor=", &record.anchor_ms) || !take_time(&r, "through=", &record.through_ms) ||
        !take_time(&r, "due=", &record.due_ms) || !take_time(&r, "begun=", &record.begun_ms) ||
        !take_time(&r, "ended=", &record.ended_ms) || !take_number(&r, "result=", INT32_MIN, INT32_MAX, &result) ||
        !take_number(&r, "tries=", 0, INT32_MAX, &record.tries) ||
        !take_number(&r, "missed=", 0, INT32_MAX, &record.missed) || !take_state(&r, &record.state) ||
        !take_spec(&r, record.spec))
        return simba__fail(err, SIMBA_ECORRUPT, "what its note says of the schedule is damaged");
    record.result = (int)result;
    *ret_record = record;
    return (int)(end + 1 - note);
}

/* --- once per period ------------------------------------------------------------------------------ */

static const char once[] = "once per ";

bool simba__once_is_record(const simba__record *record)
{
    return strncmp(record->spec, once, strlen(once)) == 0;
}

/* If the store's clock went back, the wait becomes longer: nobody can know whether the period is over. */
bool simba__once_may_begin(const simba__once *rule, const simba__record *record, int64_t now_ms)
{
    if (record->state == SIMBA__RUN_NONE || simba__sat_sub(now_ms, record->begun_ms) >= rule->per_ms)
        return true;
    const bool succeeded = record->state == SIMBA__RUN_ENDED && record->result == 0;
    return rule->retry_failed && !succeeded;
}

void simba__once_begun(const simba__once *rule, simba__record *record, int64_t now_ms)
{
    record->state = SIMBA__RUN_BEGUN;
    record->due_ms = record->begun_ms = record->through_ms = now_ms;
    record->missed = record->tries = 0;
    snprintf(record->spec, sizeof record->spec, "%s%" PRId64, once, rule->per_ms);
}

void simba__once_ended(simba__record *record, int result, int64_t now_ms)
{
    SIMBA__ASSERT(record->state != SIMBA__RUN_NONE);
    record->state = SIMBA__RUN_ENDED;
    record->result = result;
    record->ended_ms = now_ms;
}

int64_t simba__once_next_ms(const simba__record *record)
{
    return simba__sat_add(record->begun_ms, strtoll(record->spec + strlen(once), NULL, 10));
}
