/* Time zones, read from the files of the system's time zone database (TZif, RFC 8536).
 *
 * The C library has localtime() and mktime(), but for one zone per process: that of the variable TZ. A library may not change
 * that variable under the program, and two schedules may be in two zones. So we read the files ourselves. This reader is
 * pure: it works on the bytes of a file that the caller keeps, allocates nothing, and trusts nothing in them. */
#ifndef SIMBA_CORE_ZONE_H
#define SIMBA_CORE_ZONE_H

#include <simba.h>

/* --- the rule at the end of a file, in the form of POSIX: "CET-1CEST,M3.5.0,M10.5.0/3" ----------------- */

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

/* --- a zone --------------------------------------------------------------------------------------- */

#define SIMBA__ZONE_NAME_MAX 64
#define SIMBA__ZONE_FILE_MAX 65536 /* the longest file of the database has less than 4,000 bytes */

typedef struct simba__zone {
    const unsigned char *times; /* NULL: UTC */
    const unsigned char *indexes;
    const unsigned char *types;
    size_t time_size; /* bytes of one time: 4 or 8 */
    size_t count;     /* changes listed */
    simba__zone_rule rule;
} simba__zone;

/* Can this be the name of a zone, such as "Europe/Berlin"? A name becomes part of a path, so it must not lead out of the
 * folder of zones. SIMBA_EINVAL names what is wrong. */
int simba__zone_check_name(const char *name, simba_error *err);

/* Read a file. The zone points into `bytes`, which must stay. SIMBA_ECORRUPT says what is wrong with it. */
int simba__zone_read(const void *bytes, size_t size, simba_error *err, simba__zone *ret_zone);

/* The stretch that a time belongs to, in seconds since 1970. */
simba__zone_stretch simba__zone_stretch_at(const simba__zone *zone, int64_t at_s);

#endif
