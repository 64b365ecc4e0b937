/* See cron.h. */
#include "core/cron.h"

#include <string.h>
#include <strings.h>

#include "core/calendar.h"
#include "util/assert.h"
#include "util/error.h"

#define EVERY_HOUR ((UINT64_C(1) << 24) - 1)

/* How many days to look at in search of one that fits. The rarest one, a February 29 on a given day of the week
 * around a year without a leap day, comes within 40 years. */
#define SEARCH_DAYS (41 * 366)

/* --- days and times -------------------------------------------------------------------------------- */

static bool has(uint64_t set, int number)
{
    return set >> number & 1;
}

static bool fits_day(const simba__cron *cron, int64_t day)
{
    const simba__date date = simba__date_of(day);
    const bool by_date = has(cron->days, date.day);
    const bool by_weekday = has(cron->weekdays, simba__weekday_of(day));
    return has(cron->months, date.month) && (cron->either_day ? by_date || by_weekday : by_date && by_weekday);
}

/* The smallest member that is at least `from`; -1: there is none. */
static int first_from(uint64_t set, int from)
{
    SIMBA__ASSERT(from >= 0 && from < 64);
    const uint64_t rest = set >> from << from;
    return rest ? __builtin_ctzll(rest) : -1;
}

/* The first time of a day that is at least `from` seconds after midnight; -1: there is none. */
static int first_time(const simba__cron *cron, int from)
{
    int hour = first_from(cron->hours, from / 3600);
    if (hour == from / 3600) {
        int minute = first_from(cron->minutes, from / 60 % 60);
        if (minute == from / 60 % 60) {
            const int second = first_from(cron->seconds, from % 60);
            if (second >= 0)
                return hour * 3600 + minute * 60 + second;
            minute = first_from(cron->minutes, minute + 1);
        }
        if (minute >= 0)
            return hour * 3600 + minute * 60 + first_from(cron->seconds, 0);
        hour = first_from(cron->hours, hour + 1);
    }
    return hour < 0 ? -1 : hour * 3600 + first_from(cron->minutes, 0) * 60 + first_from(cron->seconds, 0);
}

/* The first local time that fits, from `from_s` on and before `until_s`; INT64_MAX: there is none. */
static int64_t first_local(const simba__cron *cron, int64_t from_s, int64_t until_s)
{
    int64_t day = simba__floor_div(from_s, SIMBA__DAY_S);
    int from = (int)(from_s - day * SIMBA__DAY_S);
    for (int64_t last = day + SEARCH_DAYS; day < last && day * SIMBA__DAY_S < until_s; day++, from = 0) {
        const int time = fits_day(cron, day) ? first_time(cron, from) : -1;
        if (time >= 0)
            return day * SIMBA__DAY_S + time < until_s ? day * SIMBA__DAY_S + time : INT64_MAX;
    }
    return INT64_MAX;
}

/* --- reading -------------------------------------------------------------------------------------- */

typedef enum field_kind { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY } field_kind;

typedef struct field {
    const char *what;
    int low, high;
    const char *const *names; /* of `low` and those that follow; NULL: none */
    int name_count;
    const char *allowed;
} field;

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                          "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

static const field fields[] = {
    [SECOND] = {"second", 0, 59, NULL, 0, "0 to 59"},
    [MINUTE] = {"minute", 0, 59, NULL, 0, "0 to 59"},
    [HOUR] = {"hour", 0, 23, NULL, 0, "0 to 23"},
    [DAY] = {"day of the month", 1, 31, NULL, 0, "1 to 31"},
    [MONTH] = {"month", 1, 12, month_names, 12, "1 to 12 or jan to dec"},
    [WEEKDAY] = {"day of the week", 0, 7, weekday_names, 7, "0 to 7 (0 and 7 are Sunday) or sun to sat"},
};

/* The text of one field, and how far it has been read. */
typedef struct reader {
    const field *field;
    const char *text, *at, *end;
    simba_error *err;
} reader;

static int refuse(const reader *r, const char *why)
{
    const int length = (int)(r->end - r->text);
    return simba__fail(r->err, SIMBA_EINVAL,
                       "cron: the %s \"%.*s\" %s; allowed are %s, as *, 5, 1-5, */5, 1-5/2 or a list of those",
                       r->field->what, length < 40 ? length : 40, r->text, why, r->field->allowed);
}

static bool take_char(reader *r, char c)
{
    const bool is_there = r->at < r->end && *r->at == c;
    r->at += is_there;
    return is_there;
}

static bool take_digits(reader *r, int *ret_number)
{
    int number = 0;
    const char *begin = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - begin < 4; r->at++)
        number = number * 10 + (*r->at - '0');
    *ret_number = number;
    return r->at > begin;
}

static bool take_name(reader *r, int *ret_number)
{
    for (int i = 0; i < r->field->name_count && r->end - r->at >= 3; i++) {
        if (strncasecmp(r->at, r->field->names[i], 3) == 0) {
            r->at += 3;
            *ret_number = r->field->low + i;
            return true;
        }
    }
    return false;
}

static int take_value(reader *r, int *ret_number)
{
    if (!take_digits(r, ret_number) && !take_name(r, ret_number))
        return refuse(r, "cannot be read");
    if (*ret_number < r->field->low || *ret_number > r->field->high)
        return refuse(r, "is out of range");
    return 0;
}

