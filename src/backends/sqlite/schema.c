/* See schema.h. */
#include "backends/sqlite/schema.h"

#include <stddef.h>

#define APPLICATION_ID 1399418210 /* 0x53696d62, "Simb" */
#define VERSION 1
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* The columns up to `version` are for people, and are those of the MySQL store: epoch milliseconds, '' for nobody.
 * until_boot_ns judges leases, on the boot-time clock of boot_id. `nonce` is 64 bits, as a signed number. */
static const char create_sql[] =
    "CREATE TABLE simba_mutex ("
    "mutex TEXT NOT NULL PRIMARY KEY,"
    "acquired_at INTEGER NOT NULL DEFAULT 0,"
    "ttl_at INTEGER NOT NULL DEFAULT 0,"
    "transition_at INTEGER NOT NULL DEFAULT 0,"
    "owner_id TEXT NOT NULL DEFAULT '',"
    "version INTEGER NOT NULL DEFAULT 0,"
    "token INTEGER NOT NULL DEFAULT 0,"
    "nonce INTEGER NOT NULL DEFAULT 0,"
    "revoked_token INTEGER NOT NULL DEFAULT 0,"
    "until_boot_ns INTEGER NOT NULL DEFAULT 0,"
    "boot_id TEXT NOT NULL DEFAULT ''"
    ") WITHOUT ROWID;"
    "PRAGMA application_id = " TEXT(APPLICATION_ID) ";"
                                                    "PRAGMA user_version = " TEXT(VERSION) ";";

/* A table of its own, because a renewal writes the other one, and an older simba knows that one as it is: see
 * note.h. */
static const char create_notes_sql[] = "CREATE TABLE simba_note ("
                                       "mutex TEXT NOT NULL PRIMARY KEY,"
                                       "note BLOB NOT NULL,"
                                       "note_token INTEGER NOT NULL,"
                                       "note_number INTEGER NOT NULL,"
                                       "written_at INTEGER NOT NULL"
                                       ") WITHOUT ROWID;";

/* One statement, so that it reads one snapshot. */
static const char look_sql[] = "SELECT (SELECT application_id FROM pragma_application_id),"
                               "(SELECT user_version FROM pragma_user_version),"
                               "(SELECT count(*) FROM sqlite_master),"
                               "(SELECT count(*) FROM sqlite_master WHERE name = 'simba_note')";

static simba__sqlite_schema judge(int application, int version, int objects, int notes)
{
    if (application == APPLICATION_ID && version > VERSION)
        return SIMBA__SQLITE_SCHEMA_NEWER;
    if (application == APPLICATION_ID)
        return notes ? SIMBA__SQLITE_SCHEMA_OURS : SIMBA__SQLITE_SCHEMA_OLDER;
    return application == 0 && version == 0 && objects == 0 ? SIMBA__SQLITE_SCHEMA_EMPTY : SIMBA__SQLITE_SCHEMA_FOREIGN;
}

int simba__sqlite_schema_look(sqlite3 *handle, simba__sqlite_schema *ret_schema)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(handle, look_sql, sizeof look_sql, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        *ret_schema = judge(sqlite3_column_int(statement, 0), sqlite3_column_int(statement, 1),
                            sqlite3_column_int(statement, 2), sqlite3_column_int(statement, 3));
        rc = SQLITE_OK;
    }
    sqlite3_finalize(statement);
    return rc;
}

int simba__sqlite_schema_create(sqlite3 *handle, simba__sqlite_schema *ret_schema)
{
    int rc = sqlite3_exec(handle, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return rc;
    simba__sqlite_schema schema = SIMBA__SQLITE_SCHEMA_FOREIGN;
    rc = simba__sqlite_schema_look(handle, &schema);
    if (rc == SQLITE_OK && schema == SIMBA__SQLITE_SCHEMA_EMPTY)
        rc = sqlite3_exec(handle, create_sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK && (schema == SIMBA__SQLITE_SCHEMA_EMPTY || schema == SIMBA__SQLITE_SCHEMA_OLDER)) {
        rc = sqlite3_exec(handle, create_notes_sql, NULL, NULL, NULL);
        schema = SIMBA__SQLITE_SCHEMA_OURS;
    }
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(handle, "COMMIT", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        *ret_schema = schema;
    else
        sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
