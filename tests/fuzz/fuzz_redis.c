/* Redis: replies by themselves, and a whole store to which hostile servers talk. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/scenario.h"
#include "fuzz/targets.h"
#include "fuzz/wires.h"
#include "stores/redis/redis.h"

/* --- redis_reply -------------------------------------------------------------------------------------------------- */

static void check_parsed(const redisReply *reply)
{
    simba_reply parsed;
    redis_row row;
    const simba__endpoint at = {.where = "fuzz:1"};
    simba_error err;
    bool drop;
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW, SIMBA_OP_RELEASE, SIMBA_OP_READ, SIMBA_OP_LIST};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const simba_request request = {.op = ops[i], .id = "me", .ttl_ms = 1000, .transition_ms = 500};
        const int outcome = simba__redis_parse(reply, &request, &parsed);
        if (outcome < 0)
            continue;
        FUZZ_CHECK(outcome <= REDIS_TOO_YOUNG && parsed.outcome <= SIMBA_REVOKED && parsed.place >= 0);
        FUZZ_CHECK(parsed.now_ms > 0 && parsed.owner.ttl_at_ms <= parsed.owner.transition_at_ms);
        FUZZ_CHECK(memchr(parsed.owner.id, '\0', sizeof parsed.owner.id));
    }
    if (simba__redis_parse_row(reply, &row) == 0)
        FUZZ_CHECK(row.waiters >= 0 && row.note.size <= SIMBA_NOTE_MAX && (!row.next || row.next[0]));
    if (reply->type == REDIS_REPLY_ERROR)
        FUZZ_CHECK(simba__redis_error(&at, reply->str, &err, &drop) < 0 && fuzz_is_shown_safely(err.text));
}

/* The first byte says in which pieces the others arrive. */
void fuzz_redis_reply(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const size_t piece = 1 + fuzz_byte(&in);
    redis_reader *reader = simba__redis_reader_new();
    int rc = 0;
    FUZZ_CHECK(reader);
    while (in.left > 0 && rc == 0) {
        const size_t length = in.left < piece ? in.left : piece;
        redisReply *reply = NULL;
        rc = simba__redis_reader_feed(reader, (const char *)in.at, length);
        in.at += length;
        in.left -= length;
        while (rc == 0 && (rc = simba__redis_reader_next(reader, &reply)) == 0 && reply) {
            check_parsed(reply);
            freeReplyObject(reply);
            reply = NULL;
        }
    }
    simba__redis_reader_free(reader);
}

/* --- redis -------------------------------------------------------------------------------------------------------- */

/* Whatever a server says: made of parts that get past the first look, or of nothing but bytes. */
typedef struct speech {
    char text[8192];
    size_t length;
} speech;

static void __attribute__((format(printf, 2, 3))) add(speech *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(s->text + s->length, sizeof s->text - s->length, format, args);
    va_end(args);
    s->length += (size_t)length < sizeof s->text - s->length ? (size_t)length : 0;
}

static void add_text(speech *s, const char *text, size_t length)
{
    add(s, "$%zu\r\n", length);
    if (length < sizeof s->text - s->length - 2) {
        memcpy(s->text + s->length, text, length);
        s->length += length;
    }
    add(s, "\r\n");
}

static const char *const hosts[] = {"127.0.0.1", "10.0.0.2", "::1", "", "?", "far.example"};

static void add_host(speech *s, fuzz_input *in)
{
    const char *host = hosts[fuzz_below(in, 6)];
    add(s, "*2\r\n");
    add_text(s, host, strlen(host));
    add(s, ":%d\r\n", 7000 + (int)fuzz_below(in, 8) - (fuzz_below(in, 16) == 0 ? 7000 : 0));
}

static void add_any(speech *s, fuzz_input *in, unsigned depth)
{
    char text[256];
    switch (fuzz_below(in, 6)) {
    case 0:
        add(s, ":%lld\r\n", (long long)fuzz_number(in));
        break;
    case 1:
        add_text(s, text, fuzz_text(in, text, 255));
        break;
    case 2:
        add(s, "$-1\r\n");
        break;
    case 3:
        add(s, "+OK\r\n");
        break;
    case 4:
        add(s, "-ERR no\r\n");
        break;
    case 5: {
        const unsigned count = depth > 0 ? fuzz_below(in, 5) : 0;
        add(s, "*%u\r\n", count);
        for (unsigned i = 0; i < count; i++)
            add_any(s, in, depth - 1);
        break;
    }
    }
}

