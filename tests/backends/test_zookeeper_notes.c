/* Notes in ZooKeeper: where they are kept, what else is kept in there, and who may write. One real server for all. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"
#include "lib/proxy.h"
#include "lib/raw_zookeeper.h"
#include "lib/referee.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"
#include "lib/testhost.h"

#include "stores/zookeeper/zookeeper.h"

static server zookeeper;

static const char me[] = "me";
enum { NONCE = 7 };

static void open_store(testhost *h, int port, const char *login, const char *rest)
{
    char url[160];
    simba_error err = {0};
    snprintf(url, sizeof url, "zookeeper://%s127.0.0.1:%d%s", login, port, rest);
    if (testhost_open(h, &simba__backend_zookeeper, url, &err) < 0)
        fail_msg("%s: %s", url, err.text);
}

static testhost_request ask(testhost *h, simba_op op, const char *mutex, uint64_t nonce, uint64_t token)
{
    testhost_request r = testhost_request_of(h, op, mutex, me, nonce, token);
    testhost_ask(h, &r);
    return r;
}

/* Returns the token. */
static uint64_t lock(testhost *h, const char *mutex)
{
    const testhost_request r = ask(h, SIMBA_OP_ACQUIRE, mutex, NONCE, 0);
    assert_int_equal(r.request.reply.status, 0);
    assert_int_equal(r.request.reply.outcome, SIMBA_MINE);
    return r.request.reply.owner.token;
}

static void unlock(testhost *h, const char *mutex, uint64_t token)
{
    assert_int_equal(ask(h, SIMBA_OP_RELEASE, mutex, NONCE, token).request.reply.outcome, SIMBA_MINE);
}

static testhost_request write_as(testhost *h, const char *mutex, uint64_t token, uint64_t number, const char *text)
{
    testhost_request r = testhost_request_of(h, SIMBA_OP_WRITE_NOTE, mutex, me, NONCE, token);
    r.request.note = text;
    r.request.note_size = strlen(text);
    r.request.note_number = number;
    testhost_ask(h, &r);
    return r;
}

static void assert_wrote(testhost *h, const char *mutex, uint64_t token, uint64_t number, const char *text,
                         simba_outcome wanted)
{
    const testhost_request r = write_as(h, mutex, token, number, text);
    if (r.request.reply.status < 0)
        fail_msg("%s", r.error.text);
    assert_int_equal(r.request.reply.outcome, wanted);
}

/* "": there is none. */
static void assert_note(testhost *h, const char *mutex, const char *text)
{
    h->note = (simba_note){0};
    const testhost_request r = ask(h, SIMBA_OP_READ_NOTE, mutex, 0, 0);
    if (r.request.reply.status < 0)
        fail_msg("%s", r.error.text);
    assert_int_equal(h->note.length, strlen(text));
    assert_memory_equal(h->note.bytes, text, strlen(text));
    assert_true(h->note.length == 0 || h->note.written_at_ms <= r.request.reply.now_ms);
}

static int remove_child(zhandle_t *zh, const char *path)
{
    char name[256];
    char child[512];
    const int rc = raw_zookeeper_child(zh, path, "latch-", sizeof name, name);
    if (rc != ZOK)
        return rc;
    snprintf(child, sizeof child, "%s/%s", path, name);
    return raw_zookeeper_delete(zh, child);
}

/* --- where it is ------------------------------------------------------------------------------------------------ */

/* The node of a mutex goes when nobody contends any more. The note stays, the mutex is listed with it, and among the
 * contenders there is nothing that does not belong there. */
