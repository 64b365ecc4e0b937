/* PostgreSQL: a whole store, over libpq, to which a hostile server talks. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/scenario.h"
#include "fuzz/targets.h"
#include "fuzz/wires.h"
#include "stores/postgresql/postgresql.h"

enum { SPEECH = 16384, ASKED = 65536, ROWS = 16, LOOK_COLUMNS = 13 };

typedef struct speech {
    unsigned char bytes[SPEECH];
    size_t length;
    size_t message; /* where the length of the one that is being written stands */
} speech;

static void put(speech *s, const void *bytes, size_t length)
{
    if (s->length + length <= SPEECH) {
        memcpy(s->bytes + s->length, bytes, length);
        s->length += length;
    }
}

static void put_number(speech *s, uint32_t number, size_t size)
{
    for (size_t i = size; i-- > 0;)
        put(s, &(unsigned char){(unsigned char)(number >> 8 * i)}, 1);
}

static void put_text(speech *s, const char *text)
{
    put(s, text, strlen(text) + 1);
}

static void begin(speech *s, char kind)
{
    put(s, &kind, 1);
    s->message = s->length;
    put_number(s, 0, 4);
}

/* Now and then the length is not that of the message. */
static void end(speech *s, fuzz_input *in)
{
    const uint32_t length = fuzz_below(in, 64) == 63 ? (uint32_t)fuzz_number(in) : (uint32_t)(s->length - s->message);
    speech head = {.length = 0};
    put_number(&head, length, 4);
    if (s->message + 4 <= SPEECH)
        memcpy(s->bytes + s->message, head.bytes, 4);
}

static void add_ready(speech *s, fuzz_input *in)
{
    begin(s, 'Z');
    put(s, fuzz_below(in, 32) == 31 ? "E" : "I", 1);
    end(s, in);
}

static void add_parameter(speech *s, fuzz_input *in, const char *name, const char *value)
{
    begin(s, 'S');
    put_text(s, name);
    put_text(s, value);
    end(s, in);
}

static void add_error(speech *s, fuzz_input *in, char kind)
{
    static const char *const states[] = {"42P01", "42501", "25006", "40001", "57P01", "53300", "28P01", "XX000"};
    char text[100];
    fuzz_text(in, text, 99);
    begin(s, kind);
    put(s, "SERROR\0C", 8);
    put_text(s, states[fuzz_below(in, 8)]);
    put(s, "M", 1);
    put_text(s, text);
    put(s, "RSyncRepWaitForLSN\0", fuzz_below(in, 4) ? 0 : 20);
    put(s, "", 1);
    end(s, in);
}

static void welcome(speech *s, fuzz_input *in)
{
    static const uint32_t kinds[] = {0, 0, 0, 3, 5, 10, 11, 12}; /* of authentication; 0: none is needed */
    begin(s, 'R');
    put_number(s, kinds[fuzz_below(in, 8)], 4);
    put(s, "salt", fuzz_below(in, 8) ? 0 : 4);
    end(s, in);
    add_parameter(s, in, "server_version", "15.2");
    add_parameter(s, in, "client_encoding", fuzz_below(in, 16) ? "UTF8" : "LATIN1");
    add_parameter(s, in, "in_hot_standby", fuzz_below(in, 16) ? "off" : "on");
    add_parameter(s, in, "default_transaction_read_only", "off");
    begin(s, 'K');
    put_number(s, 1, 4);
    put_number(s, 2, 4);
    end(s, in);
    add_ready(s, in);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static void add_columns(speech *s, fuzz_input *in, unsigned count)
{
    begin(s, 'T');
    put_number(s, count, 2);
    for (unsigned i = 0; i < count; i++) {
        put_text(s, "c");
        put_number(s, 0, 4);
        put_number(s, 0, 2);
        put_number(s, 25, 4);
        put_number(s, 0xffff, 2);
        put_number(s, 0xffffffff, 4);
        put_number(s, 0, 2);
    }
    end(s, in);
}

static void put_value(speech *s, const char *text, size_t length)
{
    put_number(s, (uint32_t)length, 4);
    put(s, text, length);
}

static void put_any(speech *s, fuzz_input *in)
{
    char text[256];
    switch (fuzz_below(in, 3)) {
    case 0:
        put_number(s, 0xffffffff, 4); /* null */
        break;
    case 1:
        put_value(s, text, fuzz_text(in, text, 255));
        break;
    default:
        put_value(s, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)fuzz_number(in)));
    }
}

/* A row; now and then one of its values is odd. */
static void add_row(speech *s, fuzz_input *in, const char *mutex, unsigned columns)
{
    const unsigned odd = fuzz_below(in, 48);
    const char *owner = fuzz_below(in, 4) ? scenario_ids[fuzz_below(in, SCENARIO_IDS)] : "";
    const int64_t now = 1700000000000;
    char text[32];
    begin(s, 'D');
    put_number(s, columns, 2);
    for (unsigned i = 0; i < columns; i++) {
        int64_t number = i == SIMBA__SQL_NOW ? now : (int64_t)fuzz_below(in, 8);
        if (i >= SIMBA__SQL_ACQUIRED_AT && i <= SIMBA__SQL_TRANSITION_AT && owner[0])
            number = now + 8000 * ((int64_t)i - SIMBA__SQL_ACQUIRED_AT);
        if (i == odd)
            put_any(s, in);
        else if (i == SIMBA__SQL_MUTEX)
            put_value(s, mutex, strlen(mutex));
        else if (i == SIMBA__SQL_OWNER_ID)
            put_value(s, owner, strlen(owner));
        else
            put_value(s, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)number));
    }
    end(s, in);
}

