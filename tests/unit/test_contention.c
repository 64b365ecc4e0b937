/* The contention machine with a lease, as traces: what goes in, what must come out. Times are in ms since the start.
 * With ttl 10 s, transition 6 s and a drift bound of 1 % a lease is good for 15.84 s of our own clock, and is renewed
 * on the grid of 250 ms before 9.4 s. Stopping is in test_contention_stop.c, what only some stores do in
 * test_contention_stores.c. */
#include <string.h>

#include "unit/contention.h"

/* --- gaining ------------------------------------------------------------------------------------- */

/* A free mutex is taken at once: a cold start does not wait for anything. */
static void takes_a_free_mutex_at_once(void **state)
{
    trace t;
    lead(&t, 7);
    assert_int_equal(t.machine.token, 7);
    assert_int_equal(simba__contention_status(&t.machine), SIMBA_STATUS_RUNNING);
}

/* With an initial delay the first attempt comes after it, and the status says so. */
static void waits_out_the_initial_delay(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .initial_delay_ms = 300, .jitter_max_ms = 1};
    trace t;
    trace_init_with(&t, &ms, false, false);
    TRACE("wake@300", trace_start(&t));
    assert_int_equal(simba__contention_status(&t.machine), SIMBA_STATUS_STARTING);
    TRACE("wake@300", trace_at(&t, 299));
    TRACE("acquire", trace_at(&t, 300));
    assert_int_equal(simba__contention_status(&t.machine), SIMBA_STATUS_RUNNING);
}

/* Somebody else's: wait until the end of their transition, then try; never before. */
static void waits_for_the_end_of_the_transition(void **state)
{
    trace t;
    trace_init(&t, 10000, 6000);
    TRACE("acquire", trace_start(&t));
    TRACE("changed wake@4000", trace_owned(&t, "other", 5, 4000));
    TRACE("wake@4000", trace_at(&t, 3999));
    TRACE("acquire", trace_at(&t, 4000));
    TRACE("wake@20000", trace_owned(&t, "other", 5, 16000));
}

/* The store said no although nobody owns it: ask again soon, and do not spin. */
static void backs_off_when_a_free_mutex_is_refused(void **state)
{
    trace t;
    contend(&t);
    trace_nobody(&t);
    assert_true(t.actions.timer.ns != INT64_MAX);
    assert_false(t.actions.submit);
}

/* L1: a store that cannot be reached is asked again and again, with growing pauses, for as long as it takes. */
static void keeps_trying_while_the_store_is_away(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .jitter_max_ms = 1000};
    trace t;
    trace_init_with(&t, &ms, false, false);
    TRACE("acquire", trace_start(&t));
    int64_t last_pause = 0;
    for (int i = 0; i < 50; i++) {
        trace_fails(&t, SIMBA_EUNAVAILABLE);
        const int64_t now_ns = INT64_C(5000000000000) + t.now_ms * 1000000;
        last_pause = (t.actions.timer.ns - now_ns) / 1000000;
        assert_in_range(last_pause, 1, 1250);
        assert_string_equal(trace_at(&t, t.now_ms + last_pause + 1), "acquire");
    }
    assert_in_range(last_pause, 750, 1250);
    trace_mine(&t, 3);
    assert_true(t.actions.acquired);
}

/* The lease counts from handing the request over: a slow reply shortens it. */
static void counts_the_lease_from_the_request(void **state)
{
    trace t;
    contend(&t);
    trace_pass(&t, 3000);
    TRACE("acquired changed wake@9250", trace_mine(&t, 1));
    assert_int_equal(trace_held_ms(&t), 15839 - 3000);
}

/* A grant that comes back when its lease is over already is given back, and nobody is told. */
static void gives_back_a_win_that_comes_too_late(void **state)
{
    trace t;
    contend(&t);
    trace_pass(&t, 15840);
    TRACE("late release", trace_mine(&t, 9));
    assert_int_equal(t.actions.token, 9);
    assert_int_equal(trace_held_ms(&t), 0);
    TRACE("acquire", trace_nobody(&t));
}

