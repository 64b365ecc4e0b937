/* Leases between real processes, over SQLite or the store of the URL that is given: what becomes of a mutex when its
 * holder, or somebody who waits for it, is killed or frozen. No process here knows that anything happens to another. */
#include <stdio.h>

#include "support.h"

#define MS INT64_C(1000000)

/* A holder that is killed is followed not before its lease has ended, and soon after (S1, L1). */
static void killed_holder(void **state)
{
    process *a = short_contender(0);
    process *b = short_contender(1);
    const grant old = lead(a);
    stand_behind(b);
    await_renewal(a);

    const int64_t killed_ns = score_now_ns();
    process_signal(a, SIGKILL);
    const int64_t claimed_ns = claim_of(0);
    const grant next = await_acquired(b, LONG_MS);
    assert_true(next.at_ns >= claimed_ns);
    assert_in_range((uintmax_t)(next.at_ns - killed_ns), 0, (uintmax_t)((LEASE_MS + JITTER_MS + SLACK_MS) * MS));
    assert_true(next.token > old.token);
    process_end(b);
}

/* A holder that was frozen for longer than its lease knows at its first look that it holds nothing; it is told so, and
 * whoever took over has a greater token (S1, S2, S3). */
static void frozen_holder(void **state)
{
    process *a = short_contender(0);
    process *b = short_contender(1);
    const grant old = lead(a);
    stand_behind(b);
    await_renewal(a);

    process_signal(a, SIGSTOP);
    const int64_t claimed_ns = claim_of(0);
    const grant next = await_acquired(b, LONG_MS);
    assert_true(next.at_ns >= claimed_ns);
    assert_true(next.token > old.token);
    process_signal(a, SIGCONT);

    long held_ms = -1;
    unsigned long token = 0;
    long gap_ms = 0;
    while (gap_ms < LEASE_MS / 2) /* a busy machine makes small gaps by itself */
        assert_int_equal(3, sscanf(process_await(a, "thawed", LONG_MS), "%ld %lu %ld", &held_ms, &token, &gap_ms));
    assert_int_equal(0, held_ms);
    assert_int_equal(0, token);
    assert_int_equal(1, process_count(a, "acquired"));

    /* From then on it is a contender like others. */
    stop(b);
    assert_true(await_acquired(a, LONG_MS).token > next.token);
    process_end(b);
    process_end(a);
}

/* A holder that was frozen for less than the window keeps its leadership and its token (L3). */
static void briefly_frozen_holder(void **state)
{
    process *a = short_contender(0);
    process *b = short_contender(1);
    const grant held = lead(a);
    stand_behind(b);
    for (int i = 0; i < 3; i++) {
        process_signal(a, SIGSTOP);
        process_listen(b, WINDOW_MS / 2);
        process_signal(a, SIGCONT);
        assert_int_equal(held.token, await_renewal(a));
    }
    assert_int_equal(0, process_count(a, "released"));
    assert_int_equal(0, process_count(b, "acquired"));
    process_end(b);
    process_end(a);
}

/* What is given back reaches a waiter in another process by push: all hand-overs together take less time than the
 * slowest one would by any timer or poll (L2). */
static void release_is_pushed(void **state)
{
    enum { HAND_OVERS = 4 };
    process *both[2];
    for (unsigned i = 0; i < 2; i++)
        both[i] = contender(i, NULL, 50 * TTL_MS, 50 * TRANSITION_MS);
    uint64_t token = lead(both[0]).token;
    stand_behind(both[1]);
    int64_t all_ns = 0;
    for (int i = 0; i < HAND_OVERS; i++) {
        process *from = both[i % 2];
        process *to = both[(i + 1) % 2];
        process_say(from, "stop");
        const loss given = await_released(from);
        const grant next = await_acquired(to, LONG_MS);
        assert_string_equal("stopped", given.reason);
        assert_true(next.at_ns > given.at_ns);
        assert_true(next.token > token);
        token = next.token;
        all_ns += next.at_ns - given.at_ns;
        process_await(from, "stopped", LONG_MS);
        stand_behind(from);
    }
    print_message("# %d hand-overs took %.1f ms\n", HAND_OVERS, (double)all_ns / (double)MS);
    assert_in_range((uintmax_t)all_ns, 0, (uintmax_t)(ref_scaled_ms(1000) * MS));
    process_end(both[0]);
    process_end(both[1]);
}

int main(int argc, char **argv)
{
    int status;
    if (puppet_main(argc, argv, &status))
        return status;
    if (argc > 1)
        use_store(argv[1]);
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(killed_holder),
        TEST(frozen_holder),
        TEST(briefly_frozen_holder),
        TEST(release_is_pushed),
    };
    return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
