/* See escape.h. */
#include "util/escape.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

size_t simba__utf8_next(const char *text, uint32_t *ret_code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* for this many bytes: less is over-long */
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] == '\0')
        return 0;
    const size_t length = s[0] < 0x80             ? 1
                          : (s[0] & 0xE0) == 0xC0 ? 2
                          : (s[0] & 0xF0) == 0xE0 ? 3
                          : (s[0] & 0xF8) == 0xF0 ? 4
                                                  : 0;
    if (length == 0)
        return 0;
    uint32_t code = length == 1 ? s[0] : s[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80) /* the end of the string, too */
            return 0;
        code = code << 6 | (s[i] & 0x3Fu);
    }
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (code < least[length] || surrogate || code > 0x10FFFF)
        return 0;
    *ret_code = code;
    return length;
}

bool simba__is_printable(uint32_t code)
{
    const bool control = code < 0x20 || (code >= 0x7F && code <= 0x9F);
    const bool ends_line = code == 0x2028 || code == 0x2029;
    const bool turns = code == 0x200E || code == 0x200F || code == 0x061C || (code >= 0x202A && code <= 0x202E) ||
                       (code >= 0x2066 && code <= 0x2069);
    const bool no_character = (code & 0xFFFE) == 0xFFFE;
    return !control && !ends_line && !turns && !no_character;
}

/* One piece of `text` as it is shown, and how many bytes of it that covers. A `backslashed` character gets a
 * backslash. */
static size_t show_next(const char *text, const char *backslashed, char piece[5], size_t *ret_length)
{
    uint32_t code;
    const size_t length = simba__utf8_next(text, &code);
    if (length > 0 && strchr(backslashed, *text)) {
        piece[0] = '\\';
        piece[1] = *text;
        *ret_length = 2;
        return 1;
    }
    if (length > 0 && simba__is_printable(code)) {
        memcpy(piece, text, length);
        *ret_length = length;
        return length;
    }
    *ret_length = (size_t)snprintf(piece, 5, "\\x%02X", (unsigned char)*text);
    return 1;
}

/* Returns the number of bytes written. */
static size_t show(const char *text, const char *backslashed, char *out, size_t size)
{
    static const char mark[] = "…";
    assert(size >= 2 * sizeof mark);
    size_t at = 0;
    size_t mark_at = 0; /* the last place where the mark still fits behind a whole piece */
    while (*text != '\0') {
        char piece[5];
        size_t length;
        text += show_next(text, backslashed, piece, &length);
        if (at + sizeof mark <= size)
            mark_at = at;
        if (at + length >= size) {
            memcpy(out + mark_at, mark, sizeof mark);
            return mark_at + sizeof mark - 1;
        }
        memcpy(out + at, piece, length);
        at += length;
    }
    out[at] = '\0';
    return at;
}

const char *simba__escape(const char *text, char *out, size_t size)
{
    show(text, "", out, size);
    return out;
}

/* Would a reader of key=value find the end of this value? */
static bool is_word(const char *value)
{
    uint32_t code;
    while (*value != '\0') {
        const size_t length = simba__utf8_next(value, &code);
        if (length == 0 || !simba__is_printable(code) || strchr(" \"\\=", *value))
            return false;
        value += length;
    }
    return true;
}

const char *simba__quote(const char *value, char *out, size_t size)
{
    if (is_word(value) && strlen(value) < size)
        return strcpy(out, value);
    out[0] = '"';
    const size_t length = show(value, "\"\\", out + 1, size - 2);
    return strcpy(out + 1 + length, "\""), out;
}

void simba__escape_format(char *out, size_t size, const char *format, va_list args)
{
    char raw[SIMBA__FORMAT_MAX];
    assert(size <= sizeof raw);
    if (vsnprintf(raw, sizeof raw, format, args) < 0)
        raw[0] = '\0';
    simba__escape(raw, out, size);
}
