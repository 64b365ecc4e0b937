/* The SQLite store: mutexes in a file that the processes of one host share. */
#ifndef SIMBA_BACKENDS_SQLITE_SQLITE_H
#define SIMBA_BACKENDS_SQLITE_SQLITE_H

#include <simba/backend.h>

extern const simba_backend simba__backend_sqlite;

#endif