/* A request may stand in line before its server is asked: the lease counts from the asking. */
static void a_lease_counts_from_the_asking(void **state)
{
    trace t;
    contend(&t);
    t.sent_ms = 20000;
    trace_pass(&t, 20001);
    TRACE("acquired changed wake@29250", trace_mine(&t, 7));
    assert_int_equal(trace_held_ms(&t), 15838);
    TRACE("renew wake@35839", trace_at(&t, 29250));
    t.sent_ms = 30000;
    trace_pass(&t, 30500);
    TRACE("wake@39250", trace_mine(&t, 7));
    assert_int_equal(trace_held_ms(&t), 15339);
}

/* S5: whoever stops does not wait for a request that the store has not got, and such a request has granted nothing. */
static void a_stop_withdraws_what_was_not_sent(void **state)
{
    trace t;
    contend(&t);
    TRACE("withdraw", trace_stop(&t));
    TRACE("done", trace_not_sent(&t, SIMBA_ECANCELED));
}

/* S5: that an acquire was not sent says nothing about the one before it, which may have been granted. */
static void an_unsent_acquire_hides_no_earlier_one(void **state)
{
    trace t;
    contend(&t);
    trace_fails(&t, SIMBA_ETIMEDOUT);
    TRACE("acquire", trace_at(&t, timer_ms(&t)));
    TRACE("withdraw", trace_stop(&t));
    TRACE("release", trace_not_sent(&t, SIMBA_ECANCELED));
}

/* A renewal that was not sent changes nothing, and the lease is given back all the same. */
static void a_stop_while_a_renewal_waits_gives_back(void **state)
{
    trace t;
    contend(&t);
    trace_mine(&t, 7);
    trace_at(&t, 9250);
    assert_true(t.actions.submit);
    trace_stop(&t);
    trace_ack(&t);
    TRACE("release", trace_not_sent(&t, SIMBA_ECANCELED));
    assert_int_equal(t.actions.token, 7);
}

/* The reply was lost: the same incarnation asks again, so the store can recognise its own grant. */
static void a_lost_reply_is_asked_for_again_under_the_same_nonce(void **state)
{
    trace t;
    contend(&t);
    const uint64_t nonce = t.actions.nonce;
    trace_fails(&t, SIMBA_ETIMEDOUT);
    trace_at(&t, 5000);
    assert_true(t.actions.submit);
    assert_int_equal(t.actions.op, SIMBA_OP_ACQUIRE);
    assert_int_equal(t.actions.nonce, nonce);
    assert_int_equal(t.actions.token, 0);
}

/* S7: every start is an incarnation of its own. */
static void every_start_has_a_nonce_of_its_own(void **state)
{
    trace t;
    contend(&t);
    const uint64_t first = t.actions.nonce;
    simba__event start = {.kind = SIMBA__EV_START, .seed = 43};
    trace_init(&t, 10000, 6000);
    simba__contention_step(&t.machine, &start, &t.actions);
    assert_int_not_equal(t.actions.nonce, first);
}

/* A reply of an older generation changes nothing. */
static void a_stale_reply_changes_nothing(void **state)
{
    trace t;
    contend(&t);
    trace_owned(&t, "other", 5, 4000);
    trace_at(&t, 4000);
    TRACE("", trace_stale_mine(&t, 9));
    assert_int_equal(trace_held_ms(&t), 0);
    TRACE("acquired changed wake@13250", trace_mine(&t, 6));
    TRACE("wake@13250", trace_mine(&t, 6));
}

/* --- keeping ------------------------------------------------------------------------------------- */

/* The owner renews just before the end of its ttl, under the same token, and the lease moves on. */
static void renews_before_the_ttl_is_over(void **state)
{
    trace t;
    lead(&t, 7);
    TRACE("renew wake@15839", trace_at(&t, 9250));
    assert_int_equal(t.actions.token, 7);
    TRACE("wake@18500", trace_mine(&t, 7));
    assert_int_equal(trace_held_ms(&t), 15839);
    assert_int_equal(t.machine.token, 7);
}

