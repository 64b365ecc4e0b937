/* The contention machine on stores that do more than keep a lease: that have a queue, that push news, or whose leases
 * are sessions. Traces, as in test_contention.c. */
#include <string.h>

#include "unit/contention.h"

/* --- queues -------------------------------------------------------------------------------------- */

/* Who knows its place in the queue comes when those before it have had their chance. */
static void waits_for_its_turn(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .jitter_min_ms = -200, .jitter_max_ms = 1000};
    trace t;
    trace_init_with(&t, &ms, false, true);
    TRACE("acquire", trace_start(&t));
    TRACE("changed wake@4002", trace_owned_and_queued(&t, "other", 5, 4000, 1));
    TRACE("acquire", trace_at(&t, 4002));
    TRACE("wake@8040", trace_owned_and_queued(&t, "other", 5, 4000, 4));
}

/* News of a new owner postpones the next request, but not where there is a queue, in which the place may have been lost. */
static void a_queue_is_joined_again_now_and_then(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000};
    for (int queue = 0; queue < 2; queue++) {
        trace t;
        trace_init_with(&t, &ms, false, queue);
        trace_start(&t);
        TRACE("changed wake@4000", trace_owned(&t, "other", 5, 4000));
        trace_pass(&t, 1000);
        TRACE(queue ? "changed wake@4000" : "changed wake@17000", trace_push_acquired(&t, "third", 6, 16000));
    }
}

/* It was freed, and somebody else was invited: a waiter sleeps on. A holder looks after itself, unless the news is of a
 * grant before its own. */
static void an_invitation_of_another_is_left_to_it(void **state)
{
    trace t;
    contend(&t);
    trace_owned(&t, "other", 5, 4000);
    TRACE("wake@4000", trace_push(&t, SIMBA_PUSH_FREED));
    assert_false(t.actions.used);
    trace_at(&t, 4000);
    trace_mine(&t, 6);
    trace_push(&t, SIMBA_PUSH_FREED); /* token 0: an old one */
    assert_false(t.actions.submit);
    const simba_push push = {.kind = SIMBA_PUSH_FREED, .owner = {.token = 6}};
    const simba__event event = {.kind = SIMBA__EV_PUSH, .now = t.machine.sent_at, .push = &push};
    simba__contention_step(&t.machine, &event, &t.actions);
    assert_true(t.actions.submit && t.actions.op == SIMBA_OP_RENEW);
}

/* Whoever has had its time leaves an invitation to the next, and asks after its pause even if somebody else has the mutex
 * by then: it is in no queue yet, and would never be invited. */
static void the_hold_limit_lets_others_go_first(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .hold_limit_ms = 5000, .jitter_max_ms = 1000};
    trace t;
    trace_init_with(&t, &ms, false, true);
    trace_start(&t);
    trace_mine(&t, 7);
    trace_at(&t, 5000);
    trace_ack(&t);
    TRACE("wake@6000", trace_nobody(&t));
    TRACE("wake@6000", trace_push(&t, SIMBA_PUSH_RELEASED));
    assert_false(t.actions.used);
    TRACE("changed wake@6000", trace_push_acquired(&t, "other", 8, 16000));
    TRACE("acquire", trace_at(&t, 6001));
    trace_owned(&t, "other", 8, 9000);
    TRACE("changed acquire", trace_push(&t, SIMBA_PUSH_RELEASED));
    assert_true(t.actions.used);
}

/* Unless the store keeps a queue: then the waiter leaves it. */
static void a_stop_while_queued_leaves_the_queue(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .jitter_max_ms = 1};
    trace t;
    trace_init_with(&t, &ms, false, true);
    trace_start(&t);
    trace_owned(&t, "other", 5, 4000);
    TRACE("release", trace_stop(&t));
    TRACE("done", trace_owned(&t, "other", 5, 4000));
}

/* --- pushes -------------------------------------------------------------------------------------- */

/* L2: a release is pushed to a waiter, and it tries at once. */
static void a_pushed_release_is_tried_at_once(void **state)
{
    trace t;
    contend(&t);
    trace_owned(&t, "other", 5, 4000);
    TRACE("changed acquire", trace_push(&t, SIMBA_PUSH_RELEASED));
    assert_true(t.actions.used);
}

