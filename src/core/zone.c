/* See zone.h. A file has a block with times of 32 bits, then, from version 2 on, the same again with 64 bits and a footer, which
 * is a rule for all times after the last one listed. */
#include "core/zone.h"

#include <string.h>

#include "core/calendar.h"
#include "util/error.h"

#define HEADER_SIZE 44
#define TYPE_SIZE 6
#define OFFSET_MIN_S (-25 * 3600 + 1)
#define OFFSET_MAX_S (26 * 3600 - 1)

/* --- reading a rule ------------------------------------------------------------------------------- */

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

/* --- asking a rule -------------------------------------------------------------------------------- */

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

/* --- a zone --------------------------------------------------------------------------------------- */

int simba__zone_check_name(const char *name, simba_error *err)
{
    const size_t length = name ? strnlen(name, SIMBA__ZONE_NAME_MAX + 1) : 0;
    if (length == 0)
        return simba__fail(err, SIMBA_EINVAL, "the name of the time zone is empty");
    if (length > SIMBA__ZONE_NAME_MAX)
        return simba__fail(err, SIMBA_EINVAL, "the name of the time zone is longer than %d characters",
                           SIMBA__ZONE_NAME_MAX);
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
    const bool is_path = name[0] == '/' || name[length - 1] == '/' || strstr(name, "//");
    if (is_path || strspn(name, allowed) != length)
        return simba__fail(err, SIMBA_EINVAL, "\"%s\" is no name of a time zone; one is \"Europe/Berlin\" or \"UTC\"",
                           name);
    return 0;
}

/* --- reading a file --------------------------------------------------------------------------------- */

static int64_t read_number(const unsigned char *bytes, size_t size)
{
    uint64_t number = bytes[0] & 0x80 ? UINT64_MAX : 0;
    for (size_t i = 0; i < size; i++)
        number = number << 8 | bytes[i];
    return (int64_t)number;
}

/* A part of a file that is yet to be read. */
typedef struct rest {
    const unsigned char *at;
    size_t size;
} rest;

/* The next `count` items of `size` bytes; NULL: there are fewer. Both are below 2^32. */
static const unsigned char *take(rest *from, uint64_t count, size_t size)
{
    const unsigned char *taken = from->at;
    if (count * size > from->size)
        return NULL;
    from->at += count * size;
    from->size -= count * size;
    return taken;
}

typedef struct block {
    const unsigned char *times, *indexes, *types;
    size_t time_size;
    uint64_t time_count, type_count, leap_count;
    char version;
} block;

static bool read_block(rest *from, size_t time_size, block *ret_block)
{
    const unsigned char *header = take(from, 1, HEADER_SIZE);
    if (!header || memcmp(header, "TZif", 4) != 0)
        return false;
    uint32_t counts[6]; /* indicators of UT and of standard time, leap seconds, times, types, characters */
    for (size_t i = 0; i < 6; i++)
        counts[i] = (uint32_t)read_number(header + 20 + 4 * i, 4);
    block b = {.time_size = time_size, .version = (char)header[4]};
    b.leap_count = counts[2];
    b.time_count = counts[3];
    b.type_count = counts[4];
    b.times = take(from, b.time_count, time_size);
    b.indexes = b.times ? take(from, b.time_count, 1) : NULL;
    b.types = b.indexes ? take(from, b.type_count, TYPE_SIZE) : NULL;
    if (!b.types || !take(from, counts[5], 1) || !take(from, counts[2], time_size + 4) || !take(from, counts[1], 1) ||
        !take(from, counts[0], 1))
        return false;
    *ret_block = b;
    return true;
}

static const char *fault_of(const block *b)
{
    if (b->leap_count > 0)
        return "counts leap seconds; take the zone without \"right/\"";
    if (b->type_count == 0 || b->type_count > 256)
        return "has no types of local time";
    for (size_t i = 0; i < b->type_count; i++) {
        const int64_t offset_s = read_number(b->types + i * TYPE_SIZE, 4);
        if (offset_s < OFFSET_MIN_S || offset_s > OFFSET_MAX_S)
            return "has an offset of more than a day";
    }
    for (size_t i = 0; i < b->time_count; i++) {
        if (b->indexes[i] >= b->type_count)
            return "names a type of local time that it does not have";
        if (i > 0 && read_number(b->times + i * b->time_size, b->time_size) <=
                         read_number(b->times + (i - 1) * b->time_size, b->time_size))
            return "has changes in no order";
    }
    return NULL;
}