/* L3: a failed renewal costs nothing yet. It is retried several times inside the window, and heals. */
static void retries_a_failed_renewal_inside_the_window(void **state)
{
    trace t;
    lead(&t, 7);
    trace_at(&t, 9250);
    int tries = 0;
    int64_t last_pause = 0;
    for (;;) {
        trace_fails(&t, SIMBA_EUNAVAILABLE);
        assert_false(t.actions.released);
        const int64_t at = (t.actions.timer.ns - INT64_C(5000000000000)) / 1000000;
        if (at >= 15839)
            break;
        last_pause = at - t.now_ms;
        trace_at(&t, at + 1);
        assert_true(t.actions.submit);
        assert_int_equal(t.actions.op, SIMBA_OP_RENEW);
        tries++;
        if (t.now_ms > 14000)
            break;
    }
    assert_in_range(tries, 4, 12);
    assert_true(last_pause > 400);
    trace_mine(&t, 7);
    assert_false(t.actions.released);
    assert_int_equal(trace_held_ms(&t), 15839);
}

/* L3: the store refuses for exactly as long as the transition lasts, and one attempt falls into what is left. */
static void an_outage_as_long_as_the_transition_costs_nothing(void **state)
{
    for (int64_t begin = 9250; begin > 8250; begin -= 7) { /* when the outage began, which moves all the attempts */
        trace t;
        lead(&t, 7);
        trace_at(&t, 9250);
        t.machine.seed = (uint64_t)begin;
        while (t.now_ms < 9250 + 6000) {
            trace_fails(&t, SIMBA_EUNAVAILABLE);
            TRACE("renew", strstr(trace_at(&t, timer_ms(&t)), "renew") ? "renew" : t.text);
        }
        trace_mine(&t, 7);
        assert_false(t.actions.released);
        assert_true(trace_held_ms(&t) > 15000);
    }
}

/* L3: nor does waiting for an answer that the outage has swallowed use up the end. */
static void a_swallowed_answer_is_not_waited_for_beyond_the_last_chance(void **state)
{
    trace t;
    lead(&t, 7);
    trace_at(&t, 9250);
    while (t.now_ms < 9250 + 6000) {
        assert_true(t.actions.submit);
        trace_pass(&t, (t.now_ms * 1000000 + t.actions.timeout_ns + 999999) / 1000000);
        trace_fails(&t, SIMBA_ETIMEDOUT);
        assert_false(t.actions.released);
        trace_at(&t, timer_ms(&t) > t.now_ms ? timer_ms(&t) : t.now_ms);
    }
    assert_true(t.actions.submit);
    assert_in_range(t.now_ms, 15250, 15700);
    trace_mine(&t, 7);
    assert_true(trace_held_ms(&t) > 15000);
}

/* L3: near the end an answer still gets the time that it may need: a wait that would be over shortly before the last chance
 * lasts until then. */
static void a_late_attempt_waits_until_the_last_chance(void **state)
{
    trace t;
    lead(&t, 7);
    trace_at(&t, 9250);
    trace_pass(&t, 14800);
    trace_fails(&t, SIMBA_ETIMEDOUT);
    trace_at(&t, timer_ms(&t)); /* half of what is left until 15589 */
    assert_true(t.actions.submit);
    assert_in_range(t.now_ms, 14900, 15200);
    assert_in_range((t.now_ms * 1000000 + t.actions.timeout_ns) / 1000000, 15588, 15590);
}

/* L3: a renewal that has to wait before it is handed over has its deadline later, but still shortly before the last chance. */
static void a_renewal_that_is_handed_over_late_leaves_the_last_chance(void **state)
{
    trace t;
    lead(&t, 7);
    trace_at(&t, 9250);
    assert_true(t.actions.submit);
    assert_in_range((t.actions.latest.ns - INT64_C(5000000000000)) / 1000000, 15088, 15090);
    trace_pass(&t, 15560);
    trace_fails(&t, SIMBA_ETIMEDOUT);
    trace_at(&t, timer_ms(&t)); /* the last chance: there is no time for another one */
    assert_true(t.actions.submit);
    assert_int_equal(t.actions.latest.ns, 0);
}

