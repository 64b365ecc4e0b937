/* Decides which messages of a server libzookeeper may see. Pure: bytes in, a verdict out.
 *
 * The library believes what it reads: it allocates what a length says, walks as many strings as a number says, aborts
 * on a reply to nothing, and frees pointers that a cut-off reply never set. Code that knows the question sees all of
 * that in the first bytes of a message. So every caller says what the reply to its call looks like, and this code
 * judges each message before the library sees it. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_FRAMES_H
#define SIMBA_BACKENDS_ZOOKEEPER_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parts of a reply. */
typedef enum zk_reply {
    ZK_REPLY_EMPTY,     /* to a delete */
    ZK_REPLY_PATH,      /* to a create or a sync */
    ZK_REPLY_PATH_STAT, /* to a create2 */
    ZK_REPLY_STAT,      /* to a set or an exists */
    ZK_REPLY_DATA_STAT, /* to a get */
    ZK_REPLY_NAMES,     /* to a get_children */
    ZK_REPLY_PAIR,      /* to a transaction of two calls, neither of which returns anything */
    ZK_REPLY_PAIR_STAT, /* to one whose second call is a set */
} zk_reply;

typedef enum zk_verdict {
    ZK_FRAME_GOOD,
    ZK_FRAME_SHORT, /* more of its first bytes are needed */
    ZK_FRAME_BAD,
} zk_verdict;

enum {
    ZK_FRAME_HEAD = 128,             /* no verdict needs more bytes than these */
    ZK_FRAME_MAX = 16 * 1024 * 1024, /* bytes of a message */
    ZK_FRAME_NAMES_MAX = 1000000,    /* names in one */
};

/* The expected replies, in order. All zero: none. */
typedef struct zk_expected {
    unsigned char *replies; /* a ring of zk_reply */
    size_t room, first, count;
} zk_expected;

/* Judge a message by its first `available` bytes, at least 1. */
zk_verdict simba__zk_frame_judge(const zk_expected *expected, const unsigned char *head, size_t available);

/* A call is about to be made. False: out of memory; do not make it. */
bool simba__zk_expect(zk_expected *expected, zk_reply reply);
/* The call could not be made. */
void simba__zk_expect_not(zk_expected *expected);
/* The first of the expected replies has come, or never will. */
void simba__zk_expected_answered(zk_expected *expected);
void simba__zk_expected_fini(zk_expected *expected);

#endif
