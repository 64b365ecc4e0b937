/* ZooKeeper's protocol as bytes: requests are compared with those of Apache's own client, answers are taken whole or not at all. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include "lib/cm.h"

#include "stores/zookeeper/zookeeper.h"

/* --- requests ------------------------------------------------------------------------------------------------ */

enum { RECORDED = 16, FRAME = 1024 };

/* What a client has sent, without pings. */
typedef struct record {
    int listener;
    pthread_t thread;
    size_t count;
    size_t length[RECORDED];
    char frame[RECORDED][FRAME];
} record;

static bool read_frame(int fd, char *out, size_t *ret_length)
{
    if (recv(fd, out, 4, MSG_WAITALL) != 4)
        return false;
    const size_t size = simba__zk_length(out);
    *ret_length = size + 4;
    return size + 4 <= FRAME && recv(fd, out + 4, size, MSG_WAITALL) == (ssize_t)size;
}

static void *play_server(void *arg)
{
    static const char welcome[] = "\0\0\0\x25\0\0\0\0\0\0\x27\x10\0\0\0\0\0\0\x12\x34\0\0\0\x10"
                                  "0123456789abcdef";
    record *r = arg;
    const int fd = accept(r->listener, NULL, NULL);
    while (r->count < RECORDED && read_frame(fd, r->frame[r->count], &r->length[r->count])) {
        if (r->count == 0)
            send(fd, welcome, sizeof welcome, MSG_NOSIGNAL); /* its last byte says that it can write */
        uint32_t xid = 0;
        memcpy(&xid, r->frame[r->count] + 4, sizeof xid);
        r->count += r->count == 0 || (int32_t)be32toh(xid) != -2;
    }
    close(fd);
    return NULL;
}

static void ignore_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)type, (void)state, (void)path, (void)context;
}

static void ignore_log(const char *message)
{
    (void)message;
}

static void on_void(int rc, const void *data)
{
    (void)rc, (void)data;
}

static void on_text(int rc, const char *value, const void *data)
{
    (void)rc, (void)value, (void)data;
}

static void on_text_stat(int rc, const char *value, const struct Stat *stat, const void *data)
{
    (void)rc, (void)value, (void)stat, (void)data;
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    (void)rc, (void)stat, (void)data;
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    (void)rc, (void)value, (void)length, (void)stat, (void)data;
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    (void)rc, (void)names, (void)data;
}

static void work(zhandle_t *zh)
{
    int fd = -1;
    int interest = 0;
    struct timeval wait;
    zookeeper_interest(zh, &fd, &interest, &wait);
    struct pollfd io = {.fd = fd, .events = (short)(interest & ZOOKEEPER_WRITE ? POLLIN | POLLOUT : POLLIN)};
    poll(&io, 1, 10);
    zookeeper_process(zh, (io.revents & POLLIN ? ZOOKEEPER_READ : 0) | (io.revents & POLLOUT ? ZOOKEEPER_WRITE : 0));
}

/* All kinds of requests, as Apache's client makes them. */
static void ask_all(zhandle_t *zh)
{
    static struct ACL everybody_reads[] = {{0x1f, {(char *)"auth", (char *)""}},
                                           {0x01, {(char *)"world", (char *)"anyone"}}};
    static const struct ACL_vector readers = {2, everybody_reads};
    zoo_op_t parts[2];
    zoo_op_result_t results[2];
    struct Stat stat;
    zoo_aset(zh, "/", "", 0, INT32_MIN, on_stat, NULL);
    zoo_acreate2(zh, "/simba/m/p-latch-", "me", 2, &ZOO_OPEN_ACL_UNSAFE, 3, on_text_stat, NULL);
    zoo_acreate(zh, "/simba", "", 0, &ZOO_CREATOR_ALL_ACL, 4, on_text, NULL);
    zoo_acreate(zh, "/simba-notes/m", "1 0 0\n", 6, &readers, 0, on_text, NULL);
    zoo_adelete(zh, "/simba/m/c", -1, on_void, NULL);
    zoo_async(zh, "/", on_text, NULL);
    zoo_awexists(zh, "/simba/m", ignore_event, NULL, on_stat, NULL);
    zoo_awget(zh, "/simba/m/c", NULL, NULL, on_data, NULL);
    zoo_awget_children(zh, "/simba/m", ignore_event, NULL, on_names, NULL);
    zoo_check_op_init(&parts[0], "/simba/m/c", -1);
    zoo_set_op_init(&parts[1], "/simba-notes/m", "note", 4, 7, &stat);
    zoo_amulti(zh, 2, parts, results, on_void, NULL);
}

