/* Errors as values: a code for the program, a sentence for the person. Texts grow outward: the innermost function says
 * what is wrong, each caller puts in front of it what it was doing. */
#ifndef SIMBA_UTIL_ERROR_H
#define SIMBA_UTIL_ERROR_H

#include <simba.h>

/* Set *err (which may be NULL) and return `code`. An over-long text ends in "…". */
int simba__fail(simba_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Put "prefix: " in front of the text of *err, and return `code` unchanged. */
int simba__wrap(simba_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* May the same call succeed later, without anybody changing anything? */
bool simba__is_transient(int code);

#endif
