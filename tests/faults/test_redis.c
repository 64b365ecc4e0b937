/* Contenders on a real Redis server that is killed, frozen and cut off while they lead and wait. Whatever happens, the
 * referee must have nothing to complain about: one leader at a time, tokens that grow, callbacks that alternate. The
 * server writes every change to its disk before it answers, since a server that forgets can promise nothing. */
#include <hiredis/hiredis.h>
#include <signal.h>
#include <unistd.h>

#include "faults/redis_arena.h"

static server redis;

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
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?restart-wait=no", redis.port);
    open_redis_arena(url);
    await_queue(&redis);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_arena();
    server_fini(&redis);
    return 0;
}

/* Frozen for less than the transition: nobody loses anything. */
static void short_freeze(void **state)
{
    (void)state;
    ref_scene("short freeze");
    const unsigned grants = arena.grants;
    for (int i = 0; i < 3; i++) {
        server_signal(&redis, SIGSTOP);
        usleep((unsigned)(ARENA_TRANSITION_MS / 2 * 1000));
        server_signal(&redis, SIGCONT);
        usleep((unsigned)(ARENA_TTL_MS * 1000));
    }
    ref_lock();
    const bool kept = arena.grants == grants && arena.inside == &arena.contenders[0];
    ref_unlock();
    assert_true(kept);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Frozen for longer than the lease: the holder is told, and somebody leads again after the thaw. */
static void long_freeze(void **state)
{
    (void)state;
    ref_scene("long freeze");
    server_signal(&redis, SIGSTOP);
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
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
static void quick_restart(void **state)
{
    (void)state;
    ref_scene("quick restart");
    const unsigned grants = arena.grants;
    const int64_t before_ms = ref_now_ms();
    server_signal(&redis, SIGKILL);
    start_redis();
    /* On a busy machine the server itself may take too long: then the lease is over, and rightly so. */
    const bool was_quick = ref_now_ms() - before_ms < ARENA_TTL_MS;
    usleep((unsigned)((ARENA_TTL_MS + ARENA_TRANSITION_MS) * 1000));
    ref_lock();
    const bool kept = arena.grants == grants && arena.inside == &arena.contenders[0];
    ref_unlock();
    assert_true(kept || !was_quick);
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Killed for longer than the lease. */
static void slow_restart(void **state)
{
    (void)state;
    ref_scene("slow restart");
    server_signal(&redis, SIGKILL);
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    start_redis();
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Only the subscriptions are cut, again and again, while the mutex goes round. */
static void subscriptions_cut(void **state)
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
static void all_cut(void **state)
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
        cmocka_unit_test_setup_teardown(short_freeze, setup, teardown),
        cmocka_unit_test_setup_teardown(long_freeze, setup, teardown),
        cmocka_unit_test_setup_teardown(quick_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(slow_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(subscriptions_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(all_cut, setup, teardown),
    };
    if (!server_has("redis-server")) {
        puts("1..0 # SKIP redis-server is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