static void outlives_the_node(void **state)
{
    (void)state;
    static const char *const mutexes[] = {"m", "a/b", "50%"};
    static const char *const notes[] = {"/where/simba-notes/m", "/where/simba-notes/a%2Fb", "/where/simba-notes/50%25"};
    testhost h;
    zhandle_t *zh = raw_zookeeper_open(zookeeper.port, NULL);
    open_store(&h, zookeeper.port, "", "/where");
    for (size_t i = 0; i < 3; i++) {
        char path[64];
        char name[256];
        snprintf(path, sizeof path, "/where/simba/%s", mutexes[i]);
        const uint64_t token = lock(&h, mutexes[i]);
        assert_wrote(&h, mutexes[i], token, 1, "kept", SIMBA_MINE);
        unlock(&h, mutexes[i], token);
        assert_int_not_equal(raw_zookeeper_child(zh, path, "", sizeof name, name), ZOK); /* it has none */
        assert_int_equal(raw_zookeeper_delete(zh, path), ZOK);
        assert_note(&h, mutexes[i], "kept");
        h.listed_count = 0;
        assert_int_equal(ask(&h, SIMBA_OP_LIST, mutexes[i], 0, 0).request.reply.status, 0);
        assert_int_equal(h.listed_count, 1);
        assert_string_equal(h.listed[0].mutex, mutexes[i]);
        assert_int_equal(h.listed[0].note_length, 4);
        assert_true(simba_owner_is_none(&h.listed[0].owner));
        assert_int_equal(raw_zookeeper_delete(zh, notes[i]), ZOK);
        assert_note(&h, mutexes[i], "");
    }
    testhost_close(&h);
    zookeeper_close(zh);
}

/* Each mutex is listed once, be it found by its node, by its note, or by both; also one whose name others continue. */
static void listed_once(void **state)
{
    (void)state;
    testhost h;
    open_store(&h, zookeeper.port, "", "/once");
    static const char *const mutexes[] = {"x", "x/y"};
    for (size_t i = 0; i < 2; i++) {
        const uint64_t token = lock(&h, mutexes[i]);
        assert_wrote(&h, mutexes[i], token, 1, "kept", SIMBA_MINE);
        unlock(&h, mutexes[i], token);
    }
    assert_int_equal(ask(&h, SIMBA_OP_LIST, NULL, 0, 0).request.reply.status, 0);
    assert_int_equal(h.listed_count, 2);
    assert_int_equal(h.listed[0].note_length + h.listed[1].note_length, 8);
    testhost_close(&h);
}

/* The nodes of notes have the rights that the URL asks for. */
static void about_rights(void **state)
{
    (void)state;
    testhost h;
    zhandle_t *zh = raw_zookeeper_open(zookeeper.port, NULL);
    open_store(&h, zookeeper.port, "u:p@", "/rights?acl=creator");
    const uint64_t token = lock(&h, "m");
    assert_wrote(&h, "m", token, 1, "mine", SIMBA_MINE);
    assert_int_equal(raw_zookeeper_set(zh, "/rights/simba-notes/m", "1 9 9\nforged"), ZNOAUTH);
    assert_int_equal(raw_zookeeper_delete(zh, "/rights/simba-notes/m"), ZNOAUTH);
    assert_note(&h, "m", "mine");
    testhost other;
    open_store(&other, zookeeper.port, "", "/rights");
    const testhost_request r = ask(&other, SIMBA_OP_READ_NOTE, "m", 0, 0);
    assert_int_equal(r.request.reply.status, SIMBA_EPERM);
    testhost_close(&other);
    testhost_close(&h);
    zookeeper_close(zh);
}

/* --- who may write ------------------------------------------------------------------------------------------------ */

/* A holder whose child was removed, and who has not heard of it: the transaction refuses the write. */
static void about_fenced(void **state)
{
    (void)state;
    testhost h;
    zhandle_t *zh = raw_zookeeper_open(zookeeper.port, NULL);
    open_store(&h, zookeeper.port, "", "/fenced");
    const uint64_t token = lock(&h, "m");
    assert_wrote(&h, "m", token, 1, "mine", SIMBA_MINE);
    assert_int_equal(remove_child(zh, "/fenced/simba/m"), ZOK);
    assert_wrote(&h, "m", token, 2, "too late", SIMBA_REVOKED);
    assert_note(&h, "m", "mine");
    assert_wrote(&h, "m", token + 1, 3, "never held", SIMBA_NOT_MINE);
    assert_note(&h, "m", "mine");
    testhost_close(&h);
    zookeeper_close(zh);
}

