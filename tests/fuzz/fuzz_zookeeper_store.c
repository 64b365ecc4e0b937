/* ZooKeeper: a whole store, over the client library, to which a hostile server talks. */
#include <stdio.h>
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "fuzz/story.h"
#include "fuzz/targets.h"
#include "fuzz/wires.h"

enum { SPEECH = 16384, ASKED = 65536 };

/* Of requests; those that are not here are answered without a body. */
enum {
    CREATE = 1,
    EXISTS = 3,
    GET_DATA = 4,
    SET_DATA = 5,
    CHILDREN = 8,
    SYNC = 9,
    CHILDREN_2 = 12,
    MULTI = 14,
    CREATE_2 = 15
};
/* Instead of the number of a request. */
enum { A_WATCH = -1, A_PING = -2 };

typedef struct speech {
    unsigned char bytes[SPEECH];
    size_t length;
} speech;

static bool is_welcome[FUZZ_WIRES]; /* by wire: the handshake is over */

static void put(speech *s, const void *bytes, size_t length)
{
    if (s->length + length <= SPEECH) {
        memcpy(s->bytes + s->length, bytes, length);
        s->length += length;
    }
}

static void put_number(speech *s, int64_t number, size_t size)
{
    for (size_t i = size; i-- > 0;)
        put(s, &(unsigned char){(unsigned char)((uint64_t)number >> 8 * i)}, 1);
}

static void put_text(speech *s, const char *text)
{
    put_number(s, (int64_t)strlen(text), 4);
    put(s, text, strlen(text));
}

/* The length that stands before a message; now and then it is another one's. */
static void finish(speech *s, fuzz_input *in, size_t from)
{
    const int64_t length = fuzz_below(in, 64) == 63 ? fuzz_number(in) : (int64_t)(s->length - from - 4);
    speech head = {.length = 0};
    put_number(&head, length, 4);
    if (from + 4 <= SPEECH)
        memcpy(s->bytes + from, head.bytes, 4);
}

static void put_stat(speech *s, fuzz_input *in)
{
    const bool is_odd = fuzz_below(in, 16) == 15;
    for (int i = 0; i < 4; i++)
        put_number(s, is_odd ? fuzz_number(in) : fuzz_byte(in), 8); /* transactions and times */
    for (int i = 0; i < 3; i++)
        put_number(s, is_odd ? fuzz_number(in) : fuzz_below(in, 4), 4); /* versions */
    put_number(s, fuzz_below(in, 4) ? 77 : fuzz_byte(in), 8);           /* the owner's session */
    put_number(s, fuzz_byte(in), 4);
    put_number(s, fuzz_byte(in), 4);
    put_number(s, fuzz_byte(in), 8);
}

/* The path that a request begins with; `at` is behind its head. */
static const char *path_of(const unsigned char *at, size_t left, char ret_path[256])
{
    const size_t length = left > 4 ? (size_t)at[2] << 8 | at[3] : 0;
    const size_t there = length < left - (left > 4 ? 4 : left) ? length : 0;
    const size_t taken = there < 240 ? there : 240;
    memcpy(ret_path, at + 4, taken);
    ret_path[taken] = '\0';
    return ret_path;
}

/* A child as Curator names it, of ours or of somebody else; now and then any text. */
static void put_child(speech *s, fuzz_input *in, unsigned number)
{
    char text[160];
    if (fuzz_below(in, 12) == 0)
        fuzz_text(in, text, 150);
    else
        snprintf(text, sizeof text, "_c_%08x-0000-4000-8000-%012x-latch-%010u", fuzz_below(in, 4), fuzz_below(in, 4),
                 number);
    put_text(s, text);
}

static void put_children(speech *s, fuzz_input *in)
{
    const unsigned count = fuzz_below(in, 6);
    put_number(s, fuzz_below(in, 32) == 31 ? fuzz_number(in) : (int64_t)count, 4);
    for (unsigned i = 0; i < count; i++)
        put_child(s, in, i);
}

static void put_body(speech *s, fuzz_input *in, unsigned type, const char *path)
{
    char text[256 + 16];
    switch (type) {
    case CREATE:
    case CREATE_2:
        snprintf(text, sizeof text, "%s%010u", path, fuzz_below(in, 4));
        put_text(s, fuzz_below(in, 16) ? text : "/");
        if (type == CREATE_2)
            put_stat(s, in);
        break;
    case EXISTS:
    case SET_DATA:
        put_stat(s, in);
        break;
    case GET_DATA:
        if (fuzz_below(in, 2))
            fuzz_text(in, text, 255);
        else
            snprintf(text, sizeof text, "%s", story_ids[fuzz_below(in, STORY_IDS)]);
        put_text(s, text);
        put_stat(s, in);
        break;
    case CHILDREN:
    case CHILDREN_2:
        put_children(s, in);
        if (type == CHILDREN_2)
            put_stat(s, in);
        break;
    case SYNC:
        put_text(s, path);
        break;
    case MULTI:
        for (unsigned i = fuzz_below(in, 4); i > 0; i--) {
            put_number(s, fuzz_below(in, 2) ? SET_DATA : -1, 4);
            put_number(s, 0, 1);
            put_number(s, fuzz_below(in, 2) ? 0 : -103, 4);
            put_stat(s, in);
        }
        put_number(s, -1, 4);
        put_number(s, 1, 1);
        put_number(s, -1, 4);
        break;
    default:
        break;
    }
}

