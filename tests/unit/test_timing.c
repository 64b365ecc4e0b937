/* The arithmetic of leases and delays: every bound, and the settings that do not fit together. */
#include <string.h>

#include "core/timing.h"
#include "lib/cm.h"
#include "util/clock.h"

#define MS SIMBA__NS_PER_MS

static simba__timing resolved(int64_t ttl_ms, int64_t transition_ms)
{
    simba_timing ms = simba__timing_defaults;
    simba__timing timing;
    simba_error error;
    ms.ttl_ms = ttl_ms;
    ms.transition_ms = transition_ms;
    assert_int_equal(simba__timing_resolve(&ms, 10000, 4000, false, &error, &timing), 0);
    return timing;
}

/* What is not given comes from the level above, field by field. */
static void inheritance(void **state)
{
    simba_timing over = SIMBA_TIMING_INHERIT;
    over.transition_ms = 0;
    const simba_timing merged = simba__timing_inherit(&over, &simba__timing_defaults);
    assert_int_equal(merged.ttl_ms, 10000);
    assert_int_equal(merged.transition_ms, 0);
    assert_int_equal(merged.jitter_min_ms, -200);
}

/* The longest lease does not overflow anything. */
static void the_longest_lease_fits(void **state)
{
    const simba__timing timing = resolved(SIMBA_LEASE_MAX_MS - 6000, 6000);
    assert_true(timing.lease_ns > 0);
    assert_true(timing.lease_ns < SIMBA_LEASE_MAX_MS * MS);
    const simba_local late = {INT64_MAX - 5};
    assert_int_equal(simba__local_add(late, 100).ns, INT64_MAX);
}

/* S1: for any settings, our count of the lease is over before the store's, even if our clock runs slow by the bound. */
static void a_lease_ends_here_before_it_ends_there(void **state)
{
    const int64_t ttls[] = {10, 99, 1000, 10000, 123457, 86400000};
    const int64_t transitions[] = {0, 1, 6000, 999999};
    for (size_t i = 0; i < sizeof ttls / sizeof *ttls; i++)
        for (size_t j = 0; j < sizeof transitions / sizeof *transitions; j++) {
            const simba__timing timing = resolved(ttls[i], transitions[j]);
            const int64_t ours_ns = timing.lease_ns;
            const int64_t theirs_ns = ours_ns + ours_ns / 1000 * 10 + 1;
            assert_true(theirs_ns <= (ttls[i] + transitions[j]) * MS);
        }
}

/* Renewing comes before the end of the ttl, and leaves a window for retries, with and without a transition. */
static void renewal_comes_just_before_the_ttl_ends(void **state)
{
    const simba_local from = {INT64_C(77777777777)};
    for (int64_t ttl_ms = 10; ttl_ms < 1000000; ttl_ms = ttl_ms * 3 + 1)
        for (int64_t transition_ms = 0; transition_ms < 20000; transition_ms = transition_ms * 4 + 7) {
            const simba__timing timing = resolved(ttl_ms, transition_ms);
            const int64_t after_ns = simba__period_renew_at(&timing, from).ns - from.ns;
            assert_true(after_ns < timing.lease_ttl_ns);
            assert_true(after_ns > timing.lease_ttl_ns / 2);
            assert_true(timing.window_ns >= ttl_ms * MS / 5);
        }
    const simba__timing usual = resolved(10000, 6000);
    const int64_t before_ns = usual.lease_ttl_ns - (simba__period_renew_at(&usual, from).ns - from.ns);
    assert_in_range(before_ns, 500 * MS, 750 * MS);
}

/* Leases that began at different moments are renewed on one grid, so that they share a batch. */
static void renewals_fall_together(void **state)
{
    const simba__timing timing = resolved(10000, 6000);
    for (int64_t ns = 0; ns < 2000 * MS; ns += 13 * MS)
        assert_int_equal(simba__period_renew_at(&timing, (simba_local){ns}).ns % (250 * MS), 0);
}

