/* A grant that a store cannot mean is an error, whatever else is in it; and everything that a working store says is not. */
#include "core/reply.h"

#include <stdio.h>
#include <string.h>

#include "lib/cm.h"

#define NOW_MS INT64_C(1700000000000)

/* A sound answer to this operation, to be broken by a test. */
static simba_request sound(simba_op op)
{
    simba_request request = {.op = op, .mutex = "m", .id = "me", .nonce = 1, .ttl_ms = 10000, .transition_ms = 6000};
    request.token = op == SIMBA_OP_RENEW ? 7 : 0;
    request.reply = (simba_reply){.outcome = SIMBA_MINE, .now_ms = NOW_MS};
    strcpy(request.reply.owner.id, "me");
    request.reply.owner.token = 7;
    request.reply.owner.acquired_at_ms = NOW_MS;
    request.reply.owner.ttl_at_ms = NOW_MS + 10000;
    request.reply.owner.transition_at_ms = NOW_MS + 16000;
    return request;
}

static int check(const simba_request *request)
{
    simba_error err = {0};
    const int code = simba__reply_check(request, false, &err);
    assert_int_equal(code, err.code);
    assert_true((code == 0) == (err.text[0] == '\0'));
    return code;
}

static void sound_answers_pass(void **state)
{
    const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW, SIMBA_OP_RELEASE, SIMBA_OP_FORCE_RELEASE};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        simba_request request = sound(ops[i]);
        assert_int_equal(check(&request), 0);
        request.reply = (simba_reply){.now_ms = NOW_MS}; /* nobody's */
        assert_int_equal(check(&request), 0);
    }
    const simba_op looks[] = {SIMBA_OP_READ, SIMBA_OP_LIST, SIMBA_OP_EXAMINE, SIMBA_OP_PREPARE};
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) {
        simba_request request = {.op = looks[i]};
        assert_int_equal(check(&request), 0);
    }
}

/* The owner may be anybody, whatever he is called: a JVM contender has no token, and a clock may be anywhere. */
static void others_may_own_it_as_they_like(void **state)
{
    const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW, SIMBA_OP_RELEASE, SIMBA_OP_READ};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        simba_request request = sound(ops[i]);
        request.reply.outcome = SIMBA_NOT_MINE;
        strcpy(request.reply.owner.id, "0:1@10.0.0.1");
        request.reply.owner.token = 0;
        request.reply.owner.transition_at_ms = INT64_MIN;
        assert_int_equal(check(&request), 0);
        strcpy(request.reply.owner.id, "me"); /* a second process under our name */
        request.reply.owner.transition_at_ms = INT64_MAX;
        assert_int_equal(check(&request), 0);
    }
}

static void an_error_is_an_answer(void **state)
{
    simba_request request = {.op = SIMBA_OP_ACQUIRE, .id = "me", .reply = {.status = SIMBA_EUNAVAILABLE}};
    request.reply.outcome = SIMBA_MINE; /* nothing beside the status counts */
    assert_int_equal(check(&request), 0);
    request.reply.status = 1;
    assert_int_equal(check(&request), SIMBA_ESTORE);
}

static void a_grant_names_us(void **state)
{
    const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW};
    static const char *const others[] = {"", "m", "mee", "ME", "somebody else"};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        for (size_t j = 0; j < sizeof others / sizeof others[0]; j++) {
            simba_request request = sound(ops[i]);
            strcpy(request.reply.owner.id, others[j]);
            assert_int_equal(check(&request), SIMBA_ESTORE);
        }
}

static void a_grant_has_a_token_and_a_renewal_keeps_it(void **state)
{
    simba_request request = sound(SIMBA_OP_ACQUIRE);
    request.reply.owner.token = UINT64_MAX;
    assert_int_equal(check(&request), 0);
    request.reply.owner.token = 0;
    assert_int_equal(check(&request), SIMBA_ESTORE);
    request = sound(SIMBA_OP_RENEW);
    static const uint64_t others[] = {0, 6, 8, UINT64_MAX};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        request.reply.owner.token = others[i];
        assert_int_equal(check(&request), SIMBA_ESTORE);
    }
}

