/* What a ZooKeeper server says, by the parts of its messages: for a server that a test plays, and for the fuzz target. */
#ifndef TESTS_LIB_ZOOKEEPER_SPEECH_H
#define TESTS_LIB_ZOOKEEPER_SPEECH_H

#include <stddef.h>
#include <stdint.h>

/* Kinds of requests, as the protocol numbers them. */
enum {
    FAKE_HANDSHAKE = 0,
    FAKE_CREATE = 1,
    FAKE_DELETE = 2,
    FAKE_EXISTS = 3,
    FAKE_GET = 4,
    FAKE_SET = 5,
    FAKE_CHILDREN = 8,
    FAKE_SYNC = 9,
    FAKE_PING = 11,
    FAKE_MULTI = 14, /* if this is answered oddly, nobody contends, so that there is something to forget */
    FAKE_CREATE2 = 15,
    FAKE_CREATE_CONTAINER = 19,
    FAKE_SET_WATCHES = 101,
    FAKE_CLOSE = -11,
    FAKE_NEVER = -1, /* no request */
};

/* Errors, and the number that events have in place of a request's. */
enum { FAKE_NO_NODE = -101, FAKE_BAD_VERSION = -103, FAKE_EVENT_XID = -1 };

enum { ZK_SPEECH = 8192 };

typedef struct zk_speech {
    unsigned char bytes[ZK_SPEECH]; /* what does not fit is left out */
    size_t length;
    size_t message; /* where the length of the one that is being written stands */
} zk_speech;

typedef struct zk_speech_stat {
    uint64_t czxid; /* and mzxid, pzxid */
    int64_t ctime_ms, mtime_ms;
    uint32_t version;
    uint64_t owner; /* the session whose node it is */
} zk_speech_stat;

void zk_put(zk_speech *s, const void *bytes, size_t length);
void zk_put_number(zk_speech *s, uint64_t number, size_t size);
/* With its length before it. */
void zk_put_text(zk_speech *s, const char *text, size_t length);
void zk_put_stat(zk_speech *s, const zk_speech_stat *stat);
/* A message is what comes between these two. */
void zk_begin(zk_speech *s);
void zk_end(zk_speech *s);
void zk_begin_reply(zk_speech *s, int32_t xid, int64_t zxid, int32_t error);

#endif
