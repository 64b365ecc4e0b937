/* What happens when memory runs out, at every place where it can: a scenario with all that the store does is played again
 * and again, and each time another allocation fails, until it was played without one that did. Every request comes to an
 * end, whatever that is, afterwards the store works again, and nothing is left behind. With one server, with sentinels, and
 * with a cluster. */
#include "backends/test_redis.h"
#include "lib/failing_alloc.h"

static server group;

static void ask_whatever(simba_op op, const char *mutex, uint64_t nonce)
{
    testhost_request r = testhost_request_of(&a, op, mutex, nonce == 1 ? "me" : "you", nonce, 0);
    r.request.queue = nonce == 2;
    testhost_submit(&a, &r);
    testhost_flush(&a);
    assert_true(testhost_pump(&a, &r.done, 5000));
}

static void assert_works(void)
{
    for (int i = 0; i < 500; i++) {
        testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "afterwards", "me", 1, 0);
        testhost_submit(&a, &r);
        testhost_flush(&a);
        assert_true(testhost_pump(&a, &r.done, 5000));
        if (r.request.reply.status == 0) {
            assert_mine(r.request.reply);
            return;
        }
        testhost_pump(&a, NULL, 5);
    }
    fail_msg("it does not recover");
}

/* With the nth allocation failing, and the two after it. False: there were not so many. */
static bool play(const char *url, unsigned nth)
{
    simba_error err = {0};
    failing_arm(FAILING_SIMBA, nth, 3);
    while (testhost_open(&a, &simba__backend_redis, url, &err) < 0)
        assert_int_equal(err.code, SIMBA_ENOMEM);
    ask_whatever(SIMBA_OP_ACQUIRE, "orders", 1);
    ask_whatever(SIMBA_OP_ACQUIRE, "orders", 2);
    simba_watch watched = {.mutex = "orders"};
    const bool is_watched = testhost_watch(&a, &watched) == 0;
    testhost_pump(&a, NULL, 2);
    ask_whatever(SIMBA_OP_READ, "orders", 1);
    ask_whatever(SIMBA_OP_LIST, NULL, 1);
    ask_whatever(SIMBA_OP_RELEASE, "orders", 1);
    testhost_pump(&a, NULL, 1);
    ask_whatever(SIMBA_OP_RELEASE, "orders", 2);
    if (is_watched)
        testhost_unwatch(&a, &watched);
    const bool failed = failing_disarm() > 0;
    assert_works();
    testhost_close(&a);
    return failed;
}

static void sweep(const char *url)
{
    play(url, 1000000); /* what is made once in a program is made now */
    const long before = failing_live(FAILING_SIMBA);
    unsigned nth = 1;
    for (; play(url, nth); nth++)
        assert_int_equal(failing_live(FAILING_SIMBA), before);
    print_message("# %s: %u rounds\n", url, nth);
}

static void about_single(void **state)
{
    char url[64];
    (void)state;
    server_init(&group);
    assert_true(server_start_redis(&group, NULL));
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?restart-wait=no", group.port);
    sweep(url);
    snprintf(url, sizeof url, "redis://localhost:%d?restart-wait=no", group.port);
    sweep(url);
}

static void about_sentinel(void **state)
{
    char url[256];
    (void)state;
    server_init(&group);
    assert_true(server_start_redis_sentinel(&group));
    snprintf(url, sizeof url, "redis+sentinel://%s/orders?replicas=1&restart-wait=no", group.hosts);
    sweep(url);
}

static void about_cluster(void **state)
{
    char url[256];
    (void)state;
    server_init(&group);
    assert_true(server_start_calm_redis_cluster(&group));
    snprintf(url, sizeof url, "redis+cluster://%s?restart-wait=no", group.hosts);
    sweep(url);
}

static int stop_group(void **state)
{
    (void)state;
    server_fini(&group);
    return 0;
}

int main(void)
{
    failing_install();
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(about_single, stop_group),
        cmocka_unit_test_teardown(about_sentinel, stop_group),
        cmocka_unit_test_teardown(about_cluster, stop_group),
    };
    if (!server_has("redis-server")) {
        puts("1..0 # SKIP redis-server is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
