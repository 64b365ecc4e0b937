/* ZooKeeper: a whole store, to which a hostile server talks. */
#include <stdio.h>
#include <string.h>

#include "fuzz/scenario.h"
#include "fuzz/targets.h"
#include "fuzz/wires.h"
#include "stores/zookeeper/zookeeper.h"

enum { SPEECH = 8192, ASKED = 16384, PATH = 160, MADE = 6 };

/* Kinds of requests, and errors, as the protocol numbers them. */
enum {
    CREATE = 1,
    DELETE = 2,
    EXISTS = 3,
    GET = 4,
    SET = 5,
    CHILDREN = 8,
    SYNC = 9,
    PING = 11,
    MULTI = 14,
    CREATE2 = 15,
    CREATE_CONTAINER = 19,
    NO_NODE = -101,
    BAD_VERSION = -103,
};

typedef struct speech {
    unsigned char bytes[SPEECH];
    size_t length;
    size_t message; /* where the length of the one that is being written stands */
} speech;

/* What the server plays: the children that were made, so that lists make sense. */
static char made[MADE][PATH];
static unsigned made_count;

static scenario played;
static size_t greeted; /* how many connections there were when the latest was let in */

static void put(speech *s, const void *bytes, size_t length)
{
    if (s->length + length <= SPEECH) {
        memcpy(s->bytes + s->length, bytes, length);
        s->length += length;
    }
}

static void put_number(speech *s, uint64_t number, size_t size)
{
    for (size_t i = size; i-- > 0;)
        put(s, &(unsigned char){(unsigned char)(number >> 8 * i)}, 1);
}

/* Now and then the length is not that of the text. */
static void put_text(speech *s, fuzz_input *in, const char *text, size_t length)
{
    put_number(s, fuzz_below(in, 64) == 63 ? (uint64_t)fuzz_number(in) : length, 4);
    put(s, text, length);
}

static void begin(speech *s)
{
    s->message = s->length;
    put_number(s, 0, 4);
}

static void end(speech *s, fuzz_input *in)
{
    const size_t now = s->length;
    const uint64_t length = fuzz_below(in, 64) == 63 ? (uint64_t)fuzz_number(in) : now - s->message - 4;
    s->length = s->message;
    put_number(s, length, 4);
    s->length = now;
}

static void begin_reply(speech *s, fuzz_input *in, int32_t xid, int32_t error)
{
    begin(s);
    put_number(s, (uint32_t)(fuzz_below(in, 64) == 63 ? (int32_t)fuzz_number(in) : xid), 4);
    put_number(s, (uint64_t)(fuzz_below(in, 32) == 31 ? fuzz_number(in) : 1000 + fuzz_byte(in)), 8);
    put_number(s, (uint32_t)error, 4);
}

static int64_t any_time(fuzz_input *in)
{
    return fuzz_below(in, 8) == 7 ? fuzz_number(in) : INT64_C(1700000000000) + fuzz_byte(in);
}

static void put_stat(speech *s, fuzz_input *in)
{
    const uint64_t czxid = fuzz_below(in, 16) == 15 ? (uint64_t)fuzz_number(in) : 1U + fuzz_byte(in);
    put_number(s, czxid, 8);
    put_number(s, czxid, 8);
    put_number(s, (uint64_t)any_time(in), 8);
    put_number(s, (uint64_t)any_time(in), 8);
    put_number(s, fuzz_below(in, 4), 4); /* version */
    put_number(s, 0, 8);
    put_number(s, fuzz_below(in, 4) ? 77 : (uint64_t)fuzz_number(in), 8); /* whose it is: the session is 77 */
    put_number(s, 0, 8);
    put_number(s, czxid, 8);
}