/* Writes of one holder that arrive twice or in the wrong order leave the latest. */
static void in_order(void **state)
{
    (void)state;
    testhost h;
    open_store(&h, zookeeper.port, "", "/order");
    const uint64_t token = lock(&h, "m");
    assert_wrote(&h, "m", token, 2, "second", SIMBA_MINE);
    assert_wrote(&h, "m", token, 2, "second", SIMBA_MINE);
    assert_wrote(&h, "m", token, 1, "first", SIMBA_NOT_MINE);
    assert_note(&h, "m", "second");
    assert_wrote(&h, "m", token, 3, "", SIMBA_MINE);
    assert_note(&h, "m", "");
    assert_wrote(&h, "m", token, 2, "second", SIMBA_NOT_MINE); /* it was removed after that */
    assert_note(&h, "m", "");
    unlock(&h, "m", token);
    testhost_close(&h);
}

/* Somebody writes to the note between our reading and our writing: neither is lost without being seen. */
static void about_meddled(void **state)
{
    (void)state;
    testhost h;
    zhandle_t *zh = raw_zookeeper_open(zookeeper.port, NULL);
    open_store(&h, zookeeper.port, "", "/meddled");
    const uint64_t token = lock(&h, "m");
    char later[64];
    snprintf(later, sizeof later, "1 %llu 9\nlater", (unsigned long long)token);
    assert_wrote(&h, "m", token, 1, "mine", SIMBA_MINE);
    testhost_request r = testhost_request_of(&h, SIMBA_OP_WRITE_NOTE, "m", me, NONCE, token);
    r.request.note = "early";
    r.request.note_size = 5;
    r.request.note_number = 2;
    testhost_submit(&h, &r);
    testhost_flush(&h);
    struct pollfd answer = {.fd = h.reactor.set, .events = POLLIN};
    assert_int_equal(poll(&answer, 1, 10000), 1); /* the note has been read */
    assert_int_equal(raw_zookeeper_set(zh, "/meddled/simba-notes/m", later), ZOK);
    assert_true(testhost_pump(&h, &r.done, ref_scaled_ms(10000)));
    assert_int_equal(r.request.reply.status, 0);
    assert_int_equal(r.request.reply.outcome, SIMBA_NOT_MINE);
    assert_note(&h, "m", "later");
    testhost_close(&h);
    zookeeper_close(zh);
}

/* What is no note of ours is not handed on, does not hide a mutex, and can be replaced by a holder. */
static void about_garbage(void **state)
{
    (void)state;
    testhost h;
    zhandle_t *zh = raw_zookeeper_open(zookeeper.port, NULL);
    char large[4096];
    memset(large, 'x', sizeof large - 1);
    memcpy(large, "1 7 1\n", 6);
    large[sizeof large - 1] = '\0';
    const char *const garbage[] = {"", "nonsense", "2 7 1\nx", large};
    open_store(&h, zookeeper.port, "", "/garbage");
    const uint64_t token = lock(&h, "m");
    assert_wrote(&h, "m", token, 1, "good", SIMBA_MINE);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(raw_zookeeper_set(zh, "/garbage/simba-notes/m", garbage[i]), ZOK);
        const testhost_request r = ask(&h, SIMBA_OP_READ_NOTE, "m", 0, 0);
        assert_int_equal(r.request.reply.status, SIMBA_ECORRUPT);
        assert_non_null(strstr(r.error.text, "/garbage/simba-notes/m"));
        h.listed_count = 0;
        assert_int_equal(ask(&h, SIMBA_OP_LIST, "m", 0, 0).request.reply.status, 0);
        assert_int_equal(h.listed_count, 1);
        assert_int_equal(h.listed[0].note_length, 0);
        assert_wrote(&h, "m", token, 2 + i, "good again", SIMBA_MINE);
        assert_note(&h, "m", "good again");
    }
    assert_int_equal(raw_zookeeper_create(zh, "/garbage/simba-notes/a%b", "", ZOO_PERSISTENT), ZOK);
    h.listed_count = 0;
    assert_int_equal(ask(&h, SIMBA_OP_LIST, NULL, 0, 0).request.reply.status, 0);
    assert_int_equal(h.listed_count, 1);
    testhost_close(&h);
    zookeeper_close(zh);
}

/* A write that loses its connection, while the note is read or while it is written: whatever became of it, the same write is
 * good again, and a later one goes through. */
