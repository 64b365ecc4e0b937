/* Errors of the file system, in words. */
#ifndef SIMBA_BACKENDS_SQLITE_ERROR_H
#define SIMBA_BACKENDS_SQLITE_ERROR_H

#include <simba.h>

/* "sqlite: <path>: <what>: <errno in words>", as SIMBA_EPERM or SIMBA_EUNAVAILABLE. */
int simba__sqlite_file_fail(const char *path, const char *what, int number, simba_error *err);

#endif
