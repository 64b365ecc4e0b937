/* Simba on the JVM and we contend for the same mutex. The JVM side is played by its raw commands, as its three scripts
 * send them; nothing of ours is in them. */
#include "backends/test_redis.h"

/* What the JVM's scripts do, in one script each as there. */
static const char jvm_acquire[] =
    "if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then"
    "  redis.call('publish', KEYS[1], 'acquired@@' .. ARGV[1]) return ARGV[1] .. '@@' .. ARGV[2] end"
    " redis.call('zadd', KEYS[1] .. ':contender', 'nx', redis.call('time')[1], ARGV[1])"
    " return redis.call('get', KEYS[1]) .. '@@' .. redis.call('pttl', KEYS[1])";
static const char jvm_guard[] =
    "if redis.call('get', KEYS[1]) == ARGV[1] and redis.call('set', KEYS[1], ARGV[1], 'xx', 'px', ARGV[2]) then"
    "  return ARGV[1] .. '@@' .. ARGV[2] end return '@@'";
static const char jvm_release[] =
    "if redis.call('get', KEYS[1]) ~= ARGV[1] then redis.call('zrem', KEYS[1] .. ':contender', ARGV[1]) return 0 end"
    " redis.call('del', KEYS[1]) local q = redis.call('zrevrange', KEYS[1] .. ':contender', -1, -1)"
    " if #q > 0 then redis.call('zrem', KEYS[1] .. ':contender', q[1])"
    "  redis.call('publish', KEYS[1] .. ':' .. q[1], 'released@@' .. ARGV[1]) end return 1";

static const char *jvm(const char *script, const char *mutex, const char *id, int ms)
{
    return say("EVAL %s 1 simba:{%s} %s %d", script, mutex, id, ms);
}

/* A JVM contender's grant is foreign to us, also under an id of ours; it ends when its key does. */
static void jvm_holds(void **state)
{
    open_store(&a);
    const simba_reply before = acquire(&a, "orders", "me", 1);
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, before.owner.token);
    assert_string_equal(jvm(jvm_acquire, "orders", "me", 300), "me@@300");
    const simba_reply seen = acquire(&a, "orders", "me", 1);
    assert_owned_by(seen, "me");
    assert_int_equal(seen.owner.token, 0);
    assert_in_range(seen.owner.transition_at_ms - seen.now_ms, 1, 300);
    assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, before.owner.token), "me");
    assert_owned_by(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, 0), "me");
    assert_owned_by(acquire(&a, "orders", "you", 2), "me");
    assert_string_equal(jvm(jvm_guard, "orders", "me", 200), "me@@200");
    testhost_pump(&a, NULL, 210);
    const simba_reply won = acquire(&a, "orders", "you", 2);
    assert_mine(won);
    assert_true(won.owner.token > before.owner.token);
    testhost_close(&a);
}

/* A JVM contender under our id finds itself in the lock and renews it. From then on the grant is not ours: otherwise both
 * would lead, and renew it in turn. Whatever its lease is: as long as ours, longer, or
 * shorter by more than the second by which a server may pause within a script. */
static void jvm_renews_under_our_id(void **state)
{
    static const int lengths[] = {16000, 16900, 14900, 3000};
    open_store(&a);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        say("DEL simba:{orders}");
        const simba_reply won = acquire(&a, "orders", "me", 1);
        assert_mine(won);
        testhost_pump(&a, NULL, 20); /* within 5 ms its renewal would look like ours */
        jvm(jvm_guard, "orders", "me", lengths[i]);
        assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token), "me");
        const simba_reply seen = acquire(&a, "orders", "me", 1);
        assert_owned_by(seen, "me");
        assert_int_equal(seen.owner.token, 0);
        assert_owned_by(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token), "me");
        assert_string_equal(say("GET simba:{orders}"), "me");
    }
    testhost_close(&a);
}

/* A JVM contender releases: the waiter of ours that is next hears it on its own channel. */
static void jvm_releases_to_us(void **state)
{
    open_store(&a);
    jvm(jvm_acquire, "orders", "1:2@jvm", 10000);
    assert_owned_by(acquire_or_wait(&a, "orders", "you", 2), "1:2@jvm");
    simba_watch watched = {.mutex = "orders"};
    watch(&a, &watched);
    assert_string_equal(jvm(jvm_release, "orders", "1:2@jvm", 0), "1");
    assert_true(pushed(&a, SIMBA_PUSH_RELEASED, 5000));
    assert_mine(acquire_or_wait(&a, "orders", "you", 2));
    testhost_unwatch(&a, &watched);
    testhost_close(&a);
}

/* Nobody tells a watcher of a JVM release. It looks. */
static void jvm_releases_under_a_watcher(void **state)
{
    open_store(&a);
    simba_watch watched = {.mutex = "orders", .observed = true};
    watch(&a, &watched);
    jvm(jvm_acquire, "orders", "1:2@jvm", 60000);
    assert_true(pushed(&a, SIMBA_PUSH_CHANGED, 5000));
    const int64_t start_ns = simba__clock_boot().ns;
    for (int i = 0; i < 3; i++) { /* again and again, as long as it is foreign */
        a.push_count = 0;
        assert_owned_by(ask(&a, SIMBA_OP_READ, "orders", NULL, 0, 0), "1:2@jvm");
        assert_true(pushed(&a, SIMBA_PUSH_CHANGED, 2000));
    }
    jvm(jvm_release, "orders", "1:2@jvm", 0);
    a.push_count = 0;
    assert_owned_by(ask(&a, SIMBA_OP_READ, "orders", NULL, 0, 0), "");
    assert_true(simba__clock_boot().ns - start_ns < 4000 * SIMBA__NS_PER_MS);
    testhost_pump(&a, NULL, 400);
    assert_int_equal(a.push_count, 0); /* and not when it is free */
    testhost_unwatch(&a, &watched);
    testhost_close(&a);
}