static void connection_lost(void **state)
{
    (void)state;
    testhost h;
    proxy p;
    proxy_start(&p, zookeeper.port);
    open_store(&h, p.port, "", "/lost?session-timeout=20s");
    const uint64_t token = lock(&h, "m");
    assert_wrote(&h, "m", token, 1, "first", SIMBA_MINE);
    for (uint64_t number = 2; number < 8; number++) {
        char text[16];
        testhost_request r = testhost_request_of(&h, SIMBA_OP_WRITE_NOTE, "m", me, NONCE, token);
        r.request.note = text;
        r.request.note_size = (size_t)snprintf(text, sizeof text, "write %u", (unsigned)number);
        r.request.note_number = number;
        testhost_submit(&h, &r);
        testhost_flush(&h);
        testhost_pump(&h, &r.done, (int64_t)number % 3);
        proxy_aim(&p, zookeeper.port); /* it goes, and can be made again */
        assert_true(testhost_pump(&h, &r.done, ref_scaled_ms(10000)));
        assert_true(r.request.reply.status == 0 || r.request.reply.status == SIMBA_EUNAVAILABLE);
        const int64_t until_ms = ref_now_ms() + ref_scaled_ms(10000);
        testhost_request again;
        do
            again = write_as(&h, "m", token, number, text);
        while (again.request.reply.status == SIMBA_EUNAVAILABLE && ref_now_ms() < until_ms);
        if (again.request.reply.status < 0)
            fail_msg("%s", again.error.text);
        assert_int_equal(again.request.reply.outcome, SIMBA_MINE);
        assert_note(&h, "m", text);
    }
    testhost_close(&h);
    proxy_stop(&p);
}

/* --- who is told ----------------------------------------------------------------------------------------------------- */

static bool has_push(const testhost *h, simba_push_kind kind)
{
    if (kind == SIMBA_PUSH_NOTED)
        return h->noted_pushes > 0;
    for (size_t i = 0; i < h->push_count; i++)
        if (h->pushes[i].push.kind == kind)
            return true;
    return false;
}

static void assert_told(testhost *h, simba_push_kind kind)
{
    const int64_t until_ms = ref_now_ms() + ref_scaled_ms(5000);
    while (!has_push(h, kind) && ref_now_ms() < until_ms)
        testhost_pump(h, NULL, 5);
    if (!has_push(h, kind))
        fail_msg("no push %d among %zu, the latest of which is %d", (int)kind, h->push_count,
                 h->push_count > 0 ? (int)h->pushes[h->push_count - 1].push.kind : -1);
    h->push_count = h->noted_pushes = 0;
}

/* An observer is told of the first note, of each further one, and that the mutex was forgotten with its note. */
static void about_told(void **state)
{
    (void)state;
    testhost h;
    testhost observer;
    simba_watch watched = {.mutex = "m"};
    open_store(&h, zookeeper.port, "", "/told");
    open_store(&observer, zookeeper.port, "", "/told");
    assert_int_equal(testhost_watch(&observer, &watched), 0);
    assert_told(&observer, SIMBA_PUSH_CHANGED);
    const uint64_t token = lock(&h, "m");
    assert_told(&observer, SIMBA_PUSH_ACQUIRED);
    for (uint64_t number = 1; number < 4; number++) {
        assert_wrote(&h, "m", token, number, "news", SIMBA_MINE);
        assert_told(&observer, SIMBA_PUSH_NOTED);
        testhost_settle(&observer);
        observer.noted_pushes = 0;
    }
    unlock(&h, "m", token);
    assert_told(&observer, SIMBA_PUSH_FREED);
    assert_int_equal(ask(&h, SIMBA_OP_FORGET, "m", 0, 0).request.reply.outcome, SIMBA_MINE);
    assert_told(&observer, SIMBA_PUSH_NOTED);
    lock(&h, "m");
    assert_told(&observer, SIMBA_PUSH_ACQUIRED);
    testhost_unwatch(&observer, &watched);
    testhost_close(&observer);
    testhost_close(&h);
}

/* --- forgetting ------------------------------------------------------------------------------------------------------- */

static simba_outcome forget(testhost *h, const char *mutex)
{
    const testhost_request r = ask(h, SIMBA_OP_FORGET, mutex, 0, 0);
    if (r.request.reply.status < 0)
        fail_msg("%s", r.error.text);
    return r.request.reply.outcome;
}

