/* Schedules that are remembered: the next leader goes on where the last one was. */
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

enum { RUNS_MAX = 4096 };

/* What runs of all schedulers of a test have seen. */
struct ledger {
    unsigned runs, ended;
    int64_t due_ms[RUNS_MAX], missed[RUNS_MAX];
    bool cut_short[RUNS_MAX];
    uint64_t tokens[RUNS_MAX];
    void (*in_run)(struct ledger *ledger, simba_run *run, unsigned number); /* may be NULL */
    struct latch latch;
};

static struct ledger ledger; /* of the test that runs */

static void work(simba_run *run, void *user)
{
    board_lock();
    const unsigned i = ledger.runs++;
    ledger.due_ms[i % RUNS_MAX] = simba_run_due_at_ms(run);
    ledger.missed[i % RUNS_MAX] = simba_run_missed(run);
    ledger.cut_short[i % RUNS_MAX] = simba_run_cut_short(run);
    ledger.tokens[i % RUNS_MAX] = simba_run_token(run);
    board_unlock();
    if (ledger.in_run)
        ledger.in_run(&ledger, run, i);
    else
        simba_run_finish(run, 0); /* the test may stop it as soon as it hears that it has ended */
    board_lock();
    ledger.ended++;
    board_unlock();
}

static int setup(void **state)
{
    memset(&ledger, 0, sizeof ledger);
    return test_setup(state);
}
#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, test_teardown)

static simba_scheduler_options every(int64_t period_ms)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    options.schedule = SIMBA_SCHEDULE_INTERVAL;
    options.period_ms = period_ms;
    options.work = work;
    return options;
}

static simba_scheduler_options cron(const char *expression)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    options.schedule = SIMBA_SCHEDULE_CRON;
    options.cron = expression;
    options.work = work;
    return options;
}

static simba_scheduler *scheduler_start(simba_client *client, const simba_scheduler_options *options)
{
    simba_scheduler *scheduler = NULL;
    simba_error err = {0};
    if (simba_scheduler_new(client, "m", options, &err, &scheduler) < 0)
        fail_msg("%s", err.text);
    assert_rc(0, simba_scheduler_start(scheduler));
    return scheduler;
}

static simba_schedule_info info_of(simba_client *client)
{
    simba_note note = SIMBA_NOTE_INIT;
    simba_schedule_info info = SIMBA_SCHEDULE_INFO_INIT;
    simba_error err = {0};
    if (simba_client_note(client, "m", &err, &note) < 0 ||
        simba_schedule_read(note.bytes, note.length, &err, &info) < 0)
        fail_msg("%s", err.text);
    return info;
}

/* The second leader finds that the run of this hour has been, and waits for the next: that it leads at all is seen by the
 * record, which it does not change. */
static void take_over_does_not_repeat(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    const simba_scheduler_options options = every(3600000);
    simba_scheduler *first = scheduler_start(client, &options);
    AWAIT(ledger.ended == 1);
    simba_scheduler_free(first);
    const simba_schedule_info before = info_of(client);
    assert_string_equal(before.when, "every 3600000");
    assert_int_equal(before.due_at_ms, ledger.due_ms[0]);
    assert_true(before.ended_at_ms >= before.begun_at_ms && before.begun_at_ms >= before.due_at_ms);
    assert_int_equal(before.next_at_ms, before.due_at_ms + 3600000);
    simba_scheduler *second = scheduler_start(client, &options);
    AWAIT(simba_scheduler_is_leader(second));
    /* A schedule of another length is adopted by a write, which says that all before it is done; it keeps the anchor. */
    simba_scheduler_free(second);
    const simba_scheduler_options other = every(1800000);
    simba_scheduler *third = scheduler_start(client, &other);
    AWAIT(strcmp(info_of(client).when, "every 1800000") == 0);
    simba_scheduler_free(third);
    assert_int_equal(info_of(client).next_at_ms, before.due_at_ms + 1800000);
    assert_int_equal(ledger.runs, 1);
}

static void fail_twice(struct ledger *l, simba_run *run, unsigned number)
{
    simba_run_finish(run, number < 1 ? 42 : 0);
}

/* A failure is noted for everybody to see, and with at least once it is run again after a pause. */
static void failures_are_repeated(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_scheduler_options options = every(3600000);
    options.guarantee = SIMBA_AT_LEAST_ONCE;
    ledger.in_run = fail_twice;
    const int64_t start_ms = now_ms();
    simba_scheduler *scheduler = scheduler_start(client, &options);
    AWAIT(ledger.ended == 1 && info_of(client).ended_at_ms != 0);
    if (ledger.runs == 1)
        assert_int_equal(info_of(client).result, 42);
    AWAIT(ledger.ended == 2);
    assert_true(now_ms() - start_ms >= 950);
    assert_int_equal(ledger.due_ms[1], ledger.due_ms[0]);
    assert_false(ledger.cut_short[1]);
    AWAIT(info_of(client).result == 0);
    simba_scheduler_free(scheduler);
}