/* S2: nothing is heard from the store, and yet the holder is told, before the lease can end on the store's clock. */
static void an_unreachable_holder_is_told_by_its_own_clock(void **state)
{
    trace t;
    lead(&t, 7);
    TRACE("renew wake@15839", trace_at(&t, 9250));
    TRACE("wake@15839", trace_at(&t, 15839));
    assert_int_equal(trace_held_ms(&t), 0); /* less than a ms is left */
    TRACE("released(expired) changed withdraw", trace_at(&t, 15840));
    assert_int_equal(trace_held_ms(&t), 0);
}

/* S1: the drift bound is subtracted: our 15.84 s are at most 16 s of a clock that runs 1 % faster. */
static void the_lease_allows_for_drift(void **state)
{
    trace t;
    lead(&t, 7);
    const int64_t lease_ns = t.timing.lease_ns;
    assert_true(lease_ns + lease_ns / 100 <= INT64_C(16000000000));
    assert_int_equal(simba__contention_valid_until(&t.machine).ns, INT64_C(5000000000000) + lease_ns);
}

/* The machine slept. Whatever event wakes it, the clock is looked at first: a good renewal comes too late. */
static void after_a_suspend_the_clock_comes_first(void **state)
{
    trace t;
    lead(&t, 7);
    trace_at(&t, 9250);
    trace_pass(&t, 60000);
    TRACE("released(expired) changed", trace_mine(&t, 7));
    TRACE("release", trace_ack(&t));
    assert_int_equal(t.actions.token, 7);
}

/* A renewal that was answered late counts from when it was sent, too. */
static void a_late_renewal_counts_from_its_request(void **state)
{
    trace t;
    lead(&t, 7);
    trace_at(&t, 9250);
    trace_pass(&t, 13000);
    TRACE("wake@18500", trace_mine(&t, 7));
    assert_int_equal(trace_held_ms(&t), 9250 + 15839 - 13000);
}

/* The stop margin: an unreachable holder is told that much earlier. */
static void the_stop_margin_comes_before_the_end(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .stop_margin_ms = 2000, .jitter_max_ms = 1000};
    trace t;
    trace_init_with(&t, &ms, false, false);
    trace_start(&t);
    trace_mine(&t, 7);
    trace_at(&t, 9250);
    TRACE("wake@13839", trace_at(&t, 13839));
    TRACE("released(expired) changed withdraw", trace_at(&t, 13840));
}

/* --- losing -------------------------------------------------------------------------------------- */

/* The store names another owner: told at once, and why. */
static void is_told_when_superseded(void **state)
{
    trace t;
    lead(&t, 7);
    trace_at(&t, 9250);
    TRACE("released(superseded) changed", trace_owned(&t, "other", 8, 16000));
    TRACE("acquire", trace_ack(&t));
}

/* An administrator took it away: that has a name of its own. */
static void is_told_when_revoked(void **state)
{
    trace t;
    lead(&t, 7);
    trace_at(&t, 9250);
    TRACE("released(revoked) changed", trace_revoked(&t));
}

/* A renewal that is answered with another token is not ours. */
static void a_renewal_never_changes_the_token(void **state)
{
    trace t;
    lead(&t, 7);
    trace_at(&t, 9250);
    trace_mine(&t, 8);
    assert_true(t.actions.released);
    assert_int_equal(t.actions.reason, SIMBA_REASON_SUPERSEDED);
}

/* S3, S4: after a gap nothing is begun before on_released has returned; then the old grant is given back and a new
 * incarnation asks. */
static void after_a_gap_it_begins_anew(void **state)
{
    trace t;
    lead(&t, 7);
    const uint64_t nonce = t.machine.nonce;
    trace_at(&t, 9250);
    trace_fails(&t, SIMBA_EUNAVAILABLE);
    trace_at(&t, 15840);
    assert_true(t.actions.released);
    TRACE("", trace_at(&t, 40000));
    TRACE("release", trace_ack(&t));
    assert_int_equal(t.actions.nonce, nonce);
    assert_int_equal(t.actions.token, 7);
    TRACE("acquire", trace_nobody(&t));
    assert_int_not_equal(t.actions.nonce, nonce);
    assert_int_equal(t.actions.token, 0);
}

