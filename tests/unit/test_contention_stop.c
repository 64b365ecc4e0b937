/* The contention machine when it is to end: because it was told to, or by itself, as a locker's does. Traces, as in
 * test_contention.c. */
#include <string.h>

#include "unit/contention.h"

/* --- stopping ------------------------------------------------------------------------------------ */

/* S6: a graceful stop tells first, renews as long as on_released runs, and only then gives back. */
static void a_stop_renews_until_on_released_has_returned(void **state)
{
    trace t;
    lead(&t, 7);
    TRACE("released(stopped) changed wake@9250", trace_stop(&t));
    assert_int_equal(simba__contention_status(&t.machine), SIMBA_STATUS_STOPPING);
    assert_true(trace_held_ms(&t) > 15000);
    TRACE("renew wake@15839", trace_at(&t, 9250));
    TRACE("wake@18500", trace_mine(&t, 7));
    TRACE("renew wake@25089", trace_at(&t, 18500));
    TRACE("wake@27750", trace_mine(&t, 7));
    TRACE("release", trace_ack(&t));
    assert_int_equal(trace_held_ms(&t), 0);
    TRACE("done", trace_nobody(&t));
    assert_int_equal(simba__contention_status(&t.machine), SIMBA_STATUS_INITIAL);
}

/* on_released returns while a renewal is under way: its answer is awaited, then comes the release. */
static void a_stop_waits_for_the_renewal_in_flight(void **state)
{
    trace t;
    lead(&t, 7);
    trace_stop(&t);
    trace_at(&t, 9250);
    TRACE("", trace_ack(&t));
    TRACE("release", trace_mine(&t, 7));
    TRACE("done", trace_nobody(&t));
}

/* on_released returns once per leadership. Whoever says so at another time is not listened to. */
static void an_ack_at_the_wrong_time_is_passed_over(void **state)
{
    trace t;
    lead(&t, 7);
    TRACE("wake@9250", trace_ack(&t));
    trace_at(&t, 9250);
    trace_stop(&t);
    trace_ack(&t);
    TRACE("", trace_ack(&t)); /* twice, while the renewal is under way */
    TRACE("release", trace_mine(&t, 7));
}

/* A leadership that ended by itself is not held on to for the least time: nobody knows whether the lease is still there. */
static void the_least_time_is_for_those_who_end_by_themselves(void **state)
{
    trace t;
    trace_init(&t, 10000, 6000);
    t.machine.min_hold_ns = INT64_C(3600000000000);
    trace_start(&t);
    trace_mine(&t, 7);
    trace_at(&t, 9250);
    trace_fails(&t, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(trace_at(&t, 15900), "released(expired)"));
    assert_non_null(strstr(trace_ack(&t), "release"));
}

/* Stop before the initial delay is over: nothing was asked, nothing is left. */
static void a_stop_during_the_initial_delay_is_over_at_once(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .initial_delay_ms = 300, .jitter_max_ms = 1};
    trace t;
    trace_init_with(&t, &ms, false, false);
    trace_start(&t);
    TRACE("done", trace_stop(&t));
}

/* Stop while waiting: nothing of a waiter is in the store. */
static void a_stop_while_waiting_is_over_at_once(void **state)
{
    trace t;
    contend(&t);
    trace_owned(&t, "other", 5, 4000);
    TRACE("done", trace_stop(&t));
}

/* S5: a win that arrives after stop is given back and never told. */
static void a_late_win_after_stop_is_given_back(void **state)
{
    trace t;
    contend(&t);
    TRACE("withdraw", trace_stop(&t));
    TRACE("late release", trace_mine(&t, 9));
    TRACE("done", trace_nobody(&t));
}

/* S5: stop when it is not known whether the last acquire won: give back whatever there may be. */
static void a_stop_after_a_lost_reply_gives_back_what_may_be(void **state)
{
    trace t;
    contend(&t);
    const uint64_t nonce = t.actions.nonce;
    trace_fails(&t, SIMBA_ETIMEDOUT);
    TRACE("release", trace_stop(&t));
    assert_int_equal(t.actions.nonce, nonce);
    assert_int_equal(t.actions.token, 0);
    TRACE("done", trace_nobody(&t));
}

/* A store that is away does not keep anybody from stopping: a few tries, then the lease ends by itself. */
static void a_stop_is_bounded_when_the_store_is_away(void **state)
{
    trace t;
    lead(&t, 7);
    trace_stop(&t);
    TRACE("release", trace_ack(&t));
    int tries = 1;
    while (!t.actions.done) {
        trace_fails(&t, SIMBA_EUNAVAILABLE);
        if (t.actions.done)
            break;
        trace_at(&t, t.now_ms + 2000);
        assert_true(t.actions.submit);
        assert_int_equal(t.actions.op, SIMBA_OP_RELEASE);
        assert_true(++tries <= 5);
    }
    assert_int_equal(tries, 3);
    assert_int_equal(t.machine.last_error, SIMBA_EUNAVAILABLE);
}

