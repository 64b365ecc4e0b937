/* Time zones: what the system's files say, beyond their tables too, and what becomes of files that lie. */
#include "core/zone.h"

#include <stdlib.h>
#include <string.h>

#include "core/calendar.h"
#include "lib/cm.h"
#include "util/zonefile.h"

static int64_t at(int year, int month, int day, int hour, int minute)
{
    return simba__day_of((simba__date){year, month, day}) * SIMBA__DAY_S + hour * 3600 + minute * 60;
}

static simba__zonefile load(const char *name)
{
    simba__zonefile file;
    simba_error err = {0};
    if (simba__zonefile_load(name, &err, &file) < 0)
        fail_msg("%s: %s", name, err.text);
    return file;
}

static void check_offset(const char *name, int64_t at_s, int32_t offset_s)
{
    simba__zonefile file = load(name);
    assert_int_equal(simba__zone_stretch_at(&file.zone, at_s).offset_s, offset_s);
    simba__zonefile_free(&file);
}

/* Days become dates and dates become days, over 800 years, leap days among them. */
static void dates_and_days_agree(void **state)
{
    assert_int_equal(simba__day_of((simba__date){1970, 1, 1}), 0);
    assert_int_equal(simba__day_of((simba__date){2000, 2, 29}), 11016);
    assert_int_equal(simba__weekday_of(0), 4);
    assert_int_equal(simba__weekday_of(-1), 3);
    for (int64_t day = -146097; day < 146097; day++)
        assert_int_equal(simba__day_of(simba__date_of(day)), day);
}

/* Offsets that another reader of the same database gives. */
static void offsets_are_those_of_the_database(void **state)
{
    check_offset("UTC", at(2026, 7, 1, 0, 0), 0);
    check_offset("Europe/Berlin", at(2026, 3, 29, 0, 59), 3600);
    check_offset("Europe/Berlin", at(2026, 3, 29, 1, 0), 7200);
    check_offset("Europe/Berlin", at(2026, 10, 25, 0, 59), 7200);
    check_offset("Europe/Berlin", at(2026, 10, 25, 1, 0), 3600);
    check_offset("America/Sao_Paulo", at(2018, 11, 4, 2, 59), -10800);
    check_offset("America/Sao_Paulo", at(2018, 11, 4, 3, 0), -7200);
    check_offset("Asia/Kathmandu", at(1980, 1, 1, 0, 0), 19800);
    check_offset("America/New_York", at(1900, 1, 1, 0, 0), -18000);
    check_offset("America/New_York", at(1850, 1, 1, 0, 0), -17762);
}

/* The tables end in 2037 or before; the rule behind them goes on. */
static void rules_go_on_behind_the_table(void **state)
{
    check_offset("Europe/Berlin", at(2060, 7, 1, 0, 0), 7200);
    check_offset("Europe/Berlin", at(2060, 1, 1, 0, 0), 3600);
    check_offset("Australia/Lord_Howe", at(2050, 1, 1, 0, 0), 39600);
    check_offset("Australia/Lord_Howe", at(2050, 7, 1, 0, 0), 37800);
    check_offset("Europe/Dublin", at(2045, 1, 1, 0, 0), 0);
    check_offset("Europe/Dublin", at(2045, 7, 1, 0, 0), 3600);
}

/* A stretch begins where the one before it ends, in the table, at its end, and in the rule. */
static void stretches_follow_each_other(void **state)
{
    static const char *const names[] = {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        simba__zonefile file = load(names[i]);
        simba__zone_stretch last = simba__zone_stretch_at(&file.zone, at(1900, 1, 1, 0, 0));
        while (last.end_s < at(2100, 1, 1, 0, 0)) {
            const simba__zone_stretch next = simba__zone_stretch_at(&file.zone, last.end_s);
            assert_int_equal(next.begin_s, last.end_s);
            assert_int_equal(next.offset_before_s, last.offset_s);
            assert_int_equal(simba__zone_stretch_at(&file.zone, last.end_s - 1).end_s, last.end_s);
            last = next;
        }
        simba__zonefile_free(&file);
    }
}

static int32_t rule_offset(const char *text, int64_t at_s)
{
    simba__zone_rule rule;
    assert_true(simba__zone_rule_parse(text, &rule));
    return simba__zone_rule_stretch_at(&rule, at_s).offset_s;
}

