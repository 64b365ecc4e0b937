/* Servers that say what no Redis says: more than anybody asked for, or grants that are none. No real server takes part. */
#include <malloc.h>

#include "backends/fake_redis.h"
#include "backends/test_redis.h"

static void open_fake(fake_redis *fake)
{
    char url[96];
    fake_start(fake);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?timeout=2s&connect-timeout=2s", fake->port);
    open_at(&a, url);
}

static void close_fake(fake_redis *fake)
{
    testhost_close(&a);
    fake_stop(fake);
}

static simba_error refused_by(fake_redis *fake, simba_op op)
{
    open_fake(fake);
    const simba_error error = refused(&a, op, "orders");
    close_fake(fake);
    return error;
}

static void assert_says(const simba_error *error, int code, const char *words)
{
    assert_string_equal(simba_error_name(error->code), simba_error_name(code));
    if (!strstr(error->text, words))
        fail_msg("\"%s\" does not say \"%s\"", error->text, words);
}

/* --- more than anybody asked for ---------------------------------------------------------------------- */

/* The most that this process has ever had in memory, in bytes. */
static size_t peak(void)
{
    char line[128];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &kb) == 1)
            break;
    fclose(file);
    return (size_t)kb * 1024;
}

/* The request fails long before its deadline, and nothing of the size that was announced is allocated. */
static void assert_bounded(fake_redis *fake)
{
    const size_t before = peak();
    const int64_t start_ns = simba__clock_boot().ns;
    const simba_error error = refused_by(fake, SIMBA_OP_ACQUIRE);
    assert_string_equal(simba_error_name(error.code), "SIMBA_EUNAVAILABLE");
    assert_null(strstr(error.text, "no answer"));
    assert_true(simba__clock_boot().ns - start_ns < 1500 * SIMBA__NS_PER_MS);
    assert_true(peak() - before < (size_t)256 << 20); /* a sanitizer needs more than we do */
}

static void huge_array(void **state)
{
    assert_bounded(&(fake_redis){.first = "*2147483647\r\n"});
    assert_bounded(&(fake_redis){.answer = "*2147483647\r\n"});
    assert_bounded(&(fake_redis){.answer = "*300000\r\n"});
    assert_bounded(&(fake_redis){.answer = "*2\r\n*200000\r\n", .flood = ":1\r\n:1\r\n:1\r\n:1\r\n*200000\r\n"});
}

static void deep_arrays(void **state)
{
    assert_bounded(&(fake_redis){.answer = "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"});
    assert_bounded(&(fake_redis){.answer = "*1\r\n", .flood = "*1\r\n"});
}

/* A string, a line or an array that has no end. */
static void about_endless(void **state)
{
    static char much[1 << 16];
    memset(much, 'x', sizeof much - 1);
    assert_bounded(&(fake_redis){.answer = "$2147483647\r\n", .flood = much});
    assert_bounded(&(fake_redis){.answer = "+", .flood = much});
    assert_bounded(&(fake_redis){.answer = "*7\r\n:1\r\n$2147483647\r\n", .flood = much});
}

/* --- grants that are none ----------------------------------------------------------------------------- */

#define NOW ":1700000000000\r\n"
#define ENDS ":1700000016000\r\n"
#define TOKEN ":1700000000000000\r\n"
#define ME "$2\r\nme\r\n"
#define TRANSITION "$4\r\n6000\r\n"

/* Each is an answer of the right length, in which one thing is wrong. */
static void malformed_answers(void **state)
{
    static const char *const answers[] = {
        "+OK\r\n",
        ":1\r\n",
        "*0\r\n",
        "$-1\r\n",
        "*1\r\n:0\r\n",
        "*5\r\n:0\r\n" NOW ME TOKEN ENDS,
        "*8\r\n:0\r\n" NOW ME TOKEN ENDS TRANSITION ":1\r\n:1\r\n",
        "*2\r\n:4\r\n" NOW,                                              /* no such outcome */
        "*6\r\n:-1\r\n" NOW ME TOKEN ENDS TRANSITION,                    /* nor that */
        "*6\r\n:4294967297\r\n" NOW ME TOKEN ENDS TRANSITION,            /* nor that, in 32 bits */
        "*6\r\n$1\r\nx\r\n" NOW ME TOKEN ENDS TRANSITION,                /* no number */
        "*6\r\n:0\r\n" NOW ":1\r\n" TOKEN ENDS TRANSITION,               /* a number for the owner */
        "*6\r\n:0\r\n" NOW "$-1\r\n" TOKEN ENDS TRANSITION,              /* nil for the owner */
        "*6\r\n:0\r\n" NOW "$0\r\n\r\n" TOKEN ENDS TRANSITION,           /* nobody as the owner */
        "*6\r\n:0\r\n:0\r\n" ME TOKEN ENDS TRANSITION,                   /* no time */
        "*6\r\n:0\r\n:-5\r\n" ME TOKEN ENDS TRANSITION,                  /* a time before time */
        "*6\r\n:0\r\n:9223372036854775807\r\n" ME TOKEN ENDS TRANSITION, /* beyond all times */
        "*6\r\n:0\r\n" NOW ME ":-1\r\n" ENDS TRANSITION,                 /* no token */
        "*6\r\n:0\r\n" NOW ME ":9007199254740992\r\n" ENDS TRANSITION,   /* 2^53: not a whole number for a script */
        "*6\r\n:0\r\n" NOW ME TOKEN ":-1\r\n" TRANSITION,
        "*6\r\n:0\r\n" NOW ME TOKEN ":9223372036854775807\r\n" TRANSITION,
        "*6\r\n:0\r\n" NOW ME TOKEN ENDS "$2\r\n-1\r\n",
        "*6\r\n:0\r\n" NOW ME TOKEN ENDS "$2\r\n6x\r\n",
        "*6\r\n:0\r\n" NOW ME TOKEN ENDS "$17\r\n99999999999999999\r\n",
        "*7\r\n:0\r\n" NOW ME TOKEN ENDS TRANSITION ":-1\r\n", /* a place before the first */
        "*7\r\n:0\r\n" NOW ME TOKEN ENDS TRANSITION ME,
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const simba_error error = refused_by(&(fake_redis){.answer = answers[i]}, SIMBA_OP_ACQUIRE);
        if (error.code != SIMBA_ECORRUPT)
            print_error("answer %zu\n", i);
        assert_says(&error, SIMBA_ECORRUPT, "an answer that none of the scripts gives");
    }
}

/* The fakes are good enough to be believed when they say what is right: otherwise the cases above would prove nothing. */
static void proper_answer(void **state)
{
    fake_redis fake = {.answer = "*6\r\n:1\r\n" NOW ME TOKEN ENDS TRANSITION};
    open_fake(&fake);
    const simba_reply reply = acquire(&a, "orders", "me", 1);
    assert_mine(reply);
    assert_int_equal(reply.owner.token, 1700000000000000);
    assert_int_equal(reply.owner.ttl_at_ms, 1700000010000);
    close_fake(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(huge_array),        cmocka_unit_test(deep_arrays),   cmocka_unit_test(about_endless),
        cmocka_unit_test(malformed_answers), cmocka_unit_test(proper_answer),
    };
    signal(SIGPIPE, SIG_IGN); /* the client's own threads block it */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
