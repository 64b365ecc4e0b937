/* See json.h: writing. It is a file of its own because the command reads JSON with json.c, and has no buffers. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "net/json.h"
#include "util/escape.h"

static void put_text(simba__buffer *out, const char *text)
{
    simba__buffer_put(out, "\"", 1);
    while (*text) {
        char escape[8];
        uint32_t code;
        size_t length = simba__utf8_next(text, &code);
        if (length == 0) {
            simba__buffer_put(out, "\xEF\xBF\xBD", 3);
            length = 1;
        } else if (code < ' ' || code == '"' || code == '\\') {
            simba__buffer_put(out, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04" PRIx32, code));
        } else {
            simba__buffer_put(out, text, length);
        }
        text += length;
    }
    simba__buffer_put(out, "\"", 1);
}

void simba__json_put(simba__buffer *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    while (*format) {
        const size_t plain = strcspn(format, "'%");
        char digits[24];
        simba__buffer_put(out, format, plain);
        format += plain;
        if (*format == '\'') {
            simba__buffer_put(out, "\"", 1);
            format++;
        } else if (strncmp(format, "%s", 2) == 0) {
            put_text(out, va_arg(args, const char *));
            format += 2;
        } else if (strncmp(format, "%lld", 4) == 0) {
            simba__buffer_put(out, digits, (size_t)snprintf(digits, sizeof digits, "%lld", va_arg(args, long long)));
            format += 4;
        } else {
            break; /* the end, or what is no conversion of ours */
        }
    }
    va_end(args);
}
