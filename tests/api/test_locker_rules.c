/* Locks that are to be had once in a period, and locks that are kept from others for a while. */
#include "support.h"

static simba_locker *locker_new(simba_client *client, int64_t once_per_ms, int64_t min_hold_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    simba_error err = {0};
    options.timing = lease(50, 1000); /* renewed often, and a busy machine keeps it */
    options.once_per_ms = once_per_ms;
    options.min_hold_ms = min_hold_ms;
    if (simba_locker_new(client, "m", &options, &err, &locker) < 0)
        fail_msg("%s", err.text);
    return locker;
}

/* One that begins again what has failed. */
static simba_locker *locker_new_retrying(simba_client *client)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    options.timing = lease(50, 1000);
    options.once_per_ms = 3600000;
    options.once_retry_failed = true;
    assert_rc(0, simba_locker_new(client, "m", &options, NULL, &locker));
    return locker;
}

static simba_schedule_info recorded(simba_client *client)
{
    simba_note note = SIMBA_NOTE_INIT;
    simba_schedule_info info = SIMBA_SCHEDULE_INFO_INIT;
    assert_rc(0, simba_client_note(client, "m", NULL, &note));
    assert_rc(0, simba_schedule_read(note.bytes, note.length, NULL, &info));
    return info;
}

/* Ten machines try, one after the other, as cron does on machines whose clocks are off: one of them gets it. */
static void once_in_a_period(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_error err;
    unsigned got = 0;
    for (int i = 0; i < 10; i++) {
        simba_locker *locker = locker_new(client, 3600000, 0);
        const int rc = simba_locker_acquire(locker, -1, &err);
        got += rc == 0;
        if (rc < 0) {
            assert_rc(SIMBA_ETOOSOON, rc);
            assert_non_null(strstr(err.text, "m was begun"));
        }
        simba_locker_free(locker);
    }
    assert_int_equal(got, 1);
    assert_false(is_owned(client, "m"));
    simba_note note = SIMBA_NOTE_INIT;
    simba_schedule_info info = SIMBA_SCHEDULE_INFO_INIT;
    assert_rc(0, simba_client_note(client, "m", NULL, &note));
    assert_rc(0, simba_schedule_read(note.bytes, note.length, NULL, &info));
    assert_string_equal(info.when, "once per 3600000");
    assert_int_equal(info.next_at_ms, info.begun_at_ms + 3600000);
}

/* What the holder notes lies beside that, and does not make it forgotten. */
static void the_holder_has_a_note_too(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *locker = locker_new(client, 3600000, 0);
    simba_note note = SIMBA_NOTE_INIT;
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    assert_rc(0, simba_locker_note_set(locker, "mine", 4, NULL));
    assert_rc(0, simba_locker_note(locker, NULL, &note));
    assert_string_equal(note.bytes, "mine");
    assert_int_equal(note.length, 4);
    assert_rc(0, simba_locker_release(locker, NULL));
    assert_rc(SIMBA_ETOOSOON, simba_locker_acquire(locker, 0, NULL));
}

/* A note that leaves no room is not cut off: it may be all that its owner has. */
static void a_long_note_is_not_cut(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *plain = locker_new(client, 0, 0);
    SIMBA_LOCKER_SCOPED simba_locker *locker = locker_new(client, 3600000, 0);
    simba_note note = SIMBA_NOTE_INIT;
    simba_error err;
    char text[SIMBA_NOTE_MAX];
    memset(text, 'x', sizeof text);
    assert_rc(0, simba_locker_acquire(plain, 0, NULL));
    assert_rc(0, simba_locker_note_set(plain, text, sizeof text, NULL));
    assert_rc(0, simba_locker_release(plain, NULL));
    assert_rc(SIMBA_ESTATE, simba_locker_acquire(locker, 0, &err));
    assert_non_null(strstr(err.text, "leaves no room"));
    assert_false(is_owned(client, "m"));
    assert_rc(0, simba_client_note(client, "m", NULL, &note));
    assert_int_equal(note.length, sizeof text);
}

/* Of those who waited for one that follows no such rule, only the first begins. */
static void await_and_count(void *arg)
{
    simba_locker *locker = arg;
    const int rc = simba_locker_acquire(locker, TIMEOUT_MS, NULL);
    EXPECT(rc == 0 || rc == SIMBA_ETOOSOON);
    if (rc == 0)
        EXPECT(simba_locker_release(locker, NULL) == 0);
    board_lock();
    static unsigned got;
    got += rc == 0;
    EXPECT(got <= 1);
    board_unlock();
}

