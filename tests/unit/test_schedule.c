/* What a leader does about its schedule, policy by policy, and what it reads and writes in a note. */
#include "core/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"

#define DAY INT64_C(86400000)

static simba__policy daily(simba_catch_up catch_up, int64_t limit, bool at_least_once)
{
    return (simba__policy){
        .recurrence = {.every_ms = DAY},
        .spec = "every 86400000",
        .catch_up = catch_up,
        .limit = limit,
        .at_least_once = at_least_once,
    };
}

/* A schedule that ran at its anchor, day 100, and ended well. */
static simba__record ran_on_day_100(const simba__policy *policy)
{
    simba__record record = simba__schedule_adopt(policy, NULL, 100 * DAY);
    const simba__plan plan = simba__schedule_plan(policy, &record, 100 * DAY, 100 * DAY);
    assert_int_equal(plan.kind, SIMBA__PLAN_RUN);
    assert_int_equal(plan.at_ms, 100 * DAY);
    simba__schedule_begin(policy, &record, &plan, 100 * DAY);
    simba__schedule_end(policy, &record, 0, 100 * DAY + 5);
    return record;
}

static void expect(const simba__policy *policy, const simba__record *record, int64_t since_ms, int64_t now_ms,
                   simba__plan_kind kind, int64_t at_ms, int64_t missed, bool cut_short)
{
    const simba__plan plan = simba__schedule_plan(policy, record, since_ms, now_ms);
    assert_int_equal(plan.kind, kind);
    assert_int_equal(plan.at_ms, at_ms);
    assert_int_equal(plan.missed, missed);
    assert_int_equal(plan.cut_short, cut_short);
}

/* The first delay is noted: it does not begin again with each leadership. */
static void the_first_delay_counts_from_the_first_leadership(void **state)
{
    simba__policy policy = daily(SIMBA_CATCH_UP_SKIP, 0, false);
    policy.first_delay_ms = 1000;
    expect(&policy, NULL, 5, 5, SIMBA__PLAN_NOTE, 0, 0, false);
    simba__record record = simba__schedule_adopt(&policy, NULL, 5);
    expect(&policy, &record, 5, 5, SIMBA__PLAN_WAIT, 1005, 0, false);
    expect(&policy, &record, 900, 1005, SIMBA__PLAN_RUN, 1005, 0, false);
}

/* A failure is tried again after 1, 2, 4 … seconds, and at the latest after five minutes. */
static void at_least_once_repeats_what_failed(void **state)
{
    const simba__policy policy = daily(SIMBA_CATCH_UP_ONCE, 0, true);
    simba__record record = ran_on_day_100(&policy);
    int64_t now_ms = 101 * DAY;
    static const int64_t pauses_ms[] = {1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 300000, 300000};
    for (size_t i = 0; i < sizeof pauses_ms / sizeof *pauses_ms; i++) {
        const simba__plan plan = simba__schedule_plan(&policy, &record, 0, now_ms);
        assert_int_equal(plan.kind, SIMBA__PLAN_RUN);
        assert_int_equal(plan.at_ms, 101 * DAY);
        simba__schedule_begin(&policy, &record, &plan, now_ms);
        simba__schedule_end(&policy, &record, 7, now_ms);
        expect(&policy, &record, 0, now_ms + 1, SIMBA__PLAN_WAIT, now_ms + pauses_ms[i], 0, false);
        now_ms += pauses_ms[i];
    }
    /* A clock that went back by a year does not make it wait for one. */
    const simba__plan plan = simba__schedule_plan(&policy, &record, 0, now_ms - 365 * DAY);
    assert_int_equal(plan.at_ms, now_ms - 365 * DAY + SIMBA__RETRY_LAST_MS);
    /* Whoever turns to at most once is not held up by it. */
    const simba__policy other = daily(SIMBA_CATCH_UP_ONCE, 0, false);
    expect(&other, &record, 0, now_ms, SIMBA__PLAN_WAIT, 102 * DAY, 0, false);
}