/* Several retries fit into the window, each pause longer than the first. */
static void several_retries_fit_into_the_window(void **state)
{
    const int64_t transitions[] = {0, 1000, 6000};
    for (size_t i = 0; i < 3; i++) {
        const simba__timing timing = resolved(10000, transitions[i]);
        const int64_t window_ns = timing.window_ns;
        uint64_t seed = 5;
        int64_t spent_ns = 0;
        unsigned tries = 0;
        for (;;) {
            spent_ns += simba__period_retry_ns(&timing, tries + 1, &seed);
            if (spent_ns >= window_ns)
                break;
            tries++;
        }
        assert_in_range(tries, 5, 12);
        assert_true(simba__period_retry_ns(&timing, 8, &seed) > 2 * simba__period_retry_ns(&timing, 1, &seed));
    }
}

static void check_wait(const simba__timing *timing, int64_t low_ns, int64_t high_ns)
{
    const simba_owner owner = {.id = "other", .transition_at_ms = 1005000};
    uint64_t seed = 9;
    int64_t least = INT64_MAX;
    int64_t most = INT64_MIN;
    for (int i = 0; i < 20000; i++) {
        const int64_t wait_ns = simba__period_wait_ns(timing, &owner, 1000000, 0, &seed);
        least = wait_ns < least ? wait_ns : least;
        most = wait_ns > most ? wait_ns : most;
    }
    assert_true(least >= 5000 * MS + low_ns && least < 5000 * MS + low_ns + (high_ns - low_ns) / 50);
    assert_true(most < 5000 * MS + high_ns && most > 5000 * MS + high_ns - (high_ns - low_ns) / 50);
}

/* A waiter aims at the end of the transition, from 200 ms before to 1,000 ms after; with no transition never before;
 * with a short lease in proportion. */
static void jitter_bounds(void **state)
{
    simba__timing timing = resolved(10000, 6000);
    check_wait(&timing, -200 * MS, 1000 * MS);
    timing = resolved(10000, 0);
    check_wait(&timing, 0, 1000 * MS);
    timing = resolved(300, 200);
    check_wait(&timing, -10 * MS, 50 * MS);
}

/* A transition that is over already means now, not the past. */
static void a_wait_is_never_negative(void **state)
{
    const simba__timing timing = resolved(10000, 6000);
    const simba_owner owner = {.id = "other", .transition_at_ms = 5};
    uint64_t seed = 1;
    for (int i = 0; i < 100; i++)
        assert_int_equal(simba__period_wait_ns(&timing, &owner, 1000000, i % 3, &seed), 0);
}

/* Who knows its place comes right after the end of the lease, or as much later as there are others before it: at most 16
 * of them within 200 ms, and nobody later than the jitter allows. */
static void waiters_come_by_their_place(void **state)
{
    const simba_owner owner = {.id = "other", .transition_at_ms = 1005000};
    const simba__timing timings[] = {resolved(10000, 6000), resolved(10000, 0), resolved(300, 200), resolved(100, 0)};
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof timings / sizeof *timings; i++) {
        const int64_t most = 5000 * MS + timings[i].jitter_max_ns;
        int64_t before = 5000 * MS;
        for (int64_t place = 1; place <= 16; place++) {
            const int64_t wait_ns = simba__period_wait_ns(&timings[i], &owner, 1000000, place, &seed);
            assert_true(wait_ns > before && wait_ns <= most && wait_ns < 5200 * MS);
            before = wait_ns;
        }
        const int64_t far[] = {100, 1000, UINT32_MAX, INT64_MAX};
        for (size_t j = 0; j < sizeof far / sizeof *far; j++) {
            const int64_t wait_ns = simba__period_wait_ns(&timings[i], &owner, 1000000, far[j], &seed);
            assert_true(wait_ns > 5000 * MS && wait_ns <= most);
        }
    }
    const int64_t first = simba__period_wait_ns(&timings[0], &owner, 1000000, 1, &seed);
    assert_int_equal(first, 5002 * MS);
}

/* One unanswered renewal must not eat the window, and one unanswered release not a stop's patience. */
static void answers_are_not_waited_for_too_long(void **state)
{
    const simba__timing timing = resolved(10000, 6000);
    assert_true(simba__period_op_timeout_ns(&timing, SIMBA_OP_RENEW) <= timing.window_ns / 4);
    assert_int_equal(simba__period_op_timeout_ns(&timing, SIMBA_OP_RELEASE), 1000 * MS);
    assert_true(simba__period_op_timeout_ns(&timing, SIMBA_OP_ACQUIRE) <= 4000 * MS);
}

