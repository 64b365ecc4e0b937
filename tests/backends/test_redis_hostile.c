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
    (void)state;
    assert_bounded(&(fake_redis){.first = "*2147483647\r\n"});
    assert_bounded(&(fake_redis){.answer = "*2147483647\r\n"});
    assert_bounded(&(fake_redis){.answer = "*300000\r\n"});
    assert_bounded(&(fake_redis){.answer = "*2\r\n*200000\r\n", .flood = ":1\r\n:1\r\n:1\r\n:1\r\n*200000\r\n"});
}

static void deep_arrays(void **state)
{
    (void)state;
    assert_bounded(&(fake_redis){.answer = "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"});
    assert_bounded(&(fake_redis){.answer = "*1\r\n", .flood = "*1\r\n"});
}

/* A string, a line or an array that has no end. */
static void about_endless(void **state)
{
    static char much[1 << 16];
    (void)state;
    memset(much, 'x', sizeof much - 1);
    assert_bounded(&(fake_redis){.answer = "$2147483647\r\n", .flood = much});
    assert_bounded(&(fake_redis){.answer = "+", .flood = much});
    assert_bounded(&(fake_redis){.answer = "*7\r\n:1\r\n$2147483647\r\n", .flood = much});
}

/* --- grants that are none ----------------------------------------------------------------------------- */

#define NOW ":1700000000000\r\n"
#define LATER ":1700000009000\r\n"
#define TOKEN ":1700000000000000\r\n"
#define ME "$2\r\nme\r\n"
/* The line of a grant, for a lease of 16 s. */
#define GRANT(token, ends, owner)                                                                                      \
    "$97\r\n" token " 00000000000000000001 " ends " 0000000000000000 001700000000000 6000" owner "\r\n"

/* Each is an answer of the right length, in which one thing is wrong. */
static void malformed_answers(void **state)
{
    static const char *const answers[] = {
        "+OK\r\n",
        ":1\r\n",
        "*0\r\n",
        "$-1\r\n",
        "*6\r\n:0\r\n" NOW ME TOKEN NOW LATER,
        "*8\r\n:0\r\n" NOW ME TOKEN NOW LATER LATER ME,
        "*9\r\n:0\r\n" NOW ME TOKEN NOW LATER LATER ":1\r\n:1\r\n",
        "*7\r\n:3\r\n" NOW ME TOKEN NOW LATER LATER,                     /* no such outcome */
        "*7\r\n:-1\r\n" NOW ME TOKEN NOW LATER LATER,                    /* nor that */
        "*7\r\n:4294967297\r\n" NOW ME TOKEN NOW LATER LATER,            /* nor that, in 32 bits */
        "*7\r\n$1\r\n1\r\n" NOW ME TOKEN NOW LATER LATER,                /* a string for a number */
        "*7\r\n:0\r\n" NOW ":1\r\n" TOKEN NOW LATER LATER,               /* a number for the owner */
        "*7\r\n:0\r\n" NOW "$-1\r\n" TOKEN NOW LATER LATER,              /* nil for the owner */
        "*7\r\n:0\r\n:0\r\n" ME TOKEN NOW LATER LATER,                   /* no time */
        "*7\r\n:0\r\n:-5\r\n" ME TOKEN NOW LATER LATER,                  /* a time before time */
        "*7\r\n:0\r\n:9223372036854775807\r\n" ME TOKEN NOW LATER LATER, /* beyond all times */
        "*7\r\n:0\r\n" NOW ME ":-1\r\n" NOW LATER LATER,                 /* no token */
        "*7\r\n:0\r\n" NOW ME ":9007199254740992\r\n" NOW LATER LATER,   /* 2^53: not a whole number for a script */
        "*7\r\n:0\r\n" NOW ME TOKEN ":-1\r\n" LATER LATER,
        "*7\r\n:0\r\n" NOW ME TOKEN NOW ":-9223372036854775808\r\n" LATER,
        "*7\r\n:0\r\n" NOW ME TOKEN NOW LATER ":9223372036854775807\r\n",
        "*7\r\n:0\r\n" NOW ME TOKEN NOW LATER NOW,                  /* ends before its ttl does */
        "*7\r\n:0\r\n" NOW "$0\r\n\r\n" TOKEN ":0\r\n:0\r\n:0\r\n", /* a token of nobody */
        "*7\r\n:0\r\n" NOW "$0\r\n\r\n:0\r\n:0\r\n" LATER LATER,    /* a lease of nobody */
        "*8\r\n:0\r\n" NOW ME TOKEN NOW LATER LATER ":-1\r\n",      /* a place before the first */
        "*7\r\n:1\r\n" NOW ME TOKEN NOW LATER LATER,                /* a grant is a line */
        GRANT("9007199254740992", "001700000016000", "@@me@@"),     /* 2^53 again */
        GRANT("170000000000000x", "001700000016000", "@@me@@"),
        GRANT("-700000000000000", "001700000016000", "@@me@@"),
        GRANT("1700000000000000", "000000000000100", "@@me@@"), /* was over before time */
        GRANT("1700000000000000", "00170000001600 ", "@@me@@"),
        GRANT("1700000000000000", "001700000016000", "@@me@."), /* an id without an end */
        GRANT("1700000000000000", "001700000016000", "@.me@@"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const simba_error error = refused_by(&(fake_redis){.answer = answers[i]}, SIMBA_OP_ACQUIRE);
        if (error.code != SIMBA_ECORRUPT)
            print_error("answer %zu\n", i);
        assert_says(&error, SIMBA_ECORRUPT, "of a form that no script of ours has");
    }
}

/* The fakes are good enough to be believed when they say what is right: otherwise the cases above would prove nothing. */
static void proper_answer(void **state)
{
    fake_redis fake = {.answer = GRANT("1700000000000000", "001700000016000", "@@me@@")};
    (void)state;
    open_fake(&fake);
    const simba_reply reply = acquire(&a, "orders", "me", 1);
    assert_mine(reply);
    assert_int_equal(reply.owner.token, 1700000000000000);
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
