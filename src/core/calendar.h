/* Days and dates of the Gregorian calendar, as numbers: day 0 is 1970-01-01. Time zone rules and cron expressions
 * use them. */
#ifndef SIMBA_CORE_CALENDAR_H
#define SIMBA_CORE_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

#define SIMBA__DAY_S INT64_C(86400)

/* Times beyond these stand for "long ago" and "never": the years 1 and 9999. Within them nothing overflows. */
#define SIMBA__CALENDAR_FIRST_S INT64_C(-62135596800)
#define SIMBA__CALENDAR_LAST_S INT64_C(253402300799)

typedef struct simba__date {
    int64_t year;
    int month; /* 1 to 12 */
    int day;   /* 1 to 31 */
} simba__date;

/* Rounds towards the past, unlike C's own division. */
static inline int64_t simba__floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static inline bool simba__is_leap_year(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Years are counted from March here, so that the leap day is the last one of its year. */
static inline int64_t simba__day_of(simba__date date)
{
    const int64_t year = date.year - (date.month <= 2);
    const int64_t era = simba__floor_div(year, 400);
    const int64_t of_era = year - era * 400;
    const int64_t of_year = (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static inline simba__date simba__date_of(int64_t day)
{
    const int64_t shifted = day + 719468;
    const int64_t era = simba__floor_div(shifted, 146097);
    const int64_t of_era = shifted - era * 146097;
    const int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const int64_t month = (5 * of_year + 2) / 153; /* from March on */
    const int64_t year = year_of_era + era * 400;
    return (simba__date){
        .year = year + (month >= 10),
        .month = (int)(month < 10 ? month + 3 : month - 9),
        .day = (int)(of_year - (153 * month + 2) / 5 + 1),
    };
}

/* 0 is Sunday. */
static inline int simba__weekday_of(int64_t day)
{
    return (int)(day + 4 - 7 * simba__floor_div(day + 4, 7));
}

#endif
