/* See frames.h. A message is a length and that many bytes; these begin with a header: xid, zxid, error. */
#include "backends/zookeeper/frames.h"

#include <assert.h>
#include <string.h>

#include "util/mem.h"

enum {
    LENGTH = 4,
    HEADER = 16,
    STAT = 68,
    AT_XID = LENGTH,
    AT_ERROR = LENGTH + 12,
    AT_BODY = LENGTH + HEADER,
    AT_EVENT_PATH = AT_BODY + 8,
    RESULT = 9,        /* of a part of a transaction: its type, a byte that says whether it is the last, an error */
    ERROR_RESULT = -1, /* the type of an operation that failed, or of any if one did; the error comes once more */
    NOT_TRIED = -2,    /* the error of the operations after the one that failed */
};

/* Messages that are no replies, and replies to requests that the library sends by itself. Of the latter it reads only
 * the headers. */
enum { XID_EVENT = -1, XID_PING = -2, XID_AUTH = -4, XID_SET_WATCHES = -8 };

static int32_t int_at(const unsigned char *head, size_t offset)
{
    const unsigned char *b = head + offset;
    return (int32_t)((uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]);
}

static zk_verdict verdict(bool good)
{
    return good ? ZK_FRAME_GOOD : ZK_FRAME_BAD;
}

/* Is there room in `left` bytes for a size, `size` bytes, and `more`? */
static bool fits(int64_t size, int64_t more, int64_t left)
{
    return LENGTH + size + more <= left;
}

/* `first` is the number with which every body but two begins. `left`: how many bytes the body has. */
static bool is_body(zk_reply reply, int32_t first, int64_t left)
{
    switch (reply) {
    case ZK_REPLY_EMPTY:
        return true;
    case ZK_REPLY_PATH:
        return first >= 0 && fits(first, 0, left);
    case ZK_REPLY_PATH_STAT:
        return first > 0 && fits(first, STAT, left);
    case ZK_REPLY_STAT:
        return left >= STAT;
    case ZK_REPLY_DATA_STAT: /* -1: there is none */
        return first >= -1 && fits(first < 0 ? 0 : first, STAT, left);
    case ZK_REPLY_NAMES: /* each is a length and one byte at least */
        return first >= 0 && first <= ZK_FRAME_NAMES_MAX && fits((int64_t)first * (LENGTH + 1), 0, left);
    case ZK_REPLY_PAIR: /* is_pair looks at all of it */
    case ZK_REPLY_PAIR_STAT:
        break;
    }
    return false;
}

/* The library walks the results of a transaction until one says that it is the last, and assumes that there are as many
 * as it asked for. `at` is a result of the type that a good one has, or of ERROR_RESULT, and not the last. */
static bool is_result(const unsigned char *at, bool failed)
{
    return (int_at(at, 0) == ERROR_RESULT) == failed && at[LENGTH] == 0 && (failed || int_at(at, LENGTH + 1) == 0);
}

/* Judge the whole reply to a transaction: two results, and the end of them. If the transaction failed, its results say
 * so, and one of them says why. */
static bool is_pair(zk_reply reply, const unsigned char *body, int32_t left)
{
    enum { ENDING = RESULT };
    const bool failed = left >= RESULT && int_at(body, 0) == ERROR_RESULT;
    const int32_t first = RESULT + (failed ? LENGTH : 0);
    const int32_t second = RESULT + (failed ? LENGTH : reply == ZK_REPLY_PAIR_STAT ? STAT : 0);
    if (left != first + second + ENDING || !is_result(body, failed) || !is_result(body + first, failed) ||
        body[first + second + LENGTH] == 0)
        return false;
    const int32_t errors[] = {failed ? int_at(body, RESULT) : 0, failed ? int_at(body + first, RESULT) : 0};
    return !failed || (errors[0] < 0 && errors[0] != NOT_TRIED && errors[1] <= 0) ||
           (errors[0] == 0 && errors[1] < 0 && errors[1] != NOT_TRIED);
}

static zk_verdict judge_pair(zk_reply reply, const unsigned char *head, size_t available, int32_t left)
{
    if (left > ZK_FRAME_HEAD - AT_BODY)
        return ZK_FRAME_BAD;
    if (available < AT_BODY + (size_t)left)
        return ZK_FRAME_SHORT;
    return verdict(is_pair(reply, head + AT_BODY, left));
}

zk_verdict simba__zk_frame_judge(const zk_expected *expected, const unsigned char *head, size_t available)
{
    assert(available > 0);
    if (available < LENGTH)
        return ZK_FRAME_SHORT;
    const int32_t length = int_at(head, 0);
    if (length < HEADER || length > ZK_FRAME_MAX)
        return ZK_FRAME_BAD;
    const int32_t left = length - HEADER;
    if (available < AT_BODY)
        return ZK_FRAME_SHORT;
    const int32_t xid = int_at(head, AT_XID);
    const int32_t error = int_at(head, AT_ERROR);
    if (xid == XID_PING || xid == XID_AUTH || xid == XID_SET_WATCHES)
        return ZK_FRAME_GOOD;
    if (xid == XID_EVENT) {
        if (left < AT_EVENT_PATH + LENGTH - AT_BODY)
            return ZK_FRAME_BAD;
        if (available < AT_EVENT_PATH + LENGTH)
            return ZK_FRAME_SHORT;
        const int32_t path = int_at(head, AT_EVENT_PATH);
        return verdict(int_at(head, AT_BODY) > 0 && path > 0 && fits(path, AT_EVENT_PATH - AT_BODY, left));
    }
    if (expected->count == 0 || error > 0)
        return ZK_FRAME_BAD;
    const zk_reply reply = expected->replies[expected->first];
    if (error < 0 || reply == ZK_REPLY_EMPTY)
        return ZK_FRAME_GOOD;
    if (reply == ZK_REPLY_PAIR || reply == ZK_REPLY_PAIR_STAT)
        return judge_pair(reply, head, available, left);
    if (left < LENGTH)
        return ZK_FRAME_BAD;
    if (available < AT_BODY + LENGTH)
        return ZK_FRAME_SHORT;
    return verdict(is_body(reply, int_at(head, AT_BODY), left));
}

/* --- what is expected ------------------------------------------------------------------------------------- */

static bool grow(zk_expected *expected)
{
    const size_t room = expected->room ? expected->room * 2 : 64;
    unsigned char *replies = simba__malloc(room);
    if (!replies)
        return false;
    for (size_t i = 0; i < expected->count; i++)
        replies[i] = expected->replies[(expected->first + i) % expected->room];
    simba__free(expected->replies);
    expected->replies = replies;
    expected->room = room;
    expected->first = 0;
    return true;
}

bool simba__zk_expect(zk_expected *expected, zk_reply reply)
{
    if (expected->count == expected->room && !grow(expected))
        return false;
    expected->replies[(expected->first + expected->count++) % expected->room] = (unsigned char)reply;
    return true;
}

void simba__zk_expect_not(zk_expected *expected)
{
    assert(expected->count > 0);
    expected->count--;
}

void simba__zk_expected_answered(zk_expected *expected)
{
    assert(expected->count > 0);
    expected->count--;
    expected->first = (expected->first + 1) % expected->room;
}

void simba__zk_expected_fini(zk_expected *expected)
{
    simba__free(expected->replies);
    memset(expected, 0, sizeof *expected);
}