static void rules_of_every_form_are_read(void **state)
{
    const int64_t january = at(2031, 1, 15, 12, 0);
    const int64_t july = at(2031, 7, 15, 12, 0);
    assert_int_equal(rule_offset("UTC0", july), 0);
    assert_int_equal(rule_offset("<+0330>-3:30", july), 12600);
    assert_int_equal(rule_offset("EST5EDT,M3.2.0,M11.1.0", july), -4 * 3600);
    assert_int_equal(rule_offset("EST5EDT,M3.2.0,M11.1.0", january), -5 * 3600);
    /* The fifth week is the last one, also where there are four. */
    assert_int_equal(rule_offset("CET-1CEST,M3.5.0,M10.5.0/3", at(2060, 3, 28, 0, 59)), 3600);
    assert_int_equal(rule_offset("CET-1CEST,M3.5.0,M10.5.0/3", at(2060, 3, 28, 1, 0)), 7200);
    assert_int_equal(rule_offset("AEST-10AEDT,M10.1.0,M4.1.0/3", january), 11 * 3600); /* the southern half */
    assert_int_equal(rule_offset("AEST-10AEDT,M10.1.0,M4.1.0/3", july), 10 * 3600);
    assert_int_equal(rule_offset("IST-1GMT0,M10.5.0,M3.5.0/1", january), 0); /* winter is the exception */
    assert_int_equal(rule_offset("XXX3YYY,J60/0,300/0", at(2032, 2, 29, 12, 0)), -3 * 3600);
    assert_int_equal(rule_offset("XXX3YYY,J60/0,300/0", at(2032, 3, 1, 12, 0)), -2 * 3600);
    assert_int_equal(rule_offset("XXX3YYY,J60/0,299/0", at(2032, 10, 26, 12, 0)), -3 * 3600);
    /* Before the leap day it does not matter whether it counts; 2100 has none, and 2000 has one. */
    assert_int_equal(rule_offset("XXX3YYY,J59/0,300/0", at(2032, 2, 27, 12, 0)), -3 * 3600);
    assert_int_equal(rule_offset("XXX3YYY,J59/0,300/0", at(2032, 2, 28, 12, 0)), -2 * 3600);
    assert_int_equal(rule_offset("XXX3YYY,J60/0,300/0", at(2100, 2, 28, 12, 0)), -3 * 3600);
    assert_int_equal(rule_offset("XXX3YYY,J60/0,300/0", at(2100, 3, 1, 12, 0)), -2 * 3600);
    assert_int_equal(rule_offset("XXX3YYY,J60/0,300/0", at(2000, 2, 29, 12, 0)), -3 * 3600);
    assert_int_equal(rule_offset("XXX3YYY,M12.1.0/0,M2.1.0/0", at(2031, 12, 6, 12, 0)), -3 * 3600);
    assert_int_equal(rule_offset("XXX3YYY,M12.1.0/0,M2.1.0/0", at(2031, 12, 7, 12, 0)), -2 * 3600);
    assert_int_equal(rule_offset("<A03>-3:00:15", july), 3 * 3600 + 15);
    assert_int_equal(rule_offset("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", at(2031, 3, 30, 0, 59)), -7200);
    assert_int_equal(rule_offset("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", at(2031, 3, 30, 1, 0)), -3600);
}

/* At the ends of the calendar there is no year to look at. */
static void rules_have_an_end(void **state)
{
    static const char text[] = "CET-1CEST,M3.5.0,M10.5.0/3";
    assert_int_equal(rule_offset(text, INT64_MIN), 3600);
    assert_int_equal(rule_offset(text, INT64_MAX), 3600);
}

/* Summer all year: it ends in the moment in which it begins. */
static void summer_without_end(void **state)
{
    static const char text[] = "XXX3EDT4,0/0,J365/23";
    simba__zone_rule rule;
    assert_true(simba__zone_rule_parse(text, &rule));
    for (int month = 1; month <= 12; month++)
        assert_int_equal(rule_offset(text, at(2031, month, 1, 3, 0)), -4 * 3600);
    const simba__zone_stretch first = simba__zone_rule_stretch_at(&rule, at(2031, 1, 1, 3, 0));
    assert_int_equal(first.offset_before_s, first.offset_s);
}

/* Summer that ends around New Year's Eve ends twice within some years, or not at all. What is before a stretch is what the stretch before
 * it says. */
static void changes_that_change_nothing(void **state)
{
    static const char *const texts[] = {"XXX3YYY,0/0,M12.5.0/167", "XXX3YYY,M12.5.0/167,0/0",
                                        "XXX3YYY,J365/167,M1.1.0/-167"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        simba__zone_rule rule;
        assert_true(simba__zone_rule_parse(texts[i], &rule));
        simba__zone_stretch last = simba__zone_rule_stretch_at(&rule, at(2000, 6, 1, 0, 0));
        while (last.end_s < at(2100, 1, 1, 0, 0)) {
            const simba__zone_stretch next = simba__zone_rule_stretch_at(&rule, last.end_s);
            assert_int_equal(next.begin_s, last.end_s);
            assert_int_equal(next.offset_before_s, last.offset_s);
            last = next;
        }
    }
}

