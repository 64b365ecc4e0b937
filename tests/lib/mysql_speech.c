/* See mysql_speech.h. */
#include "lib/mysql_speech.h"

#include <stdio.h>
#include <string.h>

enum {
    LONG_PASSWORD = 1,
    CONNECT_WITH_DB = 8,
    PROTOCOL_41 = 0x200,
    SSL = 0x800,
    TRANSACTIONS = 0x2000,
    SECURE_CONNECTION = 0x8000,
    PLUGIN_AUTH = 0x80000,

    QUIT = 1,
    QUERY = 3,
    PREPARE = 0x16,
    EXECUTE = 0x17,
    STATEMENT_CLOSE = 0x19,

    TYPE_LONG = 3,
    TYPE_LONGLONG = 8,
    TYPE_VAR_STRING = 253,
    UNSIGNED = 32,
    COLUMNS = 16,  /* of our statements */
    WIDTH_MAX = 64 /* it announces no more than these, whatever their number is said to be */
};

static const char scramble[21] = "abcdefghijklmnopqrst";

/* --- packets ------------------------------------------------------------------------------------------- */

void mysql_put(mysql_speech *s, const void *bytes, size_t length)
{
    if (s->length + length > MYSQL_SPEECH)
        return;
    memcpy(s->bytes + s->length, bytes, length);
    s->length += length;
}

void mysql_put_number(mysql_speech *s, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        mysql_put(s, &(unsigned char){(unsigned char)(number >> 8 * i)}, 1);
}

static void put_length(mysql_speech *s, uint64_t length)
{
    if (length > 250)
        mysql_put(s, length > UINT16_MAX ? "\xFE" : "\xFC", 1);
    mysql_put_number(s, length, length > UINT16_MAX ? 8 : length > 250 ? 2 : 1);
}

static void put_text(mysql_speech *s, const char *text)
{
    put_length(s, strlen(text));
    mysql_put(s, text, strlen(text));
}

void mysql_begin(mysql_speech *s)
{
    s->packet = s->length;
    mysql_put_number(s, 0, 4);
}

void mysql_end(mysql_speech *s)
{
    const size_t length = s->length - s->packet - 4;
    const unsigned char head[4] = {(unsigned char)length, (unsigned char)(length >> 8), (unsigned char)(length >> 16),
                                   s->number++};
    if (s->packet + 4 <= MYSQL_SPEECH)
        memcpy(s->bytes + s->packet, head, 4);
}

void mysql_say_hello(mysql_speech *s, const char *plugin, bool offers_tls)
{
    const unsigned capabilities = LONG_PASSWORD | CONNECT_WITH_DB | PROTOCOL_41 | TRANSACTIONS | SECURE_CONNECTION |
                                  PLUGIN_AUTH | (offers_tls ? SSL : 0);
    s->number = 0;
    mysql_begin(s);
    mysql_put(s,
              "\12"
              "5.5.5-10.11.0-MariaDB\0\1\0\0\0",
              27);
    mysql_put(s, scramble, 8);
    mysql_put_number(s, 0, 1);
    mysql_put_number(s, capabilities, 2);
    mysql_put_number(s, 45, 1); /* utf8mb4 */
    mysql_put_number(s, 2, 2);  /* autocommit */
    mysql_put_number(s, capabilities >> 16, 2);
    mysql_put_number(s, 21, 1);
    mysql_put(s, (char[10]){0}, 10);
    mysql_put(s, scramble + 8, 13);
    mysql_put(s, plugin, strlen(plugin) + 1);
    mysql_end(s);
}

void mysql_say_ok(mysql_speech *s, uint64_t affected, uint64_t insert_id)
{
    mysql_begin(s);
    mysql_put_number(s, 0, 1);
    put_length(s, affected);
    put_length(s, insert_id);
    mysql_put(s, "\2\0\0\0", 4);
    mysql_end(s);
}

void mysql_say_error(mysql_speech *s, unsigned number, const char *text)
{
    mysql_begin(s);
    mysql_put_number(s, 0xFF, 1);
    mysql_put_number(s, number, 2);
    mysql_put(s, "#HY000", 6);
    mysql_put(s, text, strlen(text));
    mysql_end(s);
}

static void say_eof(mysql_speech *s)
{
    mysql_begin(s);
    mysql_put(s, "\xFE\0\0\2\0", 5);
    mysql_end(s);
}

static void say_column(mysql_speech *s, unsigned type, unsigned flags)
{
    mysql_begin(s);
    put_text(s, "def");
    for (int i = 0; i < 5; i++)
        put_text(s, "c");
    mysql_put(s, "\x0C\x2D\0", 3);
    mysql_put_number(s, type == TYPE_VAR_STRING ? 1024 : 20, 4);
    mysql_put_number(s, type, 1);
    mysql_put_number(s, flags, 2);
    mysql_put_number(s, 0, 3);
    mysql_end(s);
}

