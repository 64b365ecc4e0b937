/* What the contender of a mutex does next, given what it has seen: traces of answers and events in, calls out. Without any
 * server. */
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"

#include "stores/zookeeper/zookeeper.h"

enum { NONCE = 7, CZXID = 70 };

static zk_latch latch;
static zk_attempt attempt;

static int setup(void **state)
{
    (void)state;
    simba__zk_latch_init(&latch, NONCE, "me", 0);
    attempt = (zk_attempt){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    simba__zk_attempt_forget(&attempt);
    simba__zk_latch_fini(&latch);
    return 0;
}

/* --- words ------------------------------------------------------------------------------------------------- */

/* Our child of this number; another contender's. Valid until four more were asked for. */
static char *ours(int64_t number)
{
    static char names[4][ZK_PREFIX_MAX + 16];
    static unsigned next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "%s%010lld", latch.prefix, (long long)number);
    return name;
}

static char *other(int64_t number)
{
    static char names[4][ZK_PREFIX_MAX + 16];
    static unsigned next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "_c_other-latch-%010lld", (long long)number);
    return name;
}

static void expect_calls(zk_move move, unsigned calls)
{
    assert_int_equal(move.outcome, ZK_GO);
    assert_int_equal(move.calls, calls);
}

static void expect(zk_move move, zk_outcome outcome)
{
    assert_int_equal(move.outcome, outcome);
}

static zk_move begin(zk_wish wish)
{
    simba__zk_attempt_forget(&attempt);
    attempt = (zk_attempt){.wish = wish};
    return simba__zk_latch_begin(&latch, &attempt);
}

/* The connection was lost. */
static zk_move begin_anew(void)
{
    return simba__zk_latch_begin(&latch, &attempt);
}

static zk_move step(void)
{
    return simba__zk_latch_step(&latch, &attempt);
}

static void made(int64_t number)
{
    assert_true(simba__zk_latch_made(&latch, ours(number), CZXID + number, 1));
}

#define LISTED(...)                                                                                                    \
    do {                                                                                                               \
        char *const names_[] = {__VA_ARGS__};                                                                          \
        assert_true(simba__zk_latch_listed(&latch, &attempt, names_, sizeof names_ / sizeof *names_));                 \
    } while (0)

static void win_with(int64_t number)
{
    expect_calls(begin(ZK_WISH_WAIT), ZK_CALL_CREATE | ZK_CALL_LIST);
    made(number);
    LISTED(ours(number));
    expect(step(), ZK_WON);
}

static void give_back(void)
{
    expect_calls(begin(ZK_WISH_LEAVE), ZK_CALL_DELETE);
    expect(step(), ZK_FREED);
    simba__zk_latch_fini(&latch);
    simba__zk_latch_init(&latch, NONCE, "me", 0);
}

/* Number 5 has found itself behind the leader, and the watch is being set. */
static void stand_behind_leader(void)
{
    expect_calls(begin(ZK_WISH_WAIT), ZK_CALL_CREATE | ZK_CALL_LIST);
    made(5);
    LISTED(other(3), ours(5));
    expect_calls(step(), ZK_CALL_BEFORE);
}

/* Behind the leader, with number 5. */
static void wait_behind_leader(void)
{
    stand_behind_leader();
    expect(step(), ZK_WAITS);
    assert_true(latch.stands);
}

/* Whatever has happened to the child before, the list says it. */
static void look(void)
{
    assert_int_equal(simba__zk_latch_before_fired(&latch), ZK_ALERT_LOOK);
    assert_false(latch.stands);
    expect_calls(begin(ZK_WISH_LOOK), ZK_CALL_LIST);
}

/* --- leading ----------------------------------------------------------------------------------------------- */

static void free_mutex(void **state)
{
    (void)state;
    win_with(0);
    assert_int_equal(latch.place, ZK_LEADS);
    expect(begin(ZK_WISH_WAIT), ZK_LEADS_STILL);
}