/* L2: a push that arrives while a request is in flight is not lost: that answer may be older than the push. */
static void a_push_during_a_request_is_not_lost(void **state)
{
    trace t;
    contend(&t);
    TRACE("", trace_push(&t, SIMBA_PUSH_RELEASED));
    assert_true(t.actions.used);
    TRACE("changed acquire", trace_owned(&t, "other", 5, 4000));
    TRACE("wake@4000", trace_owned(&t, "other", 5, 4000));
}

/* A push that came before the server was asked is older than the answer: there is no reason to ask again. */
static void a_push_before_the_asking_is_old(void **state)
{
    trace t;
    contend(&t);
    trace_pass(&t, 10);
    TRACE("", trace_push(&t, SIMBA_PUSH_RELEASED));
    trace_pass(&t, 20);
    t.sent_ms = 11;
    TRACE("changed wake@4020", trace_owned(&t, "other", 5, 4000));
    trace_at(&t, 4020);
    trace_pass(&t, 4030);
    TRACE("changed", trace_push(&t, SIMBA_PUSH_RELEASED));
    t.sent_ms = 4030; /* perhaps before the push */
    TRACE("changed acquire", trace_owned(&t, "other", 6, 4000));
}

/* L2: who cannot use a wake-up says so, and it moves on to the next waiter. */
static void a_stopping_waiter_does_not_swallow_the_wake_up(void **state)
{
    trace t;
    contend(&t);
    trace_stop(&t);
    TRACE("", trace_push(&t, SIMBA_PUSH_RELEASED));
    assert_false(t.actions.used);
}

/* News of another owner moves the alarm; older news than what is known does not. */
static void pushed_news_moves_the_alarm(void **state)
{
    trace t;
    contend(&t);
    trace_owned(&t, "other", 5, 4000);
    trace_pass(&t, 1000);
    TRACE("changed wake@17000", trace_push_acquired(&t, "third", 6, 16000));
    TRACE("wake@17000", trace_push_acquired(&t, "other", 5, 2000));
}

/* A holder hears that somebody else has it: the store decides, at once. News of its own grant is none. */
static void a_holder_checks_what_it_hears(void **state)
{
    trace t;
    lead(&t, 7);
    TRACE("wake@9250", trace_push_acquired(&t, "me", 7, 16000));
    TRACE("renew wake@15839", trace_push_acquired(&t, "other", 8, 16000));
    TRACE("released(superseded) changed", trace_owned(&t, "other", 8, 16000));
}

/* A push during a renewal may be younger than its answer: ask once more. */
static void a_push_during_a_renewal_is_checked_again(void **state)
{
    trace t;
    lead(&t, 7);
    trace_at(&t, 9250);
    trace_push(&t, SIMBA_PUSH_RELEASED);
    TRACE("renew wake@25089", trace_mine(&t, 7));
    TRACE("released(revoked) changed", trace_revoked(&t));
}

/* L3: what a holder asks early, because of a push, is not in the way of the renewal, however often it fails. */
static void a_look_between_is_not_in_the_way_of_the_renewal(void **state)
{
    trace t;
    lead(&t, 7);
    trace_pass(&t, 4000);
    TRACE("renew", strstr(trace_push(&t, SIMBA_PUSH_CHANGED), "renew") ? "renew" : t.text);
    while (t.now_ms < 9250) {
        assert_true(t.actions.submit);
        const int64_t deadline = (t.now_ms * 1000000 + t.actions.timeout_ns + 999999) / 1000000;
        assert_in_range(deadline, t.now_ms + 1, 9250);
        trace_pass(&t, deadline);
        trace_fails(&t, SIMBA_ETIMEDOUT);
        assert_in_range(timer_ms(&t), t.now_ms, 9250);
        trace_at(&t, timer_ms(&t));
    }
    assert_true(t.actions.submit);
    assert_int_equal(t.now_ms, 9250);
}

/* L3: nor is one that went out shortly before the renewal. An answer may come a little later than the renewal is due; then the
 * renewal goes out, although one request in good time would be waited for longer. */
static void a_look_shortly_before_is_not_in_the_way_either(void **state)
{
    trace t;
    lead(&t, 7);
    trace_pass(&t, 9200);
    trace_push(&t, SIMBA_PUSH_CHANGED);
    assert_true(t.actions.submit);
    const int64_t deadline = (t.now_ms * 1000000 + t.actions.timeout_ns + 999999) / 1000000;
    assert_int_equal(deadline, 9700);
    trace_pass(&t, deadline);
    trace_fails(&t, SIMBA_ETIMEDOUT);
    assert_int_equal(timer_ms(&t), 9700);
    trace_at(&t, 9700);
    assert_true(t.actions.submit);
    assert_in_range(t.now_ms * 1000000 + t.actions.timeout_ns, INT64_C(11000000000), INT64_C(12000000000));
}

