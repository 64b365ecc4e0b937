/* The wall clock decides nothing: leases are judged on a clock that nobody can set. Here it jumps by a day forth and
 * back with every look that anything in this program takes at it, goes backwards, or is another one in every process; leaderships must not take notice, and fencing tokens must grow all the same. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "support.h"

#define DAY_S INT64_C(86400)
#define MUTEX "clocks"

/* --- a wall clock to play with ----------------------------------------------------------------------- */

static _Atomic int64_t shift_s; /* from the real one */
static atomic_bool jumps;       /* forth and back, by a day */
static atomic_uint looks;

/* In place of the C library's, for everything that is linked into this program, the libraries beneath among it. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): its names there are __clock_id and __tp. */
int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    const bool wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    const long rc = syscall(SYS_clock_gettime, clock, ret_now);
    if (rc != 0 || !wall)
        return (int)rc;
    const unsigned look = atomic_fetch_add(&looks, 1);
    if (atomic_load(&jumps))
        ret_now->tv_sec += look % 2 ? DAY_S : -DAY_S;
    ret_now->tv_sec += atomic_load(&shift_s);
    return 0;
}

static void reset_clock(void)
{
    atomic_store(&shift_s, 0);
    atomic_store(&jumps, false);
}

/* --- two contenders in this process ------------------------------------------------------------------- */

static struct {
    simba_client *clients[2];
    ref_arena arena;
    unsigned complaints;
} play;

#define AWAIT(condition)                                                                                               \
    do {                                                                                                               \
        if (!REF_WITHIN(LONG_MS, condition))                                                                           \
            fail_msg("waited in vain for: %s", #condition);                                                            \
    } while (0)

static void open_play(const char *url)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.timing.ttl_ms = ref_scaled_ms(40);
    options.timing.transition_ms = ref_scaled_ms(460);
    play.complaints = ref_complaints();
    ref_arena_init(&play.arena);
    for (unsigned i = 0; i < 2; i++) {
        const simba_contender_options contender = ref_options(&play.arena, i);
        simba_error err = {0};
        if (simba_client_open(url, &options, &err, &play.clients[i]) != 0 ||
            simba_contender_new(play.clients[i], MUTEX, &contender, &err, &play.arena.contenders[i].handle) != 0)
            fail_msg("%s", err.text);
    }
}

static void close_play(void)
{
    for (int i = 0; i < 2; i++)
        ref_free(&play.arena.contenders[i]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, simba_client_close(play.clients[i]));
    ref_arena_check_end(&play.arena);
    reset_clock();
    assert_int_equal(play.complaints, ref_complaints());
}

static uint64_t renewals(int i)
{
    simba_stats stats = SIMBA_STATS_INIT;
    simba_client_stats(play.clients[i], &stats);
    return stats.renewals;
}

static uint64_t last_token(void)
{
    ref_lock();
    const uint64_t token = play.arena.last_token;
    ref_unlock();
    return token;
}

static void hand_over(int from)
{
    ref_contender *to = &play.arena.contenders[!from];
    ref_lock();
    const unsigned before = to->acquired;
    ref_unlock();
    assert_int_equal(0, ref_stop(&play.arena.contenders[from]));
    AWAIT(to->acquired > before);
    assert_int_equal(0, ref_start(&play.arena.contenders[from]));
}

static void check_listed(const simba_listing *listing, void *user)
{
    const int64_t lease_ms = ref_scaled_ms(500);
    const int64_t left_ms = listing->owner->transition_at_ms - listing->now_ms;
    *(bool *)user = true;
    if (left_ms <= 0 || left_ms > lease_ms || !simba_owner_has_owner(listing->owner, listing->now_ms))
        REF_COMPLAIN("the list gives the owner %lld ms", (long long)left_ms);
}

/* --- tests ------------------------------------------------------------------------------------------- */