static void parents_are_made(void **state)
{
    (void)state;
    begin(ZK_WISH_WAIT);
    simba__zk_latch_not_made(&latch, true);
    simba__zk_latch_mutex_missing(&attempt);
    expect_calls(step(), ZK_CALL_PARENTS | ZK_CALL_CREATE | ZK_CALL_LIST);
}

/* The answer to its making was lost: it is found by its uuid, and what the store calls it is read. */
static void lost_answer(void **state)
{
    (void)state;
    begin(ZK_WISH_WAIT);
    simba__zk_latch_not_made(&latch, false);
    expect_calls(begin_anew(), ZK_CALL_SYNC | ZK_CALL_LIST);
    LISTED(ours(4), "part", other(6));
    expect_calls(step(), ZK_CALL_OWN);
    simba__zk_latch_own(&latch, CZXID, 1, false);
    expect(step(), ZK_WON);
}

/* A session that was given up lives on in the store, with its children. */
static void child_of_an_earlier_session(void **state)
{
    (void)state;
    char *earlier = ours(4);
    simba__zk_latch_fini(&latch);
    simba__zk_latch_init(&latch, NONCE, "me", 1);
    begin(ZK_WISH_WAIT);
    simba__zk_latch_not_made(&latch, false);
    expect_calls(begin_anew(), ZK_CALL_SYNC | ZK_CALL_LIST);
    LISTED(earlier);
    expect_calls(step(), ZK_CALL_CREATE | ZK_CALL_LIST);
    made(5);
    LISTED(earlier, ours(5));
    expect_calls(step(), ZK_CALL_BEFORE);
}

static void made_in_vain(void **state)
{
    (void)state;
    zk_move move = begin(ZK_WISH_WAIT);
    int rounds = 0;
    for (; move.outcome == ZK_GO && rounds < 100; rounds++) {
        made(rounds);
        LISTED(other(1000));
        move = step();
    }
    expect(move, ZK_REFUSED);
    assert_int_equal(rounds, 5);
}

static void last_number(void **state)
{
    (void)state;
    begin(ZK_WISH_WAIT);
    made(INT32_MAX - 1);
    LISTED(ours(INT32_MAX - 1));
    expect(step(), ZK_WON);
    give_back();
    begin(ZK_WISH_WAIT);
    made(INT32_MAX);
    LISTED(ours(INT32_MAX));
    expect_calls(step(), ZK_CALL_DELETE);
    expect(step(), ZK_NO_NUMBERS);
    assert_int_equal(latch.place, ZK_ABSENT);
}

/* --- waiting ----------------------------------------------------------------------------------------------- */

static void leader_goes(void **state)
{
    (void)state;
    wait_behind_leader();
    look();
    LISTED(ours(5), other(7));
    expect(step(), ZK_WON);
}

static void touched_leader_is_not_gone(void **state)
{
    (void)state;
    wait_behind_leader();
    look();
    LISTED(other(3), ours(5));
    expect_calls(step(), ZK_CALL_BEFORE);
    expect(step(), ZK_WAITS);
}

/* Somebody who waits too goes: that makes nobody lead. */
static void another_waiter_goes(void **state)
{
    (void)state;
    begin(ZK_WISH_WAIT);
    made(5);
    LISTED(other(2), other(3), ours(5));
    expect_calls(step(), ZK_CALL_BEFORE);
    assert_string_equal(attempt.before, other(3));
    expect(step(), ZK_WAITS);
    look();
    LISTED(other(2), ours(5));
    expect_calls(step(), ZK_CALL_BEFORE);
    assert_string_equal(attempt.before, other(2));
    expect(step(), ZK_WAITS);
}

/* Somebody has removed the waiter's child: it does not lead when the leader goes. */
static void removed_waiter_enters_again(void **state)
{
    (void)state;
    wait_behind_leader();
    look();
    LISTED(other(6));
    expect_calls(step(), ZK_CALL_CREATE | ZK_CALL_LIST);
}

