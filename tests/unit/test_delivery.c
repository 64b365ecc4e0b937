/* Who of a client's parties hears a push, and what a contender's application is told. */
#include "core/delivery.h"

#include <string.h>

#include "core/telling.h"
#include "lib/cm.h"

/* How many of three waiters and an observer are told, if the first waiter cannot use it and the others could. */
static int told(simba_push_kind kind)
{
    const simba_push push = {.kind = kind};
    simba__delivery delivery = simba__delivery_of(&push);
    int count = 0;
    for (int i = 0; i < 4; i++) {
        const bool is_member = i < 3;
        if (!simba__delivery_concerns(&delivery, is_member))
            continue;
        count++;
        simba__delivery_made(&delivery, is_member, i > 0);
    }
    return count;
}

/* L2: an invitation goes on until somebody can use it, and no further; observers always hear. */
static void an_invitation_goes_to_the_first_that_can_use_it(void **state)
{
    (void)state;
    assert_int_equal(told(SIMBA_PUSH_RELEASED), 3);
    assert_int_equal(told(SIMBA_PUSH_CHANGED), 3);
}

static void news_goes_to_all(void **state)
{
    (void)state;
    assert_int_equal(told(SIMBA_PUSH_ACQUIRED), 4);
}

/* A note says nothing about the owner: nobody asks the store because of it. It is told to those who read notes, as is
 * whatever may stand for a push that was lost. */
static void a_note_is_no_reason_to_ask(void **state)
{
    (void)state;
    assert_int_equal(told(SIMBA_PUSH_NOTED), 0);
    for (int kind = SIMBA_PUSH_CHANGED; kind <= SIMBA_PUSH_WANTED; kind++) {
        const bool tells = kind == SIMBA_PUSH_NOTED || kind == SIMBA_PUSH_CHANGED || kind == SIMBA_PUSH_SESSION_BACK;
        assert_int_equal(simba__delivery_tells_note(&(simba_push){.kind = (simba_push_kind)kind}), tells);
    }
}

static bool is_known(simba_outcome outcome, uint64_t token, simba_push_kind kind, uint64_t pushed_token)
{
    simba_reply answer = {.outcome = outcome, .owner = {.token = token}};
    strcpy(answer.owner.id, token ? "me" : "");
    return simba__delivery_is_known(&answer, &(simba_push){.kind = kind, .owner = {.token = pushed_token}});
}

/* The store reports a grant to everybody, and also to the contender that got it and takes the answer next. */
static void who_has_the_answer_needs_no_push(void **state)
{
    (void)state;
    assert_true(is_known(SIMBA_MINE, 7, SIMBA_PUSH_ACQUIRED, 7));
    assert_true(is_known(SIMBA_MINE, 0, SIMBA_PUSH_RELEASED, 0));
}

/* L2: a push that says more than the answer is heard. */
static void a_push_that_says_more_than_the_answer_is_heard(void **state)
{
    (void)state;
    assert_false(is_known(SIMBA_MINE, 7, SIMBA_PUSH_ACQUIRED, 8));
    assert_false(is_known(SIMBA_MINE, 7, SIMBA_PUSH_RELEASED, 0)); /* it was forced away since */
    assert_false(is_known(SIMBA_MINE, 7, SIMBA_PUSH_CHANGED, 7));
    assert_false(is_known(SIMBA_NOT_MINE, 0, SIMBA_PUSH_RELEASED, 0));
    assert_false(is_known(SIMBA_NOT_MINE, 7, SIMBA_PUSH_ACQUIRED, 7));
    const simba_reply failed = {.status = SIMBA_ETIMEDOUT, .outcome = SIMBA_MINE};
    assert_false(simba__delivery_is_known(&failed, &(simba_push){.kind = SIMBA_PUSH_RELEASED}));
}

/* S4: leadership that came and went before anybody could be told is acknowledged and told to nobody. */
static void what_came_and_went_is_not_told(void **state)
{
    (void)state;
    simba__telling telling = {0};
    simba__tell tell;
    const simba__known nobody = {0};
    assert_true(simba__telling_note(&telling, &(simba__actions){.acquired = true}, true));
    assert_true(simba__telling_note(&telling, &(simba__actions){.released = true}, true));
    assert_true(simba__telling_take(&telling, &nobody, &tell));
    assert_true(tell.ack && !tell.acquired && !tell.released);
    assert_false(simba__telling_take(&telling, &nobody, &tell));
}

/* S4: told, then told the end, which is to be acknowledged. */
static void what_lasted_is_told_in_turn(void **state)
{
    (void)state;
    simba__telling telling = {0};
    simba__tell tell;
    const simba__known me = {.id = "me", .token = 3};
    assert_true(simba__telling_note(&telling, &(simba__actions){.acquired = true, .changed = true}, false));
    assert_true(simba__telling_take(&telling, &me, &tell));
    assert_true(tell.acquired && !tell.released && !tell.changed && !tell.ack);
    simba__telling_note(&telling, &(simba__actions){.released = true, .reason = SIMBA_REASON_REVOKED}, false);
    assert_true(simba__telling_take(&telling, &(simba__known){0}, &tell));
    assert_true(!tell.acquired && tell.released && tell.ack && tell.reason == SIMBA_REASON_REVOKED);
    assert_string_equal(tell.state.before.id, "me");
}

