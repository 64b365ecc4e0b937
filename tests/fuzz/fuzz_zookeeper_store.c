/* ZooKeeper: a whole store, to which a hostile server talks. */
#include <stdio.h>
#include <string.h>

#include "fuzz/scenario.h"
#include "fuzz/targets.h"
#include "fuzz/wires.h"
#include "lib/zookeeper_speech.h"
#include "stores/zookeeper/zookeeper.h"

enum { ASKED = 16384, PATH = 160, MADE = 6 };

/* What the server plays: the children that were made, so that lists make sense. */
static char made[MADE][PATH];
static unsigned made_count;

static scenario played;
static size_t greeted; /* how many connections there were when the latest was let in */

static void begin_reply(zk_speech *s, fuzz_input *in, int32_t xid, int32_t error)
{
    const int64_t zxid = fuzz_below(in, 32) == 31 ? fuzz_number(in) : 1000 + fuzz_byte(in);
    zk_begin_reply(s, fuzz_below(in, 64) == 63 ? (int32_t)fuzz_number(in) : xid, zxid, error);
}

static int64_t any_time(fuzz_input *in)
{
    return fuzz_below(in, 8) == 7 ? fuzz_number(in) : INT64_C(1700000000000) + fuzz_byte(in);
}

static void put_stat(zk_speech *s, fuzz_input *in)
{
    const zk_speech_stat stat = {
        .czxid = fuzz_below(in, 16) == 15 ? (uint64_t)fuzz_number(in) : 1U + fuzz_byte(in),
        .ctime_ms = any_time(in),
        .mtime_ms = any_time(in),
        .version = fuzz_below(in, 4),
        .owner = fuzz_below(in, 4) ? 77 : (uint64_t)fuzz_number(in), /* the session is 77 */
    };
    zk_put_stat(s, &stat);
}