/* A mutex goes with its node and its note, also one whose node has vanished already, and one whose name others continue. */
static void about_forget(void **state)
{
    (void)state;
    testhost h;
    zhandle_t *zh = raw_zookeeper_open(zookeeper.port, NULL);
    open_store(&h, zookeeper.port, "", "/forget");
    assert_int_equal(forget(&h, "m"), SIMBA_NOT_MINE);
    uint64_t token = lock(&h, "m");
    assert_wrote(&h, "m", token, 1, "kept", SIMBA_MINE);
    const testhost_request owned = ask(&h, SIMBA_OP_FORGET, "m", 0, 0);
    assert_int_equal(owned.request.reply.outcome, SIMBA_NOT_MINE);
    assert_string_equal(owned.request.reply.owner.id, me);
    assert_note(&h, "m", "kept");
    unlock(&h, "m", token);
    assert_int_equal(raw_zookeeper_delete(zh, "/forget/simba/m"), ZOK); /* as the server does, sooner or later */
    assert_int_equal(forget(&h, "m"), SIMBA_MINE);
    assert_int_equal(forget(&h, "m"), SIMBA_NOT_MINE);
    assert_int_equal(raw_zookeeper_delete(zh, "/forget/simba/m"), ZNONODE);
    assert_int_equal(raw_zookeeper_delete(zh, "/forget/simba-notes/m"), ZNONODE);
    const uint64_t next = lock(&h, "m");
    assert_true(next > token);
    unlock(&h, "m", next);
    assert_int_equal(forget(&h, "m"), SIMBA_MINE); /* it never had a note since */
    token = lock(&h, "m/n");
    assert_wrote(&h, "m/n", token, 1, "below", SIMBA_MINE);
    const uint64_t above = lock(&h, "m");
    assert_wrote(&h, "m", above, 1, "above", SIMBA_MINE);
    unlock(&h, "m", above);
    assert_int_equal(forget(&h, "m"), SIMBA_MINE);
    assert_int_equal(forget(&h, "m"), SIMBA_NOT_MINE);
    assert_note(&h, "m", "");
    assert_note(&h, "m/n", "below");
    assert_wrote(&h, "m/n", token, 2, "still held", SIMBA_MINE);
    testhost_close(&h);
    zookeeper_close(zh);
}

/* Somebody enters while a mutex is being forgotten: its note stays. */
static void forget_and_enter(void **state)
{
    (void)state;
    testhost h;
    zhandle_t *zh = raw_zookeeper_open(zookeeper.port, NULL);
    open_store(&h, zookeeper.port, "", "/enter");
    const uint64_t token = lock(&h, "m");
    assert_wrote(&h, "m", token, 1, "kept", SIMBA_MINE);
    unlock(&h, "m", token);
    testhost_request r = testhost_request_of(&h, SIMBA_OP_FORGET, "m", "", 0, 0);
    testhost_submit(&h, &r);
    testhost_flush(&h); /* the children are being listed: there are none */
    assert_int_equal(raw_zookeeper_create(zh, "/enter/meanwhile", "", ZOO_PERSISTENT), ZOK);
    assert_int_equal(raw_zookeeper_create(zh, "/enter/simba/m/_c_1-latch-", "jvm", ZOO_EPHEMERAL_SEQUENTIAL), ZOK);
    assert_true(testhost_pump(&h, &r.done, ref_scaled_ms(10000)));
    assert_int_equal(r.request.reply.status, 0);
    assert_int_equal(r.request.reply.outcome, SIMBA_NOT_MINE);
    assert_string_equal(r.request.reply.owner.id, "jvm");
    assert_note(&h, "m", "kept");
    testhost_close(&h);
    zookeeper_close(zh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outlives_the_node), cmocka_unit_test(listed_once),      cmocka_unit_test(about_rights),
        cmocka_unit_test(about_fenced),      cmocka_unit_test(in_order),         cmocka_unit_test(about_meddled),
        cmocka_unit_test(about_garbage),     cmocka_unit_test(connection_lost),  cmocka_unit_test(about_told),
        cmocka_unit_test(about_forget),      cmocka_unit_test(forget_and_enter),
    };
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper);
}
