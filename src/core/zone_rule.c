/* See zone_rule.h. */
#include "core/zone_rule.h"

#include "core/calendar.h"

/* --- reading -------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool take_char(const char **at, char c)
{
    const bool is_there = **at == c;
    *at += is_there;
    return is_there;
}

static bool take_number(const char **at, int low, int high, int *ret_number)
{
    int number = 0;
    const char *begin = *at;
    for (; is_digit(**at) && *at - begin < 4; ++*at)
        number = number * 10 + (**at - '0');
    *ret_number = number;
    return *at > begin && !is_digit(**at) && number >= low && number <= high;
}

/* "CET", or in angle brackets with digits and signs: "<+0330>". */
static bool skip_name(const char **at)
{
    const char *begin = *at;
    if (take_char(at, '<')) {
        while (is_letter(**at) || is_digit(**at) || **at == '+' || **at == '-')
            ++*at;
        return take_char(at, '>') && *at - begin > 4;
    }
    while (is_letter(**at))
        ++*at;
    return *at - begin >= 3;
}

/* "[+-]hh[:mm[:ss]]". */
static bool take_time(const char **at, int hours_max, int32_t *ret_s)
{
    int hours;
    int minutes = 0;
    int seconds = 0;
    const bool negative = take_char(at, '-');
    if (!negative)
        take_char(at, '+');
    if (!take_number(at, 0, hours_max, &hours))
        return false;
    if (take_char(at, ':') && !take_number(at, 0, 59, &minutes))
        return false;
    if (take_char(at, ':') && !take_number(at, 0, 59, &seconds))
        return false;
    const int32_t s = hours * 3600 + minutes * 60 + seconds;
    *ret_s = negative ? -s : s;
    return true;
}

static bool take_day(const char **at, simba__zone_change *ret_change)
{
    if (take_char(at, 'M')) {
        ret_change->kind = SIMBA__ZONE_WEEKDAY;
        return take_number(at, 1, 12, &ret_change->month) && take_char(at, '.') &&
               take_number(at, 1, 5, &ret_change->week) && take_char(at, '.') &&
               take_number(at, 0, 6, &ret_change->day);
    }
    if (take_char(at, 'J')) {
        ret_change->kind = SIMBA__ZONE_NO_LEAP_DAY;
        return take_number(at, 1, 365, &ret_change->day);
    }
    ret_change->kind = SIMBA__ZONE_LEAP_DAY;
    return take_number(at, 0, 365, &ret_change->day);
}

/* ",M3.5.0/2": two o'clock, unless it says otherwise; version 3 of the files allows times up to a week away. */
static bool take_change(const char **at, simba__zone_change *ret_change)
{
    *ret_change = (simba__zone_change){.time_s = 2 * 3600};
    return take_char(at, ',') && take_day(at, ret_change) &&
           (!take_char(at, '/') || take_time(at, 167, &ret_change->time_s));
}

bool simba__zone_rule_parse(const char *text, simba__zone_rule *ret_rule)
{
    const char *at = text;
    int32_t west_s;
    simba__zone_rule rule = {.exists = true};
    if (!skip_name(&at) || !take_time(&at, 24, &west_s))
        return false;
    rule.standard_s = rule.summer_s = -west_s;
    if (*at != '\0') {
        if (!skip_name(&at))
            return false;
        rule.has_summer = true;
        rule.summer_s = rule.standard_s + 3600;
        if (*at != ',') {
            if (!take_time(&at, 24, &west_s))
                return false;
            rule.summer_s = -west_s;
        }
        if (!take_change(&at, &rule.to_summer) || !take_change(&at, &rule.to_standard) || *at != '\0')
            return false;
    }
    *ret_rule = rule;
    return true;
}

/* --- asking --------------------------------------------------------------------------------------- */

static int64_t day_of_change(const simba__zone_change *change, int64_t year)
{
    const int64_t new_year = simba__day_of((simba__date){year, 1, 1});
    switch (change->kind) {
    case SIMBA__ZONE_NO_LEAP_DAY:
        return new_year + change->day - 1 + (simba__is_leap_year(year) && change->day > 59);
    case SIMBA__ZONE_LEAP_DAY:
        return new_year + change->day;
    case SIMBA__ZONE_WEEKDAY:
        break;
    }
    const int64_t first = simba__day_of((simba__date){year, change->month, 1});
    const int64_t next_month =
        simba__day_of((simba__date){year + (change->month == 12), change->month == 12 ? 1 : change->month + 1, 1});
    int64_t day = first + (change->day - simba__weekday_of(first) + 7) % 7 + 7 * (change->week - 1);
    while (day >= next_month)
        day -= 7;
    return day;
}

/* The stretch around a moment, without what was before it. */
static simba__zone_stretch stretch_around(const simba__zone_rule *rule, int64_t at_s)
{
    simba__zone_stretch stretch = {.begin_s = INT64_MIN, .end_s = INT64_MAX, .offset_s = rule->standard_s};
    if (!rule->has_summer || at_s < SIMBA__CALENDAR_FIRST_S || at_s > SIMBA__CALENDAR_LAST_S)
        return stretch;
    /* A change may be up to a week away from its day, and so in the year before or after it. The last change before a moment is
     * then one of two years ago at the most, and the next one of two years ahead. When summer begins in the moment in which it
     * ends, it goes on. */
    const int64_t year = simba__date_of(simba__floor_div(at_s, SIMBA__DAY_S)).year;
    for (int64_t y = year - 2; y <= year + 2; y++) {
        for (int i = 0; i < 2; i++) {
            const bool to_summer = i == 1;
            const simba__zone_change *change = to_summer ? &rule->to_summer : &rule->to_standard;
            const int32_t before_s = to_summer ? rule->standard_s : rule->summer_s;
            const int64_t change_s = day_of_change(change, y) * SIMBA__DAY_S + change->time_s - before_s;
            if (change_s <= at_s && change_s >= stretch.begin_s) {
                stretch.begin_s = change_s;
                stretch.offset_s = to_summer ? rule->summer_s : rule->standard_s;
            } else if (change_s > at_s && change_s < stretch.end_s) {
                stretch.end_s = change_s;
            }
        }
    }
    return stretch;
}

/* A change does not say what it changes: where summer ends twice in a row, the second end changes nothing. */
simba__zone_stretch simba__zone_rule_stretch_at(const simba__zone_rule *rule, int64_t at_s)
{
    simba__zone_stretch stretch = stretch_around(rule, at_s);
    stretch.offset_before_s =
        stretch.begin_s == INT64_MIN ? stretch.offset_s : stretch_around(rule, stretch.begin_s - 1).offset_s;
    return stretch;
}
