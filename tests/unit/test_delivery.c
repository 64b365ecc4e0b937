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
    const simba_owner nobody = {0};
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
    const simba_owner me = {.id = "me", .token = 3};
    assert_true(simba__telling_note(&telling, &(simba__actions){.acquired = true, .changed = true}, false));
    assert_true(simba__telling_take(&telling, &me, &tell));
    assert_true(tell.acquired && !tell.released && !tell.changed && !tell.ack);
    simba__telling_note(&telling, &(simba__actions){.released = true, .reason = SIMBA_REASON_REVOKED}, false);
    assert_true(simba__telling_take(&telling, &(simba_owner){0}, &tell));
    assert_true(!tell.acquired && tell.released && tell.ack && tell.reason == SIMBA_REASON_REVOKED);
    assert_string_equal(tell.state.before.id, "me");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_invitation_goes_to_the_first_that_can_use_it),
        cmocka_unit_test(news_goes_to_all),
        cmocka_unit_test(a_note_is_no_reason_to_ask),
        cmocka_unit_test(who_has_the_answer_needs_no_push),
        cmocka_unit_test(a_push_that_says_more_than_the_answer_is_heard),
        cmocka_unit_test(what_came_and_went_is_not_told),
        cmocka_unit_test(what_lasted_is_told_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