/* What a script answers: about a mutex, and all about it. */
static void add_grant(speech *s, fuzz_input *in)
{
    const char *id = scenario_ids[fuzz_below(in, 3)];
    const int64_t now = 1700000000000;
    const unsigned odd = fuzz_below(in, 16); /* this one is not as it should be */
    if (odd == 6) {
        add(s, "*2\r\n:%u\r\n:%lld\r\n", fuzz_below(in, 5), (long long)now);
        return;
    }
    add(s, "*%d\r\n:%u\r\n:%lld\r\n", odd == 1 ? 6 : 7, fuzz_below(in, 5),
        (long long)(odd == 2 ? fuzz_number(in) : now));
    if (odd == 3)
        add_any(s, in, 2);
    else
        add_text(s, id, strlen(id));
    add(s, ":%lld\r\n", (long long)(odd == 4 ? fuzz_number(in) : fuzz_byte(in)));
    add(s, ":%lld\r\n$4\r\n6000\r\n", (long long)(odd == 5 ? fuzz_number(in) : now + 16000));
    if (odd != 1)
        add(s, ":%u\r\n", fuzz_below(in, 4));
}

static void add_row(speech *s, fuzz_input *in)
{
    char note[64];
    add(s, "*6\r\n");
    add_grant(s, in);
    add(s, ":%u\r\n", fuzz_below(in, 4));
    add_text(s, scenario_ids[fuzz_below(in, 3)], fuzz_below(in, 2));
    add(s, "$2\r\n%02u\r\n", fuzz_below(in, 90));
    if (fuzz_below(in, 8) == 0)
        add_any(s, in, 1);
    else
        add(s, "$1\r\n7\r\n");
    add_text(s, note, fuzz_text(in, note, 60));
}

static void add_error(speech *s, fuzz_input *in)
{
    static const char *const words[] = {"LOADING",     "READONLY x",  "NOSCRIPT x", "NOAUTH x",
                                        "WRONGTYPE x", "CLUSTERDOWN", "OOM x",      "BADGRANT x",
                                        "ERR x",       "ERR AUTH x",  "MOVED x",    "TRYAGAIN"};
    switch (fuzz_below(in, 3)) {
    case 0:
        add(s, "-%s\r\n", words[fuzz_below(in, 12)]);
        break;
    case 1:
        add(s, "-%s %lld %s:%lld\r\n", fuzz_below(in, 2) ? "MOVED" : "ASK",
            (long long)(fuzz_below(in, 4) ? fuzz_byte(in) * 64 : fuzz_number(in)), hosts[fuzz_below(in, 6)],
            (long long)(fuzz_below(in, 4) ? 7000 + fuzz_below(in, 8) : fuzz_number(in)));
        break;
    case 2: {
        char text[200];
        fuzz_text(in, text, 199);
        text[strcspn(text, "\r\n")] = '\0';
        add(s, "-%s\r\n", text);
        break;
    }
    }
}

/* The answer to CLUSTER SLOTS. */
static void add_map(speech *s, fuzz_input *in)
{
    const unsigned ranges = fuzz_below(in, 5);
    add(s, "*%u\r\n", ranges);
    for (unsigned i = 0; i < ranges; i++) {
        const unsigned replicas = fuzz_below(in, 3);
        const unsigned first = fuzz_byte(in) * 64U;
        add(s, "*%u\r\n:%u\r\n:%lld\r\n", 3 + replicas, first,
            (long long)(fuzz_below(in, 8) ? first + fuzz_byte(in) * 64 : fuzz_number(in)));
        for (unsigned j = 0; j <= replicas; j++)
            if (fuzz_below(in, 16))
                add_host(s, in);
            else
                add_any(s, in, 2);
    }
}

