/* replicas=N on a command connection, as traces: when a grant counts, and what becomes of one that does not. */
#include "unit/redis_session.h"

/* What is granted, renewed or written counts when enough replicas have it; what is refused or read counts at once. */
static void a_grant_counts_when_replicas_have_it(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 2);
    submit(SIMBA_OP_RENEW, "a", 0);
    submit(SIMBA_OP_ACQUIRE, "b", 0);
    submit(SIMBA_OP_ACQUIRE, "c", 0);
    submit(SIMBA_OP_WRITE_NOTE, "d", 0);
    assert_string_equal(flush(0), "renew a, acquire b, acquire c, write d, wait");
    assert_string_equal(answer(REDIS_SAID_GRANTED, 1), "");
    assert_string_equal(answer(REDIS_SAID_GRANTED, 1), "");
    assert_string_equal(answer(REDIS_SAID_DONE, 1), "done c");
    assert_string_equal(answer(REDIS_SAID_GRANTED, 1), "");
    assert_string_equal(confirm(2, 2), "done a, done b, done d");
    submit(SIMBA_OP_READ, "e", 3);
    assert_string_equal(flush(3), "read e"); /* nobody waits for what is not written */
}

/* One WAIT is under way at a time. What was sent after it needs another one. */
static void one_wait_at_a_time(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 1);
    submit(SIMBA_OP_ACQUIRE, "a", 0);
    assert_string_equal(flush(0), "acquire a, wait");
    submit(SIMBA_OP_ACQUIRE, "b", 0);
    assert_string_equal(flush(0), "acquire b");
    assert_string_equal(answer(REDIS_SAID_GRANTED, 1), "");
    assert_string_equal(confirm(1, 1), "wait, done a");
    assert_string_equal(answer(REDIS_SAID_GRANTED, 2), "");
    assert_string_equal(confirm(1, 2), "done b");
}

/* Replicas that lag are waited for, for half of the time of the request. */
static void patience_with_replicas_ends(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 1);
    submit(SIMBA_OP_RENEW, "a", 0);
    submit(SIMBA_OP_ACQUIRE, "b", 0);
    assert_string_equal(flush(0), "renew a, acquire b, wait");
    answer(REDIS_SAID_GRANTED, 1);
    answer(REDIS_SAID_GRANTED, 1);
    assert_string_equal(confirm(0, 499), "wait");
    assert_string_equal(confirm(0, 500), "fail a (EUNAVAILABLE), fail b (EUNAVAILABLE)");
    assert_string_equal(s.error.text, "redis there: 0 of 1 replicas confirmed it");

    submit(SIMBA_OP_RENEW, "a", 600);
    assert_string_equal(flush(600), "renew a, wait");
    answer(REDIS_SAID_GRANTED, 601);
    assert_string_equal(confirm(1, 602), "done a, enough again");
    submit(SIMBA_OP_RENEW, "a", 700);
    flush(700);
    answer(REDIS_SAID_GRANTED, 701);
    assert_string_equal(confirm(1, 702), "done a");
}

/* A server that cannot wait for replicas says so: nothing counts, and it is not asked again for the same. */
static void replicas_may_not_be_known(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 1);
    submit(SIMBA_OP_ACQUIRE, "a", 0);
    flush(0);
    answer(REDIS_SAID_GRANTED, 1);
    assert_string_equal(refuse("ERR WAIT cannot be used with replica instances", 2), "fail a (EUNAVAILABLE)");
}

/* A request whose time is over while replicas are waited for is over; no answer is to come for it. */
static void a_held_grant_can_expire(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 1);
    redis_errand *errand = submit(SIMBA_OP_ACQUIRE, "a", 0);
    flush(0);
    answer(REDIS_SAID_GRANTED, 1);
    TRACE("", simba__redis_session_expire(&s, errand, at(1000)));
    assert_int_equal(errand->stage, REDIS_IN_HAND);
    end_request(errand);
    assert_string_equal(confirm(1, 1001), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_grant_counts_when_replicas_have_it, teardown),
        cmocka_unit_test_teardown(one_wait_at_a_time, teardown),
        cmocka_unit_test_teardown(patience_with_replicas_ends, teardown),
        cmocka_unit_test_teardown(replicas_may_not_be_known, teardown),
        cmocka_unit_test_teardown(a_held_grant_can_expire, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
