/* ZooKeeper's protocol as bytes: answers are taken whole or not at all. */
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"

#include "stores/zookeeper/zookeeper.h"

#define HEAD "\0\0\0\7\0\0\0\0\0\0\0\x2a\0\0\0\0"
#define HEAD_OF(error) "\0\0\0\7\0\0\0\0\0\0\0\x2a" error
#define NONE "\xff\xff\xff\xff"
#define STAT                                                                                                           \
    "\0\0\0\0\0\0\0\x11\0\0\0\0\0\0\0\x12\0\0\0\0\0\0\0\x13\0\0\0\0\0\0\0\x14\0\0\0\x15\0\0\0\x16\0\0\0\x17"           \
    "\0\0\0\0\0\0\0\x18\0\0\0\x19\0\0\0\x1a\0\0\0\0\0\0\0\x1b"
#define DONE(type) type "\0\0\0\0\0"
#define FAILED(error) NONE "\0" error error
#define LAST NONE "\1" NONE
#define NO_NODE "\xff\xff\xff\x9b"
#define UNTRIED "\xff\xff\xff\xfe"

typedef struct answer {
    zk_type type, last;
    const char *bytes;
    size_t length;
} answer;

#define ANSWER(type_, text)                                                                                            \
    {                                                                                                                  \
        type_, type_, text, sizeof(text) - 1                                                                           \
    }
#define MULTI(last_, text)                                                                                             \
    {                                                                                                                  \
        ZK_MULTI, last_, text, sizeof(text) - 1                                                                        \
    }

/* In memory of its own, so that AddressSanitizer sees what is read beyond it. */
static bool take(const answer *a, size_t length, zk_result *ret_result, char **ret_memory)
{
    *ret_memory = malloc(length + (length == 0));
    memcpy(*ret_memory, a->bytes, length < a->length ? length : a->length);
    if (length > a->length)
        memset(*ret_memory + a->length, 0, length - a->length);
    return simba__zk_read_result(*ret_memory, length, a->type, a->last, ret_result);
}

static const answer good[] = {
    ANSWER(ZK_CREATE, HEAD "\0\0\0\2/a"),
    ANSWER(ZK_CREATE2, HEAD "\0\0\0\2/a" STAT),
    ANSWER(ZK_CREATE_CONTAINER, HEAD "\0\0\0\2/a" STAT),
    ANSWER(ZK_EXISTS, HEAD STAT),
    ANSWER(ZK_GET, HEAD "\0\0\0\3a\0b" STAT),
    ANSWER(ZK_GET, HEAD NONE STAT),
    ANSWER(ZK_CHILDREN, HEAD "\0\0\0\0"),
    ANSWER(ZK_CHILDREN, HEAD "\0\0\0\3\0\0\0\x9p-latch-2\0\0\0\1b\0\0\0\x9q-latch-1"),
    MULTI(ZK_SET, HEAD DONE("\0\0\0\xd") DONE("\0\0\0\5") STAT LAST),
    MULTI(ZK_DELETE, HEAD DONE("\0\0\0\2") DONE("\0\0\0\2") LAST),
    MULTI(ZK_SET, HEAD FAILED(NO_NODE) FAILED(UNTRIED) LAST),
    MULTI(ZK_SET, HEAD_OF(NO_NODE) FAILED("\0\0\0\0") FAILED(NO_NODE) LAST),
    ANSWER(ZK_GET, HEAD_OF(NO_NODE)),
    ANSWER(ZK_DELETE, HEAD),
};

static void answers_are_read(void **state)
{
    enum { GOOD = sizeof good / sizeof *good };
    zk_result r[GOOD];
    char *memory[GOOD];
    for (size_t i = 0; i < GOOD; i++)
        assert_true(take(&good[i], good[i].length, &r[i], &memory[i]));
    assert_string_equal(r[0].text, "/a");
    assert_string_equal(r[1].text, "/a");
    const zk_stat stat = r[1].stat;
    assert_true(stat.czxid == 0x11 && stat.mzxid == 0x12 && stat.ctime_ms == 0x13 && stat.mtime_ms == 0x14);
    assert_true(stat.version == 0x15 && stat.session == 0x18);
    assert_int_equal(r[4].length, 3);
    assert_memory_equal(r[4].text, "a\0b", 4);
    assert_int_equal(r[5].length, 0);
    assert_int_equal(r[6].count, 0);
    assert_int_equal(r[7].count, 3); /* in order: by what comes after the last "latch-" */
    assert_int_equal(r[7].contenders, 2);
    assert_string_equal(r[7].names[0], "q-latch-1");
    assert_string_equal(r[7].names[1], "p-latch-2");
    assert_string_equal(r[7].names[2], "b");
    assert_int_equal(r[8].error, ZK_OK);
    assert_true(r[8].stat.mtime_ms == 0x14);
    assert_true(r[10].error == ZK_NO_NODE && r[10].failed == 0);
    assert_true(r[11].error == ZK_NO_NODE && r[11].failed == 1);
    assert_int_equal(r[12].error, ZK_NO_NODE);
    for (size_t i = 0; i < GOOD; i++) {
        simba__zk_result_fini(&r[i]);
        free(memory[i]);
    }
}

