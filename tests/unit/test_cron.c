/* Cron expressions: which are understood, what is said of the others, and which times they name. */
#include "core/cron.h"

#include <stdio.h>
#include <string.h>

#include "core/calendar.h"
#include "lib/cm.h"
#include "util/zonefile.h"

/* "2026-03-29 01:00:00" as seconds, as if it were UTC. */
static int64_t utc(const char *text)
{
    int year, month, day, hour, minute, second;
    assert_int_equal(sscanf(text, "%d-%d-%d %d:%d:%d", &year, &month, &day, &hour, &minute, &second), 6);
    return simba__day_of((simba__date){year, month, day}) * SIMBA__DAY_S + hour * 3600 + minute * 60 + second;
}

/* Times that follow each other, in UTC; NULL ends them. */
static void check(const char *expression, const char *zone, const char *after, const char *const *expected)
{
    simba__cron cron;
    simba__zonefile file;
    simba_error err = {0};
    if (simba__cron_parse(expression, &err, &cron) < 0 || simba__zonefile_load(zone, &err, &file) < 0)
        fail_msg("%s", err.text);
    int64_t at_s = utc(after);
    for (; *expected; expected++) {
        at_s = simba__cron_next(&cron, &file.zone, at_s);
        if (at_s != utc(*expected)) {
            const simba__date date = simba__date_of(simba__floor_div(at_s, SIMBA__DAY_S));
            fail_msg("%s in %s: %lld-%d-%d and %lld s, not %s", expression, zone, (long long)date.year, date.month,
                     date.day, (long long)(at_s - simba__floor_div(at_s, SIMBA__DAY_S) * SIMBA__DAY_S), *expected);
        }
    }
    simba__zonefile_free(&file);
}
#define CHECK(expression, zone, after, ...) check(expression, zone, after, (const char *const[]){__VA_ARGS__, NULL})

static void fields_mean_what_they_say(void **state)
{
    CHECK("* * * * *", "UTC", "2026-01-01 00:00:00", "2026-01-01 00:01:00", "2026-01-01 00:02:00");
    CHECK("15 3 * * 1-5", "UTC", "2026-01-02 03:14:59", "2026-01-02 03:15:00", "2026-01-05 03:15:00");
    CHECK("15 3 * * 1-5", "UTC", "2026-01-02 03:15:00", "2026-01-05 03:15:00");
    CHECK("*/20 8-9 * * *", "UTC", "2026-01-01 08:30:00", "2026-01-01 08:40:00", "2026-01-01 09:00:00",
          "2026-01-01 09:20:00", "2026-01-01 09:40:00", "2026-01-02 08:00:00");
    CHECK("10-30/10,55 0 1 * *", "UTC", "2026-01-31 00:00:00", "2026-02-01 00:10:00", "2026-02-01 00:20:00",
          "2026-02-01 00:30:00", "2026-02-01 00:55:00", "2026-03-01 00:10:00");
    CHECK("59 23 31 12 *", "UTC", "2026-12-31 23:59:00", "2027-12-31 23:59:00");
    CHECK("0 0 29 feb *", "UTC", "2096-02-29 00:00:00", "2104-02-29 00:00:00");
}

static void names_and_sundays(void **state)
{
    CHECK("0 12 * JAN-mar,Dec MON", "UTC", "2026-03-25 00:00:00", "2026-03-30 12:00:00", "2026-12-07 12:00:00");
    CHECK("0 12 * * 0", "UTC", "2026-01-01 00:00:00", "2026-01-04 12:00:00");
    CHECK("0 12 * * 7", "UTC", "2026-01-01 00:00:00", "2026-01-04 12:00:00");
    CHECK("0 12 * * 6-7", "UTC", "2026-01-01 00:00:00", "2026-01-03 12:00:00", "2026-01-04 12:00:00",
          "2026-01-10 12:00:00");
    CHECK("0 12 * * sat,sun", "UTC", "2026-01-01 00:00:00", "2026-01-03 12:00:00", "2026-01-04 12:00:00");
}