/* Another expression counts from now on; an interval keeps its anchor. */
static void another_schedule_misses_nothing(void **state)
{
    const simba__policy before = daily(SIMBA_CATCH_UP_ALL, 100, false);
    const simba__record record = ran_on_day_100(&before);
    simba__policy after = daily(SIMBA_CATCH_UP_ALL, 100, false);
    after.recurrence.every_ms = DAY / 2;
    after.spec = "every 43200000";
    const int64_t now_ms = 105 * DAY + 1;
    expect(&after, &record, 0, now_ms, SIMBA__PLAN_NOTE, 0, 0, false);
    const simba__record adopted = simba__schedule_adopt(&after, &record, now_ms);
    assert_string_equal(adopted.spec, after.spec);
    assert_int_equal(adopted.due_ms, 100 * DAY);
    expect(&after, &adopted, 0, now_ms, SIMBA__PLAN_WAIT, 105 * DAY + DAY / 2, 0, false);
    const simba__zone utc = {.times = NULL};
    simba__policy cron = {
        .spec = "cron 0 12 * * * in UTC", .recurrence.zone = &utc, .catch_up = SIMBA_CATCH_UP_ALL, .limit = 9};
    assert_int_equal(simba__cron_parse("0 12 * * *", NULL, &cron.recurrence.cron), 0);
    const simba__record by_cron = simba__schedule_adopt(&cron, &record, now_ms);
    expect(&cron, &by_cron, 0, now_ms, SIMBA__PLAN_WAIT, 105 * DAY + DAY / 2, 0, false);
}

/* A schedule that has never run begins anew with another interval, and a run that is owed stays owed. */
static void another_schedule_before_and_amid_a_run(void **state)
{
    simba__policy before = daily(SIMBA_CATCH_UP_ONCE, 0, false);
    simba__policy after = daily(SIMBA_CATCH_UP_ONCE, 0, true);
    after.recurrence.every_ms = DAY / 2;
    after.spec = "every 43200000";
    before.first_delay_ms = after.first_delay_ms = 1000;
    simba__record record = simba__schedule_adopt(&before, NULL, 100 * DAY);
    assert_int_equal(simba__schedule_adopt(&after, &record, 101 * DAY).anchor_ms, 101 * DAY + 1000);
    before.at_least_once = true;
    record =
        ran_on_day_100(&(simba__policy){.recurrence = before.recurrence, .spec = before.spec, .at_least_once = true});
    const simba__plan plan = simba__schedule_plan(&before, &record, 0, 101 * DAY);
    simba__schedule_begin(&before, &record, &plan, 101 * DAY);
    const simba__record cut_short = simba__schedule_adopt(&after, &record, 102 * DAY);
    expect(&after, &cut_short, 0, 102 * DAY, SIMBA__PLAN_RUN, 101 * DAY, 0, true);
}

/* The first run of all may be due at zero, which is what a record that has never run has there. */
static void the_first_run_is_no_repetition(void **state)
{
    const simba__policy policy = daily(SIMBA_CATCH_UP_ONCE, 0, true);
    simba__record record = simba__schedule_adopt(&policy, NULL, 0);
    record.tries = 5;
    const simba__plan plan = simba__schedule_plan(&policy, &record, 0, 0);
    assert_int_equal(plan.at_ms, 0);
    simba__schedule_begin(&policy, &record, &plan, 0);
    simba__schedule_end(&policy, &record, 1, 1);
    assert_int_equal(record.tries, 1);
}

/* What is confirmed or looked at when it is too late for that does nothing. */
static void a_schedule_that_was_left_does_nothing(void **state)
{
    const simba__policy policy = daily(SIMBA_CATCH_UP_SKIP, 0, false);
    simba__schedule c = {.policy = &policy};
    assert_int_equal(simba__schedule_look(&c, 0), SIMBA__ACT_NONE);
    assert_int_equal(simba__schedule_lead(&c, NULL, 100 * DAY), SIMBA__ACT_WRITE);
    simba__schedule_leave(&c);
    assert_int_equal(simba__schedule_written(&c, 100 * DAY), SIMBA__ACT_NONE);
    assert_int_equal(simba__schedule_lead(&c, NULL, 100 * DAY), SIMBA__ACT_WRITE);
    assert_int_equal(simba__schedule_written(&c, 100 * DAY), SIMBA__ACT_WRITE);
    assert_int_equal(simba__schedule_written(&c, 100 * DAY), SIMBA__ACT_RUN);
    assert_int_equal(simba__schedule_written(&c, 100 * DAY), SIMBA__ACT_NONE);
    assert_int_equal(simba__schedule_look(&c, 100 * DAY), SIMBA__ACT_NONE);
    assert_int_equal(simba__schedule_ran(&c, 0, 100 * DAY), SIMBA__ACT_WRITE);
    assert_int_equal(simba__schedule_written(&c, 100 * DAY), SIMBA__ACT_WAIT);
    assert_int_equal(simba__schedule_written(&c, 100 * DAY), SIMBA__ACT_NONE);
}