/* Cut off anywhere, or with a byte too many. */
static void answers_are_whole(void **state)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (size_t length = 0; length <= good[i].length + 1; length++) {
            zk_result result;
            char *memory;
            if (length == good[i].length)
                continue;
            /* The head of a transaction that has failed may stand alone. */
            if (good[i].type == ZK_MULTI && length == 16 && memcmp(good[i].bytes + 12, "\0\0\0", 4) != 0)
                continue;
            if (take(&good[i], length, &result, &memory))
                fail_msg("%zu with %zu of %zu bytes", i, length, good[i].length);
            free(memory);
        }
}

static void answers_that_no_server_gives(void **state)
{
    static const answer bad[] = {
        ANSWER(ZK_CHILDREN, HEAD NONE),
        ANSWER(ZK_CHILDREN, HEAD "\x7f\xff\xff\xff"),
        ANSWER(ZK_CHILDREN, HEAD "\0\0\0\2\0\0\0\1a"),
        ANSWER(ZK_CHILDREN, HEAD "\0\0\0\1\0\0\0\0"),
        ANSWER(ZK_CHILDREN, HEAD "\0\0\0\1\0\0\0\3a/b"),
        ANSWER(ZK_CHILDREN, HEAD "\0\0\0\1\0\0\0\3a\0b"),
        ANSWER(ZK_CHILDREN, HEAD "\0\0\0\1" NONE),
        ANSWER(ZK_CREATE2, HEAD NONE STAT),
        ANSWER(ZK_CREATE2, HEAD "\0\0\0\2/\0" STAT),
        ANSWER(ZK_GET, HEAD "\xff\xff\xff\xfe" STAT),
        ANSWER(ZK_GET, HEAD "\x7f\xff\xff\xffx" STAT),
        ANSWER(ZK_GET, HEAD_OF(NO_NODE) STAT),
        ANSWER(ZK_DELETE, HEAD_OF("\0\0\0\3")), /* errors are negative */
        MULTI(ZK_SET, HEAD DONE("\0\0\0\xd") DONE("\0\0\0\2") LAST),
        MULTI(ZK_DELETE, HEAD DONE("\0\0\0\5") STAT DONE("\0\0\0\2") LAST),
        MULTI(ZK_DELETE, HEAD DONE("\0\0\0\2") FAILED(NO_NODE) LAST),
        MULTI(ZK_DELETE, HEAD FAILED("\0\0\0\0") FAILED("\0\0\0\0") LAST),
        MULTI(ZK_DELETE, HEAD FAILED(UNTRIED) FAILED(UNTRIED) LAST),
        MULTI(ZK_DELETE, HEAD FAILED(NO_NODE) FAILED(NO_NODE) LAST),
        MULTI(ZK_DELETE, HEAD NONE "\0" NO_NODE UNTRIED FAILED(UNTRIED) LAST),
        MULTI(ZK_DELETE, HEAD_OF(NO_NODE) DONE("\0\0\0\2") DONE("\0\0\0\2") LAST),
        MULTI(ZK_DELETE, HEAD DONE("\0\0\0\2") DONE("\0\0\0\2") DONE("\0\0\0\2") LAST),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zk_result result;
        char *memory;
        if (take(&bad[i], bad[i].length, &result, &memory))
            fail_msg("%zu", i);
        free(memory);
    }
}

static void handshakes_and_events(void **state)
{
    char welcome[] = "\0\0\0\0\0\0\x27\x10\0\0\0\0\0\0\x12\x34\0\0\0\x10"
                     "0123456789abcdef\1";
    char old[sizeof welcome];
    zk_welcome w;
    memcpy(old, welcome, sizeof old);
    assert_true(simba__zk_read_welcome(welcome, sizeof welcome - 1, &w));
    assert_true(w.timeout_ms == 10000 && w.id == 0x1234 && w.read_only);
    assert_memory_equal(w.password, "0123456789abcdef", ZK_PASSWORD);
    char short_one[sizeof old];
    memcpy(short_one, old, sizeof old);
    assert_true(simba__zk_read_welcome(short_one, sizeof old - 2, &w)); /* a server of long ago */
    assert_false(w.read_only);
    for (size_t length = 0; length < sizeof old - 2; length++) {
        char cut[sizeof old];
        memcpy(cut, old, sizeof old);
        assert_false(simba__zk_read_welcome(cut, length, &w));
    }
    char told[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\4\0\0\0\3\0\0\0\2/a";
    zk_event event;
    zk_head head;
    assert_true(simba__zk_read_head(told, sizeof told - 1, &head));
    assert_int_equal(head.xid, ZK_XID_EVENT);
    for (size_t length = 0; length < sizeof told; length++) {
        char cut[sizeof told];
        memcpy(cut, told, sizeof told);
        assert_int_equal(simba__zk_read_event(cut, length, &event), length == sizeof told - 1);
    }
    assert_true(simba__zk_read_event(told, sizeof told - 1, &event));
    assert_int_equal(event.kind, ZK_EVENT_CHILD);
    assert_string_equal(event.path, "/a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_read),
        cmocka_unit_test(answers_are_whole),
        cmocka_unit_test(answers_that_no_server_gives),
        cmocka_unit_test(handshakes_and_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