static void seconds_come_first(void **state)
{
    CHECK("*/30 * * * * *", "UTC", "2026-01-01 00:00:00", "2026-01-01 00:00:30", "2026-01-01 00:01:00");
    CHECK("  5\t0 0  * * * ", "UTC", "2026-01-01 00:00:04", "2026-01-01 00:00:05", "2026-01-02 00:00:05");
}

static void nicknames(void **state)
{
    CHECK("@yearly", "UTC", "2026-01-01 00:00:00", "2027-01-01 00:00:00");
    CHECK("@annually", "UTC", "2026-01-01 00:00:00", "2027-01-01 00:00:00");
    CHECK("@monthly", "UTC", "2026-01-01 00:00:00", "2026-02-01 00:00:00");
    CHECK("@weekly", "UTC", "2026-01-01 00:00:00", "2026-01-04 00:00:00");
    CHECK("@daily", "UTC", "2026-01-01 00:00:00", "2026-01-02 00:00:00");
    CHECK("@midnight", "Asia/Tokyo", "2026-01-01 00:00:00", "2026-01-01 15:00:00");
    CHECK("@Hourly", "UTC", "2026-01-01 00:00:00", "2026-01-01 01:00:00");
}

/* Restricted both, either is enough; a step behind a star is no restriction, as in every cron. */
static void two_kinds_of_days(void **state)
{
    CHECK("0 0 13 * fri", "UTC", "2026-03-01 00:00:00", "2026-03-06 00:00:00", "2026-03-13 00:00:00",
          "2026-03-20 00:00:00", "2026-03-27 00:00:00", "2026-04-03 00:00:00", "2026-04-10 00:00:00",
          "2026-04-13 00:00:00");
    CHECK("0 0 */10 * fri", "UTC", "2026-03-01 00:00:00", "2026-05-01 00:00:00");
}

/* Berlin leaves out 02:00 to 03:00, which is 01:00 in UTC. */
static void what_falls_into_the_gap_comes_once_after_it(void **state)
{
    CHECK("30 2 * * *", "Europe/Berlin", "2026-03-28 00:00:00", "2026-03-28 01:30:00", "2026-03-29 01:00:00",
          "2026-03-30 00:30:00");
    CHECK("*/15 2 * * *", "Europe/Berlin", "2026-03-28 12:00:00", "2026-03-29 01:00:00", "2026-03-30 00:00:00");
    CHECK("*/30 2,3 * * *", "Europe/Berlin", "2026-03-28 12:00:00", "2026-03-29 01:00:00", "2026-03-29 01:30:00",
          "2026-03-30 00:00:00");
    CHECK("0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00:00", "2018-11-04 03:00:00", "2018-11-05 02:00:00");
    CHECK("30 2 * * *", "Europe/Berlin", "2060-03-27 12:00:00", "2060-03-28 01:00:00"); /* behind the table */
}

/* Berlin has 02:00 to 03:00 twice: at 00:00 and at 01:00 in UTC. */
static void what_is_repeated_comes_once(void **state)
{
    CHECK("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00:00", "2026-10-25 00:30:00", "2026-10-26 01:30:00");
    CHECK("0 2,3 * * *", "Europe/Berlin", "2026-10-24 12:00:00", "2026-10-25 00:00:00", "2026-10-25 02:00:00",
          "2026-10-26 01:00:00");
    CHECK("30 2 * * *", "Europe/Berlin", "2026-10-25 01:10:00", "2026-10-26 01:30:00"); /* asked in the second hour */
    CHECK("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00:00", "2026-04-04 14:45:00", "2026-04-05 15:15:00");
}

/* Work of every hour follows the time that passes. */
static void hourly_work_goes_on(void **state)
{
    CHECK("30 * * * *", "Europe/Berlin", "2026-03-29 00:00:00", "2026-03-29 00:30:00", "2026-03-29 01:30:00",
          "2026-03-29 02:30:00");
    CHECK("30 * * * *", "Europe/Berlin", "2026-10-24 23:00:00", "2026-10-24 23:30:00", "2026-10-25 00:30:00",
          "2026-10-25 01:30:00", "2026-10-25 02:30:00");
    CHECK("*/20 * * * *", "Australia/Lord_Howe", "2026-04-04 14:30:00", "2026-04-04 14:40:00", "2026-04-04 15:10:00");
}