/* There may be no due time in between, and none for ever. */
static void times_that_do_not_come(void **state)
{
    const simba__recurrence day = {.every_ms = DAY};
    assert_int_equal(simba__recurrence_last(&day, 0, 5, DAY - 1), 5);
    assert_int_equal(simba__recurrence_last(&day, 0, 5, DAY), DAY);
    assert_int_equal(simba__recurrence_count(&day, 0, INT64_MAX - 5, INT64_MAX, 9), 0);
    assert_int_equal(simba__recurrence_count(&day, 0, 5, 3 * DAY, 9), 3);
}

/* A century of seconds is planned in an instant, and no number overflows. */
static void long_absences(void **state)
{
    simba__policy policy = daily(SIMBA_CATCH_UP_ALL, SIMBA__CATCH_UP_MAX, false);
    const simba__zone utc = {.times = NULL};
    policy.recurrence = (simba__recurrence){.zone = &utc};
    assert_int_equal(simba__cron_parse("* * * * * *", NULL, &policy.recurrence.cron), 0);
    const simba__record record = simba__schedule_adopt(&policy, NULL, 0);
    const int64_t now_ms = 36500 * DAY;
    expect(&policy, &record, 0, now_ms, SIMBA__PLAN_RUN, now_ms - 999000, SIMBA__MISSED_MAX, false);
    policy.catch_up = SIMBA_CATCH_UP_ONCE;
    expect(&policy, &record, 0, now_ms, SIMBA__PLAN_RUN, now_ms, SIMBA__MISSED_MAX, false);
    policy.recurrence = (simba__recurrence){.every_ms = 1};
    expect(&policy, &record, 0, INT64_MAX - 1, SIMBA__PLAN_RUN, INT64_MAX - 1, SIMBA__MISSED_MAX, false);
}

/* --- the record ----------------------------------------------------------------------------------- */

static const simba__record sample = {
    .anchor_ms = 1,
    .through_ms = -2,
    .due_ms = 3,
    .begun_ms = 4,
    .ended_ms = 5,
    .state = SIMBA__RUN_BEGUN,
    .result = -6,
    .tries = 7,
    .missed = 8,
    .spec = "cron 15 3 * * 1-5 in Europe/Berlin",
};

static void a_record_is_read_as_written(void **state)
{
    char text[SIMBA__RECORD_MAX + 1];
    char note[SIMBA__RECORD_MAX + 32];
    simba__record read;
    memset(&read, 0, sizeof read);
    const size_t length = simba__record_write(&sample, text);
    assert_string_equal(text, "simba-schedule 1 anchor=1 through=-2 due=3 begun=4 ended=5 result=-6 tries=7 missed=8 "
                              "state=begun spec=cron 15 3 * * 1-5 in Europe/Berlin\n");
    snprintf(note, sizeof note, "%smy own\nnote", text);
    assert_int_equal(simba__record_read(note, strlen(note), NULL, &read), length);
    assert_memory_equal(&read, &sample, sizeof read);
    /* The longest one fits. */
    simba__record longest = sample;
    longest.anchor_ms = longest.through_ms = longest.due_ms = longest.begun_ms = longest.ended_ms = -62135596800000;
    longest.result = INT32_MIN;
    longest.tries = longest.missed = INT32_MAX;
    memset(longest.spec, 'x', SIMBA__SPEC_MAX);
    longest.spec[SIMBA__SPEC_MAX] = '\0';
    const size_t most = simba__record_write(&longest, text);
    assert_int_equal(simba__record_read(text, most, NULL, &read), most);
    assert_string_equal(read.spec, longest.spec);
}