/* Say the number of columns, and announce each. */
static void say_width(mysql_speech *s, uint64_t width)
{
    mysql_begin(s);
    put_length(s, width);
    mysql_end(s);
}

static unsigned announced(uint64_t width)
{
    return width > WIDTH_MAX ? WIDTH_MAX : (unsigned)width;
}

/* --- plain statements ------------------------------------------------------------------------------------ */

static bool begins(const char *text, size_t length, const char *with)
{
    return length >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

static void say_text_row(mysql_speech *s, unsigned width, const char *const *values, bool is_null)
{
    mysql_begin(s);
    for (unsigned i = 0; i < width; i++)
        if (is_null)
            mysql_put(s, "\xFB", 1);
        else
            put_text(s, values[i]);
    mysql_end(s);
}

static void answer_query(mysql_speech *s, const char *sql, size_t length, const mysql_twist *twist)
{
    static const char *const table[WIDTH_MAX] = {"InnoDB", "16777216", "10.11.0-MariaDB", "1", "0"};
    static const char *const names[] = {"mutex",      "acquired_at", "ttl_at",          "transition_at",    "owner_id",
                                        "version",    "nonce",       "nonce_version",   "revoked_version",  "note",
                                        "note_token", "note_number", "note_written_at", "forgotten_version"};
    const bool is_table = begins(sql, length, "select (select engine");
    const bool is_columns = begins(sql, length, "select column_name");
    const bool is_swapped = twist->kind == MYSQL_SWAPPED;
    uint64_t width = is_table ? 5 : is_columns ? 4 : begins(sql, length, "select") ? 1 : 0;
    if (is_swapped)
        width = width ? 0 : 1;
    if (width == 0) {
        mysql_say_ok(s, 0, 0);
        return;
    }
    if (twist->kind == MYSQL_TEXT_WIDTH)
        width = twist->number;
    say_width(s, width);
    for (unsigned i = 0; i < announced(width); i++)
        say_column(s, TYPE_VAR_STRING, 0);
    say_eof(s);
    for (size_t i = 0; i < (is_columns ? sizeof names / sizeof *names : is_table ? 1 : 0); i++) {
        const char *row[WIDTH_MAX] = {names[i], "128", "utf8mb4_bin", "bigint"};
        for (unsigned k = 0; k < WIDTH_MAX; k++)
            row[k] = (is_table ? table : row)[k] ? (is_table ? table : row)[k] : "";
        say_text_row(s, announced(width), row, twist->kind == MYSQL_TEXT_NULL);
    }
    say_eof(s);
}

/* --- prepared statements ----------------------------------------------------------------------------------- */

static void answer_prepare(mysql_speech *s, mysql_session *session, const char *sql, size_t length,
                           const mysql_twist *twist)
{
    unsigned params = 0;
    unsigned columns = begins(sql, length, "select") ? COLUMNS : 0;
    for (size_t i = 0; i < length; i++)
        params += sql[i] == '?';
    const unsigned id = session->prepared++ % MYSQL_SPEECH_STATEMENTS;
    session->statements[id].params = params;
    session->statements[id].columns = columns;
    if (twist->kind == MYSQL_PREPARED_PARAMS)
        params = (unsigned)twist->number & UINT16_MAX;
    if (twist->kind == MYSQL_PREPARED_WIDTH)
        columns = (unsigned)twist->number & UINT16_MAX;
    mysql_begin(s);
    mysql_put_number(s, 0, 1);
    mysql_put_number(s, id + 1, 4);
    mysql_put_number(s, columns, 2);
    mysql_put_number(s, params, 2);
    mysql_put_number(s, 0, 3);
    mysql_end(s);
    for (unsigned i = 0; i < announced(params); i++)
        say_column(s, TYPE_VAR_STRING, 0);
    if (params > 0)
        say_eof(s);
    for (unsigned i = 0; i < announced(columns); i++)
        say_column(s, TYPE_VAR_STRING, 0);
    if (columns > 0)
        say_eof(s);
}

static bool is_text(unsigned column)
{
    return column == 0 || column == 4 || column == 13;
}

static void put_binary(mysql_speech *s, unsigned column, const char *mutex, const mysql_story *story,
                       const mysql_twist *twist)
{
    const uint64_t numbers[COLUMNS] = {[1] = (uint64_t)story->now_ms,
                                       [2] = (uint64_t)story->until_ms,
                                       [3] = (uint64_t)story->until_ms,
                                       [5] = story->version,
                                       [6] = story->nonce,
                                       [7] = story->version,
                                       [8] = 0,
                                       [12] = (uint64_t)story->now_ms,
                                       [15] = story->version};
    const bool is_wild = twist->kind == MYSQL_OTHER_LENGTH && twist->column % COLUMNS == column;
    if (!is_text(column)) {
        mysql_put_number(s, numbers[column % COLUMNS], column == 5 ? 4 : 8);
        return;
    }
    const char *text = column == 0 ? mutex : column == 4 ? story->owner : "";
    if (is_wild) {
        mysql_put(s, "\xFE", 1);
        mysql_put_number(s, twist->number, 8);
        mysql_put(s, text, strlen(text));
    } else {
        put_text(s, text);
    }
}

static void say_row(mysql_speech *s, unsigned columns, const char *mutex, const mysql_story *story,
                    const mysql_twist *twist)
{
    /* The columns of notes are null. */
    static const unsigned null_from = 9, null_to = 11;
    mysql_begin(s);
    const size_t from = s->length;
    mysql_put_number(s, 0, 1);
    unsigned char nulls[(WIDTH_MAX + 9) / 8] = {0};
    for (unsigned i = null_from; i <= null_to; i++)
        nulls[(i + 2) / 8] |= (unsigned char)(1 << (i + 2) % 8);
    mysql_put(s, nulls, (columns + 9) / 8);
    for (unsigned i = 0; i < columns; i++)
        if (i < null_from || i > null_to)
            put_binary(s, i, mutex, story, twist);
    if (twist->kind == MYSQL_ROW_CUT && from + twist->number < s->length)
        s->length = from + twist->number;
    mysql_end(s);
}

/* Copy the next string among the parameters. Only statements that have results have nothing but strings. */
static const unsigned char *next_string(const unsigned char *at, const unsigned char *end, char *out, size_t size)
{
    if (at >= end || at + 1 + *at > end || *at > 250 || *at >= size)
        return end;
    memcpy(out, at + 1, *at);
    out[*at] = '\0';
    return at + 1 + *at;
}

static void say_rows(mysql_speech *s, unsigned columns, unsigned params, const unsigned char *asked, size_t length,
                     const mysql_story *story, const mysql_twist *twist)
{
    const size_t head = 10 + (params + 7) / 8 + 1 + 2 * (size_t)params;
    const unsigned char *at = asked + (head < length ? head : length), *end = asked + length;
    char before[128] = "", mutex[128] = "";
    unsigned rows = 0;
    if (params == 0)
        say_row(s, columns, "orders", story, twist);
    while (at < end && rows++ < MYSQL_SPEECH_ROWS) {
        at = next_string(at, end, mutex, sizeof mutex);
        if (strcmp(mutex, before) != 0)
            say_row(s, columns, mutex, story, twist);
        strcpy(before, mutex);
    }
}

static void answer_execute(mysql_speech *s, const mysql_session *session, const unsigned char *asked, size_t length,
                           const mysql_story *story, const mysql_twist *twist)
{
    const unsigned id = length > 4 ? (asked[1] - 1U) % MYSQL_SPEECH_STATEMENTS : 0;
    const bool has_result = (session->statements[id].columns > 0) != (twist->kind == MYSQL_SWAPPED);
    const bool is_other = twist->kind == MYSQL_EXECUTED_WIDTH || twist->kind == MYSQL_WIDTH_ALONE;
    const uint64_t width = is_other ? twist->number : COLUMNS;
    const unsigned columns = twist->kind == MYSQL_WIDTH_ALONE ? COLUMNS : announced(width);
    if (!has_result) {
        mysql_say_ok(s, story->affected, story->version);
        return;
    }
    say_width(s, width);
    for (unsigned i = 0; i < columns; i++) {
        const bool is_twisted = twist->kind == MYSQL_OTHER_TYPE && twist->column % COLUMNS == i;
        const unsigned type = is_text(i) ? TYPE_VAR_STRING : i == 5 ? TYPE_LONG : TYPE_LONGLONG;
        say_column(s, is_twisted ? (unsigned)twist->number : type, is_text(i) ? 0 : UNSIGNED);
    }
    say_eof(s);
    say_rows(s, columns, session->statements[id].params, asked, length, story, twist);
    say_eof(s);
}

bool mysql_answer(mysql_speech *s, mysql_session *session, const unsigned char *asked, size_t length,
                  const mysql_story *story, const mysql_twist *twist)
{
    static const mysql_twist none = {.kind = MYSQL_HONEST};
    const mysql_twist *as = twist ? twist : &none;
    s->number = 1;
    switch (length > 0 ? asked[0] : QUIT) {
    case QUERY:
        answer_query(s, (const char *)asked + 1, length - 1, as);
        return true;
    case PREPARE:
        answer_prepare(s, session, (const char *)asked + 1, length - 1, as);
        return true;
    case EXECUTE:
        answer_execute(s, session, asked, length, story, as);
        return true;
    case QUIT:
    case STATEMENT_CLOSE:
        return false;
    default:
        mysql_say_ok(s, 0, 0);
        return true;
    }
}