/* To the millisecond, on the store's own clock. A session lasts as long as it lasts. */
static void a_lease_ends_after_the_answer(void **state)
{
    static const struct {
        int64_t now_ms, until_ms;
        int code;
    } cases[] = {
        {NOW_MS, NOW_MS + 1, 0},
        {NOW_MS, NOW_MS, SIMBA_ETIMEDOUT},
        {NOW_MS, NOW_MS - 1, SIMBA_ETIMEDOUT},
        {NOW_MS, 0, SIMBA_ETIMEDOUT},
        {NOW_MS, INT64_MIN, SIMBA_ETIMEDOUT},
        {INT64_MIN, INT64_MAX, 0},
        {INT64_MAX, INT64_MIN, SIMBA_ETIMEDOUT},
        {INT64_MAX, INT64_MAX, SIMBA_ETIMEDOUT},
    };
    const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        for (size_t j = 0; j < sizeof cases / sizeof cases[0]; j++) {
            simba_request request = sound(ops[i]);
            request.reply.now_ms = cases[j].now_ms;
            request.reply.owner.transition_at_ms = cases[j].until_ms;
            assert_int_equal(check(&request), cases[j].code);
            assert_int_equal(simba__reply_check(&request, true, NULL), 0);
        }
}

static void an_id_ends_within_its_field(void **state)
{
    const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW, SIMBA_OP_RELEASE, SIMBA_OP_READ};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        simba_request request = sound(ops[i]);
        request.reply.outcome = SIMBA_NOT_MINE;
        memset(request.reply.owner.id, 'x', sizeof request.reply.owner.id);
        assert_int_equal(check(&request), SIMBA_ESTORE);
        request.reply.owner.id[SIMBA_ID_MAX] = '\0';
        assert_int_equal(check(&request), 0);
    }
}

static void an_outcome_fits_its_request(void **state)
{
    for (int op = SIMBA_OP_ACQUIRE; op <= SIMBA_OP_PREPARE; op++) {
        simba_request request = sound((simba_op)op);
        request.reply.outcome = SIMBA_REVOKED;
        assert_int_equal(check(&request), op == SIMBA_OP_RENEW || op == SIMBA_OP_RELEASE ? 0 : SIMBA_ESTORE);
        request.reply.outcome = (simba_outcome)3;
        assert_int_equal(check(&request), SIMBA_ESTORE);
    }
    simba_request request = sound(SIMBA_OP_READ);
    assert_int_equal(check(&request), SIMBA_ESTORE);
}

/* Whoever is said to have acquired it has a name; nothing else is asked of a push. */
static void a_push_names_an_owner(void **state)
{
    simba_push push = {.kind = SIMBA_PUSH_ACQUIRED, .owner = {.id = "you", .token = 9}, .now_ms = NOW_MS};
    assert_ptr_equal(simba__push_check(&push), &push);
    push.owner.id[0] = '\0';
    const simba_push *checked = simba__push_check(&push);
    assert_int_equal(checked->kind, SIMBA_PUSH_CHANGED);
    assert_int_equal(checked->owner.token, 0);
    memset(push.owner.id, 'x', sizeof push.owner.id);
    assert_int_equal(simba__push_check(&push)->kind, SIMBA_PUSH_CHANGED);
    push = (simba_push){.kind = SIMBA_PUSH_FREED, .owner = {.token = 4}};
    assert_ptr_equal(simba__push_check(&push), &push);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_answers_pass),
        cmocka_unit_test(others_may_own_it_as_they_like),
        cmocka_unit_test(an_error_is_an_answer),
        cmocka_unit_test(a_grant_names_us),
        cmocka_unit_test(a_grant_has_a_token_and_a_renewal_keeps_it),
        cmocka_unit_test(a_lease_ends_after_the_answer),
        cmocka_unit_test(an_id_ends_within_its_field),
        cmocka_unit_test(an_outcome_fits_its_request),
        cmocka_unit_test(a_push_names_an_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
