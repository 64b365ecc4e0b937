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

const char *simba__escape(const char *text, char *out, size_t size)
{
    static const char mark[] = "…";
    assert(size >= 2 * sizeof mark);
    size_t at = 0;
    size_t mark_at = 0; /* the last place where the mark still fits behind what is whole */
    while (*text != '\0') {
        uint32_t code;
        char piece[5];
        size_t length = simba__utf8_next(text, &code);
        const bool plain = length > 0 && simba__is_printable(code);
        const size_t taken = plain ? length : 1;
        if (plain)
            memcpy(piece, text, length);
        else
            length = (size_t)snprintf(piece, sizeof piece, "\\x%02X", (unsigned char)*text);
        if (at + sizeof mark <= size)
            mark_at = at;
        if (at + length >= size) {
            memcpy(out + mark_at, mark, sizeof mark);
            return out;
        }
        memcpy(out + at, piece, length);
        at += length;
        text += taken;
    }
    out[at] = '\0';
    return out;
}

void simba__escape_format(char *out, size_t size, const char *format, va_list args)
{
    char raw[SIMBA__FORMAT_MAX];
    assert(size <= sizeof raw);
    if (vsnprintf(raw, sizeof raw, format, args) < 0)
        raw[0] = '\0';
    simba__escape(raw, out, size);
}
