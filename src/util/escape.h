/* How text from outside becomes text that can be shown: contender ids, mutex names, the words of servers, lines of files.
 * None of it may move a cursor, begin a line of its own, or break a reader that expects UTF-8. The library escapes what it
 * puts into errors, log lines and findings; the command, which compiles this file too, escapes ids and names where it
 * prints them. */
#ifndef SIMBA_UTIL_ESCAPE_H
#define SIMBA_UTIL_ESCAPE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What `length` bytes can grow to, with the end of the string: room for every one of them as \xNN. */
#define SIMBA__ESCAPED_SIZE(length) (4 * (length) + 1)

/* Bytes of the UTF-8 character that `text` begins with, and its code point. 0, and *ret_code is untouched: it begins with
 * none, since it is empty, or since the bytes are cut short, over-long, a surrogate or past U+10FFFF. */
size_t simba__utf8_next(const char *text, uint32_t *ret_code);

/* Can this character be shown without an effect on what stands around it? Not so: control characters, the ends of lines
 * and paragraphs, what changes the direction of the text behind it, and what is no character. */
bool simba__is_printable(uint32_t code);

/* `text` with every byte of what is not UTF-8 or not printable as \xNN. What does not fit into `size`, at least 8, is cut
 * off, and "…" stands in its place. Escaped text stays as it is. Returns `out`. */
const char *simba__escape(const char *text, char *out, size_t size);

/* A value that stands behind "key=": as it is if it is one word, otherwise escaped and in quotes, with a backslash before
 * quotes and backslashes. "" stays empty. Returns `out`, of at least 12 bytes; what does not fit is cut off and marked. */
const char *simba__quote(const char *value, char *out, size_t size);

/* vsnprintf, escaped. `size` is at most SIMBA__FORMAT_MAX. */
#define SIMBA__FORMAT_MAX 1024
void simba__escape_format(char *out, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
