/* Checks whose database it is, and which version of ours. Creates the schema in an empty database, and whatever an
 * older one lacks. */
#ifndef SIMBA_BACKENDS_SQLITE_SCHEMA_H
#define SIMBA_BACKENDS_SQLITE_SCHEMA_H

#include <sqlite3.h>
#include <stdbool.h>

typedef enum simba__sqlite_schema {
    SIMBA__SQLITE_SCHEMA_OURS,
    SIMBA__SQLITE_SCHEMA_EMPTY,
    SIMBA__SQLITE_SCHEMA_OLDER,   /* ours, without a table for notes */
    SIMBA__SQLITE_SCHEMA_FOREIGN, /* another program's */
    SIMBA__SQLITE_SCHEMA_NEWER,   /* ours, of a later version */
} simba__sqlite_schema;

/* Both return an SQLite result code. The first only reads. */
int simba__sqlite_schema_look(sqlite3 *handle, simba__sqlite_schema *ret_schema);
/* Safe if another process does the same: *ret_schema is the final state. */
int simba__sqlite_schema_create(sqlite3 *handle, simba__sqlite_schema *ret_schema);

#endif