static void notes_without_a_record_are_the_work_s(void **state)
{
    simba__record read;
    assert_int_equal(simba__record_read("", 0, NULL, &read), 0);
    assert_int_equal(simba__record_read("hello", 5, NULL, &read), 0);
    assert_int_equal(simba__record_read("simba-schedule", 14, NULL, &read), 0);
}

/* A damaged record must not be taken for none: the work would run again. */
static void damaged_records_are_refused(void **state)
{
    char text[SIMBA__RECORD_MAX + 1];
    simba__record read;
    simba_error err;
    const size_t length = simba__record_write(&sample, text);
    for (size_t i = 15; i < length; i++) { /* cut short, in memory of just that size */
        char *part = malloc(i);
        memcpy(part, text, i);
        assert_int_equal(simba__record_read(part, i, &err, &read), SIMBA_ECORRUPT);
        free(part);
    }
    /* Each word changed, and each number followed by something else. */
    for (size_t i = strlen("simba-schedule 1 "); i < length - strlen(sample.spec) - 1; i++) {
        const char was = text[i];
        text[i] = '!';
        assert_int_equal(simba__record_read(text, length, &err, &read), SIMBA_ECORRUPT);
        text[i] = was;
    }
    static const char *const bad[] = {
        "simba-schedule 2 anything\n",
        "simba-schedule 1 anchor=1\n",
        "simba-schedule 1 anchor=9223372036854775808 through=-2\n",
        "simba-schedule 1 \n",
        "simba-schedule 1 anchor=1 through=-2 due=x begun=4 ended=5 result=-6 tries=7 missed=8 state=begun spec=x\n",
        "simba-schedule 1 anchor=1 through=-2 due=99999999999999999999 begun=4 ended=5 result=-6 tries=7 missed=8 "
        "state=begun spec=x\n",
        "simba-schedule 1 anchor=1 through=-2 due=999999999999999999 begun=4 ended=5 result=-6 tries=7 missed=8 "
        "state=begun spec=x\n",
        "simba-schedule 1 anchor=1 through=-2 due=3 begun=4 ended=5 result=-6 tries=-7 missed=8 state=begun spec=x\n",
        "simba-schedule 1 anchor=1 through=-2 due=3 begun=4 ended=5 result=-6 tries=7 missed=8 state=gone spec=x\n",
        "simba-schedule 1 anchor=1 through=-2 due=3 begun=4 ended=5 result=-6 tries=7 missed=8 state=begun "
        "spec=\x1b[2J\n",
        "simba-schedule 1 anchor=1 through=-2 due=3 begun=4 ended=5 result=-6 tries=7 missed=8 state=begun "
        "spec=\x7f\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(simba__record_read(bad[i], strlen(bad[i]), &err, &read), SIMBA_ECORRUPT);
    assert_int_equal(simba__record_read(bad[0], strlen(bad[0]), &err, &read), SIMBA_ECORRUPT);
    assert_non_null(strstr(err.text, "newer"));
    /* A specification that is too long, in a line that is not, and a line that does not end. */
    char longest[2 * SIMBA__RECORD_MAX];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, text,
           length - strlen(sample.spec) - 1); // NOLINT(bugprone-not-null-terminated-result): its size is passed on
    assert_int_equal(simba__record_read(longest, sizeof longest, &err, &read), SIMBA_ECORRUPT);
    longest[length - strlen(sample.spec) + SIMBA__SPEC_MAX] = '\n';
    assert_int_equal(simba__record_read(longest, sizeof longest, &err, &read), SIMBA_ECORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_delay_counts_from_the_first_leadership),
        cmocka_unit_test(at_least_once_repeats_what_failed),
        cmocka_unit_test(another_schedule_misses_nothing),
        cmocka_unit_test(another_schedule_before_and_amid_a_run),
        cmocka_unit_test(the_first_run_is_no_repetition),
        cmocka_unit_test(a_schedule_that_was_left_does_nothing),
        cmocka_unit_test(times_that_do_not_come),
        cmocka_unit_test(long_absences),
        cmocka_unit_test(a_record_is_read_as_written),
        cmocka_unit_test(notes_without_a_record_are_the_work_s),
        cmocka_unit_test(damaged_records_are_refused),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
