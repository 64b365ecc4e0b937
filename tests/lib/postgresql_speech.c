/* See postgresql_speech.h. */
#include "lib/postgresql_speech.h"

#include <string.h>

void pg_put(pg_speech *s, const void *bytes, size_t length)
{
    if (length > 0 && length <= PG_SPEECH - s->length) {
        memcpy(s->bytes + s->length, bytes, length);
        s->length += length;
    }
}

static void put_number(pg_speech *s, uint32_t number, size_t size)
{
    for (size_t i = size; i-- > 0;)
        pg_put(s, &(unsigned char){(unsigned char)(number >> 8 * i)}, 1);
}

void pg_claim(pg_speech *s, char kind, uint32_t claimed, const void *bytes, size_t length)
{
    pg_put(s, &kind, 1);
    put_number(s, claimed, 4);
    pg_put(s, bytes, length);
}

void pg_say(pg_speech *s, char kind, const void *bytes, size_t length)
{
    pg_claim(s, kind, (uint32_t)length + 4, bytes, length);
}

/* What was put since `begin` becomes a message of this kind. */
static void enclose(pg_speech *s, char kind, size_t begin)
{
    const size_t length = s->length - begin;
    if (PG_SPEECH - s->length < 5)
        return;
    memmove(s->bytes + begin + 5, s->bytes + begin, length);
    s->length = begin;
    pg_claim(s, kind, (uint32_t)length + 4, NULL, 0);
    s->length += length;
}

static void say_setting(pg_speech *s, const char *name, const char *value)
{
    const size_t begin = s->length;
    pg_put(s, name, strlen(name) + 1);
    pg_put(s, value, strlen(value) + 1);
    enclose(s, 'S', begin);
}

void pg_say_welcome(pg_speech *s, uint32_t method)
{
    const unsigned char asks[] = {0, 0, 0, (unsigned char)method};
    pg_say(s, 'R', asks, sizeof asks);
    say_setting(s, "server_version", "15.1");
    say_setting(s, "client_encoding", "UTF8");
    say_setting(s, "standard_conforming_strings", "on");
    say_setting(s, "default_transaction_read_only", "off");
    say_setting(s, "in_hot_standby", "off");
    pg_say(s, 'K', "\0\0\0\1\0\0\0\2", 8);
    pg_say_ready(s);
}

void pg_say_error(pg_speech *s, char kind, const char *sqlstate, const char *text)
{
    const size_t begin = s->length;
    pg_put(s, "SERROR\0C", 8);
    pg_put(s, sqlstate, strlen(sqlstate) + 1);
    pg_put(s, "M", 1);
    pg_put(s, text, strlen(text) + 1);
    pg_put(s, "", 1);
    enclose(s, kind, begin);
}

void pg_say_columns(pg_speech *s, unsigned count)
{
    static const unsigned char column[] = {'c', 0,  0,    0,    0,    0,    0,    0,    0, 0,
                                           0,   25, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0}; /* of text */
    const size_t begin = s->length;
    put_number(s, count, 2);
    for (unsigned i = 0; i < count; i++)
        pg_put(s, column, sizeof column);
    enclose(s, 'T', begin);
}

void pg_say_row(pg_speech *s, unsigned count, const char *const *values)
{
    const size_t begin = s->length;
    put_number(s, count, 2);
    for (unsigned i = 0; i < count; i++) {
        put_number(s, values[i] ? (uint32_t)strlen(values[i]) : UINT32_MAX, 4);
        pg_put(s, values[i], values[i] ? strlen(values[i]) : 0);
    }
    enclose(s, 'D', begin);
}

void pg_say_complete(pg_speech *s)
{
    pg_say(s, 'C', "SELECT 1", 9);
}

void pg_say_ready(pg_speech *s)
{
    pg_say(s, 'Z', "I", 1);
}

void pg_say_one_row(pg_speech *s, unsigned count, const char *const *values)
{
    pg_say_columns(s, count);
    pg_say_row(s, count, values);
    pg_say_complete(s);
    pg_say_ready(s);
}

void pg_say_look(pg_speech *s)
{
    static const char *const values[] = {"t", NULL, NULL, "t", "t", "f", "15.1", "150001", "on", "on", "", "0", ""};
    pg_say_one_row(s, sizeof values / sizeof *values, values);
}