/* Who has no jitter still pauses: a store that is away is not asked a thousand times a second. */
static void backs_off_also_without_jitter(void **state)
{
    simba__timing timing = resolved(10000, 6000);
    timing.jitter_min_ns = timing.jitter_max_ns = 0;
    uint64_t seed = 1;
    assert_in_range(simba__period_backoff_ns(&timing, 1, &seed), 40 * MS, 80 * MS);
    assert_in_range(simba__period_backoff_ns(&timing, 20, &seed), 750 * MS, 1250 * MS);
}

/* What another wrote into the store may be any number: the wait is never negative, never beyond the longest lease, and
 * nothing overflows. */
static void waits_for_any_stored_time(void **state)
{
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    enum { ENDS = sizeof ends / sizeof *ends };
    const simba__timing timing = resolved(10000, 6000);
    uint64_t seed = 5;
    for (size_t i = 0; i < ENDS * ENDS * ENDS; i++) {
        const simba_owner owner = {.id = "you", .transition_at_ms = ends[i % ENDS]};
        const int64_t now_ms = ends[i / ENDS % ENDS];
        const int64_t wait = simba__period_wait_ns(&timing, &owner, now_ms, ends[i / ENDS / ENDS], &seed);
        assert_true(wait >= 0 && wait <= SIMBA_LEASE_MAX_MS * MS + timing.jitter_max_ns);
        if (owner.transition_at_ms <= now_ms)
            assert_true(wait <= timing.jitter_max_ns);
    }
}

/* A server may say of a session what it likes. */
static void sessions_of_any_length(void **state)
{
    const simba__timing timing = resolved(10000, 6000);
    assert_true(simba__session_ns(&timing, INT64_MAX) > 0);
    assert_true(simba__session_ns(&timing, INT64_MIN) <= 0);
    assert_true(simba__session_ns(&timing, 0) <= 0);
}

static void points_in_time_end_where_numbers_do(void **state)
{
    assert_int_equal(simba__local_add((simba_local){INT64_MAX}, 1).ns, INT64_MAX);
    assert_int_equal(simba__local_add((simba_local){INT64_MIN}, -1).ns, INT64_MIN);
    assert_int_equal(simba__local_add((simba_local){INT64_MAX}, INT64_MIN).ns, -1);
}

/* How much an owner has left, whatever a store says of its times. */
static void what_is_left_of_absurd_times(void **state)
{
    const simba_owner owner = {.transition_at_ms = INT64_MAX};
    assert_int_equal(simba__owner_left_ns(&owner, -1), SIMBA_LEASE_MAX_MS * SIMBA__NS_PER_MS);
    const simba_owner past = {.transition_at_ms = INT64_MIN};
    assert_int_equal(simba__owner_left_ns(&past, 1), 0);
    const simba_owner usual = {.transition_at_ms = 1700};
    assert_int_equal(simba__owner_left_ns(&usual, 1000), 700 * SIMBA__NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inheritance),
        cmocka_unit_test(the_longest_lease_fits),
        cmocka_unit_test(a_lease_ends_here_before_it_ends_there),
        cmocka_unit_test(renewal_comes_just_before_the_ttl_ends),
        cmocka_unit_test(renewals_fall_together),
        cmocka_unit_test(several_retries_fit_into_the_window),
        cmocka_unit_test(jitter_bounds),
        cmocka_unit_test(a_wait_is_never_negative),
        cmocka_unit_test(waiters_come_by_their_place),
        cmocka_unit_test(answers_are_not_waited_for_too_long),
        cmocka_unit_test(backs_off_also_without_jitter),
        cmocka_unit_test(waits_for_any_stored_time),
        cmocka_unit_test(sessions_of_any_length),
        cmocka_unit_test(what_is_left_of_absurd_times),
        cmocka_unit_test(points_in_time_end_where_numbers_do),
    };
    return cmocka_run_group_tests_name("timing", tests, NULL, NULL);
}