static void assert_frame(const record *r, size_t n, const simba__buffer *ours)
{
    assert_int_equal(ours->length, r->length[n]);
    assert_memory_equal(ours->data, r->frame[n], ours->length);
}

static void requests_are_those_of_apache(void **state)
{
    (void)state;
    static record r;
    char address[32];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    r.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r.listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(r.listener, 1), 0);
    assert_int_equal(getsockname(r.listener, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(pthread_create(&r.thread, NULL, play_server, &r), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    zhandle_t *zh = zookeeper_init2(address, ignore_event, 10000, NULL, NULL, ZOO_NO_LOG_CLIENTENV, ignore_log);
    zoo_add_auth(zh, "digest", "user:secret", 11, NULL, NULL);
    while (zoo_state(zh) != ZOO_CONNECTED_STATE)
        work(zh);
    ask_all(zh);
    for (unsigned i = 0; i < 50; i++)
        work(zh);
    zookeeper_close(zh); /* says good-bye */
    pthread_join(r.thread, NULL);
    close(r.listener);

    static const char none[ZK_PASSWORD];
    static const zk_request parts[] = {
        {.type = ZK_CHECK, .path = "/simba/m/c", .version = -1},
        {.type = ZK_SET, .path = "/simba-notes/m", .data = "note", .length = 4, .version = 7}};
    static const zk_request all[] = {
        {.type = ZK_SET, .path = "/", .data = "", .version = INT32_MIN},
        {.type = ZK_CREATE2, .path = "/simba/m/p-latch-", .data = "me", .length = 2, .acl = ZK_ACL_OPEN},
        {.type = ZK_CREATE_CONTAINER, .path = "/simba", .data = "", .acl = ZK_ACL_CREATOR},
        {.type = ZK_CREATE, .path = "/simba-notes/m", .data = "1 0 0\n", .length = 6, .acl = ZK_ACL_READ},
        {.type = ZK_DELETE, .path = "/simba/m/c", .version = -1},
        {.type = ZK_SYNC, .path = "/"},
        {.type = ZK_EXISTS, .path = "/simba/m", .watch = true},
        {.type = ZK_GET, .path = "/simba/m/c"},
        {.type = ZK_CHILDREN, .path = "/simba/m", .watch = true},
        {.type = ZK_MULTI, .path = "/", .parts = parts},
        {.type = ZK_CLOSE},
    };
    enum { COUNT = sizeof all / sizeof *all };
    assert_int_equal(r.count, COUNT + 2);
    simba__buffer out = {0};
    simba__zk_put_hello(&out, 0, 10000, 0, none);
    assert_frame(&r, 0, &out);
    out.length = 0;
    simba__zk_put_auth(&out, "user:secret");
    assert_frame(&r, 1, &out);
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t xid;
        memcpy(&xid, r.frame[i + 2] + 4, sizeof xid);
        out.length = 0;
        simba__zk_put_request(&out, (int32_t)be32toh(xid), &all[i]);
        assert_frame(&r, i + 2, &out);
    }
    simba__buffer_free(&out);
}

/* --- answers ------------------------------------------------------------------------------------------------- */

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
    (void)state;
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
    (void)state;
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
    (void)state;
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
    (void)state;
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
        cmocka_unit_test(requests_are_those_of_apache),
        cmocka_unit_test(answers_are_read),
        cmocka_unit_test(answers_are_whole),
        cmocka_unit_test(answers_that_no_server_gives),
        cmocka_unit_test(handshakes_and_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