/* "\nCET-1CEST,M3.5.0,M10.5.0/3\n"; nothing between the two ends of lines: no rule. */
static bool read_footer(rest from, simba__zone_rule *ret_rule)
{
    char text[128];
    const unsigned char *end = from.size > 1 ? memchr(from.at + 1, '\n', from.size - 1) : NULL;
    if (!end || from.at[0] != '\n' || end - from.at > (ptrdiff_t)sizeof text)
        return false;
    const size_t length = (size_t)(end - from.at) - 1;
    memcpy(text, from.at + 1, length);
    text[length] = '\0';
    *ret_rule = (simba__zone_rule){.exists = false};
    return length == 0 || (strlen(text) == length && simba__zone_rule_parse(text, ret_rule));
}

int simba__zone_read(const void *bytes, size_t size, simba_error *err, simba__zone *ret_zone)
{
    rest from = {bytes, size};
    block b;
    simba__zone_rule rule = {.exists = false};
    if (size > SIMBA__ZONE_FILE_MAX)
        return simba__fail(err, SIMBA_ECORRUPT, "it is longer than %d bytes", SIMBA__ZONE_FILE_MAX);
    if (!read_block(&from, 4, &b))
        return simba__fail(err, SIMBA_ECORRUPT, "it is no file of the time zone database, or is cut short");
    if (b.version >= '2') {
        if (!read_block(&from, 8, &b))
            return simba__fail(err, SIMBA_ECORRUPT, "its second half is missing or cut short");
        if (!read_footer(from, &rule))
            return simba__fail(err, SIMBA_ECORRUPT, "the rule at its end cannot be read");
    }
    const char *fault = fault_of(&b);
    if (fault)
        return simba__fail(err, SIMBA_ECORRUPT, "it %s", fault);
    *ret_zone = (simba__zone){
        .times = b.times,
        .indexes = b.indexes,
        .types = b.types,
        .time_size = b.time_size,
        .count = b.time_count,
        .rule = rule,
    };
    return 0;
}

/* --- asking a zone ----------------------------------------------------------------------------------- */

static int64_t time_of(const simba__zone *zone, size_t change)
{
    return read_number(zone->times + change * zone->time_size, zone->time_size);
}

/* The stretch after so many of the listed changes. Before the first change, the first type holds. */
static int32_t offset_after(const simba__zone *zone, size_t changes)
{
    const size_t type = changes > 0 ? zone->indexes[changes - 1] : 0;
    return zone->types ? (int32_t)read_number(zone->types + type * TYPE_SIZE, 4) : 0;
}

static size_t changes_until(const simba__zone *zone, int64_t at_s)
{
    size_t low = 0;
    for (size_t high = zone->count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (time_of(zone, middle) <= at_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

simba__zone_stretch simba__zone_stretch_at(const simba__zone *zone, int64_t at_s)
{
    const size_t changes = changes_until(zone, at_s);
    simba__zone_stretch listed = {
        .begin_s = changes > 0 ? time_of(zone, changes - 1) : INT64_MIN,
        .end_s = changes < zone->count ? time_of(zone, changes) : INT64_MAX,
        .offset_s = offset_after(zone, changes),
        .offset_before_s = offset_after(zone, changes > 0 ? changes - 1 : 0),
    };
    if (changes < zone->count || !zone->rule.exists)
        return listed;
    simba__zone_stretch ruled = simba__zone_rule_stretch_at(&zone->rule, at_s);
    if (ruled.begin_s <= listed.begin_s) {
        ruled.begin_s = listed.begin_s;
        ruled.offset_before_s = listed.offset_before_s;
    }
    return ruled;
}
