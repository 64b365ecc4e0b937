/* Many renewals at a time. */
#include "backends/test_redis.h"

enum { N = 150 };

static char names[N][24];
static uint64_t tokens[N];
static testhost_request renewals[N];

static void hold_all(void)
{
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "mutex-%d", i);
        tokens[i] = acquire(&a, names[i], "me", (uint64_t)i + 1).owner.token;
    }
}

/* The second half has longer leases. */
static int64_t ttl_of(int i)
{
    return i < N / 2 ? 10000 : 20000;
}

static void submit_renewals(void)
{
    for (int i = 0; i < N; i++) {
        renewals[i] = testhost_request_of(&a, SIMBA_OP_RENEW, names[i], "me", (uint64_t)i + 1, tokens[i]);
        renewals[i].request.ttl_ms = ttl_of(i);
        testhost_submit(&a, &renewals[i]);
    }
}

static void assert_renewed(int i)
{
    const simba_reply *reply = &renewals[i].request.reply;
    if (!testhost_pump(&a, &renewals[i].done, 5000) || reply->status < 0)
        fail_msg("%s: %s", names[i], renewals[i].error.text);
    assert_mine(*reply);
    assert_int_equal(reply->owner.token, tokens[i]);
    assert_int_equal(reply->owner.transition_at_ms - reply->now_ms, ttl_of(i) + 6000);
    assert_int_equal(reply->owner.ttl_at_ms - reply->now_ms, ttl_of(i));
}

/* One was forced away, one is a JVM contender's now, one is damaged: each is told so, and all others are renewed. */
static void some_are_not_held(void **state)
{
    enum { REVOKED = 0, FOREIGN = 70, DAMAGED = 149 };
    open_store(&a);
    hold_all();
    assert_mine(ask(&a, SIMBA_OP_FORCE_RELEASE, names[REVOKED], NULL, 0, 0));
    say("SET simba:{%s} me XX PX 90000", names[FOREIGN]);
    say("SET simba:{%s}:grant x", names[DAMAGED]);
    submit_renewals();
    testhost_flush(&a);
    for (int i = 0; i < N; i++)
        if (i != REVOKED && i != FOREIGN && i != DAMAGED)
            assert_renewed(i);
    assert_true(testhost_pump(&a, &renewals[REVOKED].done, 5000));
    assert_int_equal(renewals[REVOKED].request.reply.outcome, SIMBA_REVOKED);
    assert_true(testhost_pump(&a, &renewals[FOREIGN].done, 5000));
    assert_owned_by(renewals[FOREIGN].request.reply, "me");
    assert_int_equal(renewals[FOREIGN].request.reply.owner.token, 0);
    assert_true(testhost_pump(&a, &renewals[DAMAGED].done, 5000));
    assert_int_equal(renewals[DAMAGED].request.reply.status, SIMBA_ECORRUPT);
    testhost_close(&a);
}

/* A server that has forgotten the scripts: they are loaded again, and all are renewed. */
static void scripts_flushed(void **state)
{
    open_store(&a);
    hold_all();
    say("SCRIPT FLUSH");
    submit_renewals();
    testhost_flush(&a);
    for (int i = 0; i < N; i++)
        assert_renewed(i);
    testhost_close(&a);
}

/* The time of some is over before the answer comes: they fail, and the answers of the others are still theirs. */
static void some_expire(void **state)
{
    open_store(&a);
    hold_all();
    kill(redis.pid, SIGSTOP);
    for (int i = 0; i < N; i++) {
        renewals[i] = testhost_request_of(&a, SIMBA_OP_RENEW, names[i], "me", (uint64_t)i + 1, tokens[i]);
        if (i % 3 == 0)
            renewals[i].request.deadline.ns = a.host.now(&a.host).ns;
        renewals[i].request.ttl_ms = i % 3 == 1 ? 20000 : 10000;
        testhost_submit(&a, &renewals[i]);
    }
    testhost_flush(&a);
    for (int i = 0; i < N; i += 3) {
        assert_true(testhost_pump(&a, &renewals[i].done, 5000));
        assert_int_equal(renewals[i].request.reply.status, SIMBA_ETIMEDOUT);
    }
    kill(redis.pid, SIGCONT);
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0)
            continue;
        /* A renewal that ran out of time may have had the connection given up for a new one. */
        assert_true(testhost_pump(&a, &renewals[i].done, 5000));
        const simba_reply *reply = &renewals[i].request.reply;
        if (reply->status == 0)
            assert_int_equal(reply->owner.ttl_at_ms - reply->now_ms, i % 3 == 1 ? 20000 : 10000);
        else
            assert_int_equal(reply->status, SIMBA_EUNAVAILABLE);
    }
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(some_are_not_held, setup),
        cmocka_unit_test_setup(scripts_flushed, setup),
        cmocka_unit_test_setup(some_expire, setup),
    };
    return RUN_REDIS_TESTS(tests);
}
