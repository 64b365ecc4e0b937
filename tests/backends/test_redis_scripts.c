/* The scripts without the store around them: as they are for a cluster and for a single server, and on servers before Redis 7.0,
 * too. A single server can run all of them.
 *
 * On a busy machine a server may lose the processor between any two commands of a script, and before Redis 7.2 the clock goes on
 * meanwhile. So the scripts here stall: before their first command, then before their second one, and so on. What they say and
 * do must not depend on that. */
#include "backends/redis/scripts.h"

#include "backends/test_redis.h"
#include "util/mem.h"

enum { STALL_MS = 12, CALLS_MOST = 60, NEVER = CALLS_MOST + 1 };

typedef struct variant {
    const char *name;
    redis_kind kind;
    bool is_modern;
} variant;

static const variant variants[] = {
    {"cluster, Redis 7.0", REDIS_CLUSTER, true},
    {"cluster, before Redis 7.0", REDIS_CLUSTER, false},
    {"single server, Redis 7.0", REDIS_SINGLE, true},
    {"single server, before Redis 7.0", REDIS_SINGLE, false},
};

enum { VARIANTS = sizeof variants / sizeof *variants };

/* --- running a script -------------------------------------------------------------------------------- */

/* Stands between a script and the server. From Redis 7.2 on the clock does not move, so there is no stall to be seen. */
static const char wrapper[] = "local server, calls = redis, 0\n"
                              "local redis = {REDIS_VERSION_NUM = %s, error_reply = server.error_reply}\n"
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

static unsigned calls; /* that the latest script has made that was to stall somewhere */

static char *wrap(const variant *v, redis_script script, unsigned stall)
{
    const redis_options options = {.kind = v->kind};
    char *text = simba__redis_script_text(script, &options);
    char *whole;
    assert_true(asprintf(&whole, wrapper, v->is_modern ? "0x70000" : "nil", stall, (unsigned)STALL_MS, text) > 0);
    simba__free(text);
    return whole;
}

/* For the mutex "orders". Stalls before the nth command. */
static const char *run(const variant *v, redis_script script, unsigned stall, size_t arg_count, const char *const *args)
{
    static char out[4096];
    char keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE];
    char key_count[12];
    char *text = wrap(v, script, stall);
    const char *argv[16] = {"EVAL", text, key_count};
    size_t argc = 3;
    const size_t count = simba__redis_script_keys(script, v->kind == REDIS_CLUSTER, "orders", keys);
    snprintf(key_count, sizeof key_count, "%zu", count);
    for (size_t i = 0; i < count; i++)
        argv[argc++] = keys[i];
    for (size_t i = 0; i < arg_count; i++)
        argv[argc++] = args[i];
    redisReply *reply = redisCommandArgv(raw, (int)argc, argv, NULL);
    assert_non_null(reply);
    text_of(reply, out, sizeof out);
    const bool failed = reply->type == REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    free(text);
    if (failed)
        fail_msg("%s: %s", v->name, out);
    if (stall != NEVER)
        calls = (unsigned)strtoul(say("GET calls"), NULL, 10);
    return out;
}

#define RUN(v, script, stall, ...)                                                                                     \
    run(v, script, stall, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

/* --- what the tests ask for -------------------------------------------------------------------------- */

static const char nonce[] = "00000000000000000007";
static char token[17]; /* of the latest grant */

/* A grant is answered with the grant, which begins with its token; a renewal with two times; everything else with a list. */
static bool is_granted(const char *answer)
{
    return strncmp(answer, token, 16) == 0;
}

static const char *acquire_as_me(const variant *v, unsigned stall)
{
    return RUN(v, REDIS_ACQUIRE, stall, "me", nonce, "60000", "1000");
}

static const char *head_of(const char *of)
{
    static char head[sizeof token + sizeof nonce];
    snprintf(head, sizeof head, "%s %s", of, nonce);
    return head;
}

static bool renews(const variant *v, unsigned stall)
{
    const char *answer = RUN(v, REDIS_RENEW, stall, "me", head_of(token), "60000", "1000");
    return strlen(answer) == 31 && strspn(answer, "0123456789") == 15;
}

static void take(const variant *v)
{
    say("FLUSHALL");
    snprintf(token, sizeof token, "%s", acquire_as_me(v, NEVER));
    assert_int_equal(strspn(token, "0123456789"), 16);
}

/* "you" stands by, and leaves. That writes the grant anew, which is mine. */
static void stand_by_and_leave(const variant *v, unsigned stall)
{
    say("EVAL %s 1 simba:{orders}:grant",
        "local soon = redis.call('TIME')[1] * 1000 + 600000\n"
        "local grant = redis.call('GET', KEYS[1]) .. string.format('0 %.0f 0 @@you@@.', soon)\n"
        "redis.call('SET', KEYS[1], grant, 'KEEPTTL')");
    RUN(v, REDIS_RELEASE, stall, "you", head_of("0"));
    assert_null(strstr(say("GET simba:{orders}:grant"), "you"));
}

/* --- stalls ------------------------------------------------------------------------------------------ */

/* Each begins with a mutex that is mine. */
static bool renewal_goes_well(const variant *v, unsigned stall)
{
    return renews(v, stall);
}

static bool release_goes_well(const variant *v, unsigned stall)
{
    return strcmp(RUN(v, REDIS_RELEASE, stall, "me", head_of(token)), "1") == 0;
}

static bool repeated_acquire_goes_well(const variant *v, unsigned stall)
{
    return is_granted(acquire_as_me(v, stall));
}

static bool standby_goes_well(const variant *v, unsigned stall)
{
    stand_by_and_leave(v, stall);
    return renews(v, NEVER);
}

static void stall_everywhere(bool (*goes_well)(const variant *v, unsigned stall))
{
    for (const variant *v = variants; v < variants + VARIANTS; v++) {
        unsigned stall = 1;
        do {
            take(v);
            if (!goes_well(v, stall))
                fail_msg("%s: not if the script stalls before its command %u", v->name, stall);
        } while (++stall <= calls);
        assert_in_range(calls, 3, CALLS_MOST);
    }
}

/* L3: a holder that reaches the store keeps its mutex. */
static void renewal_stalls(void **state)
{
    (void)state;
    stall_everywhere(renewal_goes_well);
}

static void release_stalls(void **state)
{
    (void)state;
    stall_everywhere(release_goes_well);
}

/* A contender that asks again because an answer was lost finds its grant, and does not wait for itself. */
static void repeated_acquire_stalls(void **state)
{
    (void)state;
    stall_everywhere(repeated_acquire_goes_well);
}

static void standby_stalls(void **state)
{
    (void)state;
    stall_everywhere(standby_goes_well);
}

/* --- contenders on the JVM --------------------------------------------------------------------------- */

/* S1: a lock that a JVM contender has renewed under our id stays its own when somebody writes the grant anew. */
static void jvm_keeps_its_lock(void **state)
{
    (void)state;
    for (const variant *v = variants; v < variants + VARIANTS; v++) {
        take(v);
        say("SET simba:{orders} me PX 90000");
        assert_false(renews(v, NEVER));
        stand_by_and_leave(v, NEVER);
        if (renews(v, NEVER))
            fail_msg("%s: we renew the lock of a JVM contender", v->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(renewal_stalls, setup),          cmocka_unit_test_setup(release_stalls, setup),
        cmocka_unit_test_setup(repeated_acquire_stalls, setup), cmocka_unit_test_setup(standby_stalls, setup),
        cmocka_unit_test_setup(jvm_keeps_its_lock, setup),
    };
    return RUN_REDIS_TESTS(tests);
}
