/* PostgreSQL: a whole store, over libpq, to which a hostile server talks. */
#include <stdio.h>
#include <string.h>

#include "fuzz/scenario.h"
#include "fuzz/targets.h"
#include "fuzz/wires.h"
#include "lib/postgresql_speech.h"
#include "stores/postgresql/postgresql.h"

enum { ASKED = 65536, ROWS = 16, COLUMNS_MOST = 256 };

static pg_speech speech;

static void say_error(fuzz_input *in, char kind)
{
    static const char *const states[] = {"42P01", "42501", "25006", "40001", "57P01", "53300", "28P01", "XX000"};
    char text[100];
    fuzz_text(in, text, 99);
    pg_say_error(&speech, kind, states[fuzz_below(in, 8)], text);
}

static const char *any_value(fuzz_input *in, char text[256])
{
    const unsigned kind = fuzz_below(in, 3);
    if (kind == 0)
        return NULL;
    if (kind == 1)
        fuzz_text(in, text, 255);
    else
        snprintf(text, 256, "%lld", (long long)fuzz_number(in));
    return text;
}

/* A row; now and then one of its values is odd. */
static void say_row(fuzz_input *in, unsigned columns)
{
    static char numbers[COLUMNS_MOST][24];
    char text[256];
    const char *values[COLUMNS_MOST];
    const char *mutex = scenario_mutexes[fuzz_below(in, SCENARIO_MUTEXES)];
    const unsigned odd = fuzz_below(in, 48);
    const char *owner = fuzz_below(in, 4) ? scenario_ids[fuzz_below(in, SCENARIO_IDS)] : "";
    const int64_t now = 1700000000000;
    for (unsigned i = 0; i < columns; i++) {
        int64_t number = i == SIMBA__SQL_NOW ? now : (int64_t)fuzz_below(in, 8);
        if (i >= SIMBA__SQL_ACQUIRED_AT && i <= SIMBA__SQL_TRANSITION_AT && owner[0])
            number = now + 8000 * ((int64_t)i - SIMBA__SQL_ACQUIRED_AT);
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)number);
        values[i] = i == odd                   ? any_value(in, text)
                    : i == SIMBA__SQL_MUTEX    ? mutex
                    : i == SIMBA__SQL_OWNER_ID ? owner
                                               : numbers[i];
    }
    pg_say_row(&speech, columns, values);
}

/* Rows of all mutexes, as many columns as were asked for; of packet 1 also waiters and the time. */
static void say_rows(fuzz_input *in, bool locks, unsigned usual)
{
    const unsigned columns = fuzz_below(in, 32) ? usual : fuzz_byte(in);
    char text[256];
    pg_say_columns(&speech, columns);
    for (unsigned rows = fuzz_below(in, ROWS); rows > 0; rows--)
        say_row(in, columns);
    if (!locks)
        return;
    pg_say_complete(&speech);
    if (fuzz_below(in, 2)) {
        pg_say_columns(&speech, 6);
        for (unsigned rows = fuzz_below(in, 4); rows > 0; rows--)
            say_row(in, 6);
        pg_say_complete(&speech);
    }
    pg_say_columns(&speech, 1);
    pg_say_row(&speech, 1, (const char *[]){fuzz_below(in, 32) == 31 ? any_value(in, text) : "1700000000000"});
}

static void say_notification(fuzz_input *in)
{
    char text[120] = "\0\0\0\7simba";
    char *channel = text + 10;
    if (fuzz_below(in, 2))
        snprintf(channel, 100, "%u %s", fuzz_below(in, 5), scenario_mutexes[fuzz_below(in, SCENARIO_MUTEXES)]);
    else
        fuzz_text(in, channel, 99);
    pg_say(&speech, 'A', text, 10 + strlen(channel) + 1);
}

static bool has(const char *asked, size_t length, const char *word)
{
    return memmem(asked, length, word, strlen(word)) != NULL;
}

/* One statement is answered as a server would; now and then something else comes. */
static void answer(fuzz_input *in, const char *asked, size_t length)
{
    switch (fuzz_below(in, 24)) {
    case 0:
        say_error(in, 'E');
        break;
    case 1: {
        char text[256];
        pg_put(&speech, text, fuzz_text(in, text, 255));
        break;
    }
    case 2:
        pg_say(&speech, "GHWIn"[fuzz_below(in, 5)], "\0\0\0", 3); /* copies, and nothing */
        break;
    case 3:
        say_error(in, 'N');
        say_notification(in);
        /* fall through */
    default:
        if (has(asked, length, "fsync")) {
            pg_say_look(&speech);
            return;
        }
        if (has(asked, length, "skip locked"))
            say_rows(in, true, SIMBA__SQL_LOCK_COLUMNS);
        else if (has(asked, length, "encode(note"))
            say_rows(in, false, SIMBA__SQL_COLUMNS);
        else if (has(asked, length, "select mutex"))
            say_rows(in, false, SIMBA__SQL_READ_COLUMNS);
        break;
    }
    pg_say_complete(&speech);
    pg_say_ready(&speech);
}

static void answer_all(fuzz_input *in)
{
    static const uint32_t methods[] = {0, 0, 0, 3, 5, 10, 11, 12}; /* of authentication; 0: none is needed */
    static char asked[ASKED];
    for (size_t i = 0; i < fuzz_wire_count; i++) {
        const size_t length = fuzz_wire_take(i, (unsigned char *)asked, sizeof asked);
        speech.length = 0;
        if (length > 0 && asked[0] == 0)
            pg_say_welcome(&speech, methods[fuzz_below(in, 8)]);
        else if (length > 0 && asked[0] == 'Q')
            answer(in, asked, length);
        if (fuzz_below(in, 16) == 15)
            speech.length = fuzz_mangle(in, speech.bytes, speech.length);
        fuzz_wire_send(i, speech.bytes, speech.length);
    }
}

static void interrupt(fuzz_input *in, size_t wire)
{
    speech.length = 0;
    switch (fuzz_below(in, 4)) {
    case 0:
        fuzz_wire_close(wire);
        return;
    case 1:
        say_error(in, 'E');
        break;
    case 2:
        speech.length = fuzz_text(in, (char *)speech.bytes, 255);
        break;
    default:
        say_notification(in);
    }
    fuzz_wire_send(wire, speech.bytes, speech.length);
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
        scenario_settle(&played);
    }
    scenario_end(&played);
    fuzz_wires_end();
}
