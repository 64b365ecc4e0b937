/* What the tests of the Redis store share: a server of their own for the whole program, stores opened on it, and a second
 * way to the server, through hiredis' blocking half. */
#ifndef TESTS_BACKENDS_TEST_REDIS_H
#define TESTS_BACKENDS_TEST_REDIS_H

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/asking.h"
#include "lib/server.h"
#include "stores/redis/redis.h"
#include "util/clock.h"

static server redis;
static char redis_url[128];
/* Two stores on the same server; as good as two processes, since they share nothing else. */
__attribute__((unused)) static testhost a;
__attribute__((unused)) static testhost b;
static redisContext *raw; /* the second way */

static inline void connect_raw(void)
{
    if (raw)
        redisFree(raw);
    raw = redisConnect("127.0.0.1", redis.port);
    assert_true(raw && !raw->err);
}

/* One raw command; the latest reply as text: a number, a string, or the elements of an array with blanks between. */
static inline const char *text_of(const redisReply *reply, char *out, size_t size)
{
    if (reply->type == REDIS_REPLY_INTEGER) {
        snprintf(out, size, "%lld", reply->integer);
    } else if (reply->type == REDIS_REPLY_ARRAY) {
        out[0] = '\0';
        for (size_t i = 0; i < reply->elements; i++) {
            const size_t length = strlen(out);
            if (i > 0)
                snprintf(out + length, size - length, " ");
            text_of(reply->element[i], out + strlen(out), size - strlen(out));
        }
    } else {
        snprintf(out, size, "%s", reply->type == REDIS_REPLY_NIL ? "(nil)" : reply->str);
    }
    return out;
}

__attribute__((format(printf, 1, 2))) static inline const char *say(const char *format, ...)
{
    static char out[4096];
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(raw, format, args);
    va_end(args);
    if (!reply)
        fail_msg("%s: %s", format, raw->errstr);
    text_of(reply, out, sizeof out);
    freeReplyObject(reply);
    return out;
}

static inline void start_redis(const char *const *more)
{
    if (!server_start_redis(&redis, more))
        fail_msg("redis-server does not start; see %s/log", redis.folder);
    connect_raw();
}

static inline int group_setup(void **state)
{
    signal(SIGPIPE, SIG_IGN); /* the client's own threads block it */
    server_init(&redis);
    snprintf(redis_url, sizeof redis_url, "redis://127.0.0.1:%d?restart-wait=no", redis.port);
    start_redis(NULL);
    return 0;
}

static inline int group_teardown(void **state)
{
    if (raw)
        redisFree(raw);
    raw = NULL;
    server_fini(&redis);
    return 0;
}

static inline int setup(void **state)
{
    say("FLUSHALL");
    return 0;
}

#define RUN_REDIS_TESTS(tests) SERVER_RUN_TESTS("redis-server", tests, group_setup, group_teardown)

/* Unless the URL says otherwise, nobody waits for a server that has just started. */
static inline void open_at(testhost *h, const char *url)
{
    simba_error err = {0};
    char whole[512];
    const bool says = strstr(url, "restart-wait") != NULL;
    snprintf(whole, sizeof whole, "%s%s", url, says ? "" : strchr(url, '?') ? "&restart-wait=no" : "?restart-wait=no");
    if (testhost_open(h, &simba__backend_redis, whole, &err) < 0)
        fail_msg("%s", err.text);
}

static inline void open_store(testhost *h)
{
    open_at(h, redis_url);
}

/* Take out the first push to this contender. False: none came within 5 s. */
static inline bool pushed_to(testhost *h, uint64_t nonce, simba_push_kind kind)
{
    const int64_t end_ns = simba__clock_boot().ns + 5000 * SIMBA__NS_PER_MS;
    do {
        for (size_t i = 0; i < h->push_count; i++)
            if (h->pushes[i].nonce == nonce && h->pushes[i].push.kind == kind) {
                memmove(&h->pushes[i], &h->pushes[i + 1], (--h->push_count - i) * sizeof h->pushes[0]);
                return true;
            }
        testhost_pump(h, NULL, 5);
    } while (simba__clock_boot().ns < end_ns);
    return false;
}

/* Acquire once, and be ready to wait if that fails. */
static inline simba_reply acquire_to_wait(testhost *h, const char *mutex, const char *id, uint64_t nonce)
{
    testhost_request r = testhost_request_of(h, SIMBA_OP_ACQUIRE, mutex, id, nonce, 0);
    r.request.queue = true;
    testhost_ask(h, &r);
    if (r.request.reply.status < 0)
        fail_msg("%s", r.error.text);
    return r.request.reply;
}

/* Acquire, and wait in the queue if that fails: a contender that does not hear of its invitation yet is told to ask again. */
static inline simba_reply acquire_or_wait(testhost *h, const char *mutex, const char *id, uint64_t nonce)
{
    const simba_reply first = acquire_to_wait(h, mutex, id, nonce);
    if (first.outcome == SIMBA_MINE || first.place > 0)
        return first;
    assert_true(pushed_to(h, nonce, SIMBA_PUSH_CHANGED));
    return acquire_to_wait(h, mutex, id, nonce);
}

/* A request that has to fail, and how. */
static inline simba_error refused(testhost *h, simba_op op, const char *mutex)
{
    testhost_request r = testhost_request_of(h, op, mutex, "me", 1, 0);
    testhost_ask(h, &r);
    assert_true(r.request.reply.status < 0);
    return r.error;
}

/* Watch, and wait until that is in force. */
static inline void watch(testhost *h, simba_watch *watched)
{
    const size_t before = h->push_count;
    assert_int_equal(testhost_watch(h, watched), 0);
    assert_true(testhost_await_pushes(h, before + 1));
    assert_int_equal(h->pushes[before].push.kind, SIMBA_PUSH_CHANGED);
    h->push_count = 0;
}

/* Run until a push of this kind has come, timers included; false: in vain. */
static inline bool pushed(testhost *h, simba_push_kind kind, int64_t ms)
{
    const int64_t end_ns = simba__clock_boot().ns + ms * SIMBA__NS_PER_MS;
    do {
        for (size_t i = 0; i < h->push_count; i++)
            if (h->pushes[i].push.kind == kind)
                return true;
        testhost_pump(h, NULL, 5);
    } while (simba__clock_boot().ns < end_ns);
    return false;
}

#endif
