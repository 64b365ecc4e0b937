/* JSON for programs that read what the commands print: a few words to write it with, so that no command escapes by hand. */
#ifndef SIMBA_CLI_JSON_H
#define SIMBA_CLI_JSON_H

#include <simba.h>
#include <stdio.h>

/* A string in quotes. What is not UTF-8 in it becomes U+FFFD, one for each byte; what a terminal had better not see is
 * written as \uNNNN. */
void json_string(FILE *stream, const char *text);

/* The same for bytes among which there may be zeroes; there is one behind them. */
void json_bytes(FILE *stream, const char *bytes, size_t length);

/* An owner at the store's now, as `"owner":…,"token":…,"held_ms":…,"ttl_left_ms":…,"transition_left_ms":…`; all of them
 * null if there is none, and null what the store does not know. Tokens are strings: they are longer than what JavaScript counts to. */
void json_owner(FILE *stream, const simba_owner *owner, int64_t now_ms);

#endif