static void other_texts_are_no_rules(void **state)
{
    static const char *const texts[] = {
        "",
        "CET",
        "CE-1",
        "CET-1CEST",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "<+3>",
        "<+03>-3x",
        "CET-25",
        "CET-1:60",
        "CET-1:30:60",
        "CE{-1",
        "<+03-3",
        "CET-1CEST,M3x5.0,M10.5.0",
        "CET-1CEST,M3.5x0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,J0,J365",
        "CET-1CEST,M3.5.0/168,J3",
        "CET-1CEST,M3.5.0,M10.5.0/3 ",
        "CET-11111111111111",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        simba__zone_rule rule;
        if (simba__zone_rule_parse(texts[i], &rule))
            fail_msg("\"%s\" was read", texts[i]);
    }
}

/* A name becomes a path: it must not lead elsewhere. */
static void names_cannot_leave_the_folder(void **state)
{
    static const char *const bad[] = {
        "/etc/passwd",    "../../../etc/passwd",
        "Europe/../../x", ".",
        "Europe/",        "a//b",
        "Europe/Ber lin", "Europe\n",
        ":Europe/Berlin", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    simba__zonefile file;
    simba_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(simba__zonefile_load(bad[i], &err, &file), SIMBA_EINVAL);
        assert_non_null(strstr(err.text, "time zone"));
    }
    assert_int_equal(simba__zone_check_name("", &err), SIMBA_EINVAL);
    assert_int_equal(simba__zone_check_name(NULL, &err), SIMBA_EINVAL);
    assert_int_equal(simba__zone_check_name("America/Argentina/Buenos_Aires", &err), 0);
    assert_int_equal(simba__zone_check_name("Etc/GMT+12", &err), 0);
    assert_int_equal(simba__zonefile_load("Europe/Atlantis", &err, &file), SIMBA_ENOTFOUND);
    assert_non_null(strstr(err.text, "Europe/Atlantis"));
    assert_int_equal(simba__zonefile_load("Europe", &err, &file), SIMBA_ENOTFOUND);
    assert_int_equal(simba__zonefile_load("tzdata.zi", &err, &file), SIMBA_EINVAL);
    assert_int_equal(simba__zonefile_load("leapseconds", &err, &file), SIMBA_ECORRUPT);
}

/* --- files that lie --------------------------------------------------------------------------------- */

/* One change at 1000, from offset 0 to 3600, without a second half. */
static size_t small_file(unsigned char ret_bytes[128])
{
    static const unsigned char body[] = {0, 0, 3, 232, 1, /* the change, to type 1 */
                                         0, 0, 0, 0,   0, 0, 0, 0, 14, 16, 0, 0, 'A', 'A', 'A', 0};
    memset(ret_bytes, 0, 128);
    memcpy(ret_bytes, (const char[]){'T', 'Z', 'i', 'f'}, 4);
    ret_bytes[35] = 1; /* changes */
    ret_bytes[39] = 2; /* types */
    ret_bytes[43] = 4; /* characters */
    memcpy(ret_bytes + 44, body, sizeof body);
    return 44 + sizeof body;
}

static void old_files_are_read(void **state)
{
    unsigned char bytes[128];
    simba__zone zone;
    assert_int_equal(simba__zone_read(bytes, small_file(bytes), NULL, &zone), 0);
    assert_int_equal(simba__zone_stretch_at(&zone, 999).offset_s, 0);
    assert_int_equal(simba__zone_stretch_at(&zone, 1000).offset_s, 3600);
    assert_int_equal(simba__zone_stretch_at(&zone, INT64_MAX).offset_s, 3600);
}

static void refuse(size_t byte, unsigned char value, const char *word)
{
    unsigned char bytes[128];
    simba__zone zone;
    simba_error err;
    const size_t size = small_file(bytes);
    bytes[byte] = value;
    assert_int_equal(simba__zone_read(bytes, size, &err, &zone), SIMBA_ECORRUPT);
    if (!strstr(err.text, word))
        fail_msg("\"%s\" does not say \"%s\"", err.text, word);
}