/* The hold limit ends a leadership that would go on for ever, lets others go first, and then contends again. */
static void the_hold_limit_ends_leadership(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .hold_limit_ms = 5000, .jitter_max_ms = 1000};
    trace t;
    trace_init_with(&t, &ms, false, false);
    trace_start(&t);
    TRACE("acquired changed wake@5000", trace_mine(&t, 7));
    TRACE("released(hold limit reached) changed wake@9250", trace_at(&t, 5000));
    TRACE("release", trace_ack(&t));
    TRACE("wake@6000", trace_nobody(&t));
    TRACE("acquire", trace_at(&t, 6001));
}

/* A note that was written, and a session that is back, say nothing about who leads. */
static void news_about_other_things_change_nothing(void **state)
{
    trace t;
    lead(&t, 7);
    TRACE("wake@9250", trace_push(&t, SIMBA_PUSH_NOTED));
    TRACE("wake@9250", trace_push(&t, SIMBA_PUSH_SESSION_BACK));
    contend(&t);
    trace_owned(&t, "other", 5, 4000);
    const int64_t before = timer_ms(&t);
    trace_push(&t, SIMBA_PUSH_NOTED);
    assert_false(t.actions.submit);
    assert_int_equal(timer_ms(&t), before);
}

/* L1: an acquire without an answer may have been granted, and the news that somebody has the mutex may be of that very grant: it
 * asks again as soon as without that news, not when the lease ends. */
static void news_of_its_own_grant_does_not_make_it_wait(void **state)
{
    trace t;
    contend(&t);
    trace_fails(&t, SIMBA_ETIMEDOUT);
    const int64_t before = timer_ms(&t);
    trace_push_acquired(&t, "me", 7, 10000);
    assert_int_equal(timer_ms(&t), before);
    assert_true(before < 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_a_free_mutex_at_once),
        cmocka_unit_test(waits_out_the_initial_delay),
        cmocka_unit_test(waits_for_the_end_of_the_transition),
        cmocka_unit_test(backs_off_when_a_free_mutex_is_refused),
        cmocka_unit_test(keeps_trying_while_the_store_is_away),
        cmocka_unit_test(counts_the_lease_from_the_request),
        cmocka_unit_test(gives_back_a_win_that_comes_too_late),
        cmocka_unit_test(a_lease_counts_from_the_asking),
        cmocka_unit_test(a_stop_withdraws_what_was_not_sent),
        cmocka_unit_test(an_unsent_acquire_hides_no_earlier_one),
        cmocka_unit_test(a_stop_while_a_renewal_waits_gives_back),
        cmocka_unit_test(a_lost_reply_is_asked_for_again_under_the_same_nonce),
        cmocka_unit_test(every_start_has_a_nonce_of_its_own),
        cmocka_unit_test(a_stale_reply_changes_nothing),
        cmocka_unit_test(renews_before_the_ttl_is_over),
        cmocka_unit_test(retries_a_failed_renewal_inside_the_window),
        cmocka_unit_test(an_outage_as_long_as_the_transition_costs_nothing),
        cmocka_unit_test(a_swallowed_answer_is_not_waited_for_beyond_the_last_chance),
        cmocka_unit_test(a_late_attempt_waits_until_the_last_chance),
        cmocka_unit_test(a_renewal_that_is_handed_over_late_leaves_the_last_chance),
        cmocka_unit_test(an_unreachable_holder_is_told_by_its_own_clock),
        cmocka_unit_test(the_lease_allows_for_drift),
        cmocka_unit_test(after_a_suspend_the_clock_comes_first),
        cmocka_unit_test(a_late_renewal_counts_from_its_request),
        cmocka_unit_test(the_stop_margin_comes_before_the_end),
        cmocka_unit_test(is_told_when_superseded),
        cmocka_unit_test(is_told_when_revoked),
        cmocka_unit_test(a_renewal_never_changes_the_token),
        cmocka_unit_test(after_a_gap_it_begins_anew),
        cmocka_unit_test(news_of_its_own_grant_does_not_make_it_wait),
        cmocka_unit_test(news_about_other_things_change_nothing),
        cmocka_unit_test(the_hold_limit_ends_leadership),
    };
    return cmocka_run_group_tests_name("contention", tests, NULL, NULL);
}
