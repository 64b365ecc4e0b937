/* More requests than the server answers in time. */
#include "backends/test_redis.h"

enum { N = 4000, WINDOW = 256 };

static char names[N][24];
static testhost_request requests[N];

static void submit_all(int64_t within_ms)
{
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "mutex-%d", i);
        requests[i] = testhost_request_of(&a, SIMBA_OP_ACQUIRE, names[i], "me", 1, 0);
        requests[i].request.deadline.ns = a.host.now(&a.host).ns + within_ms * SIMBA__NS_PER_MS;
        testhost_submit(&a, &requests[i]);
    }
}

static long calls_so_far(void)
{
    const char *at = strstr(say("INFO commandstats"), "cmdstat_evalsha:calls=");
    return at ? strtol(at + 22, NULL, 10) : 0;
}

/* A server that does not answer gets no more than the window: expired requests keep their places, and the others are never sent. */
static void a_silent_server_gets_no_more_than_the_window(void **state)
{
    open_store(&a);
    acquire(&a, "first", "me", 1);
    const long before = calls_so_far();
    kill(redis.pid, SIGSTOP);
    submit_all(50);
    testhost_flush(&a);
    for (int i = 0; i < N; i++) {
        assert_true(testhost_pump(&a, &requests[i].done, 10000));
        assert_true(requests[i].request.reply.status == SIMBA_ETIMEDOUT ||
                    requests[i].request.reply.status == SIMBA_EUNAVAILABLE);
    }
    kill(redis.pid, SIGCONT);
    testhost_request last;
    do {
        testhost_pump(&a, NULL, 5);
        last = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "last", "me", 1, 0);
        testhost_ask(&a, &last);
    } while (last.request.reply.status == SIMBA_EUNAVAILABLE); /* as long as the expired ones fill the window */
    assert_mine(last.request.reply);
    assert_in_range(calls_so_far() - before, 1, WINDOW + 1);
    testhost_close(&a);
}

/* A renewal does not wait behind requests that the window has no room for. */
static void renewals_overtake(void **state)
{
    open_store(&a);
    const uint64_t token = acquire(&a, "held", "me", 1).owner.token;
    assert_mine(ask(&a, SIMBA_OP_RENEW, "held", "me", 1, token)); /* now the server knows the script */
    submit_all(30000);
    testhost_request renewal = testhost_request_of(&a, SIMBA_OP_RENEW, "held", "me", 1, token);
    testhost_submit(&a, &renewal);
    testhost_flush(&a);
    assert_true(testhost_pump(&a, &renewal.done, 5000));
    assert_mine(renewal.request.reply);
    for (int i = 0; i < N; i++) {
        assert_true(testhost_pump(&a, &requests[i].done, 30000));
        assert_true(i < WINDOW || requests[i].request.reply.owner.acquired_at_ms >= renewal.request.reply.now_ms);
    }
    testhost_close(&a);
}

static void submit_more(int first, int count)
{
    for (int i = first; i < first + count; i++) {
        snprintf(names[i], sizeof names[i], "mutex-%d", i);
        requests[i] = testhost_request_of(&a, SIMBA_OP_ACQUIRE, names[i], "me", 1, 0);
        testhost_submit(&a, &requests[i]);
    }
    testhost_flush(&a);
}

/* While four requests or more are under way, the next ones are kept back until they are as many. A renewal takes all along. */
static void gathers_while_much_is_under_way(void **state)
{
    open_store(&a);
    const redis_node *node = ((redis_store *)a.store)->first;
    const uint64_t token = acquire(&a, "held", "me", 1).owner.token;
    assert_mine(ask(&a, SIMBA_OP_RENEW, "held", "me", 1, token));
    for (int i = 0; i < 1000 && !simba__redis_node_idle(node); i++) /* it was asked whether it keeps what it has */
        testhost_pump(&a, NULL, 5);
    server_signal(&redis, SIGSTOP);
    submit_more(0, 3);
    assert_int_equal(node->sent.count, 3);
    submit_more(3, 1); /* with little under way no answer might come after which to look again */
    assert_int_equal(node->sent.count, 4);
    submit_more(4, 3);
    assert_int_equal(node->waiting.count, 3);
    submit_more(7, 1);
    assert_int_equal(node->sent.count, 8);
    submit_more(8, 1);
    assert_int_equal(node->waiting.count, 1);
    testhost_request renewal = testhost_request_of(&a, SIMBA_OP_RENEW, "held", "me", 1, token);
    testhost_submit(&a, &renewal);
    testhost_flush(&a);
    assert_int_equal(node->sent.count, 10);
    submit_more(9, 1);
    server_signal(&redis, SIGCONT);
    for (int i = 0; i < 10; i++)
        assert_true(testhost_pump(&a, &requests[i].done, 5000));
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_silent_server_gets_no_more_than_the_window, setup),
        cmocka_unit_test_setup(renewals_overtake, setup),
        cmocka_unit_test_setup(gathers_while_much_is_under_way, setup),
    };
    return RUN_REDIS_TESTS(tests);
}