static void note_checkpoint(struct ledger *l, simba_run *run, unsigned number)
{
    simba_note note = SIMBA_NOTE_INIT;
    simba_error err = {0};
    char text[32];
    EXPECT(simba_run_note(run, &err, &note) == 0);
    text[0] = '\0';
    if (number > 0)
        snprintf(text, sizeof text, "checkpoint %u", number - 1);
    EXPECT(strcmp(note.bytes, text) == 0 && note.length == strlen(text));
    snprintf(text, sizeof text, "checkpoint %u", number);
    EXPECT(simba_run_note_set(run, text, strlen(text), &err) == 0);
    static const char long_one[SIMBA_NOTE_MAX];
    EXPECT(simba_run_note_set(run, long_one, sizeof long_one, &err) == SIMBA_EINVAL);
    EXPECT(strstr(err.text, "beside the record"));
}

/* The note of the work lies behind the record, and neither harms the other. */
static void the_work_has_a_note_too(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    const simba_scheduler_options options = every(30);
    ledger.in_run = note_checkpoint;
    for (unsigned i = 1; i <= 3; i++) {
        simba_scheduler *scheduler = scheduler_start(client, &options);
        AWAIT(ledger.ended >= 2 * i);
        simba_scheduler_free(scheduler);
    }
    assert_string_equal(info_of(client).when, "every 30");
}

/* A note that another has put there is kept; one that claims to be a record and is none stops the schedule. */
static void damaged_records_stop_the_schedule(void **state)
{
    static const char bad[] = "simba-schedule 1 anchor=?\n";
    SCOPED simba_client *client = client_open(NULL);
    struct player *player = player_start(client, "m");
    AWAIT(player->leads);
    assert_rc(0, simba_contender_note_set(player->contender, bad, strlen(bad), NULL));
    player_free(player);
    const simba_scheduler_options options = every(1);
    simba_scheduler *scheduler = scheduler_start(client, &options);
    AWAIT(simba_scheduler_is_leader(scheduler));
    assert_false(WITHIN(100, ledger.runs > 0));
    simba_scheduler_free(scheduler);
    simba_note note = SIMBA_NOTE_INIT;
    assert_rc(0, simba_client_note(client, "m", NULL, &note));
    assert_string_equal(note.bytes, bad);
}

static void by_cron(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_scheduler_options options = cron("* * * * * *");
    options.time_zone = "Europe/Berlin";
    simba_scheduler *scheduler = scheduler_start(client, &options);
    AWAIT(ledger.runs >= 2);
    simba_scheduler_free(scheduler);
    assert_int_equal(ledger.due_ms[0] % 1000, 0);
    assert_int_equal(ledger.due_ms[1] - ledger.due_ms[0], 1000);
    assert_string_equal(info_of(client).when, "cron * * * * * * in Europe/Berlin");
}

static void refuse(simba_client *client, const simba_scheduler_options *options, int code, const char *word)
{
    simba_scheduler *scheduler = NULL;
    simba_error err = {0};
    assert_rc(code, simba_scheduler_new(client, "m", options, &err, &scheduler));
    if (!strstr(err.text, word))
        fail_msg("\"%s\" does not say \"%s\"", err.text, word);
}

static void mistakes_are_named(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_scheduler_options options = cron(NULL);
    refuse(client, &options, SIMBA_EINVAL, "cron is NULL");
    options = cron("61 * * * *");
    refuse(client, &options, SIMBA_EINVAL, "minute");
    options = cron("@daily");
    options.time_zone = "Europe/Atlantis";
    refuse(client, &options, SIMBA_ENOTFOUND, "Europe/Atlantis");
    options.time_zone = "../../etc/passwd";
    refuse(client, &options, SIMBA_EINVAL, "time zone");
    options = cron("@daily");
    options.period_ms = 5;
    refuse(client, &options, SIMBA_EINVAL, "period_ms");
    options = every(1000);
    options.cron = "@daily";
    refuse(client, &options, SIMBA_EINVAL, "cron");
    options = every(1000);
    options.catch_up = (simba_catch_up)7;
    refuse(client, &options, SIMBA_EINVAL, "catch_up");
    options = every(1000);
    options.catch_up_limit = 1001;
    refuse(client, &options, SIMBA_EINVAL, "catch_up_limit");
    options = every(1000);
    options.guarantee = (simba_guarantee)2;
    refuse(client, &options, SIMBA_EINVAL, "guarantee");
    options = every(1000);
    options.schedule = SIMBA_SCHEDULE_FIXED_RATE;
    options.guarantee = SIMBA_AT_LEAST_ONCE;
    refuse(client, &options, SIMBA_EINVAL, "guarantee");
    simba_schedule_info info = SIMBA_SCHEDULE_INFO_INIT;
    assert_rc(SIMBA_ENOTFOUND, simba_schedule_read("hello", 5, NULL, &info));
    assert_rc(SIMBA_EINVAL, simba_schedule_read(NULL, 5, NULL, &info));
}

/* Work that has nothing to remember asks in vain, and harmlessly. */
static void other_schedules_know_no_due_times(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_scheduler_options options = every(1);
    options.schedule = SIMBA_SCHEDULE_FIXED_RATE;
    simba_scheduler *scheduler = scheduler_start(client, &options);
    AWAIT(ledger.ended >= 1);
    simba_scheduler_free(scheduler);
    assert_int_equal(ledger.due_ms[0], 0);
    assert_int_equal(ledger.missed[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(take_over_does_not_repeat),
        CASE(failures_are_repeated),
        CASE(the_work_has_a_note_too),
        CASE(damaged_records_stop_the_schedule),
        CASE(by_cron),
        CASE(mistakes_are_named),
        CASE(other_schedules_know_no_due_times),
    };
    return cmocka_run_group_tests_name("schedules", tests, NULL, NULL);
}
