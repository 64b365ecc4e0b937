/* Notes in ZooKeeper: where they are kept, what else is kept in there, and who may write. One real server for all. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"
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

/* The nodes of notes have the rights that the URL asks for. */
static void about_rights(void **state)
{
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

/* An observer is told when somebody leads a mutex that nobody has contended for yet, and one that nobody contends for any more. */
static void nobody_contended(void **state)
{
    testhost h;
    testhost observer;
    simba_watch watched = {.mutex = "m"};
    open_store(&h, zookeeper.port, "", "/told");
    open_store(&observer, zookeeper.port, "", "/told");
    assert_int_equal(testhost_watch(&observer, &watched), 0);
    assert_true(testhost_await_pushes(&observer, 1));
    assert_int_equal(observer.pushes[0].push.kind, SIMBA_PUSH_CHANGED);
    for (size_t i = 1; i < 5; i += 2) {
        const uint64_t token = lock(&h, "m");
        assert_true(testhost_await_pushes(&observer, i + 1));
        assert_int_equal(observer.pushes[i].push.kind, SIMBA_PUSH_ACQUIRED);
        unlock(&h, "m", token);
        assert_true(testhost_await_pushes(&observer, i + 2));
        assert_int_equal(observer.pushes[i + 1].push.kind, SIMBA_PUSH_FREED);
    }
    testhost_unwatch(&observer, &watched);
    testhost_close(&observer);
    testhost_close(&h);
}

/* --- forgetting ------------------------------------------------------------------------------------------------------- */

/* Somebody enters while a mutex is being forgotten: its note stays. */
static void forget_and_enter(void **state)
{
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
        cmocka_unit_test(about_rights),     cmocka_unit_test(about_fenced),  cmocka_unit_test(in_order),
        cmocka_unit_test(about_meddled),    cmocka_unit_test(about_garbage), cmocka_unit_test(nobody_contended),
        cmocka_unit_test(forget_and_enter),
    };
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper);
}