static void add_look(speech *s, fuzz_input *in)
{
    static const char *const usual[LOOK_COLUMNS] = {"t",      NULL, NULL, "t", "t", "f", "15.2",
                                                    "150002", "on", "on", "",  "0", ""};
    const unsigned odd = fuzz_below(in, 48);
    add_columns(s, in, LOOK_COLUMNS);
    begin(s, 'D');
    put_number(s, LOOK_COLUMNS, 2);
    for (unsigned i = 0; i < LOOK_COLUMNS; i++)
        if (i == odd)
            put_any(s, in);
        else if (!usual[i])
            put_number(s, 0xffffffff, 4);
        else
            put_value(s, usual[i], strlen(usual[i]));
    end(s, in);
}

/* The end of one of several results. */
static void add_complete(speech *s, fuzz_input *in)
{
    begin(s, 'C');
    put_text(s, fuzz_below(in, 2) ? "SELECT 1" : "SET");
    end(s, in);
}

/* Rows of all mutexes, as many columns as were asked for; of packet 1 also waiters and the time. */
static void add_rows(speech *s, fuzz_input *in, bool locks, unsigned usual)
{
    const unsigned columns = fuzz_below(in, 32) ? usual : fuzz_byte(in);
    char now[32];
    add_columns(s, in, columns);
    for (unsigned rows = fuzz_below(in, ROWS); rows > 0; rows--)
        add_row(s, in, scenario_mutexes[fuzz_below(in, SCENARIO_MUTEXES)], columns);
    if (!locks)
        return;
    add_complete(s, in);
    if (fuzz_below(in, 2)) {
        add_columns(s, in, 6);
        for (unsigned rows = fuzz_below(in, 4); rows > 0; rows--)
            add_row(s, in, scenario_mutexes[fuzz_below(in, SCENARIO_MUTEXES)], 6);
        add_complete(s, in);
    }
    add_columns(s, in, 1);
    begin(s, 'D');
    put_number(s, 1, 2);
    if (fuzz_below(in, 32) == 31)
        put_any(s, in);
    else
        put_value(s, now, (size_t)snprintf(now, sizeof now, "%lld", 1700000000000LL));
    end(s, in);
}

static void add_notification(speech *s, fuzz_input *in)
{
    char text[100];
    begin(s, 'A');
    put_number(s, 7, 4);
    put_text(s, "simba");
    if (fuzz_below(in, 2))
        snprintf(text, sizeof text, "%u %s", fuzz_below(in, 5), scenario_mutexes[fuzz_below(in, SCENARIO_MUTEXES)]);
    else
        fuzz_text(in, text, 99);
    put_text(s, text);
    end(s, in);
}

static bool has(const char *asked, size_t length, const char *word)
{
    return memmem(asked, length, word, strlen(word)) != NULL;
}

/* One statement is answered as a server would; now and then something else comes. */
static void answer(speech *s, fuzz_input *in, const char *asked, size_t length)
{
    switch (fuzz_below(in, 24)) {
    case 0:
        add_error(s, in, 'E');
        break;
    case 1:
        s->length += fuzz_text(in, (char *)s->bytes + s->length, 255);
        break;
    case 2:
        begin(s, "GHWIn"[fuzz_below(in, 5)]); /* copies, and nothing */
        put(s, "\0\0\0", 3);
        end(s, in);
        break;
    case 3:
        add_error(s, in, 'N');
        add_notification(s, in);
        /* fall through */
    default:
        if (has(asked, length, "fsync"))
            add_look(s, in);
        else if (has(asked, length, "skip locked"))
            add_rows(s, in, true, SIMBA__SQL_LOCK_COLUMNS);
        else if (has(asked, length, "encode(note"))
            add_rows(s, in, false, SIMBA__SQL_COLUMNS);
        else if (has(asked, length, "select mutex"))
            add_rows(s, in, false, SIMBA__SQL_READ_COLUMNS);
        break;
    }
    add_complete(s, in);
    add_ready(s, in);
}

static void answer_all(fuzz_input *in)
{
    static char asked[ASKED];
    static speech s;
    for (size_t i = 0; i < fuzz_wire_count; i++) {
        const size_t length = fuzz_wire_take(i, (unsigned char *)asked, sizeof asked);
        s.length = 0;
        if (length == 0)
            continue;
        if (asked[0] == 0)
            welcome(&s, in);
        else if (asked[0] == 'Q')
            answer(&s, in, asked, length);
        fuzz_wire_send(i, s.bytes, s.length);
    }
}

static void interrupt(fuzz_input *in, size_t wire)
{
    static speech s;
    s.length = 0;
    switch (fuzz_below(in, 4)) {
    case 0:
        fuzz_wire_close(wire);
        return;
    case 1:
        add_error(&s, in, 'E');
        break;
    case 2:
        s.length = fuzz_text(in, (char *)s.bytes, 255);
        break;
    default:
        add_notification(&s, in);
    }
    fuzz_wire_send(wire, s.bytes, s.length);
}

void fuzz_postgresql(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {
        "postgresql://u:p@127.0.0.1:5432/db?sslmode=disable",
        "postgresql://u@127.0.0.1:5432,127.0.0.2:5432/db?sslmode=disable&target_session_attrs=any&create=yes"};
    static const scenario_server server = {answer_all, interrupt};
    fuzz_input in = {data, size};
    scenario played;
    FUZZ_CHECK(scenario_begin(&played, &simba__backend_postgresql, urls[fuzz_below(&in, 2)]));
    while (in.left > 0) {
        scenario_step(&played, &in, &server);
        fuzz_host_settle(played.host);
        fuzz_host_poll(played.host);
    }
    scenario_end(&played);
    fuzz_wires_end();
}