/* A day that a zone left out: Samoa went from December 29 to 31. */
static void a_whole_day_is_left_out(void **state)
{
    CHECK("0 12 * * *", "Pacific/Apia", "2011-12-29 00:00:00", "2011-12-29 22:00:00", "2011-12-30 10:00:00",
          "2011-12-30 22:00:00");
}

static void refuse(const char *expression, const char *word, const char *other)
{
    simba__cron cron;
    simba_error err = {0};
    assert_int_equal(simba__cron_parse(expression, &err, &cron), SIMBA_EINVAL);
    if (!strstr(err.text, word) || !strstr(err.text, other))
        fail_msg("of \"%s\" it is said: %s", expression, err.text);
}

static void mistakes_are_named(void **state)
{
    refuse("60 * * * *", "minute \"60\"", "0 to 59");
    refuse("* 24 * * *", "hour \"24\"", "0 to 23");
    refuse("* * 0 * *", "day of the month \"0\"", "1 to 31");
    refuse("* * * 13 *", "month \"13\"", "jan to dec");
    refuse("* * * * 8", "day of the week \"8\"", "sun to sat");
    refuse("61 * * * * *", "second \"61\"", "0 to 59");
    refuse("* * * foo *", "month \"foo\"", "cannot be read");
    refuse("* * * ja *", "month \"ja\"", "cannot be read");
    refuse("*/x * * * *", "minute", "step");
    refuse("* * * janu *", "month \"janu\"", "cannot be read");
    refuse("1- * * * *", "minute \"1-\"", "cannot be read");
    refuse("1,,2 * * * *", "minute", "cannot be read");
    refuse("*/0 * * * *", "minute", "step");
    refuse("*/99 * * * *", "minute", "step");
    refuse("5/15 * * * *", "minute", "write the range");
    refuse("* 22-2 * * *", "hour", "backwards");
    refuse("* * * * fri-mon", "day of the week", "backwards");
    refuse("* * ? * *", "day of the month \"?\"", "allowed");
    refuse("99999999999 * * * *", "minute", "out of range");
    refuse("* * * *", "has 4 fields", "five");
    refuse("* * * * * * *", "has 7 fields", "five");
    refuse("", "has 0 fields", "five");
    refuse("@reboot", "@reboot", "@daily");
    refuse("0 0 30 2 *", "never comes", "day");
    refuse("0 0 31 4,6,9,11 *", "never comes", "day");
    char text[400];
    memset(text, '1', sizeof text);
    text[399] = '\0';
    refuse(text, "too long", "cron");
    simba_error err;
    assert_int_equal(simba__cron_parse(NULL, &err, &(simba__cron){0}), SIMBA_EINVAL);
}

/* However far away: no number overflows. */
static void the_end_of_time(void **state)
{
    simba__cron cron;
    const simba__zone zone = {.times = NULL};
    assert_int_equal(simba__cron_parse("0 0 * * *", NULL, &cron), 0);
    assert_int_equal(simba__cron_next(&cron, &zone, INT64_MAX), INT64_MAX);
    assert_int_equal(simba__cron_next(&cron, &zone, SIMBA__CALENDAR_LAST_S), INT64_MAX);
    assert_int_equal(simba__cron_next(&cron, &zone, INT64_MIN), SIMBA__CALENDAR_FIRST_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_mean_what_they_say),
        cmocka_unit_test(names_and_sundays),
        cmocka_unit_test(seconds_come_first),
        cmocka_unit_test(nicknames),
        cmocka_unit_test(two_kinds_of_days),
        cmocka_unit_test(what_falls_into_the_gap_comes_once_after_it),
        cmocka_unit_test(what_is_repeated_comes_once),
        cmocka_unit_test(hourly_work_goes_on),
        cmocka_unit_test(a_whole_day_is_left_out),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(the_end_of_time),
    };
    return cmocka_run_group_tests_name("cron", tests, NULL, NULL);
}
