/* More requests than the server answers in time. */
#include "backends/test_redis.h"
#include "core/timing.h"

enum { N = 4000, AT_A_TIME = 64 };

static char names[N][24];
static testhost_request requests[N];

/* `give_up`: how long each may stand in line. */
static void submit_all(int64_t within_ms, simba_local give_up)
{
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "mutex-%d", i);
        requests[i] = testhost_request_of(&a, SIMBA_OP_ACQUIRE, names[i], "me", 1, 0);
        requests[i].request.deadline.ns = a.host.now(&a.host).ns + within_ms * SIMBA__NS_PER_MS;
        requests[i].request.give_up = give_up;
        testhost_submit(&a, &requests[i]);
    }
}

static long calls_so_far(void)
{
    const char *at = strstr(say("INFO commandstats"), "cmdstat_evalsha:calls=");
    return at ? strtol(at + 22, NULL, 10) : 0;
}

/* What has run out of time before the server could be asked is not asked. */
static void overdue_is_not_sent(void **state)
{
    (void)state;
    open_store(&a);
    acquire(&a, "first", "me", 1);
    const long before = calls_so_far();
    kill(redis.pid, SIGSTOP);
    submit_all(50, (simba_local){0});
    testhost_flush(&a);
    for (int i = 0; i < N; i++) {
        assert_true(testhost_pump(&a, &requests[i].done, 10000));
        assert_int_equal(requests[i].request.reply.status, SIMBA_ETIMEDOUT);
    }
    kill(redis.pid, SIGCONT);
    assert_mine(acquire(&a, "last", "me", 1));
    assert_in_range(calls_so_far() - before, 1, AT_A_TIME + 1);
    testhost_close(&a);
}

/* What stands in line past its deadline keeps its place, and is served when the server answers again. Only what the server had
 * been asked for runs out of time. The lease counts from the asking. */
static void line_outlives_deadlines(void **state)
{
    (void)state;
    open_store(&a);
    acquire(&a, "first", "me", 1);
    kill(redis.pid, SIGSTOP);
    submit_all(500, SIMBA__NEVER);
    testhost_flush(&a);
    for (int i = 0; i < AT_A_TIME; i++) {
        assert_true(testhost_pump(&a, &requests[i].done, 10000));
        assert_int_equal(requests[i].request.reply.status, SIMBA_ETIMEDOUT);
    }
    const simba_local again_at = a.host.now(&a.host);
    kill(redis.pid, SIGCONT);
    for (int i = AT_A_TIME; i < N; i++) {
        assert_true(testhost_pump(&a, &requests[i].done, 30000));
        assert_mine(requests[i].request.reply);
        assert_true(requests[i].request.asked_at.ns >= again_at.ns);
    }
    testhost_close(&a);
}

/* All that is asked at once is answered in the end, in the order of asking. */
static void all_are_served(void **state)
{
    (void)state;
    uint64_t latest = 0;
    open_store(&a);
    submit_all(30000, (simba_local){0});
    testhost_flush(&a);
    for (int i = 0; i < N; i++) {
        assert_true(testhost_pump(&a, &requests[i].done, 30000));
        assert_mine(requests[i].request.reply);
        assert_true(requests[i].request.reply.owner.token > latest);
        latest = requests[i].request.reply.owner.token;
    }
    testhost_close(&a);
}

/* A renewal does not stand behind those who want something. */
static void renewals_overtake(void **state)
{
    (void)state;
    open_store(&a);
    const uint64_t token = acquire(&a, "held", "me", 1).owner.token;
    submit_all(30000, (simba_local){0});
    testhost_request renewal = testhost_request_of(&a, SIMBA_OP_RENEW, "held", "me", 1, token);
    testhost_submit(&a, &renewal);
    testhost_flush(&a);
    assert_true(testhost_pump(&a, &renewal.done, 5000));
    assert_mine(renewal.request.reply);
    for (int i = 0; i < N; i++) {
        assert_true(testhost_pump(&a, &requests[i].done, 30000));
        assert_true(requests[i].request.reply.owner.acquired_at_ms >= renewal.request.reply.now_ms);
    }
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(overdue_is_not_sent, setup),
        cmocka_unit_test_setup(line_outlives_deadlines, setup),
        cmocka_unit_test_setup(all_are_served, setup),
        cmocka_unit_test_setup(renewals_overtake, setup),
    };
    return RUN_REDIS_TESTS(tests);
}
