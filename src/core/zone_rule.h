/* The rule that a time zone follows from now on, in the form of POSIX: "CET-1CEST,M3.5.0,M10.5.0/3". */
#ifndef SIMBA_CORE_ZONE_RULE_H
#define SIMBA_CORE_ZONE_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* A day of the year at which the offset changes. */
typedef enum simba__zone_day_kind {
    SIMBA__ZONE_WEEKDAY,     /* "M3.5.0": the given weekday of the given week of a month; week 5 is the last */
    SIMBA__ZONE_NO_LEAP_DAY, /* "J60": from 1 to 365; February 29 is never counted */
    SIMBA__ZONE_LEAP_DAY,    /* "59": from 0 to 365; February 29 is counted */
} simba__zone_day_kind;

typedef struct simba__zone_change {
    simba__zone_day_kind kind;
    int month, week, day;
    int32_t time_s; /* after that day's midnight, by the clock before the change; may be on another day */
} simba__zone_change;

/* The rule after the last change that the file lists. */
typedef struct simba__zone_rule {
    bool exists;
    bool has_summer;
    int32_t standard_s, summer_s; /* east of Greenwich */
    simba__zone_change to_summer, to_standard;
} simba__zone_rule;

/* A stretch of time in which clocks do not change: from `begin_s` on, before `end_s`. */
typedef struct simba__zone_stretch {
    int64_t begin_s, end_s;
    int32_t offset_s;        /* local time is UTC plus this */
    int32_t offset_before_s; /* of the stretch before this one */
} simba__zone_stretch;

/* False: it is no such rule. */
bool simba__zone_rule_parse(const char *text, simba__zone_rule *ret_rule);

/* As if the rule had always held. */
simba__zone_stretch simba__zone_rule_stretch_at(const simba__zone_rule *rule, int64_t at_s);

#endif
