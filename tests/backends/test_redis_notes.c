/* Notes as Redis keeps them. What they are for everybody is in the conformance kit. */
#include "backends/test_redis.h"

/* The note; "": there is none. */
static const char *note(testhost *h)
{
    const unsigned before = h->noted_count;
    const simba_reply reply = ask(h, SIMBA_OP_READ_NOTE, "orders", NULL, 0, 0);
    assert_true(reply.now_ms > INT64_C(1700000000000));
    return h->noted_count > before ? h->note.bytes : "";
}

/* A write that comes after a later one of the same grant is not carried out, also if the later one removed the note. */
static void late_writes(void **state)
{
    open_store(&a);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    assert_mine(write_note(&a, "orders", "me", 1, token, 10, "ten"));
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 9, "nine").outcome, SIMBA_NOT_MINE);
    assert_mine(write_note(&a, "orders", "me", 1, token, 10, "ten")); /* the same write comes twice */
    assert_string_equal(note(&a), "ten");
    assert_mine(write_note(&a, "orders", "me", 1, token, 12, ""));
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 11, "eleven").outcome, SIMBA_NOT_MINE);
    assert_string_equal(note(&a), "");
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, token));
    const uint64_t next = acquire(&a, "orders", "me", 2).owner.token;
    assert_mine(write_note(&a, "orders", "me", 2, next, 1, "one"));
    assert_string_equal(note(&a), "one");
    testhost_close(&a);
}

/* Without the right token, nonce or id, and when a JVM contender has the lock: nothing is written. */
static void only_by_the_grant(void **state)
{
    open_store(&a);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    assert_int_equal(write_note(&a, "orders", "me", 1, token + 1, 1, "x").outcome, SIMBA_NOT_MINE);
    assert_int_equal(write_note(&a, "orders", "me", 1, 0, 1, "x").outcome, SIMBA_NOT_MINE);
    assert_int_equal(write_note(&a, "orders", "me", 2, token, 1, "x").outcome, SIMBA_NOT_MINE);
    assert_int_equal(write_note(&a, "orders", "you", 1, token, 1, "x").outcome, SIMBA_NOT_MINE);
    say("SET simba:{orders} me XX PX 90000"); /* a JVM contender under our id renews it */
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 1, "x").outcome, SIMBA_NOT_MINE);
    assert_string_equal(say("EXISTS simba:{orders}:note"), "0");
    testhost_close(&a);
}

/* A token that is ahead of the server's clock cannot be forgotten: the next one would be smaller. */
static void forget_ahead_of_the_clock(void **state)
{
    open_store(&a);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, token));
    say("HSET simba:{orders}:grant token 3000000000000000");
    const simba_error error = refused(&a, SIMBA_OP_FORGET, "orders");
    assert_int_equal(error.code, SIMBA_ESTORE);
    assert_non_null(strstr(error.text, "clock"));
    assert_int_equal(acquire(&a, "orders", "me", 2).owner.token, UINT64_C(3000000000000001));
    testhost_close(&a);
}

/* What is in the key of the note and is none: said to whoever reads it. */
static void about_damaged(void **state)
{
    static const char *const bad[] = {"token zz at 1 number 1 bytes x", "token 1 at zz number 1 bytes x",
                                      "token 9007199254740992 at 1 number 1 bytes x", "token -1 at 1 number 1 bytes x"};
    char command[128];
    open_store(&a);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(command, sizeof command, "HSET simba:{orders}:note %s", bad[i]);
        say(command, 0);
        assert_int_equal(refused(&a, SIMBA_OP_READ_NOTE, "orders").code, SIMBA_ECORRUPT);
        say("DEL simba:{orders}:note");
    }
    say("LPUSH simba:{orders}:note x");
    assert_int_equal(refused(&a, SIMBA_OP_READ_NOTE, "orders").code, SIMBA_ECORRUPT);
    say("DEL simba:{orders}:note");
    say("EVAL %s 1 simba:{orders}:note",
        "redis.call('HSET', KEYS[1], 'token', 1, 'number', 1, 'at', 1, 'bytes', string.rep('x', 1025))");
    assert_int_equal(refused(&a, SIMBA_OP_READ_NOTE, "orders").code, SIMBA_ECORRUPT);
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(late_writes, setup),
        cmocka_unit_test_setup(only_by_the_grant, setup),
        cmocka_unit_test_setup(forget_ahead_of_the_clock, setup),
        cmocka_unit_test_setup(about_damaged, setup),
    };
    return RUN_REDIS_TESTS(tests);
}
