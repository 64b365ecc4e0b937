/* A fleet in which an earlier version takes part, which kept grants in a hash: played by its scripts, as they were. */
#include "backends/old_redis_scripts.h"
#include "backends/test_redis.h"
#include "util/random.h"

/* What a script of the earlier version answers: outcome and token. */
typedef struct old_answer {
    long long outcome, token;
} old_answer;

static old_answer run_old(const char *script, const char *id, uint64_t nonce, size_t more_count, const char **more)
{
    char text[sizeof old_first + sizeof old_common + sizeof old_acquire];
    char number[24];
    const char *argv[16] = {"EVAL", text,  "3", "simba:{orders}", "simba:{orders}:fence", "simba:{orders}:contender",
                            id,     number};
    snprintf(text, sizeof text, "%s%s%s", old_first, old_common, script);
    snprintf(number, sizeof number, "%llu", (unsigned long long)nonce);
    memcpy(argv + 8, more, more_count * sizeof *more);
    redisReply *reply = redisCommandArgv(raw, (int)(8 + more_count), argv, NULL);
    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 7)
        fail_msg("%s", reply->str ? reply->str : "an odd answer");
    const old_answer answer = {reply->element[0]->integer, reply->element[3]->integer};
    freeReplyObject(reply);
    return answer;
}

static old_answer old_acquires(const char *id, uint64_t nonce)
{
    return run_old(old_acquire, id, nonce, 4, (const char *[]){"10000", "6000", "1", ""});
}

static old_answer old_renews(const char *id, uint64_t nonce, long long token)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", token);
    return run_old(old_renew, id, nonce, 3, (const char *[]){text, "10000", "6000"});
}

static old_answer old_releases(const char *id, uint64_t nonce)
{
    return run_old(old_release, id, nonce, 1, (const char *[]){"0"});
}

/* Each takes what the other gave back and nothing else, and the tokens of both grow together. */
static void take_turns(void **state)
{
    (void)state;
    uint64_t latest = 0;
    open_store(&a);
    for (int i = 0; i < 3; i++) {
        const old_answer old = old_acquires("old", 1);
        assert_int_equal(old.outcome, 1);
        assert_true((uint64_t)old.token > latest);
        assert_owned_by(acquire(&a, "orders", "new", 2), "old");
        assert_owned_by(ask(&a, SIMBA_OP_READ, "orders", NULL, 0, 0), "old");
        assert_int_equal(ask(&a, SIMBA_OP_RELEASE, "orders", "new", 2, 0).outcome, SIMBA_NOT_MINE);
        assert_int_equal(old_renews("old", 1, old.token).outcome, 1);
        assert_int_equal(old_releases("old", 1).outcome, 1);

        const simba_reply won = acquire(&a, "orders", "new", 2);
        assert_mine(won);
        assert_true(won.owner.token > (uint64_t)old.token);
        assert_int_equal(old_acquires("old", 1).outcome, 0);
        assert_int_equal(old_renews("old", 1, old.token).outcome, 0);
        assert_int_equal(old_releases("old", 1).outcome, 0);
        assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "new", 2, won.owner.token));
        assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "new", 2, won.owner.token));
        latest = won.owner.token;
    }
    testhost_close(&a);
}

/* Under one id and one nonce, as nobody is: a grant of the one is still none of the other's. */
static void same_name(void **state)
{
    (void)state;
    open_store(&a);
    const old_answer old = old_acquires("me", 1);
    assert_int_equal(acquire(&a, "orders", "me", 1).outcome, SIMBA_NOT_MINE);
    assert_int_equal(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, (uint64_t)old.token).outcome, SIMBA_NOT_MINE);
    assert_int_equal(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, 0).outcome, SIMBA_NOT_MINE);
    assert_int_equal(old_releases("me", 1).outcome, 1);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    assert_mine(won);
    assert_int_equal(old_acquires("me", 1).outcome, 0);
    assert_int_equal(old_renews("me", 1, (long long)won.owner.token).outcome, 0);
    assert_int_equal(old_releases("me", 1).outcome, 0);
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    testhost_close(&a);
}

/* A thousand requests of two contenders of either version, by chance: never two at once. */
static void about_fight(void **state)
{
    (void)state;
    static const char *const ids[] = {"old-1", "old-2", "new-1", "new-2"};
    uint64_t seed = 20;
    uint64_t latest = 0;
    int holder = -1;
    unsigned turns = 0;
    open_store(&a);
    for (int i = 0; i < 1000; i++) {
        const int chance = (int)simba__random_range(&seed, 0, 8);
        const int who = chance % 4;
        const bool is_old = who < 2;
        const uint64_t nonce = (uint64_t)who + 1;
        say("HDEL simba:{orders}:fence next"); /* a mutex is kept for nobody: time goes by between the requests */
        say("DEL simba:{orders}:contender");
        if (chance < 4) {
            const old_answer old = is_old ? old_acquires(ids[who], nonce) : (old_answer){0};
            const simba_reply reply = is_old ? (simba_reply){0} : acquire(&a, "orders", ids[who], nonce);
            const bool won = is_old ? old.outcome == 1 : reply.outcome == SIMBA_MINE;
            const uint64_t token = is_old ? (uint64_t)old.token : reply.owner.token;
            assert_true(!won || holder < 0 || holder == who);
            assert_true(!won || holder == who || token > latest);
            turns += won && holder < 0;
            holder = won ? who : holder;
            latest = won ? token : latest;
        } else {
            const bool freed = is_old ? old_releases(ids[who], nonce).outcome == 1
                                      : ask(&a, SIMBA_OP_RELEASE, "orders", ids[who], nonce, 0).outcome == SIMBA_MINE;
            assert_int_equal(freed, holder == who);
            holder = freed ? -1 : holder;
        }
    }
    assert_true(turns > 50);
    testhost_close(&a);
}

/* A release of the earlier version wakes our waiter, and ours wakes one of the earlier version. */
static void wake_each_other(void **state)
{
    (void)state;
    open_store(&a);
    old_acquires("old", 1);
    assert_owned_by(acquire_or_wait(&a, "orders", "new", 2), "old");
    simba_topic topic = {.mutex = "orders"};
    watch(&a, &topic);
    old_releases("old", 1);
    assert_true(pushed(&a, SIMBA_PUSH_RELEASED, 5000));
    assert_mine(acquire_or_wait(&a, "orders", "new", 2));
    testhost_unwatch(&a, &topic);

    redisContext *ear = redisConnect("127.0.0.1", redis.port);
    freeReplyObject(redisCommand(ear, "SUBSCRIBE simba:{orders}:old"));
    assert_int_equal(old_acquires("old", 1).outcome, 0);
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "new", 2, 0));
    void *message = NULL;
    assert_int_equal(redisGetReply(ear, &message), REDIS_OK);
    assert_string_equal(((redisReply *)message)->element[2]->str, "released@@new");
    freeReplyObject(message);
    say("HDEL simba:{orders}:fence next"); /* its own release has kept the mutex for us, a tenth of a second */
    assert_int_equal(old_acquires("old", 1).outcome, 1);
    redisFree(ear);
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(take_turns, setup),
        cmocka_unit_test_setup(same_name, setup),
        cmocka_unit_test_setup(about_fight, setup),
        cmocka_unit_test_setup(wake_each_other, setup),
    };
    return RUN_REDIS_TESTS(tests);
}