/* --- sessions ------------------------------------------------------------------------------------ */

/* Nothing of a session is renewed; its loss is told, with its own reason, and nothing of it is left to give back. */
static void a_session_lease_ends_with_the_session(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .jitter_max_ms = 1000};
    trace t;
    trace_init_with(&t, &ms, true, false);
    TRACE("acquire", trace_start(&t));
    TRACE("acquired changed", trace_mine(&t, 7));
    TRACE("", trace_at(&t, 100000));
    TRACE("released(session lost) changed", trace_push(&t, SIMBA_PUSH_SESSION_LOST));
    TRACE("acquire", trace_ack(&t));
    TRACE("changed", trace_owned(&t, "other", 8, 0));
    TRACE("acquire", trace_push(&t, SIMBA_PUSH_SESSION_BACK));
}

static void session(trace *t)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .jitter_max_ms = 1000};
    trace_init_with(t, &ms, true, true);
    TRACE("acquire", trace_start(t));
}

/* When the session is lost, there is nothing left to give back. */
static void a_lost_session_leaves_nothing_to_give_back(void **state)
{
    trace t;
    session(&t);
    trace_mine(&t, 7);
    trace_stop(&t);
    TRACE("release", trace_ack(&t));
    TRACE("", trace_push(&t, SIMBA_PUSH_SESSION_LOST));
    TRACE("done", trace_fails(&t, SIMBA_EUNAVAILABLE));
    session(&t);
    trace_mine(&t, 8);
    trace_stop(&t);
    trace_ack(&t);
    trace_fails(&t, SIMBA_EUNAVAILABLE);
    TRACE("done", trace_push(&t, SIMBA_PUSH_SESSION_LOST));
}

/* S5: a session keeps what it has made for as long as it lasts. So a release for which there is no memory is made when there is. */
static void a_release_waits_for_memory(void **state)
{
    trace t;
    session(&t);
    trace_mine(&t, 7);
    trace_stop(&t);
    TRACE("release", trace_ack(&t));
    for (int i = 0; i < 10; i++) {
        trace_not_sent(&t, SIMBA_ENOMEM);
        assert_true(t.actions.timer.ns != INT64_MAX);
        TRACE("release", trace_at(&t, timer_ms(&t)));
    }
    TRACE("done", trace_nobody(&t));
    session(&t);
    trace_mine(&t, 7);
    trace_stop(&t);
    trace_ack(&t);
    trace_not_sent(&t, SIMBA_ENOMEM);
    TRACE("done", trace_push(&t, SIMBA_PUSH_SESSION_LOST));
}

/* A request that still waited in the client when the session was lost is handed to the next one: it leaves an entry there, which
 * has to be removed. */
static void a_request_of_the_next_session_is_given_back(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .jitter_max_ms = 1000};
    for (int fails = 0; fails < 2; fails++) {
        trace t;
        trace_init_with(&t, &ms, true, true);
        trace_start(&t);
        trace_pass(&t, 1000);
        TRACE("", trace_push(&t, SIMBA_PUSH_SESSION_LOST));
        TRACE("", trace_push(&t, SIMBA_PUSH_SESSION_BACK));
        trace_pass(&t, 2000);
        t.sent_ms = 1500;
        if (fails)
            trace_fails(&t, SIMBA_ETIMEDOUT);
        else
            TRACE("changed", trace_owned(&t, "other", 5, INT64_MAX / 2));
        TRACE("release", trace_stop(&t));
    }
}

/* S5: what was won by a request that was under way when the session was lost is given back by stop like anything else. */
static void a_win_after_a_lost_session_is_given_back_too(void **state)
{
    trace t;
    session(&t);
    trace_pass(&t, 1000);
    TRACE("", trace_push(&t, SIMBA_PUSH_SESSION_LOST));
    trace_push(&t, SIMBA_PUSH_SESSION_BACK);
    t.sent_ms = 1;
    TRACE("acquired changed", trace_mine(&t, 7));
    TRACE("released(stopped) changed", trace_stop(&t));
    TRACE("release", trace_ack(&t));
}

