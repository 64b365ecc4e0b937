/* Cron expressions: "15 3 * * 1-5" is a quarter past three in the morning, from Monday to Friday.
 *
 * Five fields: minute, hour, day of the month, month, day of the week; or six, with seconds in front of them. A field is "*",
 * a number, a range "1-5", either of these with a step "0-30/10", or a list of them, "1,15,20-25". Months and days of
 * the week have names of three letters. Sunday is 0 and 7. If both the day of the month and the day of the week are restricted,
 * either is enough, as in every cron. @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly mean what they
 * say.
 *
 * When clocks change: a time that a zone's clocks leave out is made up for when they go on, once for all times left out. A
 * time that comes twice counts the first time. If the expression has every hour, neither applies: such work follows the
 * time that has passed, as on any other day. */
#ifndef SIMBA_CORE_CRON_H
#define SIMBA_CORE_CRON_H

#include "core/zone.h"

#define SIMBA__CRON_TEXT_MAX 256

typedef struct simba__cron {
    uint64_t seconds, minutes, hours, days, months, weekdays; /* sets: bit n stands for n */
    bool either_day; /* both kinds of days are restricted, so one of them is enough */
} simba__cron;

/* SIMBA_EINVAL names the field and what is allowed there. */
int simba__cron_parse(const char *text, simba_error *err, simba__cron *ret_cron);

/* The first time after `after_s` that the expression names, in seconds since 1970; INT64_MAX: there is none before the year
 * 9999. */
int64_t simba__cron_next(const simba__cron *cron, const simba__zone *zone, int64_t after_s);

#endif