static void files_that_lie_are_refused(void **state)
{
    refuse(0, 'X', "no file");
    refuse(32, 255, "cut short"); /* four thousand million changes */
    refuse(36, 255, "cut short"); /* so many types */
    refuse(40, 255, "cut short"); /* so many characters */
    refuse(20, 255, "cut short"); /* so many indicators of UT */
    refuse(24, 255, "cut short"); /* and of standard time */
    refuse(31, 1, "cut short");   /* a leap second that is not there */
    refuse(39, 0, "no types");
    refuse(48, 2, "does not have"); /* a third type */
    refuse(49, 128, "more than a day");
    refuse(55, 127, "more than a day");
    refuse(4, '2', "second half");
}

static void refuse_file(const unsigned char *bytes, size_t size, const char *word)
{
    simba__zone zone;
    simba_error err = {0};
    assert_int_equal(simba__zone_read(bytes, size, &err, &zone), SIMBA_ECORRUPT);
    if (!strstr(err.text, word))
        fail_msg("\"%s\" does not say \"%s\"", err.text, word);
}

/* What the bytes of a small file cannot say: leap seconds that are there, changes in no order, hundreds of types. */
static void files_that_lie_in_length_are_refused(void **state)
{
    static unsigned char bytes[SIMBA__ZONE_FILE_MAX + 1];
    size_t size = small_file(bytes);
    bytes[31] = 1;
    refuse_file(bytes, size + 8, "leap seconds");
    static const unsigned char twice[] = {0, 0, 3, 232, 0, 0, 3, 232, 1, 0}; /* two changes at the same time */
    size = small_file(bytes);
    memmove(bytes + 44 + sizeof twice, bytes + 49, size - 49);
    memcpy(bytes + 44, twice, sizeof twice);
    bytes[35] = 2;
    refuse_file(bytes, size + 5, "no order");
    small_file(bytes);
    bytes[38] = 1;
    bytes[39] = 1;
    memset(bytes + 48, 0, 257 * 6);
    refuse_file(bytes, 44 + 5 + 257 * 6 + 4, "no types");
    refuse_file(bytes, sizeof bytes, "longer than");
}

/* A file of the second version, of which both halves have one type and no changes, with this footer. */
static size_t file_with_footer(const char *footer, size_t length, unsigned char *ret_bytes)
{
    enum { HALF = 44 + 6 + 4 };
    memset(ret_bytes, 0, 2 * HALF);
    for (int half = 0; half < 2; half++) {
        memcpy(ret_bytes + half * HALF, (const char[]){'T', 'Z', 'i', 'f', '2'}, 5);
        ret_bytes[half * HALF + 39] = 1;
        ret_bytes[half * HALF + 43] = 4;
    }
    memcpy(ret_bytes + 2 * HALF, footer, length);
    return 2 * HALF + length;
}

static void footers_that_lie_are_refused(void **state)
{
    unsigned char bytes[512];
    char longest[200];
    simba__zone zone;
    assert_int_equal(simba__zone_read(bytes, file_with_footer("\nCET-1\n", 7, bytes), NULL, &zone), 0);
    assert_int_equal(simba__zone_stretch_at(&zone, 0).offset_s, 3600);
    assert_int_equal(simba__zone_read(bytes, file_with_footer("\n\n", 2, bytes), NULL, &zone), 0);
    assert_int_equal(simba__zone_stretch_at(&zone, 0).offset_s, 0);
    static const struct {
        const char *text;
        size_t length;
    } bad[] = {{"", 0}, {"\n", 1}, {"xCET-1\n", 7}, {"\nCET-1", 6}, {"\nCET\n", 5}, {"\nCET-1\0x\n", 9}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_file(bytes, file_with_footer(bad[i].text, bad[i].length, bytes), "rule");
    memset(longest, 'A', sizeof longest);
    longest[0] = longest[sizeof longest - 1] = '\n';
    refuse_file(bytes, file_with_footer(longest, sizeof longest, bytes), "rule");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_and_days_agree),
        cmocka_unit_test(offsets_are_those_of_the_database),
        cmocka_unit_test(rules_go_on_behind_the_table),
        cmocka_unit_test(stretches_follow_each_other),
        cmocka_unit_test(rules_of_every_form_are_read),
        cmocka_unit_test(summer_without_end),
        cmocka_unit_test(other_texts_are_no_rules),
        cmocka_unit_test(names_cannot_leave_the_folder),
        cmocka_unit_test(old_files_are_read),
        cmocka_unit_test(files_that_lie_are_refused),
        cmocka_unit_test(rules_have_an_end),
        cmocka_unit_test(files_that_lie_in_length_are_refused),
        cmocka_unit_test(footers_that_lie_are_refused),
        cmocka_unit_test(changes_that_change_nothing),
    };
    return cmocka_run_group_tests_name("zone", tests, NULL, NULL);
}
