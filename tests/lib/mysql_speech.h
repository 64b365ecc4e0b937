/* What a MySQL server says, as bytes: greetings, and results of plain statements. With it a test plays a server
 * that is honest, or that twists one thing; a fuzz target draws the twists. */
#ifndef TESTS_LIB_MYSQL_SPEECH_H
#define TESTS_LIB_MYSQL_SPEECH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MYSQL_SPEECH = 65536, MYSQL_SPEECH_ROWS = 16 };

typedef struct mysql_speech {
    unsigned char bytes[MYSQL_SPEECH];
    size_t length;
    size_t packet;        /* where the header of the packet that is being written stands */
    unsigned char number; /* of the next packet */
} mysql_speech;

/* How the server differs from an honest one. */
typedef enum mysql_twist_kind {
    MYSQL_HONEST,
    MYSQL_TEXT_WIDTH,   /* a result about the table has `number` columns */
    MYSQL_TEXT_NULL,    /* all values of such a result are null */
    MYSQL_ROW_WIDTH,    /* a result of rows has `number` columns, which are announced */
    MYSQL_WIDTH_ALONE,  /* the same, but only the usual ones are announced */
    MYSQL_OTHER_TYPE,   /* the type of a column is `number` */
    MYSQL_OTHER_LENGTH, /* the length of a value is `number` */
    MYSQL_ROW_CUT,      /* rows end after `number` bytes */
    MYSQL_SWAPPED,      /* a statement without a result has one, and one with a result has none */
    MYSQL_NO_MORE,      /* the first result of several is said to be the last */
    MYSQL_ONE_MORE,     /* the last result is said not to be it */
    MYSQL_TWISTS,
} mysql_twist_kind;

typedef struct mysql_twist {
    mysql_twist_kind kind;
    unsigned column;
    uint64_t number;
} mysql_twist;

/* What the rows of results say. */
typedef struct mysql_row {
    const char *owner;
    int64_t now_ms, until_ms;
    uint64_t version, nonce;
} mysql_row;

void mysql_put(mysql_speech *s, const void *bytes, size_t length);
void mysql_put_number(mysql_speech *s, uint64_t number, size_t size);
void mysql_begin(mysql_speech *s);
void mysql_end(mysql_speech *s);

/* Packets; the numbers of an answer to a statement begin with 1. */
void mysql_say_hello(mysql_speech *s, const char *plugin, bool offers_tls);
void mysql_say_ok(mysql_speech *s, bool has_more);
void mysql_say_error(mysql_speech *s, unsigned number, const char *text);
/* Answer a packet of a client that is logged in. False: there is no answer, or the client has said good-bye. */
bool mysql_answer(mysql_speech *s, const unsigned char *asked, size_t length, const mysql_row *values,
                  const mysql_twist *twist);

#endif