/* While on_released runs after a stop and the store is away, the lease ends; nothing is told twice. */
static void the_lease_may_end_during_a_stop(void **state)
{
    trace t;
    lead(&t, 7);
    trace_stop(&t);
    trace_at(&t, 9250);
    TRACE("", trace_at(&t, 15840));
    assert_int_equal(trace_held_ms(&t), 0);
    TRACE("", trace_ack(&t));
    TRACE("release", trace_fails(&t, SIMBA_ETIMEDOUT));
    TRACE("done", trace_nobody(&t));
}

/* A machine that has stopped can be started again, under a new nonce. */
static void it_can_be_started_again(void **state)
{
    trace t;
    lead(&t, 7);
    trace_stop(&t);
    trace_ack(&t);
    TRACE("done", trace_nobody(&t));
    TRACE("acquire", trace_start(&t));
    TRACE("acquired changed wake@9250", trace_mine(&t, 8));
}

/* Stopping what was never started is over at once. */
static void stopping_an_idle_machine_is_done_at_once(void **state)
{
    trace t;
    trace_init(&t, 10000, 6000);
    TRACE("done", trace_stop(&t));
}

/* --- lockers ------------------------------------------------------------------------------------- */

/* Try once: one answer, then done, and nothing stays behind. */
static void a_try_is_one_answer(void **state)
{
    trace t;
    trace_init(&t, 10000, 6000);
    t.machine.once = t.machine.try_once = true;
    TRACE("acquire", trace_start(&t));
    assert_false(t.actions.queue);
    TRACE("changed done", trace_owned(&t, "other", 5, 4000));
}

/* A try that got no answer may have won: that is given back. */
static void a_try_without_an_answer_is_given_back(void **state)
{
    trace t;
    trace_init(&t, 10000, 6000);
    t.machine.once = t.machine.try_once = true;
    trace_start(&t);
    TRACE("release", trace_fails(&t, SIMBA_ETIMEDOUT));
    TRACE("done", trace_nobody(&t));
}

/* A locker leads once: after a loss it does not contend again behind the caller's back. */
static void a_locker_leads_once(void **state)
{
    trace t;
    trace_init(&t, 10000, 6000);
    t.machine.once = true;
    trace_start(&t);
    trace_mine(&t, 7);
    trace_at(&t, 9250);
    TRACE("released(superseded) changed", trace_owned(&t, "other", 8, 16000));
    TRACE("done", trace_ack(&t));
}

/* A permanent error ends a locker's wait at once; a transient one does not. */
static void a_permanent_error_ends_a_lockers_wait(void **state)
{
    trace t;
    trace_init(&t, 10000, 6000);
    t.machine.once = true;
    trace_start(&t);
    trace_fails(&t, SIMBA_EUNAVAILABLE);
    assert_false(t.actions.submit);
    trace_at(&t, 3000);
    TRACE("release", trace_fails(&t, SIMBA_ECORRUPT));
    TRACE("done", trace_fails(&t, SIMBA_ECORRUPT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_renews_until_on_released_has_returned),
        cmocka_unit_test(a_stop_waits_for_the_renewal_in_flight),
        cmocka_unit_test(a_stop_during_the_initial_delay_is_over_at_once),
        cmocka_unit_test(a_stop_while_waiting_is_over_at_once),
        cmocka_unit_test(a_late_win_after_stop_is_given_back),
        cmocka_unit_test(a_stop_after_a_lost_reply_gives_back_what_may_be),
        cmocka_unit_test(a_stop_is_bounded_when_the_store_is_away),
        cmocka_unit_test(the_lease_may_end_during_a_stop),
        cmocka_unit_test(it_can_be_started_again),
        cmocka_unit_test(stopping_an_idle_machine_is_done_at_once),
        cmocka_unit_test(a_try_is_one_answer),
        cmocka_unit_test(a_try_without_an_answer_is_given_back),
        cmocka_unit_test(a_locker_leads_once),
        cmocka_unit_test(an_ack_at_the_wrong_time_is_passed_over),
        cmocka_unit_test(the_least_time_is_for_those_who_end_by_themselves),
        cmocka_unit_test(a_permanent_error_ends_a_lockers_wait),
    };
    return cmocka_run_group_tests_name("contention_stop", tests, NULL, NULL);
}