static void answer(speech *s, fuzz_input *in, const unsigned char *frame, size_t length)
{
    static const int errors[] = {-101, -110, -112, -103, -111, -4, -115, -6};
    const size_t from = s->length;
    const int32_t xid =
        (int32_t)((uint32_t)frame[0] << 24 | (uint32_t)frame[1] << 16 | (uint32_t)frame[2] << 8 | frame[3]);
    const unsigned type = (unsigned)frame[6] << 8 | frame[7];
    const unsigned odd = fuzz_below(in, 32);
    char path[256];
    put_number(s, 0, 4);
    put_number(s, odd == 0 ? fuzz_byte(in) : xid, 4);
    put_number(s, odd == 1 ? fuzz_number(in) : 5, 8);
    if (xid != A_PING && fuzz_below(in, 8) == 0) {
        put_number(s, errors[fuzz_below(in, 8)], 4);
    } else {
        put_number(s, 0, 4);
        if (odd == 2)
            s->length += fuzz_text(in, (char *)s->bytes + s->length, 255);
        else if (xid >= 0)
            put_body(s, in, type, path_of(frame + 8, length - 8, path));
    }
    finish(s, in, from);
}

static void welcome(speech *s, fuzz_input *in)
{
    static const unsigned char password[16] = {1};
    const size_t from = s->length;
    put_number(s, 0, 4);
    put_number(s, 0, 4);
    put_number(s, fuzz_below(in, 16) ? 10000 : fuzz_number(in), 4); /* 0: the session is over */
    put_number(s, fuzz_below(in, 16) ? 77 : fuzz_number(in), 8);
    put_number(s, sizeof password, 4);
    put(s, password, sizeof password);
    put_number(s, fuzz_below(in, 16) == 15, 1);
    finish(s, in, from);
}

/* All that was asked is answered, in order. */
static void answer_all(fuzz_input *in)
{
    static unsigned char asked[ASKED];
    static speech s;
    for (size_t i = 0; i < fuzz_wire_count; i++) {
        const size_t length = fuzz_wire_take(i, asked, sizeof asked);
        s.length = 0;
        for (size_t at = 0; at + 4 <= length;) {
            const size_t frame = (size_t)asked[at + 2] << 8 | asked[at + 3];
            if (at + 4 + frame > length)
                break;
            if (!is_welcome[i])
                welcome(&s, in);
            else if (frame >= 8)
                answer(&s, in, asked + at + 4, frame);
            is_welcome[i] = true;
            at += 4 + frame;
        }
        fuzz_wire_send(i, s.bytes, s.length);
    }
}

static void interrupt(fuzz_input *in)
{
    static speech s;
    s.length = 0;
    if (fuzz_wire_count == 0)
        return;
    const size_t wire = fuzz_below(in, (unsigned)fuzz_wire_count);
    switch (fuzz_below(in, 4)) {
    case 0:
        fuzz_wire_close(wire);
        return;
    case 1:
        s.length = fuzz_text(in, (char *)s.bytes, 255);
        break;
    default: {
        char path[128];
        put_number(&s, 0, 4);
        put_number(&s, A_WATCH, 4);
        put_number(&s, -1, 8);
        put_number(&s, 0, 4);
        put_number(&s, fuzz_below(in, 8) ? 1 + fuzz_below(in, 4) : fuzz_number(in), 4);
        put_number(&s, 3, 4);
        snprintf(path, sizeof path, "/simba/%s", story_mutexes[fuzz_below(in, STORY_MUTEXES)]);
        put_text(&s, path);
        finish(&s, in, 0);
    }
    }
    fuzz_wire_send(wire, s.bytes, s.length);
}

static void any_turn(story *told, fuzz_input *in)
{
    switch (fuzz_below(in, 12)) {
    default:
        answer_all(in);
        break;
    case 0:
    case 1:
    case 2:
        story_request(told, in);
        break;
    case 3:
        story_topic(told, in);
        break;
    case 4:
        interrupt(in);
        break;
    case 5:
        fuzz_host_advance(told->host, (int64_t)fuzz_byte(in) * fuzz_byte(in) / 4);
        break;
    }
    fuzz_host_settle(told->host);
    fuzz_host_poll(told->host);
}

void fuzz_zookeeper(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    story told;
    memset(is_welcome, 0, sizeof is_welcome);
    FUZZ_CHECK(story_begin(&told, &simba__backend_zookeeper, "zookeeper://127.0.0.1:2181,127.0.0.2:2181/simba"));
    while (in.left > 0)
        any_turn(&told, &in);
    story_end(&told);
    fuzz_wires_end();
}
