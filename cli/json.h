/* JSON output for programs: a few functions that write it, so that no command escapes by hand. */
#ifndef SIMBA_CLI_JSON_H
#define SIMBA_CLI_JSON_H

#include <simba.h>
#include <stdio.h>

/* A string in quotes. Bytes that are not UTF-8 become U+FFFD, one for each; characters that a terminal should not
 * see become \uNNNN. */
void json_string(FILE *stream, const char *text);

/* The same for bytes among which there may be zeroes; another zero follows them. */
void json_bytes(FILE *stream, const char *bytes, size_t length);

/* `"NAME":"TEXT"`; null for NULL. */
void json_text(FILE *stream, const char *name, const char *text);

/* `"token":"7"`; null for NULL. Tokens are strings: JavaScript cannot count that far. */
void json_token(FILE *stream, const uint64_t *token);

/* A span as `,"NAME":…`; null for LEASE_UNKNOWN. */
void json_span(FILE *stream, const char *name, int64_t ms);

/* An owner at the store's time, as `"owner":…,"token":…,"held_ms":…,"ttl_left_ms":…,"transition_left_ms":…`; all
 * null if there is none; a value that the store does not know is null. */
void json_owner(FILE *stream, const simba_owner *owner, int64_t now_ms);

/* Who waits, as `,"waiters":…,"next":…`. A value that the store does not know is null, and so is `next` if nobody waits. */
void json_line(FILE *stream, int64_t waiters, const char *next);

/* A run of a schedule, as `"due":…,"begun":…,"ended":…,"result":…,"missed":…`: points in time as when_utc writes them; an
 * event that has not happened is null. */
void json_run(FILE *stream, const simba_schedule_info *run);

/* A point in time as `"NAME":"2026-11-16T03:15:00Z"`; null for 0. */
void json_when(FILE *stream, const char *name, int64_t ms);

#endif
