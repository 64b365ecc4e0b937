/* JSON and base64, for stores that speak to their server by HTTP.
 *
 * Reading makes no tree. simba__json_read checks the whole text once; after that a value is a piece of that text, and lives as long
 * as the text does. So reading allocates nothing, and nobody frees anything. */
#ifndef SIMBA_NET_JSON_H
#define SIMBA_NET_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/buffer.h"

/* {0}: there is no such value. Every function takes it, so chains need no checks in between. */
typedef struct simba__json {
    const char *at;
    size_t length;
} simba__json;

/* Is the text one JSON value and blanks around it? False also for broken UTF-8, and for more than 32 arrays and objects in each
 * other. The caller limits `length`. The text needs no zero byte at its end. */
bool simba__json_read(const char *text, size_t length, simba__json *ret_value);

/* The member of an object; {0}: there is none, it is null, or this is no object. The first counts if there are two. */
simba__json simba__json_get(simba__json object, const char *key);

/* The next element of an array. Begin with *element = {0}. False: there is no other, or this is no array.
 *     for (simba__json kv = {0}; simba__json_next(kvs, &kv);) */
bool simba__json_next(simba__json array, simba__json *element);

/* A number without fraction and exponent, or a text of digits with or without a sign. An absent value is 0. False, with
 * *ret_number untouched: it is anything else, or more than 64 bits. */
bool simba__json_int(simba__json value, int64_t *ret_number);

/* True only for `true`. */
bool simba__json_bool(simba__json value);

/* A text, without its escapes, and a zero byte after it. False, with out[0] = 0: it is no text, it has a zero byte inside, or it does
 * not fit. */
bool simba__json_text(simba__json value, char *out, size_t size);

/* A text in base64, as bytes; an absent value is 0 bytes. One zero byte, which is not counted, follows them. False: it is
 * no such text, or more than size - 1 bytes. */
bool simba__json_base64(simba__json value, void *out, size_t size, size_t *ret_length);

/* Append JSON to a buffer. An apostrophe in the format becomes a quotation mark; there are these conversions:
 *     %s      a text, in quotation marks, with escapes; a byte that is not UTF-8 becomes U+FFFD
 *     %lld    a number; '%lld' is a number as text
 *     simba__json_put(&out, "{'key':%s,'lease':'%lld'}", key, (long long)lease); */
void simba__json_put(simba__buffer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How much room the base64 of so many bytes takes, with the zero byte at its end. */
#define SIMBA__BASE64_SIZE(bytes) (((bytes) + 2) / 3 * 4 + 1)
/* Returns `out`, which is a text that %s of simba__json_put leaves as it is. */
char *simba__base64(const void *bytes, size_t length, char *out);
/* Standard alphabet, with padding. False: it is not base64, or more than `size` bytes. */
bool simba__base64_decode(const char *text, size_t length, void *out, size_t size, size_t *ret_length);

#endif
