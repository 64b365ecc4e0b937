/* See error.h and assert.h. */
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/assert.h"
#include "util/escape.h"

void simba__error_set(simba_error *err, int code, const char *format, ...)
{
    if (!err)
        return;
    err->code = code;
    va_list args;
    va_start(args, format);
    simba__escape_format(err->text, sizeof err->text, format, args);
    va_end(args);
}

int simba__wrap(simba_error *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    char prefix[sizeof err->text];
    va_list args;
    va_start(args, format);
    simba__escape_format(prefix, sizeof prefix, format, args);
    va_end(args);

    const simba_error inner = *err;
    simba__error_set(err, inner.code, "%s: %s", prefix, inner.text);
    return code;
}

bool simba__is_transient(int code)
{
    return code == SIMBA_EUNAVAILABLE || code == SIMBA_ETIMEDOUT || code == SIMBA_ENOMEM || code == SIMBA_ECANCELED;
}

const char *simba_error_name(int code)
{
    switch (code) {
    case 0:
        return "0";
#define NAME(name, number, text)                                                                                       \
    case number:                                                                                                       \
        return "SIMBA_" #name;
        SIMBA_ERRORS(NAME)
#undef NAME
    default:
        return "SIMBA_E?";
    }
}

const char *simba_error_text(int code)
{
    switch (code) {
    case 0:
        return "no error";
#define TEXT(name, number, text)                                                                                       \
    case number:                                                                                                       \
        return text;
        SIMBA_ERRORS(TEXT)
#undef TEXT
    default:
        return "unknown error";
    }
}

void simba__assert_failed(const char *file, int line, const char *expression)
{
    /* Not through stdio, whose lock another thread may hold for ever. */
    char text[512];
    const int length = snprintf(text, sizeof text, "simba: %s:%d: assertion failed: %s\n", file, line, expression);
    if (length > 0)
        (void)!write(STDERR_FILENO, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
    abort();
}