static void of_several_who_wait_one_begins(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct player *player = player_start(client, "m");
    AWAIT(player->leads);
    struct runner runners[3] = {0};
    simba_locker *lockers[3];
    for (int i = 0; i < 3; i++) {
        lockers[i] = locker_new(client, 3600000, 0);
        runner_start(&runners[i], await_and_count, lockers[i]);
    }
    AWAIT(client_stats(client).waiting == 3);
    player_free(player);
    for (int i = 0; i < 3; i++) {
        runner_join(&runners[i]);
        simba_locker_free(lockers[i]);
    }
}

/* How a run ended is recorded beside the note of the work. A failure begins again if that is asked for, a success never. */
static void an_end_is_recorded(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *strict = locker_new(client, 3600000, 0);
    SIMBA_LOCKER_SCOPED simba_locker *retrying = locker_new_retrying(client);
    simba_note note = SIMBA_NOTE_INIT;
    simba_error err;
    assert_rc(0, simba_locker_acquire(strict, 0, NULL));
    assert_rc(0, simba_locker_note_set(strict, "mine", 4, NULL));
    assert_int_equal(recorded(client).ended_at_ms, 0);
    assert_rc(0, simba_locker_once_end(strict, 0, NULL));
    assert_rc(0, simba_locker_once_end(strict, 7, NULL)); /* the last one counts */
    simba_schedule_info info = recorded(client);
    assert_true(info.ended_at_ms >= info.begun_at_ms && info.begun_at_ms > 0);
    assert_int_equal(info.result, 7);
    assert_rc(0, simba_locker_note_set(strict, "ours", 4, NULL));
    assert_int_equal(recorded(client).result, 7);
    assert_rc(0, simba_locker_release(strict, NULL));

    assert_rc(SIMBA_ETOOSOON, simba_locker_acquire(strict, 0, &err));
    assert_non_null(strstr(err.text, " s ago and failed (7);"));
    assert_rc(0, simba_locker_acquire(retrying, 0, NULL));
    assert_int_equal(recorded(client).ended_at_ms, 0);
    assert_rc(0, simba_locker_note(retrying, NULL, &note));
    assert_string_equal(note.bytes, "ours");
    assert_rc(0, simba_locker_once_end(retrying, 0, NULL));
    assert_rc(0, simba_locker_release(retrying, NULL));
    assert_rc(SIMBA_ETOOSOON, simba_locker_acquire(retrying, 0, &err));
    assert_non_null(strstr(err.text, " s ago and succeeded;"));
    assert_false(is_owned(client, "m"));
}

/* A run without an end goes on while its holder holds the mutex, and was cut short afterwards. */
static void what_was_cut_short_begins_again(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *strict = locker_new(client, 3600000, 0);
    SIMBA_LOCKER_SCOPED simba_locker *retrying = locker_new_retrying(client);
    assert_rc(0, simba_locker_acquire(strict, 0, NULL));
    assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(retrying, 0, NULL));
    assert_rc(0, simba_locker_release(strict, NULL));
    assert_rc(SIMBA_ETOOSOON, simba_locker_acquire(strict, 0, NULL));
    assert_rc(0, simba_locker_acquire(retrying, 0, NULL));
    assert_rc(0, simba_locker_once_end(retrying, 0, NULL));
    assert_rc(0, simba_locker_release(retrying, NULL));
}

static void await_too_soon(void *arg)
{
    EXPECT(simba_locker_acquire(arg, TIMEOUT_MS, NULL) == SIMBA_ETOOSOON);
}

/* Whoever waits for the end of a run finds that it has succeeded. */
static void a_success_ends_the_wait(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *strict = locker_new(client, 3600000, 0);
    SIMBA_LOCKER_SCOPED simba_locker *retrying = locker_new_retrying(client);
    struct runner runner = {0};
    assert_rc(0, simba_locker_acquire(strict, 0, NULL));
    runner_start(&runner, await_too_soon, retrying);
    AWAIT(client_stats(client).waiting == 1);
    assert_rc(0, simba_locker_once_end(strict, 0, NULL));
    assert_rc(0, simba_locker_release(strict, NULL));
    runner_join(&runner);
    assert_false(is_owned(client, "m"));
}

