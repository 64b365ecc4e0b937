/* The scripts without the store around them. On a busy machine a server may lose the processor between any two commands of a script,
 * and before Redis 7.2 the clock goes on meanwhile. So the scripts here stall: before their first command, then before their second
 * one, and so on. What they say and do must not depend on that. */
#include "backends/test_redis.h"
#include "util/mem.h"

enum { STALL_MS = 12, CALLS_MOST = 60, NEVER = CALLS_MOST + 1 };

/* Stands between a script and the server. From Redis 7.2 on the clock does not move, so there is no stall to be seen. */
static const char wrapper[] = "local server, calls = redis, 0\n"
                              "local redis = {error_reply = server.error_reply}\n"
                              "local function clock()\n"
                              "  local time = server.call('TIME')\n"
                              "  return time[1] * 1000 + time[2] / 1000\n"
                              "end\n"
                              "function redis.call(...)\n"
                              "  calls = calls + 1\n"
                              "  if calls == %u then\n"
                              "    local start, readings = clock(), 0\n"
                              "    repeat\n"
                              "      local passed = clock() - start\n"
                              "      readings = readings + 1\n"
                              "    until passed > %u or passed == 0 and readings > 1000\n"
                              "  end\n"
                              "  return server.call(...)\n"
                              "end\n"
                              "local function script()\n"
                              "%s\n"
                              "end\n"
                              "local answer = script()\n"
                              "server.call('SET', 'calls', calls)\n"
                              "return answer\n";

static unsigned calls; /* that the latest script has made */
static char token[24]; /* of the latest grant */

/* For the mutex "orders". Stalls before the nth command. The answer as text. */
static const char *run(redis_script script, unsigned stall, size_t arg_count, const char *const *args)
{
    static char out[4096];
    char keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE];
    char key_count[12];
    char *text;
    assert_true(asprintf(&text, wrapper, stall, (unsigned)STALL_MS, simba__redis_scripts[script].text) > 0);
    const char *argv[16] = {"EVAL", text, key_count};
    size_t argc = 3;
    const size_t count = simba__redis_keys(script, "orders", keys);
    snprintf(key_count, sizeof key_count, "%zu", count);
    for (size_t i = 0; i < count; i++)
        argv[argc++] = keys[i];
    for (size_t i = 0; i < arg_count; i++)
        argv[argc++] = args[i];
    redisReply *reply = redisCommandArgv(raw, (int)argc, argv, NULL);
    assert_non_null(reply);
    text_of(reply, out, sizeof out);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", out);
    if (reply->elements > 3)
        snprintf(token, sizeof token, "%lld", reply->element[3]->integer);
    freeReplyObject(reply);
    free(text);
    calls = (unsigned)strtoul(say("GET calls"), NULL, 10);
    return out;
}

#define RUN(script, stall, ...)                                                                                        \
    run(script, stall, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

static bool acquires(unsigned stall)
{
    return RUN(REDIS_ACQUIRE, stall, "me", "7", "60000", "2764860000", "1000", "1", "0", "PUBLISH")[0] == '1';
}

static bool renews(unsigned stall)
{
    return RUN(REDIS_RENEW, stall, "me", "7", token, "60000", "2764860000")[0] == '1';
}

static bool releases(unsigned stall)
{
    return RUN(REDIS_RELEASE, stall, "me", "7", token, "0", "PUBLISH", "")[0] == '1';
}

/* After a grant that stalled somewhere, what the test asks for goes well; and it does if it stalls itself. */
static void stall_everywhere(bool (*grants)(unsigned stall), bool (*goes_well)(unsigned stall))
{
    unsigned most = 1;
    for (unsigned stall = 1; stall <= most; stall++) {
        say("FLUSHALL");
        assert_true(acquires(NEVER));
        assert_true(grants(stall));
        most = calls;
        if (!goes_well(NEVER))
            fail_msg("not after a script that stalled before its command %u", stall);
        say("FLUSHALL");
        assert_true(acquires(NEVER));
        if (!goes_well(stall))
            fail_msg("not if it stalls before its command %u", stall);
        most = calls > most ? calls : most;
    }
    assert_in_range(most, 5, CALLS_MOST);
}

/* L3: a holder that reaches the store keeps its mutex, and one that asks again finds its grant. */
static void renewal_stalls(void **state)
{
    stall_everywhere(renews, renews);
    stall_everywhere(acquires, renews);
    stall_everywhere(renews, acquires);
}

static void hand_over_stalls(void **state)
{
    stall_everywhere(acquires, releases);
    stall_everywhere(renews, releases);
}

/* S1: a JVM contender that has renewed the lock under our id, at once or later, makes it its own. */
static void jvm_keeps_its_lock(void **state)
{
    static const int lengths[] = {60010, 90000, 58000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        say("FLUSHALL");
        assert_true(acquires(NEVER));
        say("SET simba:{orders} me PX %d", lengths[i]);
        assert_false(renews(NEVER));
        assert_false(releases(NEVER));
        assert_string_equal(say("GET simba:{orders}"), "me");
    }
}

/* A tenth of a second, and who may come in between. */
static void kept_for_the_invited(void **state)
{
    redisContext *ear = redisConnect("127.0.0.1", redis.port);
    freeReplyObject(redisCommand(ear, "SUBSCRIBE simba:{orders}:you"));
    assert_true(acquires(NEVER));
    say("ZADD simba:{orders}:contender 1.5 you");
    assert_true(releases(NEVER));
    assert_false(acquires(NEVER));
    assert_string_equal(say("ZRANGE simba:{orders}:contender 0 -1"), "me");
    bool acquired = false;
    for (int i = 0; i < 1000 && !(acquired = acquires(NEVER)); i++)
        usleep(1000);
    assert_true(acquired);
    assert_string_equal(say("EXISTS simba:{orders}:contender"), "0");
    redisFree(ear);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(renewal_stalls, setup), cmocka_unit_test_setup(hand_over_stalls, setup),
        cmocka_unit_test_setup(jvm_keeps_its_lock, setup), cmocka_unit_test_setup(kept_for_the_invited, setup)};
    return RUN_REDIS_TESTS(tests);
}