static void add_message(speech *s, fuzz_input *in)
{
    static const char *const texts[] = {"released",   "released@@you", "acquired@@me",
                                        "standby@@3", "revoked 7 m",   "master 127.0.0.1 7000 10.0.0.2 7001"};
    static const char *const endings[] = {"", "@@", ":", "@@", ":"};
    char channel[128];
    const unsigned end = fuzz_below(in, 5);
    if (fuzz_below(in, 6) == 0)
        strcpy(channel, fuzz_below(in, 2) ? "simba:@@revoked" : "+switch-master");
    else
        snprintf(channel, sizeof channel, "simba:{%s}%s%s", scenario_mutexes[fuzz_below(in, 3)], endings[end],
                 end > 2 ? scenario_ids[fuzz_below(in, 3)] : "");
    add(s, "*3\r\n");
    add_text(s, fuzz_below(in, 8) ? "message" : "subscri", 7);
    add_text(s, channel, strlen(channel));
    if (fuzz_below(in, 4)) {
        const char *text = texts[fuzz_below(in, 6)];
        add_text(s, text, strlen(text));
    } else {
        add_any(s, in, 1);
    }
}

static void add_subscribed(speech *s, fuzz_input *in)
{
    char channel[128];
    snprintf(channel, sizeof channel, "simba:{%s}:%s", scenario_mutexes[fuzz_below(in, 3)],
             scenario_ids[fuzz_below(in, 3)]);
    add(s, "*3\r\n");
    add_text(s, "subscribe", 9);
    add_text(s, channel, strlen(channel));
    add(s, ":1\r\n");
}

static void add_page(speech *s, fuzz_input *in)
{
    const unsigned keys = fuzz_below(in, 6);
    add(s, "*2\r\n");
    add_text(s, fuzz_below(in, 4) ? "0" : "1", 1);
    add(s, "*%u\r\n", keys);
    for (unsigned i = 0; i < keys; i++) {
        char key[160];
        snprintf(key, sizeof key, "simba:{%s}%s", scenario_mutexes[fuzz_below(in, 3)],
                 fuzz_below(in, 2) ? ":grant" : "");
        if (fuzz_below(in, 4) == 0)
            fuzz_text(in, key + 7, 120);
        add_text(s, key, strlen(key));
    }
}

static void add_info(speech *s, fuzz_input *in)
{
    char text[512];
    char value[64];
    fuzz_text(in, value, 63);
    snprintf(text, sizeof text,
             "redis_version:%s\r\nuptime_in_seconds:%lld\r\nrole:%s\r\nmaxmemory:%lld\r\nmaxmemory_policy:%"
             "s\r\nconnected_slaves:1\r\naof_enabled:",
             value, (long long)fuzz_below(in, 100), fuzz_below(in, 2) ? "master" : value, (long long)fuzz_number(in),
             value);
    add_text(s, text, strlen(text));
}

static void add_settings(speech *s, fuzz_input *in)
{
    char value[64];
    fuzz_text(in, value, 63);
    add(s, "*4\r\n");
    add_text(s, "save", 4);
    add_text(s, value, strlen(value));
    add_text(s, "appendonly", 10);
    add_text(s, "no", 2);
}

static void add_sentinels_answer(speech *s, fuzz_input *in)
{
    const char *host = hosts[fuzz_below(in, 6)];
    char port[8];
    snprintf(port, sizeof port, "%u", 7000 + fuzz_below(in, 4));
    add(s, "*2\r\n");
    add_text(s, host, strlen(host));
    add_text(s, port, strlen(port));
}

static void add_role(speech *s)
{
    add(s, "*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n");
}

static void speak(speech *s, fuzz_input *in)
{
    switch (fuzz_below(in, 12)) {
    case 0:
    case 1:
    case 2:
        add_grant(s, in);
        break;
    case 3:
        add_error(s, in);
        break;
    case 4:
        add_map(s, in);
        break;
    case 5:
        add_message(s, in);
        break;
    case 6:
        add_page(s, in);
        break;
    case 7:
        add_info(s, in);
        break;
    case 8:
        add_sentinels_answer(s, in);
        break;
    case 9:
        add_role(s);
        break;
    case 10:
        add_any(s, in, 4);
        break;
    case 11:
        s->length += fuzz_text(in, s->text + s->length, 255);
        break;
    }
}