/* It led before, and its guard from then tells that its child has gone: it enters again as well. */
static void removed_waiter_was_guarded(void **state)
{
    (void)state;
    wait_behind_leader();
    assert_int_equal(simba__zk_latch_guard_fired(&latch, true), ZK_ALERT_LOOK);
    expect_calls(begin(ZK_WISH_LOOK), ZK_CALL_CREATE | ZK_CALL_LIST);
}

/* The connection breaks while it enters again, which nobody has asked for: so nobody else is going to look. */
static void removed_waiter_loses_connection(void **state)
{
    (void)state;
    wait_behind_leader();
    look();
    LISTED(other(6));
    expect_calls(step(), ZK_CALL_CREATE | ZK_CALL_LIST);
    simba__zk_latch_not_made(&latch, false);
    expect_calls(begin_anew(), ZK_CALL_SYNC | ZK_CALL_LIST);
    LISTED(ours(8));
    expect_calls(step(), ZK_CALL_OWN);
    simba__zk_latch_own(&latch, CZXID, 1, false);
    expect(step(), ZK_WON);
}

/* The connection breaks before the watch is set. */
static void break_before_watch(void **state)
{
    (void)state;
    stand_behind_leader();
    expect_calls(begin_anew(), ZK_CALL_LIST);
}

/* The one before has gone before it could be watched. */
static void leader_gone_before_watch(void **state)
{
    (void)state;
    stand_behind_leader();
    simba__zk_latch_vanished(&attempt, ZK_CALL_BEFORE);
    expect_calls(step(), ZK_CALL_LIST);
    assert_false(latch.stands);
    LISTED(ours(5));
    expect(step(), ZK_WON);
}

/* The watch fires before the step is over. */
static void watch_fires_at_once(void **state)
{
    (void)state;
    stand_behind_leader();
    assert_int_equal(simba__zk_latch_before_fired(&latch), ZK_ALERT_LOOK);
    expect_calls(step(), ZK_CALL_LIST);
}

static void about_try(void **state)
{
    (void)state;
    begin(ZK_WISH_TRY);
    made(5);
    LISTED(other(3), ours(5));
    expect_calls(step(), ZK_CALL_LEADER | ZK_CALL_DELETE);
    simba__zk_latch_vanished(&attempt, ZK_CALL_DELETE);
    expect(step(), ZK_LOST);
    /* Whom it was lost to has gone. */
    begin(ZK_WISH_TRY);
    made(6);
    LISTED(other(3), ours(6));
    step();
    simba__zk_latch_vanished(&attempt, ZK_CALL_LEADER);
    expect_calls(step(), ZK_CALL_CREATE | ZK_CALL_LIST);
}

/* --- holding ----------------------------------------------------------------------------------------------- */

static void guard(void)
{
    expect_calls(begin(ZK_WISH_GUARD), ZK_CALL_GUARD);
    simba__zk_latch_own(&latch, CZXID, 1, true);
    expect(step(), ZK_LEADS_STILL);
}

static void new_guard_after_touch(void **state)
{
    (void)state;
    win_with(0);
    guard();
    expect(begin(ZK_WISH_GUARD), ZK_IDLE);
    assert_int_equal(simba__zk_latch_guard_fired(&latch, false), ZK_ALERT_GUARD);
    guard();
    assert_int_equal(simba__zk_latch_guard_fired(&latch, true), ZK_ALERT_REVOKED);
    assert_int_equal(latch.place, ZK_REVOKED);
}

static void gone_before_guard(void **state)
{
    (void)state;
    win_with(0);
    expect_calls(begin(ZK_WISH_GUARD), ZK_CALL_GUARD);
    simba__zk_latch_vanished(&attempt, ZK_CALL_GUARD);
    expect(step(), ZK_TAKEN);
    assert_int_equal(simba__zk_latch_taken(&latch), ZK_ALERT_REVOKED);
    expect(begin(ZK_WISH_LEAVE), ZK_NOTHING);
}

