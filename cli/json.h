/* JSON output for programs. The writer puts the commas, and escapes: bytes that are not UTF-8 become U+FFFD, one for each;
 * characters that a terminal should not see become \uNNNN. `name` is that of a member; NULL in an array and outside. */
#ifndef SIMBA_CLI_JSON_H
#define SIMBA_CLI_JSON_H

#include <simba.h>
#include <stdio.h>

typedef struct json_writer {
    FILE *to;
    bool comma; /* one comes before the next value */
} json_writer;

/* '{' or '[', and the bracket that closes it. */
void json_open(json_writer *j, const char *name, char bracket);
void json_close(json_writer *j, char bracket);
/* The next element of an array is on a line of its own. */
void json_line_break(json_writer *j);
/* What the caller prints next is a value. */
void json_name(json_writer *j, const char *name);

/* null for NULL. */
void json_text(json_writer *j, const char *name, const char *text);
/* The same for bytes among which there may be zeroes; another zero follows them. */
void json_bytes(json_writer *j, const char *name, const char *bytes, size_t length);
void json_number(json_writer *j, const char *name, int64_t number);
/* null for a negative number. */
void json_count(json_writer *j, const char *name, int64_t number);
void json_real(json_writer *j, const char *name, double number, int decimals);
void json_bool(json_writer *j, const char *name, bool value);
/* As a string, for JavaScript cannot count that far; null for NULL. */
void json_token(json_writer *j, const char *name, const uint64_t *token);
/* A point in time as when_utc writes it; null for 0. */
void json_when(json_writer *j, const char *name, int64_t ms);

/* An owner at the store's time: `owner`, `token`, `held_ms`, `ttl_left_ms`, `transition_left_ms`; all null if there is
 * none; a value that the store does not know is null. */
void json_owner(json_writer *j, const simba_owner *owner, int64_t now_ms);
/* Who waits: `waiters`, `next`. A value that the store does not know is null, and so is `next` if nobody waits. */
void json_waiters(json_writer *j, int64_t waiters, const char *next);
/* A run of a schedule: `due`, `begun`, `ended`, `result`, `missed`; an event that has not happened is null. */
void json_run(json_writer *j, const simba_schedule_info *run);

#endif