/* What a server would say to a command that begins with this word; now and then something else. */
static void answer(speech *s, fuzz_input *in, const char *word)
{
    if (fuzz_below(in, 24) == 0)
        speak(s, in);
    else if (strncmp(word, "EVAL", 4) == 0 && fuzz_below(in, 8) == 0)
        add_error(s, in);
    else if (strncmp(word, "EVAL", 4) == 0 && fuzz_below(in, 4) == 0)
        add_row(s, in);
    else if (strncmp(word, "EVAL", 4) == 0)
        add_grant(s, in);
    else if (strcmp(word, "TIME") == 0)
        add(s, "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n");
    else if (strcmp(word, "WAIT") == 0)
        add(s, ":%u\r\n", fuzz_below(in, 3));
    else if (strcmp(word, "SCAN") == 0)
        add_page(s, in);
    else if (strcmp(word, "CONFIG") == 0)
        add_settings(s, in);
    else if (strcmp(word, "INFO") == 0)
        add_info(s, in);
    else if (strcmp(word, "CLUSTER") == 0)
        add_map(s, in);
    else if (strcmp(word, "SENTINEL") == 0)
        add_sentinels_answer(s, in);
    else if (strcmp(word, "ROLE") == 0)
        add_role(s);
    else if (strstr(word, "SUBSCRIBE") != NULL)
        add_subscribed(s, in);
    else if (strcmp(word, "PING") == 0)
        add(s, "*2\r\n$4\r\npong\r\n$1\r\nm\r\n");
    else
        add(s, "+OK\r\n");
}

static size_t any_wire(fuzz_input *in)
{
    return fuzz_wire_count > 0 ? fuzz_below(in, (unsigned)fuzz_wire_count) : 0;
}

/* Commands as clients of Redis write them: "*COUNT", and for each word "$LENGTH" and the word. */
static void answer_commands(speech *s, fuzz_input *in, const char *at, const char *end)
{
    while (at < end) {
        char *after;
        char first[16] = "";
        FUZZ_CHECK(*at == '*');
        unsigned long words = strtoul(at + 1, &after, 10);
        for (at = after + 2; words > 0 && at < end; words--) {
            FUZZ_CHECK(*at == '$');
            const size_t length = strtoul(at + 1, &after, 10);
            if (!first[0])
                snprintf(first, sizeof first, "%.*s", (int)length, after + 2);
            at = after + 2 + length + 2;
        }
        if (at <= end) /* else the rest of it is on its way */
            answer(s, in, first);
    }
}

/* All that was asked on a connection is answered, or on each of them. */
static void answer_all(fuzz_input *in)
{
    static char asked[1 << 18];
    const bool everywhere = fuzz_below(in, 4) > 0;
    const size_t one = any_wire(in);
    for (size_t i = everywhere ? 0 : one; i < (everywhere ? fuzz_wire_count : one + 1); i++) {
        speech s = {.length = 0};
        const size_t length = fuzz_wire_take(i, (unsigned char *)asked, sizeof asked - 1);
        asked[length] = '\0';
        answer_commands(&s, in, asked, asked + length);
        fuzz_wire_send(i, s.text, s.length);
    }
}

static void any_step(scenario *played, fuzz_input *in)
{
    switch (fuzz_below(in, 12)) {
    default:
        answer_all(in);
        break;
    case 0:
    case 1:
        scenario_request(played, in);
        break;
    case 2:
        scenario_watch(played, in);
        break;
    case 3:
        fuzz_wire_refuses = fuzz_below(in, 8) == 0;
        break;
    case 4:
    case 5:
    case 6: {
        speech s = {.length = 0};
        const size_t wire = any_wire(in);
        for (unsigned more = 1 + fuzz_below(in, 3); more > 0; more--)
            speak(&s, in);
        fuzz_wire_send(wire, s.text, s.length);
        break;
    }
    case 7:
        if (fuzz_below(in, 8) == 0)
            fuzz_wire_close(any_wire(in));
        scenario_settle(played);
        testhost_advance(played->host, (int64_t)fuzz_byte(in) * fuzz_byte(in) / 4);
        break;
    }
    scenario_settle(played);
}

void fuzz_redis(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {"redis://127.0.0.1:7000", "redis+sentinel://127.0.0.1:7000,10.0.0.2:7001/master",
                                       "redis+cluster://127.0.0.1:7000,10.0.0.2:7001",
                                       "redis://127.0.0.1:7000/3?replicas=1&restart-wait=no"};
    fuzz_input in = {data, size};
    scenario played;
    FUZZ_CHECK(scenario_begin(&played, &simba__backend_redis, urls[fuzz_below(&in, 4)]));
    while (in.left > 0)
        any_step(&played, &in);
    scenario_end(&played);
    fuzz_wires_end();
}
