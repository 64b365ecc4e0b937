/* Which contender of a client hears that others wait for a mutex: without any server. */
#include <string.h>

#include "lib/cm.h"

#include "backends/sql/ears.h"

static simba_host host;
static simba__sql_ears ears;
static uint64_t told; /* the nonce of the contender that was told last; 0: nobody was */

static void push_to(simba_host *self, const char *mutex, uint64_t nonce, const simba_push *push)
{
    (void)self;
    assert_string_equal(mutex, "m");
    assert_int_equal(push->kind, SIMBA_PUSH_WANTED);
    told = nonce;
}

static int setup(void **state)
{
    (void)state;
    host = (simba_host){.push_to = push_to};
    ears = (simba__sql_ears){.host = &host};
    told = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    simba__sql_ears_fini(&ears);
    return 0;
}

static void asks(simba_op op, uint64_t nonce)
{
    const simba_request request = {.op = op, .mutex = "m", .nonce = nonce, .listens = true};
    simba__sql_ears_asked(&ears, &request);
}

static void is_answered(simba_op op, uint64_t nonce, simba_outcome outcome)
{
    const simba_request request = {
        .op = op, .mutex = "m", .nonce = nonce, .listens = true, .reply = {.outcome = outcome}};
    simba__sql_ears_answered(&ears, &request);
}

static void others_wait(void)
{
    simba__sql_ears_wanted(&ears, "m");
}

static void who_holds_is_told(void **state)
{
    (void)state;
    others_wait();
    assert_int_equal(told, 0);
    asks(SIMBA_OP_ACQUIRE, 1);
    is_answered(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE);
    asks(SIMBA_OP_ACQUIRE, 2);
    is_answered(SIMBA_OP_ACQUIRE, 2, SIMBA_NOT_MINE);
    others_wait();
    assert_int_equal(told, 1);
    told = 0;
    asks(SIMBA_OP_RELEASE, 1);
    others_wait();
    assert_int_equal(told, 0);
}

/* The notification comes by another connection than the answer. */
static void a_wish_before_the_answer(void **state)
{
    (void)state;
    asks(SIMBA_OP_ACQUIRE, 1);
    asks(SIMBA_OP_ACQUIRE, 2);
    others_wait();
    asks(SIMBA_OP_RELEASE, 2);
    assert_int_equal(told, 0);
    is_answered(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE);
    assert_int_equal(told, 1);
}

/* It had not heard in time that it holds the mutex, and asks anew. */
static void a_wish_before_the_next_answer(void **state)
{
    (void)state;
    asks(SIMBA_OP_ACQUIRE, 1);
    is_answered(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE);
    asks(SIMBA_OP_ACQUIRE, 1);
    others_wait();
    is_answered(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE);
    assert_int_equal(told, 1);
}

/* A contender that asked, and went without a word, is not in the way of the next. */
static void one_that_has_gone(void **state)
{
    (void)state;
    asks(SIMBA_OP_ACQUIRE, 1);
    is_answered(SIMBA_OP_ACQUIRE, 1, SIMBA_NOT_MINE);
    asks(SIMBA_OP_ACQUIRE, 2);
    is_answered(SIMBA_OP_ACQUIRE, 2, SIMBA_MINE);
    others_wait();
    assert_int_equal(told, 2);
    told = 0;
    is_answered(SIMBA_OP_RENEW, 2, SIMBA_NOT_MINE);
    others_wait();
    assert_int_equal(told, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_holds_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wish_before_the_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wish_before_the_next_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_has_gone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
