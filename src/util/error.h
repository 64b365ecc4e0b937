/* Errors as values: a code for the program, a sentence for the person. Texts grow outward: the innermost function says
 * what is wrong, each caller puts in front of it what it was doing. */
#ifndef SIMBA_UTIL_ERROR_H
#define SIMBA_UTIL_ERROR_H

#include <simba.h>

/* Set *err, which may be NULL. A text that is too long ends in "…". The text is escaped (util/escape.h), because the
 * arguments may come from a server. */
void simba__error_set(simba_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

static inline int simba__error_code(int code)
{
    return code;
}

/* Set *err and return `code`, as in `return simba__fail(err, SIMBA_EINVAL, "…")`. A macro, so that compilers and
 * analyzers see that it returns the code it was given. */
#define simba__fail(err, code, ...) (simba__error_set((err), (code), __VA_ARGS__), simba__error_code(code))

/* Put "prefix: " in front of the text of *err, and return `code` unchanged. */
int simba__wrap(simba_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* May the same call succeed later without any change? */
bool simba__is_transient(int code);

#endif
