/* What a PostgreSQL server says, as messages of its protocol: for a server that a test plays, and for the fuzz target. */
#ifndef TESTS_LIB_POSTGRESQL_SPEECH_H
#define TESTS_LIB_POSTGRESQL_SPEECH_H

#include <stddef.h>
#include <stdint.h>

enum { PG_SPEECH = 32768 };

typedef struct pg_speech {
    unsigned char bytes[PG_SPEECH]; /* what does not fit is left out */
    size_t length;
} pg_speech;

void pg_put(pg_speech *s, const void *bytes, size_t length);
/* A message of this kind; and one that claims to be so long. */
void pg_say(pg_speech *s, char kind, const void *bytes, size_t length);
void pg_claim(pg_speech *s, char kind, uint32_t claimed, const void *bytes, size_t length);
/* The login is accepted, or goes on by this method; with the settings that a primary reports. */
void pg_say_welcome(pg_speech *s, uint32_t method);
/* An error (kind 'E') or a notice ('N'). */
void pg_say_error(pg_speech *s, char kind, const char *sqlstate, const char *text);
/* Parts of a result: `count` columns of text; a row of it, with NULL for null; the end of the statement, and of the transaction. */
void pg_say_columns(pg_speech *s, unsigned count);
void pg_say_row(pg_speech *s, unsigned count, const char *const *values);
void pg_say_complete(pg_speech *s);
void pg_say_ready(pg_speech *s);
/* A whole result of one row; and the answer to the look at the tables that says that all is as it should be. */
void pg_say_one_row(pg_speech *s, unsigned count, const char *const *values);
void pg_say_look(pg_speech *s);

#endif
