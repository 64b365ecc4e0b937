/* See json.h. Bytes go through one function for the syntax, skip_value: it checks a text that came from outside, and it finds the end
 * of a value in a text that was checked. */
#include "net/json.h"

#include <string.h>

#include "util/escape.h"

enum { DEPTH_MOST = 32 };

typedef struct cursor {
    const char *at, *end;
} cursor;

/* --- syntax ------------------------------------------------------------------------------------------- */

static void skip_blanks(cursor *in)
{
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t'))
        in->at++;
}

static bool skip(cursor *in, const char *word)
{
    const size_t length = strlen(word);
    if ((size_t)(in->end - in->at) < length || memcmp(in->at, word, length) != 0)
        return false;
    in->at += length;
    return true;
}

/* Four hexadecimal digits. Negative: there are none. */
static int32_t take_hex(cursor *in)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    int32_t code = 0;
    if (in->end - in->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char *digit = memchr(digits, *in->at++, sizeof digits - 1);
        if (!digit)
            return -1;
        code = code << 4 | (int32_t)(digit - digits - (digit - digits > 15 ? 6 : 0));
    }
    return code;
}

static size_t put_utf8(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char heads[] = {0, 0xC0, 0xE0, 0xF0};
    for (size_t i = more; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(heads[more] | code);
    return more + 1;
}

/* An escape, after its backslash. A half of a surrogate pair is none. */
static size_t take_escape(cursor *in, char out[4])
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (in->at == in->end)
        return 0;
    const char letter = *in->at++;
    const char *found = memchr(letters, letter, sizeof letters - 1);
    if (found)
        return put_utf8((unsigned char)meanings[found - letters], out);
    int32_t code = letter == 'u' ? take_hex(in) : -1;
    if (code >= 0xD800 && code < 0xDC00) {
        const int32_t low = skip(in, "\\u") ? take_hex(in) : -1;
        code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : -1;
    } else if (code >= 0xDC00 && code < 0xE000) {
        code = -1;
    }
    return code < 0 ? 0 : put_utf8((uint32_t)code, out);
}

/* One character of a text between quotation marks. Returns how many bytes it has; 0: it is malformed, or the mark at the end. */
static size_t take_character(cursor *in, char out[4])
{
    const size_t left = (size_t)(in->end - in->at);
    if (left == 0 || *in->at == '"' || (unsigned char)*in->at < ' ')
        return 0;
    if (*in->at == '\\') {
        cursor after = {in->at + 1, in->end};
        const size_t size = take_escape(&after, out);
        in->at = size > 0 ? after.at : in->at; /* or what follows could be taken for the mark at the end */
        return size;
    }
    char next[5] = ""; /* there may be no zero byte after the text */
    uint32_t code;
    memcpy(next, in->at, left < 4 ? left : 4);
    const size_t length = simba__utf8_next(next, &code);
    memcpy(out, next, length);
    in->at += length;
    return length;
}

static bool skip_text(cursor *in)
{
    char character[4];
    if (!skip(in, "\""))
        return false;
    while (take_character(in, character) > 0)
        ;
    return skip(in, "\"");
}

static size_t skip_digits(cursor *in)
{
    const char *from = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9')
        in->at++;
    return (size_t)(in->at - from);
}

static bool skip_number(cursor *in)
{
    skip(in, "-");
    if (!skip(in, "0") && skip_digits(in) == 0)
        return false;
    if (skip(in, ".") && skip_digits(in) == 0)
        return false;
    if (skip(in, "e") || skip(in, "E")) {
        if (!skip(in, "+"))
            skip(in, "-");
        return skip_digits(in) > 0;
    }
    return true;
}

static bool skip_value(cursor *in, unsigned depth)
{
    const bool is_object = in->at < in->end && *in->at == '{';
    if (!is_object && !(in->at < in->end && *in->at == '['))
        return in->at < in->end &&
               (*in->at == '"' ? skip_text(in)
                               : skip(in, "true") || skip(in, "false") || skip(in, "null") || skip_number(in));
    const char *close = is_object ? "}" : "]";
    if (depth == DEPTH_MOST)
        return false;
    in->at++;
    skip_blanks(in);
    if (skip(in, close))
        return true;
    do {
        skip_blanks(in);
        if (is_object) {
            if (!skip_text(in))
                return false;
            skip_blanks(in);
            if (!skip(in, ":"))
                return false;
            skip_blanks(in);
        }
        if (!skip_value(in, depth + 1)) // NOLINT(misc-no-recursion): bounded
            return false;
        skip_blanks(in);
    } while (skip(in, ","));
    return skip(in, close);
}

/* --- reading ------------------------------------------------------------------------------------------ */

bool simba__json_read(const char *text, size_t length, simba__json *ret_value)
{
    cursor in = {text, text + length};
    skip_blanks(&in);
    const char *from = in.at;
    if (!skip_value(&in, 0))
        return false;
    const size_t size = (size_t)(in.at - from);
    skip_blanks(&in);
    if (in.at != in.end)
        return false;
    *ret_value = (simba__json){from, size};
    return true;
}

