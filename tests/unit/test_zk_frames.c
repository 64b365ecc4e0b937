/* Which messages of a ZooKeeper server the client library gets to see. */
#include <string.h>

#include "lib/cm.h"

#include "stores/zookeeper/zookeeper.h"

typedef struct frame {
    unsigned char bytes[ZK_FRAME_HEAD + 32];
    size_t size;
} frame;

static void put(frame *to, int32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        to->bytes[to->size++] = (unsigned char)((uint32_t)value >> shift);
}

/* A message that says to be `length` long, up to the first numbers of its body. */
static frame head(int32_t length, int32_t xid, int32_t error, int32_t first, int32_t second, int32_t third)
{
    frame f = {.size = 0};
    put(&f, length);
    put(&f, xid);
    put(&f, 0);
    put(&f, 0);
    put(&f, error);
    put(&f, first);
    put(&f, second);
    put(&f, third);
    return f;
}

static zk_verdict judge(const zk_expected *expected, const frame *f)
{
    /* What is decided early stays decided. */
    zk_verdict verdict = ZK_FRAME_SHORT;
    for (size_t available = 1; available <= f->size; available++) {
        const zk_verdict next = simba__zk_frame_judge(expected, f->bytes, available);
        if (verdict != ZK_FRAME_SHORT)
            assert_int_equal(next, verdict);
        verdict = next;
    }
    assert_int_not_equal(verdict, ZK_FRAME_SHORT);
    return verdict;
}

static void assert_judged(zk_reply reply, int32_t length, int32_t error, int32_t first, zk_verdict wanted)
{
    zk_expected expected = {0};
    assert_true(simba__zk_expect(&expected, reply));
    const frame f = head(length, 7, error, first, 0, 0);
    if (judge(&expected, &f) != wanted)
        fail_msg("reply %d, length %d, error %d, first %d", (int)reply, length, error, first);
    simba__zk_expected_fini(&expected);
}