/* Only the holder of a run knows how it ended. */
static void others_record_no_end(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    SCOPED simba_client *other = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *locker = locker_new_retrying(client);
    SIMBA_LOCKER_SCOPED simba_locker *next = locker_new_retrying(other);
    SIMBA_LOCKER_SCOPED simba_locker *plain = locker_new(other, 0, 0);
    simba_error err;
    assert_rc(SIMBA_ESTATE, simba_locker_once_end(locker, 0, &err));
    assert_non_null(strstr(err.text, "does not hold it"));
    assert_rc(0, simba_locker_acquire(plain, 0, NULL));
    assert_rc(SIMBA_ESTATE, simba_locker_once_end(plain, 0, &err));
    assert_non_null(strstr(err.text, "once_per_ms"));
    assert_rc(0, simba_locker_release(plain, NULL));

    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    assert_rc(0, simba_client_force_release(other, "m", NULL));
    assert_rc(0, simba_locker_acquire(next, TIMEOUT_MS, NULL));
    assert_rc(SIMBA_ELOST, simba_locker_once_end(locker, 0, NULL));
    assert_int_equal(recorded(other).ended_at_ms, 0);
    assert_rc(SIMBA_ELOST, simba_locker_release(locker, NULL));
    assert_rc(SIMBA_ESTATE, simba_locker_once_end(locker, 0, NULL));
    assert_rc(0, simba_locker_once_end(next, 2, NULL));
    assert_int_equal(recorded(other).result, 2);
}

/* A note that fits beside a run which has begun may not fit beside its end: the note stays, and the caller is told. */
static void an_end_cuts_no_note(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *locker = locker_new_retrying(client);
    simba_note note = SIMBA_NOTE_INIT;
    simba_error err;
    char text[SIMBA_NOTE_MAX];
    memset(text, 'x', sizeof text);
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    const size_t room = SIMBA_NOTE_MAX - recorded(client).length;
    assert_rc(0, simba_locker_note_set(locker, text, room, NULL));
    assert_rc(SIMBA_EINVAL, simba_locker_once_end(locker, 1, &err));
    assert_non_null(strstr(err.text, "leaves no room"));
    assert_rc(0, simba_locker_note(locker, NULL, &note));
    assert_int_equal(note.length, room);
    assert_rc(0, simba_locker_note_set(locker, text, room - 40, NULL));
    assert_rc(0, simba_locker_once_end(locker, 1, NULL));
    assert_rc(0, simba_locker_release(locker, NULL));
}

/* Released at once, and the client closed: others wait all the same. A lock that was held for long enough is free at once. */
static void nobody_else_for_a_while(void **state)
{
    enum { MIN_HOLD_MS = 250 };
    simba_client *client = client_open(NULL);
    SCOPED simba_client *other = client_open(NULL);
    simba_locker *locker = locker_new(client, 0, MIN_HOLD_MS);
    SIMBA_LOCKER_SCOPED simba_locker *waiter = locker_new(other, 0, 0);
    const int64_t start_ms = now_ms();
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    assert_rc(0, simba_locker_release(locker, NULL));
    assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(waiter, 0, NULL));
    simba_locker_free(locker);
    client_close(client);
    assert_rc(0, simba_locker_acquire(waiter, TIMEOUT_MS, NULL));
    assert_true(now_ms() - start_ms >= MIN_HOLD_MS);
    assert_rc(0, simba_locker_release(waiter, NULL));

    SIMBA_LOCKER_SCOPED simba_locker *long_one = locker_new(other, 0, 40);
    assert_rc(0, simba_locker_acquire(long_one, 0, NULL));
    const int64_t taken_ms = now_ms();
    AWAIT(now_ms() > taken_ms + 40);
    assert_rc(0, simba_locker_release(long_one, NULL));
    assert_false(is_owned(other, "m"));
}

static void mistakes_are_named(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;
    simba_error err;
    options.once_per_ms = -1;
    assert_rc(SIMBA_EINVAL, simba_locker_new(client, "m", &options, &err, &locker));
    assert_non_null(strstr(err.text, "once_per_ms is -1"));
    options.once_per_ms = 0;
    options.once_retry_failed = true;
    assert_rc(SIMBA_EINVAL, simba_locker_new(client, "m", &options, &err, &locker));
    assert_non_null(strstr(err.text, "once_retry_failed"));
    options.once_retry_failed = false;
    options.min_hold_ms = INT64_MAX;
    assert_rc(SIMBA_EINVAL, simba_locker_new(client, "m", &options, &err, &locker));
    assert_non_null(strstr(err.text, "min_hold_ms"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(once_in_a_period),        TEST(the_holder_has_a_note_too),
        TEST(a_long_note_is_not_cut),  TEST(of_several_who_wait_one_begins),
        TEST(an_end_is_recorded),      TEST(what_was_cut_short_begins_again),
        TEST(a_success_ends_the_wait), TEST(others_record_no_end),
        TEST(an_end_cuts_no_note),     TEST(nobody_else_for_a_while),
        TEST(mistakes_are_named),
    };
    return cmocka_run_group_tests_name("locker rules", tests, NULL, NULL);
}
