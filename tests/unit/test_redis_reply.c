/* Answers and refusals of a Redis server, read from the bytes that it sends. tests/backends has the hostile ones. */
#include <string.h>

#include "lib/cm.h"
#include "stores/redis/redis.h"

/* The first reply of these bytes, which arrive one by one. The caller frees it. */
static redisReply *reply_of(const char *bytes)
{
    redis_reader *reader = simba__redis_reader_new();
    redisReply *reply = NULL;
    assert_non_null(reader);
    for (; *bytes && !reply; bytes++) {
        assert_int_equal(simba__redis_reader_feed(reader, bytes, 1), 0);
        assert_int_equal(simba__redis_reader_next(reader, &reply), 0);
    }
    simba__redis_reader_free(reader);
    assert_non_null(reply);
    return reply;
}

static int parse(const char *bytes, simba_op op, simba_reply *ret_reply)
{
    const simba_request request = {.op = op, .id = "me", .ttl_ms = 10000, .transition_ms = 6000};
    redisReply *reply = reply_of(bytes);
    const int outcome = simba__redis_parse(reply, &request, ret_reply);
    freeReplyObject(reply);
    return outcome;
}

#define NOW ":1700000000000\r\n"
#define REST ":1700000000000001\r\n:1700000016000\r\n$4\r\n6000\r\n"

static void about_answers(void **state)
{
    simba_reply reply;
    assert_int_equal(parse("*6\r\n:1\r\n" NOW "$2\r\nme\r\n" REST, SIMBA_OP_ACQUIRE, &reply), SIMBA_MINE);
    assert_string_equal(reply.owner.id, "me");
    assert_int_equal(reply.owner.token, 1700000000000001);
    assert_int_equal(reply.owner.acquired_at_ms, 1700000000000);
    assert_int_equal(reply.owner.ttl_at_ms, 1700000010000);
    assert_int_equal(reply.owner.transition_at_ms, 1700000016000);
    assert_int_equal(parse("*7\r\n:0\r\n" NOW "$3\r\nyou\r\n" REST ":3\r\n", SIMBA_OP_ACQUIRE, &reply), SIMBA_NOT_MINE);
    assert_int_equal(reply.place, 3);
    assert_int_equal(parse("*2\r\n:2\r\n" NOW, SIMBA_OP_RENEW, &reply), SIMBA_REVOKED);
    assert_string_equal(reply.owner.id, "");
    assert_int_equal(reply.now_ms, 1700000000000);
    assert_int_equal(parse("*2\r\n:3\r\n" NOW, SIMBA_OP_ACQUIRE, &reply), REDIS_TOO_YOUNG);
    assert_true(parse("*2\r\n:3\r\n" NOW, SIMBA_OP_RENEW, &reply) < 0);
    assert_true(parse("*3\r\n:0\r\n" NOW "$2\r\nme\r\n", SIMBA_OP_ACQUIRE, &reply) < 0);
}

/* A row says who waits, and what the note is. */
static void about_rows(void **state)
{
    redis_row row;
    redisReply *reply = reply_of("*6\r\n*2\r\n:0\r\n" NOW ":2\r\n$3\r\nyou\r\n$2\r\n77\r\n$2\r\n99\r\n$3\r\na\nb\r\n");
    assert_int_equal(simba__redis_parse_row(reply, &row), 0);
    assert_int_equal(row.waiters, 2);
    assert_string_equal(row.next, "you");
    assert_int_equal(row.note.token, 77);
    assert_int_equal(row.note.written_at_ms, 99);
    assert_memory_equal(row.note.bytes, "a\nb", row.note.size);
    freeReplyObject(reply);
    reply = reply_of("*6\r\n*2\r\n:0\r\n" NOW ":0\r\n$0\r\n\r\n$2\r\nzz\r\n$1\r\n0\r\n$0\r\n\r\n");
    assert_int_equal(simba__redis_parse_row(reply, &row), SIMBA_ECORRUPT);
    freeReplyObject(reply);
    reply = reply_of("*2\r\n:0\r\n" NOW);
    assert_int_equal(simba__redis_parse_row(reply, &row), SIMBA_ESTORE);
    freeReplyObject(reply);
}

/* The table at the top of reply.c. */
static void about_refusals(void **state)
{
    static const struct {
        const char *text;
        int code;
        bool drop;
        const char *says;
    } cases[] = {
        {"LOADING Redis is loading", SIMBA_EUNAVAILABLE, false, "LOADING"},
        {"READONLY You can't write", SIMBA_EUNAVAILABLE, true, "READONLY"},
        {"NOAUTH Authentication required.", SIMBA_EPERM, true, "wants a password"},
        {"ERR Protocol error: unauthenticated multibulk length", SIMBA_EPERM, true, "wants a password"},
        {"NOPERM this user", SIMBA_EPERM, false, "may not use"},
        {"WRONGPASS secret", SIMBA_EPERM, true, "does not accept"},
        {"WRONGTYPE Operation against a key", SIMBA_ECORRUPT, false, "simba init"},
        {"BADGRANT no token in simba:{x}:grant: delete that key", SIMBA_ECORRUPT, false, "delete that key"},
        {"MOVED 1 10.0.0.1:6379", SIMBA_ESTORE, false, "redis+cluster://"},
        {"ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed", SIMBA_EUNAVAILABLE, false,
         "OOM"},
        {"ERR unknown command 'AUTH', with args beginning with: 'secret'", SIMBA_ESTORE, false, "unknown command"},
        {"ERR what", SIMBA_ESTORE, false, "what"},
    };
    const simba__endpoint there = {.where = "h:1"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        simba_error error;
        bool drop;
        assert_int_equal(simba__redis_error(&there, cases[i].text, &error, &drop), cases[i].code);
        assert_int_equal(drop, cases[i].drop);
        assert_non_null(strstr(error.text, cases[i].says));
        assert_null(strstr(error.text, "secret"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(about_answers), cmocka_unit_test(about_rows),
                                       cmocka_unit_test(about_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
