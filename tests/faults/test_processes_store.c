/* The file that real processes share, when something happens to it: another program sits on SQLite's lock, dies with
 * it, the disk is full, a process has another clock, and ten processes want the same lock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define MS INT64_C(1000000)

static process *writer(unsigned nth)
{
    const char *const args[] = {"--puppet", "writer", database(), NULL};
    process_start(&contenders[nth], args);
    process_await(&contenders[nth], "ready", LONG_MS);
    return &contenders[nth];
}

static void sit_on_lock(process *w)
{
    process_say(w, "lock");
    process_await(w, "locked", LONG_MS);
}

static void let_go(process *w)
{
    process_say(w, "unlock");
    process_await(w, "unlocked", LONG_MS);
}

/* A process that is frozen with SQLite's lock in hand, for less than the window, costs nobody the leadership (L3). */
static void lock_held_briefly(void **state)
{
    process *a = short_contender(0);
    process *b = short_contender(1);
    const grant held = lead(a);
    stand_behind(b);
    process *w = writer(2);
    sit_on_lock(w);
    process_signal(w, SIGSTOP);
    process_listen(a, WINDOW_MS * 5 / 8); /* longer than it takes for a renewal to be due and to fail */
    process_signal(w, SIGCONT);
    let_go(w);
    assert_int_equal(held.token, await_renewal(a));
    process_say(a, "errors");
    assert_true(strtoll(process_await(a, "errors", LONG_MS), NULL, 10) > 0);
    assert_int_equal(0, process_count(a, "released"));
    assert_int_equal(0, process_count(b, "acquired"));
    process_end(w);
    process_end(b);
    process_end(a);
}

/* For longer than the window: the holder's own clock tells it that its lease has ended, nobody else is granted anything
 * meanwhile, and after the thaw somebody leads again (S2, L1). */
static void lock_held_for_long(void **state)
{
    process *both[2] = {short_contender(0), short_contender(1)};
    const grant held = lead(both[0]);
    stand_behind(both[1]);
    process *w = writer(2);
    sit_on_lock(w);
    const int64_t frozen_ns = score_now_ns();
    process_signal(w, SIGSTOP);
    const loss told = await_released(both[0]);
    assert_string_equal("expired", told.reason);
    assert_in_range((uintmax_t)(told.at_ns - frozen_ns), 0, (uintmax_t)((LEASE_MS + SLACK_MS) * MS));
    process_listen(both[1], LEASE_MS / 2);
    assert_int_equal(0, process_count(both[1], "acquired"));
    assert_int_equal(1, process_count(both[0], "acquired"));

    process_signal(w, SIGCONT);
    let_go(w);
    const int64_t free_ns = score_now_ns();
    int who;
    const grant next = await_any_acquired(both, 2, LONG_MS, &who);
    assert_true(next.token > held.token);
    assert_true(next.at_ns - free_ns <= (LEASE_MS + SLACK_MS) * MS);
    process_end(w);
    process_end(both[0]);
    process_end(both[1]);
}

/* A process that is killed in the middle of a transaction leaves nothing behind that matters. */
static void killed_with_lock(void **state)
{
    process *a = short_contender(0);
    const grant held = lead(a);
    process *w = writer(1);
    sit_on_lock(w);
    process_signal(w, SIGKILL);
    assert_int_equal(held.token, await_renewal(a));
    assert_int_equal(0, process_count(a, "released"));
    process_end(a);
}

/* The disk is full: whoever asks hears what is wrong and where, the holder gives up in time, others carry on, and it is
 * back when there is room again. */
static void full_disk(void **state)
{
    process *a = short_contender(0);
    const grant old = lead(a);
    process_say(a, "limit");
    process_await(a, "limited", LONG_MS);
    assert_string_equal("expired", await_released(a).reason);
    process_say(a, "try");
    const char *tried = process_await(a, "tried", LONG_MS);
    print_message("# %s\n", tried);
    assert_non_null(strstr(tried, "SIMBA_EUNAVAILABLE acquire orders: sqlite: "));
    assert_non_null(strstr(tried, database()));

    process *b = short_contender(1);
    const grant next = lead(b);
    assert_true(next.token > old.token);
    stop(b);
    process_say(a, "unlimit");
    process_await(a, "unlimited", LONG_MS);
    assert_true(await_acquired(a, LONG_MS).token > next.token);
    await_renewal(a);
    process_end(b);
    process_end(a);
}

/* A process in a time namespace, with a boot-time clock of its own, is a contender like others. */
static void other_clock(void **state)
{
    char ttl[24];
    char transition[24];
    snprintf(ttl, sizeof ttl, "%lld", (long long)TTL_MS);
    snprintf(transition, sizeof transition, "%lld", (long long)TRANSITION_MS);
    const char *const args[] = {"--puppet", "shifted",  "contender",        store_url(), "orders", "-",
                                ttl,        transition, in_folder("score"), "1",         NULL};
    process *a = short_contender(0);
    process *b = &contenders[1];
    const grant first = lead(a);
    process_start(b, args);
    if (strcmp(process_await(b, "ready", LONG_MS), "unshifted") == 0) {
        process_end(b);
        process_end(a);
        skip();
    }
    stand_behind(b);
    for (int64_t until = ref_now_ms() + LEASE_MS + 2 * JITTER_MS; ref_now_ms() < until;)
        assert_int_equal(first.token, await_renewal(a));
    assert_int_equal(0, process_count(b, "acquired"));

    process_signal(a, SIGKILL);
    const int64_t claimed_ns = claim_of(0);
    const grant second = await_acquired(b, LONG_MS);
    assert_true(second.at_ns >= claimed_ns);
    assert_true(second.token > first.token);
    assert_true(second.at_ns - claimed_ns <= (LEASE_MS + JITTER_MS + SLACK_MS) * MS);
    assert_int_equal(second.token, await_renewal(b));
    process_end(b);
}

int main(int argc, char **argv)
{
    int status;
    if (puppet_main(argc, argv, &status))
        return status;
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(lock_held_briefly), TEST(lock_held_for_long), TEST(killed_with_lock), TEST(full_disk), TEST(other_clock),
    };
    return cmocka_run_group_tests_name("processes_store", tests, NULL, NULL);
}