/* --- late news ------------------------------------------------------------------------------------------ */

static simba_local at_ms(int64_t ms)
{
    return (simba_local){ms * SIMBA__NS_PER_MS};
}

/* The owner of this token has it for `left_ms`, by a store whose clock shows 1,000,000. */
static simba_push acquired(uint64_t token, int64_t left_ms)
{
    return (simba_push){.kind = SIMBA_PUSH_ACQUIRED,
                        .listens = true,
                        .owner = {.id = "other", .token = token, .transition_at_ms = 1000000 + left_ms},
                        .now_ms = 1000000};
}

/* L1: one who waits must not sleep past the end of a lease because it knows only of a longer one. */
static void only_news_of_a_later_end_can_wait(void **state)
{
    (void)state;
    simba__news news = {0};
    const simba_push longer = acquired(1, 5000);
    const simba_push shorter = acquired(2, 1000);
    assert_true(simba__news_can_wait(&news, &longer, at_ms(100)));
    simba__news_keep(&news, &longer, at_ms(100));
    assert_false(simba__news_can_wait(&news, &shorter, at_ms(4099)));
    assert_true(simba__news_can_wait(&news, &shorter, at_ms(4100)));
    simba__news_keep(&news, &shorter, at_ms(200)); /* all have heard it */
    assert_true(simba__news_can_wait(&news, &shorter, at_ms(200)));
    simba__news_told(&news, at_ms(3000)); /* by an answer of its own */
    simba__news_told(&news, at_ms(2000));
    assert_false(simba__news_can_wait(&news, &shorter, at_ms(1999)));
    assert_true(simba__news_can_wait(&news, &shorter, at_ms(2000)));
}

/* L2: the lease ends when it ends, whenever one hears of it. */
static void late_news_tells_how_much_is_left(void **state)
{
    (void)state;
    simba__news news = {0};
    const simba_push push = acquired(1, 5000);
    simba__news_keep(&news, &push, at_ms(100));
    assert_int_equal(news.number, 1);
    const simba_push late = simba__news_late(&news, at_ms(3100));
    assert_int_equal(simba__owner_left_ns(&late.owner, late.now_ms), 2000 * SIMBA__NS_PER_MS);
    assert_string_equal(late.owner.id, "other");
    assert_false(late.listens); /* somebody has made itself known to the holder */
    assert_true(simba__news_end(&late, at_ms(3100)).ns == at_ms(5100).ns);
}

/* Whatever says less does not make up for it. */
static void late_news_is_heard_unless_it_is_known(void **state)
{
    (void)state;
    simba__news news = {0};
    const simba_push push = acquired(7, 5000), older = acquired(6, 5000);
    const simba_push invitation = {.kind = SIMBA_PUSH_RELEASED};
    const simba_reply mine = {.outcome = SIMBA_MINE, .owner = {.id = "me", .token = 7}};
    const simba_reply refused = {.outcome = SIMBA_NOT_MINE, .owner = {.id = "other", .token = 7}};
    simba__news_keep(&news, &push, at_ms(100));
    assert_true(simba__news_is_known(&news, &(simba__event){.kind = SIMBA__EV_PUSH, .push = &push}));
    assert_false(simba__news_is_known(&news, &(simba__event){.kind = SIMBA__EV_PUSH, .push = &older}));
    assert_false(simba__news_is_known(&news, &(simba__event){.kind = SIMBA__EV_PUSH, .push = &invitation}));
    assert_true(simba__news_is_known(&news, &(simba__event){.kind = SIMBA__EV_REPLY, .reply = &mine}));
    assert_false(simba__news_is_known(&news, &(simba__event){.kind = SIMBA__EV_REPLY, .reply = &refused}));
    assert_false(simba__news_is_known(&news, &(simba__event){.kind = SIMBA__EV_TIMER}));
    assert_false(simba__news_is_known(&news, &(simba__event){.kind = SIMBA__EV_STOP}));
}

static void news_is_kept_for_those_who_wait(void **state)
{
    (void)state;
    for (int phase = SIMBA__IDLE; phase <= SIMBA__GIVE_BACK; phase++)
        assert_int_equal(simba__news_waits(&(simba__contention){.phase = (uint8_t)phase}), phase == SIMBA__SEEK);
    assert_false(simba__news_waits(&(simba__contention){.phase = SIMBA__SEEK, .stop = true}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_invitation_goes_to_the_first_that_can_use_it),
        cmocka_unit_test(news_goes_to_all),
        cmocka_unit_test(a_note_is_no_reason_to_ask),
        cmocka_unit_test(who_has_the_answer_needs_no_push),
        cmocka_unit_test(a_push_that_says_more_than_the_answer_is_heard),
        cmocka_unit_test(only_news_of_a_later_end_can_wait),
        cmocka_unit_test(late_news_tells_how_much_is_left),
        cmocka_unit_test(late_news_is_heard_unless_it_is_known),
        cmocka_unit_test(news_is_kept_for_those_who_wait),
        cmocka_unit_test(what_came_and_went_is_not_told),
        cmocka_unit_test(what_lasted_is_told_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