/* A wall clock that jumps by a day with every look: many renewals, and a waiter that tries again after the end of the first lease: nothing changes hands. */
static void jumps_by_a_day(void **state)
{
    (void)state;
    atomic_store(&jumps, true);
    open_play(store_url());
    ref_contender *all = play.arena.contenders;
    assert_int_equal(0, ref_start(&all[0]));
    AWAIT(all[0].leads);
    assert_int_equal(0, ref_start(&all[1]));
    const unsigned looks_before = atomic_load(&looks);
    const uint64_t before = renewals(0);
    const int64_t end = ref_now_ms() + ref_scaled_ms(700);
    AWAIT(renewals(0) > before + 5 && ref_now_ms() > end);
    assert_true(atomic_load(&looks) > looks_before); /* or this test would be about nothing */
    ref_lock();
    assert_int_equal(1, all[0].acquired);
    assert_int_equal(0, all[0].released);
    assert_int_equal(0, all[1].acquired);
    ref_unlock();
    assert_int_equal(last_token(), simba_contender_token(all[0].handle));
    bool found = false;
    assert_int_equal(0, simba_client_list(play.clients[1], NULL, check_listed, &found, NULL));
    assert_true(found);
    hand_over(0);
    hand_over(1);
    close_play();
}

/* Tokens grow although the wall clock, their floor, goes back by an hour from grant to grant. */
static void back_in_time(void **state)
{
    (void)state;
    open_play(store_url());
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, ref_start(&play.arena.contenders[i]));
    AWAIT(play.arena.inside);
    ref_lock();
    int from = play.arena.inside == &play.arena.contenders[1];
    ref_unlock();
    for (int i = 0; i < 10; i++, from = !from) {
        const uint64_t before = last_token();
        atomic_fetch_sub(&shift_s, 3600);
        hand_over(from);
        assert_true(last_token() > before); /* the referee has seen to it as well */
    }
    close_play();
}

/* Processes whose wall clocks are days apart agree about a lease: held while it is renewed, followed when its holder
 * was killed, neither early nor late. */
static void days_apart(void **state)
{
    (void)state;
    setenv("SIMBA_TEST_DAYS", "0", 1);
    process *a = short_contender(0);
    setenv("SIMBA_TEST_DAYS", "3", 1);
    process *b = short_contender(1);
    setenv("SIMBA_TEST_DAYS", "-3", 1);
    process *c = short_contender(2);
    unsetenv("SIMBA_TEST_DAYS");
    const grant first = lead(a);
    stand_behind(b);
    stand_behind(c);
    for (const int64_t until = ref_now_ms() + LEASE_MS + 2 * JITTER_MS; ref_now_ms() < until;)
        assert_int_equal(first.token, await_renewal(a));
    assert_int_equal(0, process_count(b, "acquired") + process_count(c, "acquired"));

    const int64_t killed_ns = score_now_ns();
    process_signal(a, SIGKILL);
    const int64_t claimed_ns = claim_of(0);
    process *const others[2] = {b, c};
    int who;
    const grant second = await_any_acquired(others, 2, LONG_MS, &who);
    assert_true(second.at_ns >= claimed_ns);
    assert_true(second.at_ns - killed_ns <= (LEASE_MS + JITTER_MS + SLACK_MS) * 1000000);
    assert_true(second.token > first.token);
    stop(others[who]);
    assert_true(await_acquired(others[!who], LONG_MS).token > second.token);
    process_end(b);
    process_end(c);
}

int main(int argc, char **argv)
{
    int status;
    const char *days = getenv("SIMBA_TEST_DAYS");
    if (days)
        atomic_store(&shift_s, strtoll(days, NULL, 10) * DAY_S);
    if (puppet_main(argc, argv, &status))
        return status;
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(jumps_by_a_day),
        TEST(back_in_time),
        TEST(days_apart),
    };
    return cmocka_run_group_tests_name("clocks", tests, NULL, NULL);
}