/* The next message that the subscriber gets, as "channel message"; "" for none within a moment. */
static const char *message(redisContext *subscriber)
{
    static char text[256];
    void *reply = NULL;
    if (redisGetReply(subscriber, &reply) != REDIS_OK)
        return "";
    redisReply *parts = reply;
    snprintf(text, sizeof text, "%s %s", parts->element[1]->str, parts->element[2]->str);
    freeReplyObject(parts);
    return text;
}

/* We release: the JVM contender that is next hears it on its own channel, and nobody on the common one. */
static void we_release_to_jvm(void **state)
{
    open_store(&a);
    redisContext *subscriber = redisConnectWithTimeout("127.0.0.1", redis.port, (struct timeval){2, 0});
    redisSetTimeout(subscriber, (struct timeval){0, 200000});
    freeReplyObject(redisCommand(subscriber, "SUBSCRIBE simba:{orders}"));
    freeReplyObject(redisCommand(subscriber, "SUBSCRIBE simba:{orders}:1:2@jvm"));
    const simba_reply won = acquire(&a, "orders", "me", 1);
    assert_string_equal(message(subscriber), "simba:{orders} acquired@@me");
    assert_int_equal(strncmp(jvm(jvm_acquire, "orders", "1:2@jvm", 1000), "me@@", 4), 0);
    say("ZADD simba:{orders}:contender 1 1:2@jvm"); /* long ago: within a second the order is chance */
    acquire_or_wait(&a, "orders", "you", 2);
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token));
    assert_string_equal(message(subscriber), "simba:{orders}:1:2@jvm released@@me");
    assert_string_equal(jvm(jvm_acquire, "orders", "1:2@jvm", 1000), "1:2@jvm@@1000");
    assert_string_equal(message(subscriber), "simba:{orders} acquired@@1:2@jvm");
    assert_string_equal(message(subscriber), "");
    assert_owned_by(acquire_or_wait(&a, "orders", "you", 2), "1:2@jvm");
    redisFree(subscriber);
    testhost_close(&a);
}

/* Whatever is said on our channels, nothing breaks, and nobody is told what is not so. */
static void about_garbage(void **state)
{
    static const char *const texts[] = {
        "",
        "acquired",
        "acquired@@",
        "acquired@@x",
        "released@@x",
        "released ",
        "released x",
        "released 1",
        "acquired 1 2",
        "acquired 1 2 3 4 5",
        "@@",
        "acquired 1 2 3 4 5 ",
        "a@@b@@c",
        "released -1 ",
        "\xff\xfe",
        "acquired x y z",
        "released 99999999999999999999999 x",
    };
    static const char *const channels[] = {"simba:{orders}", "simba:{orders}@@", "simba:{orders}:you"};
    open_store(&a);
    acquire(&a, "orders", "me", 1);
    acquire_or_wait(&a, "orders", "you", 2);
    simba_watch watched = {.mutex = "orders", .observed = true};
    watch(&a, &watched);
    char nothing[3] = "\0\0";
    for (size_t c = 0; c < 3; c++) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            say("PUBLISH %s %s", channels[c], texts[i]);
        freeReplyObject(redisCommand(raw, "PUBLISH %s %b", channels[c], nothing, sizeof nothing));
        testhost_pump(&a, NULL, 20);
        for (size_t i = 0; i < a.push_count; i++)
            assert_int_not_equal(a.pushes[i].push.kind, SIMBA_PUSH_ACQUIRED);
        a.push_count = 0;
    }
    assert_owned_by(acquire(&a, "orders", "you", 2), "me");
    testhost_unwatch(&a, &watched);
    testhost_close(&a);
}

/* A forged revocation makes the holder ask, and nothing more; one that is malformed does not even do that. */
static void forged_revocation(void **state)
{
    static const char *const texts[] = {"",
                                        "revoked",
                                        "revoked ",
                                        "revoked 1",
                                        "revoked x orders",
                                        "revoked/2 1 orders",
                                        "revoked -1 orders",
                                        "revoked  1 orders",
                                        "revokedX 1 orders"};
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    for (int i = 0; i < 1000 && strcmp(say("PUBSUB NUMSUB simba:@@revoked"), "simba:@@revoked 1") != 0; i++)
        testhost_pump(&a, NULL, 5);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        say("PUBLISH simba:@@revoked %s", texts[i]);
    say("PUBLISH simba:@@revoked %s", "revoked 1 orders");
    assert_true(testhost_await_pushes(&a, 1));
    assert_int_equal(a.push_count, 1);
    assert_int_equal(a.pushes[0].nonce, 1);
    assert_int_equal(a.pushes[0].push.kind, SIMBA_PUSH_CHANGED);
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(jvm_holds, setup),          cmocka_unit_test_setup(jvm_renews_under_our_id, setup),
        cmocka_unit_test_setup(jvm_releases_to_us, setup), cmocka_unit_test_setup(jvm_releases_under_a_watcher, setup),
        cmocka_unit_test_setup(we_release_to_jvm, setup),  cmocka_unit_test_setup(about_garbage, setup),
        cmocka_unit_test_setup(forged_revocation, setup),
    };
    return RUN_REDIS_TESTS(tests);
}
