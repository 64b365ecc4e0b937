/* Contenders on a real Redis server that is killed, frozen and cut off while they lead and wait. Whatever happens, the
 * referee must have nothing to complain about: one leader at a time, tokens that grow, callbacks that alternate. The
 * server writes every change to its disk before it answers, since a server that forgets can promise nothing. */
#include <hiredis/hiredis.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/referee.h"
#include "lib/server.h"

#define LONG_MS (ref_scaled_ms(15000))
#define TTL_MS (ref_scaled_ms(400))
#define TRANSITION_MS (ref_scaled_ms(800))

enum { N = 3, WATCHDOG_S = 100 };

static server redis;
static simba_client *clients[N];
static ref_arena arena;

static void start_redis(void)
{
    if (!server_start_redis(&redis, (const char *const[]){"--appendonly", "yes", "--appendfsync", "always", NULL}))
        fail_msg("redis-server does not start");
}

static int setup(void **state)
{
    (void)state;
    char url[128];
    server_init(&redis);
    start_redis();
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", redis.port);
    ref_arena_init(&arena);
    ref_watchdog(WATCHDOG_S);
    for (unsigned i = 0; i < N; i++) {
        simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
        simba_error err = {0};
        options.timing.ttl_ms = TTL_MS;
        options.timing.transition_ms = TRANSITION_MS;
        if (simba_client_open(url, &options, &err, &clients[i]) < 0)
            fail_msg("%s", err.text);
        const simba_contender_options contender = ref_options(&arena, i);
        assert_int_equal(simba_contender_new(clients[i], "orders", &contender, &err, &arena.contenders[i].handle), 0);
        assert_int_equal(ref_start(&arena.contenders[i]), 0);
        if (i == 0)
            assert_true(REF_WITHIN(LONG_MS, arena.inside == &arena.contenders[0]));
    }
    /* The others are in the queue, and listen. */
    redisContext *raw = redisConnect("127.0.0.1", redis.port);
    assert_true(raw && !raw->err);
    long long queued = 0;
    for (int i = 0; i < 1000 && queued < N - 1; i++) {
        redisReply *reply = redisCommand(raw, "ZCARD simba:{orders}:contender");
        queued = reply->integer;
        freeReplyObject(reply);
        usleep(5000);
    }
    redisFree(raw);
    assert_int_equal(queued, N - 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < N; i++) {
        ref_stop(&arena.contenders[i]);
        ref_free(&arena.contenders[i]);
        simba_client_close(clients[i]);
    }
    ref_arena_check_end(&arena);
    server_fini(&redis);
    ref_watchdog(0);
    return 0;
}

static bool someone_leads(void)
{
    return REF_WITHIN(LONG_MS, arena.inside != NULL);
}

/* Let the leader of now go, and see another one follow. */
static void assert_hands_over(void)
{
    assert_true(someone_leads());
    ref_lock();
    ref_contender *leader = NULL;
    for (unsigned i = 0; i < N; i++)
        if (arena.inside == &arena.contenders[i])
            leader = &arena.contenders[i];
    const unsigned grants = arena.grants;
    ref_unlock();
    assert_non_null(leader);
    ref_stop(leader);
    assert_true(REF_WITHIN(LONG_MS, arena.grants > grants && arena.inside != NULL));
    ref_start(leader);
}

/* Frozen for less than the transition: nobody loses anything. */
static void test_short_freeze(void **state)
{
    (void)state;
    ref_scene("short freeze");
    const unsigned grants = arena.grants;
    for (int i = 0; i < 3; i++) {
        server_signal(&redis, SIGSTOP);
        usleep((unsigned)(TRANSITION_MS / 2 * 1000));
        server_signal(&redis, SIGCONT);
        usleep((unsigned)(TTL_MS * 1000));
    }
    ref_lock();
    const bool kept = arena.grants == grants && arena.inside == &arena.contenders[0];
    ref_unlock();
    assert_true(kept);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Frozen for longer than the lease: the holder is told, and somebody leads again after the thaw. */
static void test_long_freeze(void **state)
{
    (void)state;
    ref_scene("long freeze");
    server_signal(&redis, SIGSTOP);
    assert_true(REF_WITHIN(LONG_MS, arena.contenders[0].released == 1));
    ref_lock();
    const simba_reason reason = arena.contenders[0].reason;
    ref_unlock();
    assert_int_equal(reason, SIMBA_REASON_EXPIRED);
    usleep(100000);
    server_signal(&redis, SIGCONT);
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Killed, and back before the lease is over: it is still there, and so is the leader. */
static void test_quick_restart(void **state)
{
    (void)state;
    ref_scene("quick restart");
    const unsigned grants = arena.grants;
    server_signal(&redis, SIGKILL);
    start_redis();
    usleep((unsigned)((TTL_MS + TRANSITION_MS) * 1000));
    ref_lock();
    const bool kept = arena.grants == grants && arena.inside == &arena.contenders[0];
    ref_unlock();
    assert_true(kept);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Killed for longer than the lease. */
static void test_slow_restart(void **state)
{
    (void)state;
    ref_scene("slow restart");
    server_signal(&redis, SIGKILL);
    assert_true(REF_WITHIN(LONG_MS, arena.contenders[0].released == 1));
    start_redis();
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Only the subscriptions are cut, again and again, while the mutex goes round. */
static void test_subscriptions_cut(void **state)
{
    (void)state;
    ref_scene("subscriptions cut");
    redisContext *raw = redisConnect("127.0.0.1", redis.port);
    for (int i = 0; i < 10; i++) {
        freeReplyObject(redisCommand(raw, "CLIENT KILL TYPE pubsub"));
        assert_hands_over();
    }
    redisFree(raw);
    assert_int_equal(ref_complaints(), 0);
}

/* All connections are cut while the mutex goes round. */
static void test_all_cut(void **state)
{
    (void)state;
    ref_scene("all connections cut");
    redisContext *raw = redisConnect("127.0.0.1", redis.port);
    for (int i = 0; i < 10; i++) {
        freeReplyObject(redisCommand(raw, "CLIENT KILL SKIPME yes TYPE normal"));
        freeReplyObject(redisCommand(raw, "CLIENT KILL TYPE pubsub"));
        assert_hands_over();
    }
    redisFree(raw);
    assert_int_equal(ref_complaints(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_short_freeze, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_freeze, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quick_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_subscriptions_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_cut, setup, teardown),
    };
    if (!server_has("redis-server")) {
        puts("1..0 # SKIP redis-server is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