static void put_data(speech *s, fuzz_input *in)
{
    char text[200];
    switch (fuzz_below(in, 4)) {
    case 0: {
        const int length = snprintf(text, sizeof text, "1 %u %u\nnote", fuzz_byte(in), fuzz_below(in, 4));
        put_text(s, in, text, (size_t)length);
        break;
    }
    case 1:
        put_text(s, in, text, fuzz_text(in, text, sizeof text - 1));
        break;
    case 2:
        put_number(s, UINT32_MAX, 4); /* none */
        break;
    default: {
        const char *id = scenario_ids[fuzz_below(in, SCENARIO_IDS)];
        put_text(s, in, id, strlen(id));
    }
    }
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The children that were made below this path; and some that nobody has made. */
static void put_names(speech *s, fuzz_input *in, const char *path)
{
    const size_t at = s->length;
    const unsigned others = fuzz_below(in, 8) > 5 ? fuzz_below(in, 3) : 0;
    unsigned count = 0;
    put_number(s, 0, 4);
    for (unsigned i = 0; i < made_count; i++)
        if (strncmp(made[i], path, strlen(path)) == 0 && made[i][strlen(path)] == '/' && fuzz_below(in, 16) < 15) {
            const char *name = last_part(made[i]);
            put_text(s, in, name, strlen(name));
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
        put_text(s, in, name, strlen(name));
        count++;
    }
    const size_t now = s->length;
    s->length = at;
    put_number(s, fuzz_below(in, 64) == 63 ? (uint64_t)fuzz_number(in) : count, 4);
    s->length = now;
}

static void put_result(speech *s, int32_t kind, bool last, int32_t error)
{
    put_number(s, (uint32_t)kind, 4);
    put_number(s, last, 1);
    put_number(s, (uint32_t)error, 4);
}

/* Two results, as the store's transactions have them, or some other number. */
static void put_results(speech *s, fuzz_input *in)
{
    const unsigned count = fuzz_below(in, 16) ? 2 : fuzz_below(in, 5);
    const bool fails = fuzz_below(in, 3) == 0;
    for (unsigned i = 0; i < count; i++) {
        const int32_t error = fails ? (fuzz_below(in, 2) ? NO_NODE : BAD_VERSION) : 0;
        const unsigned kind = fuzz_below(in, 4) ? (i == 0 ? 13U : 5U) : fuzz_below(in, 20);
        put_result(s, fails ? -1 : (int32_t)kind, false, error);
        if (fails)
            put_number(s, (uint32_t)error, 4);
        else if (kind == SET)
            put_stat(s, in);
    }
    put_result(s, -1, true, -1);
}

static void add_event(speech *s, fuzz_input *in)
{
    begin_reply(s, in, -1, 0);
    put_number(s, fuzz_below(in, 8) ? 1U + fuzz_below(in, 4) : (uint64_t)fuzz_number(in), 4);
    put_number(s, fuzz_below(in, 8) ? 3 : (uint64_t)fuzz_number(in), 4);
    const char *path = made_count > 0 ? made[fuzz_below(in, made_count)] : "/simba/m";
    char text[PATH];
    switch (fuzz_below(in, 4)) {
    case 0:
        put_text(s, in, text, fuzz_text(in, text, sizeof text - 1));
        break;
    case 1:
        put_text(s, in, "/simba/m", 8);
        break;
    default:
        put_text(s, in, path, strlen(path));
    }
    end(s, in);
}

static void welcome(speech *s, fuzz_input *in)
{
    begin(s);
    put_number(s, 0, 4);
    put_number(s, fuzz_below(in, 16) ? 10000 : (uint64_t)fuzz_number(in), 4);
    put_number(s, fuzz_below(in, 8) ? 77 : fuzz_below(in, 3), 8); /* 0: the session is over */
    put_text(s, in, "0123456789abcdef", 16);
    if (fuzz_below(in, 2))
        put_number(s, fuzz_below(in, 8) == 7, 1); /* for reading only */
    end(s, in);
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
    static const int32_t errors[] = {NO_NODE, -4,   -5,   -6,   -8,   -102, BAD_VERSION,
                                     -108,    -110, -111, -112, -115, -118, -120};
    switch (fuzz_below(in, 16)) {
    case 14:
        return (int32_t)fuzz_number(in);
    case 15:
        return errors[fuzz_below(in, sizeof errors / sizeof *errors)];
    default:
        return usual;
    }
}

static void put_answer(speech *s, fuzz_input *in, int32_t kind, char path[PATH])
{
    switch (kind) {
    case CREATE:
    case CREATE2:
    case CREATE_CONTAINER:
        if (strstr(path, "-latch-"))
            remember(path, in);
        put_text(s, in, path, strlen(path));
        if (kind != CREATE)
            put_stat(s, in);
        break;
    case DELETE:
        forget(path);
        break;
    case GET:
        put_data(s, in);
        put_stat(s, in);
        break;
    case EXISTS:
    case SET:
        put_stat(s, in);
        break;
    case CHILDREN:
        put_names(s, in, path);
        break;
    case SYNC:
        put_text(s, in, path, strlen(path));
        break;
    case MULTI:
        put_results(s, in);
        break;
    default:
        break;
    }
}

/* One request is answered as a server would; now and then something else comes. */
static void answer(speech *s, fuzz_input *in, asked a)
{
    char path[PATH] = "";
    const int32_t xid = (int32_t)take_number(&a);
    const int32_t kind = (int32_t)take_number(&a);
    if (kind != MULTI && kind != PING)
        take_path(&a, path);
    switch (fuzz_below(in, 48)) {
    case 45:
        return;
    case 46:
        s->length += fuzz_text(in, (char *)s->bytes + s->length, s->length + 256 <= SPEECH ? 255 : 0);
        return;
    case 47:
        add_event(s, in);
        break;
    default:
        break;
    }
    const int32_t error = any_error(in, kind == SET ? BAD_VERSION : 0);
    begin_reply(s, in, xid, error);
    if (error == 0)
        put_answer(s, in, kind, path);
    end(s, in);
}

/* By the latest connection, in one piece, or in two. */
static void say(fuzz_input *in, const speech *s)
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
    static speech s;
    static unsigned char bytes[ASKED];
    asked all = {bytes, fuzz_wire_count > 0 ? fuzz_wire_take(fuzz_wire_count - 1, bytes, sizeof bytes) : 0};
    s.length = 0;
    while (all.left >= 4 && s.length < SPEECH / 2) {
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
    say(in, &s);
}

static void interrupt(fuzz_input *in, size_t unused)
{
    static speech s;
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
