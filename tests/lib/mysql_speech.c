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

    TYPE_VAR_STRING = 253,
    MORE = 8,      /* results follow */
    COLUMNS = 15,  /* of a row with its note */
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

void mysql_say_ok(mysql_speech *s, bool has_more)
{
    mysql_begin(s);
    mysql_put(s, has_more ? "\0\0\0\12\0\0\0" : "\0\0\0\2\0\0\0", 7);
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

static void say_eof(mysql_speech *s, bool has_more)
{
    mysql_begin(s);
    mysql_put(s, has_more ? "\xFE\0\0\12\0" : "\xFE\0\0\2\0", 5);
    mysql_end(s);
}

static void say_column(mysql_speech *s, unsigned type)
{
    mysql_begin(s);
    put_text(s, "def");
    for (int i = 0; i < 5; i++)
        put_text(s, "c");
    mysql_put(s, "\x0C\x2D\0", 3);
    mysql_put_number(s, 1024, 4);
    mysql_put_number(s, type, 1);
    mysql_put_number(s, 0, 2);
    mysql_put_number(s, 0, 3);
    mysql_end(s);
}

/* --- statements ------------------------------------------------------------------------------------------ */

static bool begins(const char *text, size_t length, const char *with)
{
    return length >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/* Values that are NULL pointers are null. */
static void say_row(mysql_speech *s, unsigned width, const char *const *values, const mysql_twist *twist,
                    bool is_twisted)
{
    mysql_begin(s);
    const size_t from = s->length;
    for (unsigned i = 0; i < width; i++) {
        const char *text = i < COLUMNS ? values[i] : "";
        if (!text) {
            mysql_put(s, "\xFB", 1);
        } else if (is_twisted && twist->kind == MYSQL_OTHER_LENGTH && twist->column == i) {
            mysql_put(s, "\xFE", 1);
            mysql_put_number(s, twist->number, 8);
            mysql_put(s, text, strlen(text));
        } else {
            put_text(s, text);
        }
    }
    if (is_twisted && twist->kind == MYSQL_ROW_CUT && from + twist->number < s->length)
        s->length = from + twist->number;
    mysql_end(s);
}

/* `width`: what is said; as many are announced. */
static void say_head(mysql_speech *s, uint64_t width, unsigned announced, const mysql_twist *twist)
{
    mysql_begin(s);
    put_length(s, width);
    mysql_end(s);
    for (unsigned i = 0; i < announced; i++)
        say_column(s,
                   twist->kind == MYSQL_OTHER_TYPE && twist->column == i ? (unsigned)twist->number : TYPE_VAR_STRING);
    say_eof(s, false);
}

static unsigned bounded(uint64_t width)
{
    return width > WIDTH_MAX ? WIDTH_MAX : (unsigned)width;
}

static void say_table(mysql_speech *s, bool is_columns, const mysql_twist *twist, bool has_more)
{
    static const char *const table[COLUMNS] = {
        "InnoDB", "16777216", "10.11.0-MariaDB", "1", "0", "", "", "", "", "", "", "", "", "", ""};
    static const char *const none[COLUMNS] = {NULL};
    static const char *const names[] = {"mutex",      "acquired_at", "ttl_at",          "transition_at",    "owner_id",
                                        "version",    "nonce",       "nonce_version",   "revoked_version",  "note",
                                        "note_token", "note_number", "note_written_at", "forgotten_version"};
    const uint64_t width = twist->kind == MYSQL_TEXT_WIDTH ? twist->number : is_columns ? 4 : 5;
    say_head(s, width, bounded(width), twist);
    for (size_t i = 0; i < (is_columns ? sizeof names / sizeof *names : 1); i++) {
        const char *const column[COLUMNS] = {
            names[i], "128", "utf8mb4_bin", "bigint", "", "", "", "", "", "", "", "", "", "", ""};
        say_row(s, bounded(width), twist->kind == MYSQL_TEXT_NULL ? none : is_columns ? column : table, twist, false);
    }
    say_eof(s, has_more);
}

/* The next name, in hexadecimal digits; NULL: there is none. */
static const char *next_name(const char *at, const char *end, char *out, size_t size)
{
    const char *quote = memmem(at, (size_t)(end - at), "x'", 2);
    size_t n = 0;
    unsigned byte;
    if (!quote)
        return NULL;
    for (at = quote + 2; at + 1 < end && *at != '\'' && n + 1 < size && sscanf(at, "%2x", &byte) == 1; at += 2)
        out[n++] = (char)byte;
    out[n] = '\0';
    return at;
}

/* Everybody's lease is that of `values`. */
static void say_rows(mysql_speech *s, const char *sql, size_t length, const mysql_row *values, const mysql_twist *twist,
                     bool has_more)
{
    const char *const end = sql + length;
    const unsigned usual = memmem(sql, length, "hex(note)", 9)        ? COLUMNS
                           : memmem(sql, length, "timestampdiff", 13) ? COLUMNS - 2
                                                                      : COLUMNS - 3;
    const bool is_other = twist->kind == MYSQL_ROW_WIDTH || twist->kind == MYSQL_WIDTH_ALONE;
    const uint64_t width = is_other ? twist->number : usual;
    const unsigned columns = twist->kind == MYSQL_WIDTH_ALONE ? usual : bounded(width);
    const bool has_names = memmem(sql, length, "x'", 2) != NULL;
    char mutex[300] = "orders", now[24], until[24], version[24], nonce[24];
    snprintf(now, sizeof now, "%lld", (long long)values->now_ms);
    snprintf(until, sizeof until, "%lld", (long long)values->until_ms);
    snprintf(version, sizeof version, "%llu", (unsigned long long)values->version);
    snprintf(nonce, sizeof nonce, "%llu", (unsigned long long)values->nonce);
    const char *const row[COLUMNS] = {mutex, now,  until, until, values->owner, version, nonce, version,
                                      "0",   NULL, NULL,  NULL,  now,           "",      NULL};
    say_head(s, width, columns, twist);
    const char *at = has_names ? next_name(sql, end, mutex, sizeof mutex) : sql;
    for (int rows = 0; at && rows < MYSQL_SPEECH_ROWS; rows++) {
        say_row(s, columns, row, twist, true);
        at = has_names ? next_name(at, end, mutex, sizeof mutex) : NULL;
    }
    say_eof(s, has_more);
}

static void answer_statement(mysql_speech *s, const char *sql, size_t length, const mysql_row *values,
                             const mysql_twist *twist, bool has_more)
{
    const bool is_columns = begins(sql, length, "select column_name");
    const bool has_result = begins(sql, length, "select") != (twist->kind == MYSQL_SWAPPED);
    char now[24];
    snprintf(now, sizeof now, "%lld", (long long)values->now_ms);
    const char *const clock[COLUMNS] = {now};
    if (!has_result) {
        mysql_say_ok(s, has_more);
    } else if (is_columns || begins(sql, length, "select (select engine")) {
        say_table(s, is_columns, twist, has_more);
    } else if (begins(sql, length, "select mutex, acquired_at")) {
        say_rows(s, sql, length, values, twist, has_more);
    } else {
        say_head(s, 1, 1, twist);
        say_row(s, 1, clock, twist, false);
        say_eof(s, has_more);
    }
}

/* Names come in hexadecimal digits, so a semicolon ends a statement. */
static void answer_query(mysql_speech *s, const char *sql, size_t length, const mysql_row *values,
                         const mysql_twist *twist)
{
    const char *const end = sql + length;
    while (sql < end) {
        const char *semicolon = memmem(sql, (size_t)(end - sql), "; ", 2);
        const bool has_more = semicolon != NULL;
        answer_statement(s, sql, (size_t)((semicolon ? semicolon : end) - sql), values, twist,
                         has_more ? twist->kind != MYSQL_NO_MORE : twist->kind == MYSQL_ONE_MORE);
        sql = semicolon ? semicolon + 2 : end;
    }
}

bool mysql_answer(mysql_speech *s, const unsigned char *asked, size_t length, const mysql_row *values,
                  const mysql_twist *twist)
{
    static const mysql_twist none = {.kind = MYSQL_HONEST};
    const mysql_twist *as = twist ? twist : &none;
    s->number = 1;
    switch (length > 0 ? asked[0] : QUIT) {
    case QUERY:
        answer_query(s, (const char *)asked + 1, length - 1, values, as);
        return true;
    case QUIT:
        return false;
    default:
        mysql_say_ok(s, false);
        return true;
    }
}