static void put_data(zk_speech *s, fuzz_input *in)
{
    char text[200];
    switch (fuzz_below(in, 4)) {
    case 0: {
        const int length = snprintf(text, sizeof text, "1 %u %u\nnote", fuzz_byte(in), fuzz_below(in, 4));
        zk_put_text(s, text, (size_t)length);
        break;
    }
    case 1:
        zk_put_text(s, text, fuzz_text(in, text, sizeof text - 1));
        break;
    case 2:
        zk_put_number(s, UINT32_MAX, 4); /* none */
        break;
    default: {
        const char *id = scenario_ids[fuzz_below(in, SCENARIO_IDS)];
        zk_put_text(s, id, strlen(id));
    }
    }
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The children that were made below this path; and some that nobody has made. */
static void put_names(zk_speech *s, fuzz_input *in, const char *path)
{
    const size_t at = s->length;
    const unsigned others = fuzz_below(in, 8) > 5 ? fuzz_below(in, 3) : 0;
    unsigned count = 0;
    zk_put_number(s, 0, 4);
    for (unsigned i = 0; i < made_count; i++)
        if (strncmp(made[i], path, strlen(path)) == 0 && made[i][strlen(path)] == '/' && fuzz_below(in, 16) < 15) {
            const char *name = last_part(made[i]);
            zk_put_text(s, name, strlen(name));
            count++;
        }
    for (unsigned i = 0; i < others; i++) {
        char name[PATH];
        switch (fuzz_below(in, 3)) {
        case 0:
            snprintf(name, sizeof name, "_c_0f0e0d0c-0b0a-4908-8706-050403020100-latch-%010u", fuzz_byte(in));
            break;
        case 1:
            snprintf(name, sizeof name, "%s", scenario_mutexes[fuzz_below(in, SCENARIO_MUTEXES)]);
            break;
        default:
            fuzz_text(in, name, sizeof name - 1);
        }
        zk_put_text(s, name, strlen(name));
        count++;
    }
    const size_t now = s->length;
    s->length = at;
    zk_put_number(s, fuzz_below(in, 64) == 63 ? (uint64_t)fuzz_number(in) : count, 4);
    s->length = now;
}

static void put_result(zk_speech *s, int32_t kind, bool last, int32_t error)
{
    zk_put_number(s, (uint32_t)kind, 4);
    zk_put_number(s, last, 1);
    zk_put_number(s, (uint32_t)error, 4);
}

/* Two results, as the store's transactions have them, or some other number. */
static void put_results(zk_speech *s, fuzz_input *in)
{
    const unsigned count = fuzz_below(in, 16) ? 2 : fuzz_below(in, 5);
    const bool fails = fuzz_below(in, 3) == 0;
    for (unsigned i = 0; i < count; i++) {
        const int32_t error = fails ? (fuzz_below(in, 2) ? FAKE_NO_NODE : FAKE_BAD_VERSION) : 0;
        const unsigned kind = fuzz_below(in, 4) ? (i == 0 ? 13U : 5U) : fuzz_below(in, 20);
        put_result(s, fails ? -1 : (int32_t)kind, false, error);
        if (fails)
            zk_put_number(s, (uint32_t)error, 4);
        else if (kind == FAKE_SET)
            put_stat(s, in);
    }
    put_result(s, -1, true, -1);
}

static void add_event(zk_speech *s, fuzz_input *in)
{
    begin_reply(s, in, -1, 0);
    zk_put_number(s, fuzz_below(in, 8) ? 1U + fuzz_below(in, 4) : (uint64_t)fuzz_number(in), 4);
    zk_put_number(s, fuzz_below(in, 8) ? 3 : (uint64_t)fuzz_number(in), 4);
    const char *path = made_count > 0 ? made[fuzz_below(in, made_count)] : "/simba/m";
    char text[PATH];
    switch (fuzz_below(in, 4)) {
    case 0:
        zk_put_text(s, text, fuzz_text(in, text, sizeof text - 1));
        break;
    case 1:
        zk_put_text(s, "/simba/m", 8);
        break;
    default:
        zk_put_text(s, path, strlen(path));
    }
    zk_end(s);
}

static void welcome(zk_speech *s, fuzz_input *in)
{
    zk_begin(s);
    zk_put_number(s, 0, 4);
    zk_put_number(s, fuzz_below(in, 16) ? 10000 : (uint64_t)fuzz_number(in), 4);
    zk_put_number(s, fuzz_below(in, 8) ? 77 : fuzz_below(in, 3), 8); /* 0: the session is over */
    zk_put_text(s, "0123456789abcdef", 16);
    if (fuzz_below(in, 2))
        zk_put_number(s, fuzz_below(in, 8) == 7, 1); /* for reading only */
    zk_end(s);
}

/* --- what is asked ------------------------------------------------------------------------------------------------ */

typedef struct asked {
    const unsigned char *at;
    size_t left;
} asked;

static uint32_t take_number(asked *a)
{
    uint32_t number = 0;
    for (unsigned i = 0; i < 4 && a->left > 0; i++, a->left--)
        number = number << 8 | *a->at++;
    return number;
}

static void take_path(asked *a, char ret_path[PATH])
{
    const size_t length = take_number(a);
    const size_t kept = length < a->left ? length : a->left;
    snprintf(ret_path, PATH, "%.*s", (int)kept, (const char *)a->at);
}

static void remember(char path[PATH], fuzz_input *in)
{
    const size_t length = strlen(path);
    if (length + 11 < PATH)
        snprintf(path + length, PATH - length, "%010u", fuzz_below(in, 32) ? fuzz_byte(in) : 2147483647U);
    if (made_count < MADE)
        strcpy(made[made_count++], path);
}

static void forget(const char *path)
{
    for (unsigned i = 0; i < made_count; i++)
        if (strcmp(made[i], path) == 0) {
            memmove(made[i], made[i + 1], (made_count - i - 1) * sizeof made[0]);
            made_count--;
            return;
        }
}

static int32_t any_error(fuzz_input *in, int32_t usual)
{
    static const int32_t errors[] = {FAKE_NO_NODE, -4,   -5,   -6,   -8,   -102, FAKE_BAD_VERSION,
                                     -108,         -110, -111, -112, -115, -118, -120};
    switch (fuzz_below(in, 16)) {
    case 14:
        return (int32_t)fuzz_number(in);
    case 15:
        return errors[fuzz_below(in, sizeof errors / sizeof *errors)];
    default:
        return usual;
    }
}

static void put_answer(zk_speech *s, fuzz_input *in, int32_t kind, char path[PATH])
{
    switch (kind) {
    case FAKE_CREATE:
    case FAKE_CREATE2:
    case FAKE_CREATE_CONTAINER:
        if (strstr(path, "-latch-"))
            remember(path, in);
        zk_put_text(s, path, strlen(path));
        if (kind != FAKE_CREATE)
            put_stat(s, in);
        break;
    case FAKE_DELETE:
        forget(path);
        break;
    case FAKE_GET:
        put_data(s, in);
        put_stat(s, in);
        break;
    case FAKE_EXISTS:
    case FAKE_SET:
        put_stat(s, in);
        break;
    case FAKE_CHILDREN:
        put_names(s, in, path);
        break;
    case FAKE_SYNC:
        zk_put_text(s, path, strlen(path));
        break;
    case FAKE_MULTI:
        put_results(s, in);
        break;
    default:
        break;
    }
}

/* One request is answered as a server would; now and then something else comes. */
static void answer(zk_speech *s, fuzz_input *in, asked a)
{
    char path[PATH] = "";
    const int32_t xid = (int32_t)take_number(&a);
    const int32_t kind = (int32_t)take_number(&a);
    if (kind != FAKE_MULTI && kind != FAKE_PING)
        take_path(&a, path);
    switch (fuzz_below(in, 48)) {
    case 45:
        return;
    case 46:
        s->length += fuzz_text(in, (char *)s->bytes + s->length, s->length + 256 <= ZK_SPEECH ? 255 : 0);
        return;
    case 47:
        add_event(s, in);
        break;
    default:
        break;
    }
    const int32_t error = any_error(in, kind == FAKE_SET ? FAKE_BAD_VERSION : 0);
    begin_reply(s, in, xid, error);
    if (error == 0)
        put_answer(s, in, kind, path);
    zk_end(s);
}

/* By the latest connection, in one piece, or in two. */
static void say(fuzz_input *in, const zk_speech *s)
{
    const size_t first = fuzz_below(in, 4) ? s->length : fuzz_below(in, (unsigned)s->length + 1);
    if (fuzz_wire_count == 0)
        return;
    fuzz_wire_send(fuzz_wire_count - 1, s->bytes, first);
    if (first < s->length)
        scenario_settle(&played);
    fuzz_wire_send(fuzz_wire_count - 1, s->bytes + first, s->length - first);
}

static void answer_all(fuzz_input *in)
{
    static zk_speech s;
    static unsigned char bytes[ASKED];
    asked all = {bytes, fuzz_wire_count > 0 ? fuzz_wire_take(fuzz_wire_count - 1, bytes, sizeof bytes) : 0};
    s.length = 0;
    while (all.left >= 4 && s.length < ZK_SPEECH / 2) {
        const size_t length = take_number(&all);
        const size_t part = length < all.left ? length : all.left;
        if (greeted == fuzz_wire_count)
            answer(&s, in, (asked){all.at, part});
        else
            welcome(&s, in);
        greeted = fuzz_wire_count;
        all.at += part;
        all.left -= part;
    }
    if (fuzz_below(in, 32) == 31)
        s.length = fuzz_mangle(in, s.bytes, s.length);
    say(in, &s);
}

static void interrupt(fuzz_input *in, size_t unused)
{
    static zk_speech s;
    (void)unused;
    s.length = 0;
    switch (fuzz_below(in, 6)) {
    case 0:
        fuzz_wire_close(fuzz_wire_count - 1);
        return;
    case 1:
        s.length = fuzz_text(in, (char *)s.bytes, 255);
        break;
    default:
        add_event(&s, in);
    }
    say(in, &s);
}

void fuzz_zookeeper(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {"zookeeper://127.0.0.1:2181?session-timeout=10s",
                                       "zookeeper://u:p@127.0.0.1:2181,127.0.0.2:2181/deep/root?session-timeout=10s"};
    static const scenario_server server = {answer_all, interrupt};
    fuzz_input in = {data, size};
    made_count = 0;
    greeted = 0;
    FUZZ_CHECK(scenario_begin(&played, &simba__backend_zookeeper, urls[fuzz_below(&in, 2)]));
    while (in.left > 0) {
        const unsigned what = fuzz_below(&in, 16);
        if (what == 0)
            fuzz_wire_refuses = fuzz_below(&in, 8) == 7;
        else if (what < 6)
            answer_all(&in);
        else
            scenario_step(&played, &in, &server);
        scenario_settle(&played);
    }
    scenario_end(&played);
    fuzz_wires_end();
}
