/* The other side of a session, for the tests of the protocol of a command connection: what the session sends, ends and wants
 * done becomes a line of text. There is no server. Times are in ms; a request is called by its operation and its mutex. */
#ifndef SIMBA_TESTS_UNIT_REDIS_SESSION_H
#define SIMBA_TESTS_UNIT_REDIS_SESSION_H

#include "backends/redis/session.h"

#include <stdio.h>
#include <string.h>

#include "lib/cm.h"

enum { REQUESTS = 4608 };

typedef struct item {
    simba_request request;
    redis_errand *errand; /* while it has one */
    char mutex[8];
    unsigned ends; /* how often it was told to end */
} item;

static redis_options options;
static simba__endpoint endpoint = {.where = "there"};
static redis_errands errands;
static redis_session s;
static item items[REQUESTS];
static size_t item_count;
static unsigned lessons; /* answers that somebody has learnt from */
static char trace[512];

static inline simba_local at(int64_t ms)
{
    return (simba_local){(ms + 1) * 1000000};
}

/* --- the other side of the session ------------------------------------------------------------------ */

static void note(const char *word, const char *more)
{
    const size_t length = strlen(trace);
    snprintf(trace + length, sizeof trace - length, "%s%s%s%s", length > 0 ? ", " : "", word, *more ? " " : "", more);
}

static inline item *item_of(const simba_request *request)
{
    return (item *)(void *)(uintptr_t)request;
}

static inline const char *verb(const redis_errand *errand)
{
    switch (errand->request->op) {
    case SIMBA_OP_ACQUIRE:
        return "acquire";
    case SIMBA_OP_RENEW:
        return "renew";
    case SIMBA_OP_READ:
        return "read";
    case SIMBA_OP_WRITE_NOTE:
        return "write";
    default:
        return "release";
    }
}

static void note_command(redis_errand *errand)
{
    switch (errand->purpose) {
    case REDIS_FOR_REQUEST:
        note(verb(errand), errand->request->mutex);
        break;
    case REDIS_FOR_LOADING:
        if (errand->script == REDIS_SCRIPTS - 1)
            note("load", "");
        break;
    case REDIS_FOR_WAITING:
        note("wait", "");
        break;
    case REDIS_FOR_ASKING:
        note("asking", "");
        break;
    case REDIS_FOR_TELLING:
    case REDIS_FOR_LEARNING:
        fail_msg("commands of others are not to be written again");
    }
}

static void end_request(redis_errand *errand)
{
    item *i = item_of(errand->request);
    i->ends++;
    i->errand = NULL;
    simba__redis_errand_forget(errand);
}

/* What was redirected stays in hand. */
static void note_outcome(redis_errand *errand)
{
    char text[64];
    switch (errand->outcome) {
    case REDIS_COMPLETE:
        note("done", errand->request->mutex);
        end_request(errand);
        break;
    case REDIS_FAIL:
        snprintf(text, sizeof text, "%s (%s)", errand->request->mutex,
                 simba_error_name(s.error.code) + strlen("SIMBA_"));
        note("fail", text);
        end_request(errand);
        break;
    case REDIS_REDIRECT:
        note("redirect", errand->request->mutex);
        break;
    case REDIS_LEARN:
        note("learn", "");
        lessons++;
        simba__redis_errand_forget(errand);
    }
}

static inline const char *says(unsigned actions)
{
    char ms[24];
    trace[0] = '\0';
    for (redis_errand *errand; (errand = simba__redis_session_next_command(&s)) != NULL;)
        note_command(errand);
    for (redis_errand *errand; (errand = simba__redis_session_next_outcome(&s)) != NULL;)
        note_outcome(errand);
    snprintf(ms, sizeof ms, "%lld", (long long)(s.tick_at.ns / 1000000 - 1));
    if (actions & REDIS_DO_SET_TIMER)
        note("timer", ms);
    if (actions & REDIS_DO_WAKE)
        note("wake", "");
    if (actions & REDIS_DO_ANNOUNCE)
        note("ready", "");
    if (actions & REDIS_DO_SUSPECT)
        note("suspect", "");
    if (actions & REDIS_DO_PRAISE)
        note("enough again", "");
    if (actions & REDIS_DO_DROP)
        note("drop:", strstr(s.dropped.text, ": ") + 2);
    return trace;
}

#define TRACE(expected, actions) assert_string_equal(says(actions), expected)

/* --- what the tests say ----------------------------------------------------------------------------- */

/* A session that is down, with the options of the test. */
static void begin(redis_kind kind, long replicas)
{
    options = (redis_options){.kind = kind, .replicas = replicas, .timeout_ns = 3000 * INT64_C(1000000)};
    item_count = 0;
    lessons = 0;
    simba__redis_errands_init(&errands, NULL);
    simba__redis_session_init(&s, &options, &endpoint, &errands);
}

static inline redis_errand *submit(simba_op op, const char *mutex, int64_t now_ms)
{
    assert_true(item_count < REQUESTS);
    item *i = &items[item_count++];
    *i = (item){0};
    snprintf(i->mutex, sizeof i->mutex, "%s", mutex);
    i->request = (simba_request){
        .op = op, .mutex = i->mutex, .id = "me", .ttl_ms = 100, .transition_ms = 100, .deadline = at(now_ms + 1000)};
    i->errand = simba__redis_errand_begin(&errands, REDIS_FOR_REQUEST, &i->request);
    assert_non_null(i->errand);
    simba__redis_session_submit(&s, i->errand);
    return i->errand;
}

static inline const char *flush(int64_t now_ms)
{
    return says(simba__redis_session_flush(&s, at(now_ms)));
}

static inline const char *answer(int kind, int64_t now_ms)
{
    const redis_answer given = {.kind = kind, .text = "0123456789012345678901234567890123456789"};
    return says(simba__redis_session_answer(&s, &given, at(now_ms)));
}

static inline const char *refuse(const char *text, int64_t now_ms)
{
    const redis_answer given = {.kind = REDIS_SAID_ERROR, .text = text};
    return says(simba__redis_session_answer(&s, &given, at(now_ms)));
}

static inline const char *confirm(int64_t replicas, int64_t now_ms)
{
    const redis_answer given = {.kind = REDIS_SAID_NUMBER, .number = replicas};
    return says(simba__redis_session_answer(&s, &given, at(now_ms)));
}

/* The answers to all that is loaded; what came of the last. */
static inline const char *loaded(int64_t now_ms)
{
    for (int i = 1; i < REDIS_SCRIPTS; i++)
        assert_string_equal(answer(REDIS_SAID_TEXT, now_ms), "");
    return answer(REDIS_SAID_TEXT, now_ms);
}

static void begin_ready(redis_kind kind, long replicas)
{
    begin(kind, replicas);
    TRACE("load, timer 3000", simba__redis_session_up(&s, at(0)));
    assert_string_equal(loaded(0), "ready");
}

static inline const char *go_down(void)
{
    const simba_error lost = {.code = SIMBA_EUNAVAILABLE, .text = "redis there: lost"};
    return says(simba__redis_session_down(&s, &lost));
}

static int teardown(void **state)
{
    (void)state;
    go_down();
    for (size_t i = 0; i < item_count; i++)
        if (items[i].errand) /* redirected, or left */
            simba__redis_errand_forget(items[i].errand);
    simba__redis_errands_fini(&errands);
    return 0;
}

#endif
