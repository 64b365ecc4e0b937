/* Checks whose database it is, and which version of ours. Creates the schema in an empty database, and whatever an
 * older one lacks. */
#ifndef SIMBA_BACKENDS_SQLITE_SCHEMA_H
#define SIMBA_BACKENDS_SQLITE_SCHEMA_H

#include <sqlite3.h>
#include <stdbool.h>

typedef enum simba__schema {
    SIMBA__SCHEMA_OURS,
    SIMBA__SCHEMA_EMPTY,
    SIMBA__SCHEMA_OLDER,   /* ours, without a table for notes */
    SIMBA__SCHEMA_FOREIGN, /* another program's */
    SIMBA__SCHEMA_NEWER,   /* ours, of a later version */
} simba__schema;

/* Both return an SQLite result code. The first only reads. */
int simba__schema_look(sqlite3 *handle, simba__schema *ret_schema);
/* Safe if another process does the same: *ret_schema is the final state. */
int simba__schema_create(sqlite3 *handle, simba__schema *ret_schema);

#endif