static bool is_kind(simba__json value, char first)
{
    return value.length > 0 && value.at[0] == first;
}

/* A value, with what is around it passed over; in->at is behind it. */
static simba__json take_value(cursor *in)
{
    skip_blanks(in);
    const char *from = in->at;
    (void)skip_value(in, 0);
    const simba__json value = {from, (size_t)(in->at - from)};
    skip_blanks(in);
    return value;
}

simba__json simba__json_get(simba__json object, const char *key)
{
    simba__json value = {0};
    const size_t length = strlen(key);
    if (!is_kind(object, '{'))
        return value;
    cursor in = {object.at + 1, object.at + object.length};
    do {
        bool is_it = true;
        size_t at = 0, size;
        char character[4];
        skip_blanks(&in);
        if (!skip(&in, "\""))
            break;
        for (; (size = take_character(&in, character)) > 0; at += size)
            is_it = is_it && size <= length - at && memcmp(key + at, character, size) == 0;
        skip(&in, "\"");
        skip_blanks(&in);
        skip(&in, ":");
        value = take_value(&in);
        if (is_it && at == length)
            return is_kind(value, 'n') ? (simba__json){0} : value;
    } while (skip(&in, ","));
    return (simba__json){0};
}

bool simba__json_next(simba__json array, simba__json *element)
{
    if (!is_kind(array, '['))
        return false;
    cursor in = {element->at ? element->at + element->length : array.at + 1, array.at + array.length};
    skip_blanks(&in);
    if (element->at ? !skip(&in, ",") : skip(&in, "]"))
        return false;
    *element = take_value(&in);
    return true;
}

bool simba__json_int(simba__json value, int64_t *ret_number)
{
    int64_t number = 0;
    if (value.length > 0) {
        const bool is_text = is_kind(value, '"');
        const char *at = value.at + is_text, *end = value.at + value.length - is_text;
        const bool is_negative = *at == '-' && at < end;
        at += is_negative;
        if (at == end)
            return false;
        for (; at < end; at++) {
            const int digit = is_negative ? '0' - *at : *at - '0';
            if (*at < '0' || *at > '9' || __builtin_mul_overflow(number, 10, &number) ||
                __builtin_add_overflow(number, digit, &number))
                return false;
        }
    }
    *ret_number = number;
    return true;
}

bool simba__json_bool(simba__json value)
{
    return is_kind(value, 't');
}

bool simba__json_text(simba__json value, char *out, size_t size)
{
    size_t length = 0, more;
    char character[4];
    out[0] = '\0';
    if (!is_kind(value, '"'))
        return false;
    cursor in = {value.at + 1, value.at + value.length};
    while ((more = take_character(&in, character)) > 0) {
        if (character[0] == '\0' || more >= size - length) {
            out[0] = '\0';
            return false;
        }
        memcpy(out + length, character, more);
        length += more;
    }
    out[length] = '\0';
    return true;
}

bool simba__json_base64(simba__json value, void *out, size_t size, size_t *ret_length)
{
    size_t length = 0;
    if (value.length > 0 &&
        (!is_kind(value, '"') || !simba__base64_decode(value.at + 1, value.length - 2, out, size - 1, &length)))
        return false;
    ((char *)out)[length] = '\0';
    *ret_length = length;
    return true;
}

/* --- base64 ------------------------------------------------------------------------------------------- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *simba__base64(const void *bytes, size_t length, char *out)
{
    const unsigned char *at = bytes;
    char *to = out;
    for (size_t i = 0; i < length; i += 3, to += 4) {
        const size_t left = length - i;
        const unsigned group = (unsigned)at[i] << 16 | (left > 1 ? at[i + 1] : 0U) << 8 | (left > 2 ? at[i + 2] : 0U);
        to[0] = alphabet[group >> 18];
        to[1] = alphabet[group >> 12 & 63];
        to[2] = left > 1 ? alphabet[group >> 6 & 63] : '=';
        to[3] = left > 2 ? alphabet[group & 63] : '=';
    }
    *to = '\0';
    return out;
}

bool simba__base64_decode(const char *text, size_t length, void *out, size_t size, size_t *ret_length)
{
    unsigned char *to = out;
    size_t count = 0;
    if (length % 4 != 0)
        return false;
    for (size_t i = 0; i < length; i += 4) {
        const bool is_last = i + 4 == length;
        const size_t bytes = !is_last || text[i + 3] != '=' ? 3 : text[i + 2] != '=' ? 2 : 1;
        uint32_t group = 0;
        for (size_t k = 0; k < 4; k++) {
            const char *found = k <= bytes ? memchr(alphabet, text[i + k], sizeof alphabet - 1) : alphabet;
            if (!found)
                return false;
            group = group << 6 | (uint32_t)(found - alphabet);
        }
        if (bytes > size - count)
            return false;
        for (size_t k = 0; k < bytes; k++)
            to[count++] = (unsigned char)(group >> (16 - 8 * k));
    }
    *ret_length = count;
    return true;
}