/* "*", "5" or "1-5", and a step behind it. */
static int take_range(reader *r, uint64_t *set)
{
    int low = r->field->low;
    int high = r->field->high;
    int step = 1;
    const bool all = take_char(r, '*');
    bool is_range = all;
    if (!all) {
        int rc = take_value(r, &low);
        high = low;
        if (rc == 0 && take_char(r, '-')) {
            is_range = true;
            rc = take_value(r, &high);
        }
        if (rc < 0)
            return rc;
    }
    if (high < low)
        return refuse(r, "has a range that runs backwards, which takes two ranges");
    if (take_char(r, '/')) {
        if (!is_range)
            return refuse(r, "has a step behind a single number, where crons differ: write the range");
        if (!take_digits(r, &step) || step < 1 || step > r->field->high)
            return refuse(r, "has a step that is no number above 0, or is longer than the range");
    }
    for (int i = low; i <= high; i += step)
        *set |= UINT64_C(1) << i;
    return 0;
}

static int read_field(reader *r, uint64_t *ret_set)
{
    uint64_t set = 0;
    do {
        const int rc = take_range(r, &set);
        if (rc < 0)
            return rc;
    } while (take_char(r, ','));
    if (r->at != r->end)
        return refuse(r, "cannot be read");
    *ret_set = set;
    return 0;
}

static const char *expand(const char *text)
{
    static const char *const names[][2] = {
        {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
        {"@daily", "0 0 * * *"},  {"@midnight", "0 0 * * *"}, {"@hourly", "0 * * * *"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(text, names[i][0]) == 0)
            return names[i][1];
    return text;
}

int simba__cron_parse(const char *text, simba_error *err, simba__cron *ret_cron)
{
    static const char blanks[] = " \t";
    reader readers[6];
    size_t count = 0;
    if (!text || strnlen(text, SIMBA__CRON_TEXT_MAX + 1) > SIMBA__CRON_TEXT_MAX)
        return simba__fail(err, SIMBA_EINVAL, "cron: the expression is %s", text ? "too long" : "NULL");
    const char *at = expand(text);
    if (at[0] == '@')
        return simba__fail(err, SIMBA_EINVAL,
                           "cron: there is no \"%.20s\"; there are @yearly, @monthly, @weekly, @daily and @hourly", at);
    for (at += strspn(at, blanks); *at != '\0'; at += strspn(at, blanks)) {
        const size_t length = strcspn(at, blanks);
        if (count < 6)
            readers[count] = (reader){NULL, at, at, at + length, err};
        count++;
        at += length;
    }
    if (count != 5 && count != 6)
        return simba__fail(
            err, SIMBA_EINVAL,
            "cron: \"%.60s\" has %zu fields; there are five: minute, hour, day of the month, month, day of "
            "the week; or six, with the second first",
            text, count);
    uint64_t sets[6] = {[SECOND] = 1};
    bool all_days[6] = {false};
    for (size_t i = 0; i < count; i++) {
        const size_t kind = i + 6 - count;
        readers[i].field = &fields[kind];
        all_days[kind] = readers[i].text[0] == '*';
        const int rc = read_field(&readers[i], &sets[kind]);
        if (rc < 0)
            return rc;
    }
    if (sets[WEEKDAY] & UINT64_C(1) << 7)
        sets[WEEKDAY] |= 1;
    const simba__cron cron = {
        .seconds = sets[SECOND],
        .minutes = sets[MINUTE],
        .hours = sets[HOUR],
        .days = sets[DAY],
        .months = sets[MONTH],
        .weekdays = sets[WEEKDAY],
        .either_day = !all_days[DAY] && !all_days[WEEKDAY],
    };
    if (first_local(&cron, 0, INT64_MAX) == INT64_MAX)
        return simba__fail(err, SIMBA_EINVAL, "cron: \"%.60s\" never comes: no such month has such a day", text);
    *ret_cron = cron;
    return 0;
}

/* --- the next time -------------------------------------------------------------------------------- */

int64_t simba__cron_next(const simba__cron *cron, const simba__zone *zone, int64_t after_s)
{
    const bool follows_clock = cron->hours != EVERY_HOUR;
    int64_t at_s = after_s < SIMBA__CALENDAR_FIRST_S ? SIMBA__CALENDAR_FIRST_S : after_s + (after_s < INT64_MAX);
    while (at_s < SIMBA__CALENDAR_LAST_S) {
        const simba__zone_stretch now = simba__zone_stretch_at(zone, at_s);
        const int64_t until_s =
            now.end_s < SIMBA__CALENDAR_LAST_S ? now.end_s + now.offset_s : SIMBA__CALENDAR_LAST_S + now.offset_s;
        int64_t from_s = at_s + now.offset_s;
        if (follows_clock && now.offset_s > now.offset_before_s && at_s == now.begin_s &&
            first_local(cron, at_s + now.offset_before_s, from_s) != INT64_MAX)
            return at_s; /* clocks went forward over it */
        if (follows_clock && now.offset_s < now.offset_before_s && from_s < now.begin_s + now.offset_before_s)
            from_s = now.begin_s + now.offset_before_s; /* clocks went back: this has been */
        const int64_t found_s = first_local(cron, from_s, until_s);
        if (found_s != INT64_MAX)
            return found_s - now.offset_s;
        at_s = now.end_s;
    }
    return INT64_MAX;
}