/* S2: the end of the session by our own clock comes before whatever anybody says. */
static void our_own_clock_ends_a_session_first(void **state)
{
    trace t;
    session(&t);
    t.session_until_ms = 5000;
    trace_mine(&t, 7);
    trace_pass(&t, 4999);
    TRACE("renew wake@5000", trace_push(&t, SIMBA_PUSH_CHANGED));
    trace_pass(&t, 5000);
    TRACE("released(session lost) changed", trace_mine(&t, 7));
    TRACE("release", trace_ack(&t)); /* the session may have lasted after all */
    session(&t);
    t.session_until_ms = 5000;
    trace_pass(&t, 5000);
    TRACE("late release", trace_mine(&t, 8));
}

/* A holder that hears nothing is told when the session can have ended by our own clock, less the margin. The session may
 * live on in the store, so what it held is given back before anything new is begun. */
static void a_session_that_may_have_ended_is_told(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .stop_margin_ms = 500, .jitter_max_ms = 1000};
    trace t;
    trace_init_with(&t, &ms, true, true);
    t.session_until_ms = 5000;
    TRACE("acquire", trace_start(&t));
    TRACE("acquired changed wake@4500", trace_mine(&t, 7));
    assert_int_equal(trace_held_ms(&t), 4500);
    t.session_until_ms = 7000; /* it was heard of */
    TRACE("wake@6500", trace_at(&t, 4500));
    TRACE("released(session lost) changed", trace_at(&t, 6500));
    TRACE("release", trace_ack(&t));
    t.session_until_ms = 12000;
    TRACE("acquire", trace_nobody(&t));
    TRACE("acquired changed wake@11500", trace_mine(&t, 8));
}

/* A session that has ended cannot hold what it has just won. */
static void a_win_after_the_session_is_given_back(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .jitter_max_ms = 1000};
    trace t;
    trace_init_with(&t, &ms, true, true);
    t.session_until_ms = 1000;
    TRACE("acquire", trace_start(&t));
    trace_pass(&t, 1000);
    TRACE("late release", trace_mine(&t, 7));
}

/* Being asked to look again is no reason to renew a session from then on. */
static void a_session_lease_is_not_renewed(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .jitter_max_ms = 1000};
    trace t;
    trace_init_with(&t, &ms, true, true);
    TRACE("acquire", trace_start(&t));
    TRACE("acquired changed", trace_mine(&t, 7));
    TRACE("renew", trace_push(&t, SIMBA_PUSH_CHANGED));
    TRACE("", trace_mine(&t, 7));
    TRACE("", trace_at(&t, 100000));
    TRACE("renew", trace_push(&t, SIMBA_PUSH_CHANGED));
    TRACE("released(revoked) changed", trace_revoked(&t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_its_turn),
        cmocka_unit_test(a_queue_is_joined_again_now_and_then),
        cmocka_unit_test(an_invitation_of_another_is_left_to_it),
        cmocka_unit_test(the_hold_limit_lets_others_go_first),
        cmocka_unit_test(a_stop_while_queued_leaves_the_queue),
        cmocka_unit_test(a_pushed_release_is_tried_at_once),
        cmocka_unit_test(a_push_during_a_request_is_not_lost),
        cmocka_unit_test(a_push_before_the_asking_is_old),
        cmocka_unit_test(a_stopping_waiter_does_not_swallow_the_wake_up),
        cmocka_unit_test(pushed_news_moves_the_alarm),
        cmocka_unit_test(a_holder_checks_what_it_hears),
        cmocka_unit_test(a_push_during_a_renewal_is_checked_again),
        cmocka_unit_test(a_look_between_is_not_in_the_way_of_the_renewal),
        cmocka_unit_test(a_look_shortly_before_is_not_in_the_way_either),
        cmocka_unit_test(a_session_lease_ends_with_the_session),
        cmocka_unit_test(a_lost_session_leaves_nothing_to_give_back),
        cmocka_unit_test(a_release_waits_for_memory),
        cmocka_unit_test(a_request_of_the_next_session_is_given_back),
        cmocka_unit_test(a_win_after_a_lost_session_is_given_back_too),
        cmocka_unit_test(our_own_clock_ends_a_session_first),
        cmocka_unit_test(a_session_that_may_have_ended_is_told),
        cmocka_unit_test(a_win_after_the_session_is_given_back),
        cmocka_unit_test(a_session_lease_is_not_renewed),
    };
    return cmocka_run_group_tests_name("contention_stores", tests, NULL, NULL);
}
