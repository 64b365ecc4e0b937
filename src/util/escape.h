/* Turns text from outside into text that can be shown: contender ids, mutex names, messages of servers, lines of
 * files. It must not move a cursor, begin a line of its own, or break a reader that expects UTF-8. The library
 * escapes what it puts into errors, log lines and findings; the command, which compiles this file too, escapes ids
 * and names where it prints them. */
#ifndef SIMBA_UTIL_ESCAPE_H
#define SIMBA_UTIL_ESCAPE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that `length` bytes can grow to, terminating zero included: every one of them as \xNN. */
#define SIMBA__ESCAPED_SIZE(length) (4 * (length) + 1)

/* Bytes of the UTF-8 character at the beginning of `text`, and its code point. 0, with *ret_code untouched: there is
 * none, because the text is empty, or its bytes are cut short, over-long, a surrogate or past U+10FFFF. */
size_t simba__utf8_next(const char *text, uint32_t *ret_code);

/* Can this character be shown without an effect on the text around it? Not control characters, ends of lines and
 * paragraphs, characters that change the direction of text, and non-characters. */
bool simba__is_printable(uint32_t code);

/* `text` with every byte that is not UTF-8 or not printable as \xNN. If it does not fit into `size`, at least 8, it
 * is cut off, and "…" takes the place of the rest. Escaped text stays as it is. Returns `out`. */
const char *simba__escape(const char *text, char *out, size_t size);

/* A value behind "key=": as it is if it is one word, otherwise escaped and in quotes, with a backslash before quotes
 * and backslashes. "" stays empty. Returns `out`, of at least 12 bytes; if the value does not fit, it is cut off and
 * marked. */
const char *simba__quote(const char *value, char *out, size_t size);

/* vsnprintf, escaped. `size` is at most SIMBA__FORMAT_MAX. */
#define SIMBA__FORMAT_MAX 1024
void simba__escape_format(char *out, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
