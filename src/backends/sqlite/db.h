/* The database: one connection with its prepared statements, rows in and out, transactions. core/row.h says what a row
 * means, backend.c when a transaction runs.
 *
 * Everything here blocks and belongs to one thread at a time: the one that opens the client, then the one that runs the
 * batch. Functions return 0 or a negative SIMBA_E… code, with "sqlite: <path>: <cause>" in *err. */
#ifndef SIMBA_BACKENDS_SQLITE_DB_H
#define SIMBA_BACKENDS_SQLITE_DB_H

#include <sqlite3.h>

#include "backends/sqlite/file.h"
#include "core/row.h"

typedef enum simba__sqlite_db_statement {
    SIMBA__SQLITE_DB_BEGIN_READ,
    SIMBA__SQLITE_DB_BEGIN_WRITE,
    SIMBA__SQLITE_DB_COMMIT,
    SIMBA__SQLITE_DB_ROLLBACK,
    SIMBA__SQLITE_DB_LOAD,
    SIMBA__SQLITE_DB_INSERT,
    SIMBA__SQLITE_DB_UPDATE,
    SIMBA__SQLITE_DB_DELETE,
    SIMBA__SQLITE_DB_LIST,
    SIMBA__SQLITE_DB_LOAD_NOTE,
    SIMBA__SQLITE_DB_STORE_NOTE,
    SIMBA__SQLITE_DB_DELETE_NOTE,
    SIMBA__SQLITE_DB_STATEMENTS
} simba__sqlite_db_statement;

typedef struct simba__sqlite_db {
    sqlite3 *handle; /* NULL: closed; the next refresh opens it */
    sqlite3_stmt *statements[SIMBA__SQLITE_DB_STATEMENTS];
    char *path;
    bool sync_full;                   /* synchronous=FULL rather than NORMAL */
    bool broken;                      /* after some error the connection cannot be trusted any more */
    bool row_failed;                  /* the latest failure concerned one statement; the transaction is still good */
    char boot_id[40];                 /* which boot of the machine the boot-time clock counts from */
    simba__sqlite_file_side sides[2]; /* the log and the wal-index that are in use */
    simba__sqlite_patience patience;
} simba__sqlite_db;

/* Fill in what is needed before opening. Takes a copy of the path. SIMBA_ENOMEM, SIMBA_ESYSTEM. */
int simba__sqlite_db_init(simba__sqlite_db *db, simba_host *host, const char *path, bool sync_full, simba_error *err);
/* Also after a failed init, and on zeroes. */
void simba__sqlite_db_fini(simba__sqlite_db *db);

/* Open the file, and create what is missing. If it is open already, make sure that it still is the file at that
 * path, and otherwise open that one. *ret_opened: it was opened now. */
int simba__sqlite_db_refresh(simba__sqlite_db *db, bool *ret_opened, simba_error *err);

/* It is open, and nothing has gone wrong with it. It may still be another file than the one at its path. */
static inline bool simba__sqlite_db_is_sound(const simba__sqlite_db *db)
{
    return db->handle && !db->broken;
}

/* The path with its links resolved, as long as the file is open. */
const char *simba__sqlite_db_real_path(const simba__sqlite_db *db);

/* A write transaction excludes all others from its beginning. SIMBA_ETIMEDOUT: another process was writing for
 * longer than the patience lasted. */
int simba__sqlite_db_begin(simba__sqlite_db *db, bool writes, simba_error *err);
int simba__sqlite_db_commit(simba__sqlite_db *db, simba_error *err);
void simba__sqlite_db_rollback(simba__sqlite_db *db);

/* The row of a mutex; all zero, and *ret_exists false, if there is none. A lease of an earlier boot has ended: the row
 * comes without it. SIMBA_ECORRUPT: simba cannot have written the row; the transaction can go on without it. */
int simba__sqlite_db_load(simba__sqlite_db *db, const char *mutex, simba__row *ret_row, bool *ret_exists,
                          simba_error *err);
/* Write the row; `exists`: there is one, which this transaction has read. */
int simba__sqlite_db_store(simba__sqlite_db *db, const char *mutex, const simba__row *row, bool exists,
                           simba_error *err);

/* Call `each` for every mutex that matches the shell pattern (NULL: all), ordered by name, until it returns a
 * negative code; that is then the result. The note has no bytes if there is none. A row that cannot be read is NULL,
 * and `fault` says what is wrong with it. */
typedef int (*simba__sqlite_db_each)(void *user, const char *mutex, const simba__row *row,
                                     const simba_stored_note *note, const simba_error *fault);
int simba__sqlite_db_list(simba__sqlite_db *db, const char *pattern, simba__sqlite_db_each each, void *user,
                          simba_error *err);

/* For note.c, which has statements of its own: run a statement that has no result; set the error of an SQLite result
 * code; report a row that simba cannot have written, while the statement and the transaction are good
 * (SIMBA_ECORRUPT). */
int simba__sqlite_db_run(simba__sqlite_db *db, simba__sqlite_db_statement which, simba_error *err);
int simba__sqlite_db_fail(simba__sqlite_db *db, int rc, simba_error *err);
int simba__sqlite_db_damaged(simba__sqlite_db *db, const char *mutex, const char *column, const char *what,
                             simba_error *err);
/* A note in a row of a result, from `column` on: note, note_token, note_number, written_at. NULL and no bytes: there
 * is none. SQLite owns the bytes, until the next step. SIMBA_ECORRUPT: simba cannot have written it. */
int simba__sqlite_db_decode_note(simba__sqlite_db *db, sqlite3_stmt *statement, int column, const char *mutex,
                                 simba_stored_note *ret_note, uint64_t *ret_number, simba_error *err);

#endif