/* Each kind of reply: the shortest good one, and one byte less; numbers that are too small and too large. */
static void about_replies(void **state)
{
    (void)state;
    enum { H = 16, STAT = 68, GOOD = ZK_FRAME_GOOD, BAD = ZK_FRAME_BAD };
    static const struct {
        zk_reply reply;
        int32_t length, first;
        int wanted;
    } cases[] = {
        {ZK_REPLY_EMPTY, H, 0, GOOD},
        {ZK_REPLY_EMPTY, H - 1, 0, BAD},
        {ZK_REPLY_EMPTY, -1, 0, BAD},
        {ZK_REPLY_EMPTY, INT32_MIN, 0, BAD},
        {ZK_REPLY_EMPTY, ZK_FRAME_MAX, 0, GOOD},
        {ZK_REPLY_EMPTY, ZK_FRAME_MAX + 1, 0, BAD},
        {ZK_REPLY_PATH, H + 4 + 5, 5, GOOD},
        {ZK_REPLY_PATH, H + 4 + 4, 5, BAD},
        {ZK_REPLY_PATH, H + 3, 0, BAD},
        {ZK_REPLY_PATH, H + 4, -1, BAD},
        {ZK_REPLY_PATH, H + 4, INT32_MAX, BAD},
        {ZK_REPLY_PATH_STAT, H + 4 + 5 + STAT, 5, GOOD},
        {ZK_REPLY_PATH_STAT, H + 4 + 5 + STAT - 1, 5, BAD},
        {ZK_REPLY_PATH_STAT, H + 4 + STAT, 0, BAD},
        {ZK_REPLY_PATH_STAT, H + 4 + STAT, -1, BAD},
        {ZK_REPLY_PATH_STAT, H + 4 + STAT, INT32_MAX, BAD},
        {ZK_REPLY_STAT, H + STAT, 0, GOOD},
        {ZK_REPLY_STAT, H + STAT - 1, 0, BAD},
        {ZK_REPLY_DATA_STAT, H + 4 + 5 + STAT, 5, GOOD},
        {ZK_REPLY_DATA_STAT, H + 4 + 5 + STAT - 1, 5, BAD},
        {ZK_REPLY_DATA_STAT, H + 4 + STAT, -1, GOOD},
        {ZK_REPLY_DATA_STAT, H + 4 + STAT, -2, BAD},
        {ZK_REPLY_DATA_STAT, H + 4 + STAT, INT32_MAX, BAD},
        {ZK_REPLY_NAMES, H + 4, 0, GOOD},
        {ZK_REPLY_NAMES, H + 4 + 10, 2, GOOD},
        {ZK_REPLY_NAMES, H + 4 + 9, 2, BAD},
        {ZK_REPLY_NAMES, H + 4, -1, BAD},
        {ZK_REPLY_NAMES, ZK_FRAME_MAX, ZK_FRAME_NAMES_MAX, GOOD},
        {ZK_REPLY_NAMES, ZK_FRAME_MAX, ZK_FRAME_NAMES_MAX + 1, BAD},
        {ZK_REPLY_NAMES, ZK_FRAME_MAX, INT32_MAX, BAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_judged(cases[i].reply, cases[i].length, 0, cases[i].first, (zk_verdict)cases[i].wanted);
    /* An error has no body; there are no positive ones. */
    assert_judged(ZK_REPLY_NAMES, H, -101, 0, ZK_FRAME_GOOD);
    assert_judged(ZK_REPLY_NAMES, H + 4, 1, 0, ZK_FRAME_BAD);
}

static void put_result(frame *to, int32_t type, unsigned char last, int32_t error)
{
    put(to, type);
    to->bytes[to->size++] = last;
    put(to, error);
}

/* The reply to a transaction: a header, and whatever `put_body` puts behind it. `more`: bytes by which its length is wrong. */
static zk_verdict judge_pair(zk_reply reply, void (*put_body)(frame *to), int32_t more)
{
    zk_expected expected = {0};
    frame f = {.size = 0};
    put(&f, 0);
    put(&f, 7);
    put(&f, 0);
    put(&f, 0);
    put(&f, 0);
    put_body(&f);
    frame length = {.size = 0};
    put(&length, (int32_t)f.size - 4 + more);
    memcpy(f.bytes, length.bytes, 4);
    f.size += more > 0 ? (size_t)more : 0;
    assert_true(simba__zk_expect(&expected, reply));
    const zk_verdict verdict = judge(&expected, &f);
    simba__zk_expected_fini(&expected);
    return verdict;
}

static void put_done(frame *to)
{
    put_result(to, 2, 0, 0);
    put_result(to, 2, 0, 0);
    put_result(to, -1, 1, -1);
}

static void put_set(frame *to)
{
    put_result(to, 13, 0, 0);
    put_result(to, 5, 0, 0);
    to->size += 68;
    put_result(to, -1, 1, -1);
}

static void put_errors(frame *to, int32_t first, int32_t second)
{
    put_result(to, -1, 0, first);
    put(to, first);
    put_result(to, -1, 0, second);
    put(to, second);
    put_result(to, -1, 1, -1);
}

static void put_first_failed(frame *to)
{
    put_errors(to, -101, -2);
}

static void put_second_failed(frame *to)
{
    put_errors(to, 0, -103);
}

static void put_none_failed(frame *to)
{
    put_errors(to, 0, 0);
}

static void put_none_tried(frame *to)
{
    put_errors(to, -2, -2);
}

static void put_positive(frame *to)
{
    put_errors(to, 0, 3);
}

static void put_one(frame *to)
{
    put_result(to, 2, 0, 0);
    put_result(to, -1, 1, -1);
}

static void put_three(frame *to)
{
    put_result(to, 2, 0, 0);
    put_result(to, 2, 0, 0);
    put_result(to, 2, 0, 0);
    put_result(to, -1, 1, -1);
}

static void put_endless(frame *to)
{
    put_result(to, 2, 0, 0);
    put_result(to, 2, 0, 0);
    put_result(to, 2, 0, 0);
}

static void put_half_failed(frame *to)
{
    put_result(to, 2, 0, 0);
    put_result(to, -1, 0, -101);
    put(to, -101);
    put_result(to, -1, 1, -1);
}

static void put_odd_error(frame *to)
{
    put_result(to, 2, 0, -101);
    put_result(to, 2, 0, 0);
    put_result(to, -1, 1, -1);
}

static void put_nothing(frame *to)
{
    (void)to;
}

/* The library aborts when a transaction has more results than it has parts, and reads on when one is cut off. */
static void about_transactions(void **state)
{
    (void)state;
    static const struct {
        void (*put_body)(frame *to);
        zk_reply reply;
        int32_t more;
        zk_verdict wanted;
    } cases[] = {
        {put_done, ZK_REPLY_PAIR, 0, ZK_FRAME_GOOD},
        {put_set, ZK_REPLY_PAIR_STAT, 0, ZK_FRAME_GOOD},
        {put_first_failed, ZK_REPLY_PAIR, 0, ZK_FRAME_GOOD},
        {put_first_failed, ZK_REPLY_PAIR_STAT, 0, ZK_FRAME_GOOD},
        {put_second_failed, ZK_REPLY_PAIR_STAT, 0, ZK_FRAME_GOOD},
        {put_done, ZK_REPLY_PAIR_STAT, 0, ZK_FRAME_BAD},
        {put_set, ZK_REPLY_PAIR, 0, ZK_FRAME_BAD},
        {put_done, ZK_REPLY_PAIR, -1, ZK_FRAME_BAD},
        {put_done, ZK_REPLY_PAIR, 1, ZK_FRAME_BAD},
        {put_set, ZK_REPLY_PAIR_STAT, -9, ZK_FRAME_BAD},
        {put_first_failed, ZK_REPLY_PAIR, -4, ZK_FRAME_BAD},
        {put_none_failed, ZK_REPLY_PAIR, 0, ZK_FRAME_BAD},
        {put_none_tried, ZK_REPLY_PAIR, 0, ZK_FRAME_BAD},
        {put_positive, ZK_REPLY_PAIR, 0, ZK_FRAME_BAD},
        {put_one, ZK_REPLY_PAIR, 0, ZK_FRAME_BAD},
        {put_three, ZK_REPLY_PAIR, 0, ZK_FRAME_BAD},
        {put_endless, ZK_REPLY_PAIR, 0, ZK_FRAME_BAD},
        {put_half_failed, ZK_REPLY_PAIR, 0, ZK_FRAME_BAD},
        {put_odd_error, ZK_REPLY_PAIR, 0, ZK_FRAME_BAD},
        {put_nothing, ZK_REPLY_PAIR, 0, ZK_FRAME_BAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (judge_pair(cases[i].reply, cases[i].put_body, cases[i].more) != cases[i].wanted)
            fail_msg("case %zu", i);
}

/* Nobody has asked, or not that. */
static void about_unasked(void **state)
{
    (void)state;
    zk_expected expected = {0};
    const frame reply = head(16, 7, 0, 0, 0, 0);
    const frame ping = head(16, -2, 0, 0, 0, 0);
    assert_int_equal(judge(&expected, &reply), ZK_FRAME_BAD);
    assert_int_equal(judge(&expected, &ping), ZK_FRAME_GOOD);
    assert_true(simba__zk_expect(&expected, ZK_REPLY_EMPTY));
    assert_int_equal(judge(&expected, &reply), ZK_FRAME_GOOD);
    simba__zk_expected_answered(&expected);
    assert_int_equal(judge(&expected, &reply), ZK_FRAME_BAD);
    assert_true(simba__zk_expect(&expected, ZK_REPLY_EMPTY));
    simba__zk_expect_not(&expected);
    assert_int_equal(judge(&expected, &reply), ZK_FRAME_BAD);
    simba__zk_expected_fini(&expected);
}

/* An event is a kind, a state and a path. */
static void about_events(void **state)
{
    (void)state;
    static const struct {
        int32_t length, type, path;
        zk_verdict wanted;
    } cases[] = {
        {16 + 12 + 6, 4, 6, ZK_FRAME_GOOD}, {16 + 12 + 5, 4, 6, ZK_FRAME_BAD},     {16 + 12, 4, 0, ZK_FRAME_BAD},
        {16 + 12, 4, -1, ZK_FRAME_BAD},     {16 + 11, 4, 0, ZK_FRAME_BAD},         {16, 4, 0, ZK_FRAME_BAD},
        {16 + 12 + 6, -1, 6, ZK_FRAME_BAD}, {16 + 12, 4, INT32_MAX, ZK_FRAME_BAD},
    };
    const zk_expected none = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const frame f = head(cases[i].length, -1, 0, cases[i].type, 3, cases[i].path);
        if (judge(&none, &f) != cases[i].wanted)
            fail_msg("case %zu", i);
    }
}

/* Replies are expected in the order of the calls, however many there are. */
static void about_order(void **state)
{
    (void)state;
    enum { MANY = 300 };
    zk_expected expected = {0};
    unsigned asked = 0;
    for (unsigned answered = 0; answered < MANY; answered++) {
        for (int i = 0; i < 2 && asked < MANY; i++, asked++)
            assert_true(simba__zk_expect(&expected, asked % 3 ? ZK_REPLY_EMPTY : ZK_REPLY_STAT));
        const frame f = head(16, 7, 0, 0, 0, 0);
        assert_int_equal(judge(&expected, &f), answered % 3 ? ZK_FRAME_GOOD : ZK_FRAME_BAD);
        simba__zk_expected_answered(&expected);
    }
    assert_int_equal(expected.count, 0);
    simba__zk_expected_fini(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_replies), cmocka_unit_test(about_transactions), cmocka_unit_test(about_unasked),
        cmocka_unit_test(about_events),  cmocka_unit_test(about_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