static void about_renew(void **state)
{
    (void)state;
    expect(begin(ZK_WISH_RENEW), ZK_IDLE);
    win_with(0);
    expect_calls(begin(ZK_WISH_RENEW), ZK_CALL_OWN);
    expect(step(), ZK_LEADS_STILL);
    begin(ZK_WISH_RENEW);
    simba__zk_latch_vanished(&attempt, ZK_CALL_OWN);
    expect(step(), ZK_TAKEN);
    simba__zk_latch_taken(&latch);
    expect(begin(ZK_WISH_RENEW), ZK_TAKEN);
}

/* --- leaving ----------------------------------------------------------------------------------------------- */

static void leave_what_may_be_there(void **state)
{
    (void)state;
    begin(ZK_WISH_WAIT);
    simba__zk_latch_not_made(&latch, false);
    expect_calls(begin(ZK_WISH_LEAVE), ZK_CALL_SYNC | ZK_CALL_LIST);
    LISTED(other(1), ours(2));
    expect_calls(step(), ZK_CALL_DELETE);
    expect(step(), ZK_NOTHING); /* it has not led */
}

/* Somebody else has removed it before. */
static void leave_what_others_removed(void **state)
{
    (void)state;
    win_with(3);
    expect_calls(begin(ZK_WISH_LEAVE), ZK_CALL_DELETE);
    simba__zk_latch_vanished(&attempt, ZK_CALL_DELETE);
    expect(step(), ZK_NOTHING);
}

static void leave_what_was_not_made(void **state)
{
    (void)state;
    begin(ZK_WISH_WAIT);
    simba__zk_latch_not_made(&latch, false);
    begin(ZK_WISH_LEAVE);
    LISTED(other(1));
    expect(step(), ZK_NOTHING);
    assert_int_equal(latch.place, ZK_ABSENT);
}

/* The connection breaks while it is removed: then it is removed again. */
static void leave_twice(void **state)
{
    (void)state;
    win_with(0);
    begin(ZK_WISH_LEAVE);
    expect_calls(begin_anew(), ZK_CALL_DELETE);
    expect(step(), ZK_FREED);
}

/* Nobody leads by a child that is being removed. */
static void return_while_leaving(void **state)
{
    (void)state;
    win_with(0);
    begin(ZK_WISH_LEAVE);
    expect_calls(begin(ZK_WISH_WAIT), ZK_CALL_SYNC | ZK_CALL_LIST);
    LISTED(other(1));
    expect_calls(step(), ZK_CALL_CREATE | ZK_CALL_LIST);
}

static void unwanted_waiter_is_not_called(void **state)
{
    (void)state;
    wait_behind_leader();
    begin(ZK_WISH_LEAVE);
    assert_int_equal(simba__zk_latch_before_fired(&latch), ZK_ALERT_NONE);
    assert_int_equal(simba__zk_latch_guard_fired(&latch, true), ZK_ALERT_NONE);
    expect(begin(ZK_WISH_LOOK), ZK_IDLE);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(free_mutex),
        CASE(parents_are_made),
        CASE(lost_answer),
        CASE(child_of_an_earlier_session),
        CASE(made_in_vain),
        CASE(last_number),
        CASE(leader_goes),
        CASE(touched_leader_is_not_gone),
        CASE(another_waiter_goes),
        CASE(removed_waiter_enters_again),
        CASE(removed_waiter_was_guarded),
        CASE(removed_waiter_loses_connection),
        CASE(break_before_watch),
        CASE(leader_gone_before_watch),
        CASE(watch_fires_at_once),
        CASE(about_try),
        CASE(new_guard_after_touch),
        CASE(gone_before_guard),
        CASE(about_renew),
        CASE(leave_what_may_be_there),
        CASE(leave_what_others_removed),
        CASE(leave_what_was_not_made),
        CASE(leave_twice),
        CASE(return_while_leaving),
        CASE(unwanted_waiter_is_not_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
