/* See note.h. */
#include "backends/sqlite/note.h"

#include <string.h>

#include "util/mem.h"

/* The name of the row that keeps the greatest forgotten token. No mutex has this name. */
#define FLOOR ""

/* Read the row of a mutex, and call `take` with it if there is one. */
static int with_row(simba__sqlite_db *db, const char *mutex,
                    int (*take)(void *user, const simba_stored_note *, uint64_t), void *user, simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_DB_LOAD_NOTE];
    sqlite3_bind_text(statement, 1, mutex, -1, SQLITE_STATIC);
    const int rc = sqlite3_step(statement);
    simba_stored_note note;
    uint64_t number;
    int code = 0;
    if (rc == SQLITE_ROW) {
        code = simba__sqlite_db_decode_note(db, statement, 0, mutex, &note, &number, err);
        if (code == 0 && take(user, &note, number) < 0)
            code = simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    } else if (rc != SQLITE_DONE) {
        code = simba__sqlite_db_fail(db, rc, err);
    }
    sqlite3_reset(statement);
    return code;
}

static int take_identity(void *user, const simba_stored_note *note, uint64_t number)
{
    simba__row *row = user;
    row->note_token = note->token;
    row->note_number = number;
    row->note_written_at_ms = note->written_at_ms;
    return 0;
}

int simba__sqlite_note_identify(simba__sqlite_db *db, const char *mutex, simba__row *row, simba_error *err)
{
    return with_row(db, mutex, take_identity, row, err);
}

static int take_copy(void *user, const simba_stored_note *note, uint64_t number)
{
    (void)number;
    simba__sqlite_note_copy **ret_note = user;
    if (note->size == 0)
        return 0; /* the note was removed */
    simba__sqlite_note_copy *copy = simba__malloc(sizeof *copy + note->size);
    if (!copy)
        return SIMBA_ENOMEM;
    memcpy(copy->bytes, note->bytes, note->size);
    copy->stored = *note;
    copy->stored.bytes = copy->bytes;
    *ret_note = copy;
    return 0;
}

int simba__sqlite_note_load(simba__sqlite_db *db, const char *mutex, simba__sqlite_note_copy **ret_note,
                            simba_error *err)
{
    *ret_note = NULL;
    return with_row(db, mutex, take_copy, ret_note, err);
}

static int store(simba__sqlite_db *db, const char *mutex, const simba_stored_note *note, uint64_t number,
                 simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_DB_STORE_NOTE];
    sqlite3_bind_text(statement, 1, mutex, -1, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 2, note->size ? note->bytes : "", (int)note->size, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, (int64_t)note->token);
    sqlite3_bind_int64(statement, 4, (int64_t)number);
    sqlite3_bind_int64(statement, 5, note->written_at_ms);
    return simba__sqlite_db_run(db, SIMBA__SQLITE_DB_STORE_NOTE, err);
}

int simba__sqlite_note_store(simba__sqlite_db *db, const simba_request *request, const simba__row *row,
                             simba_error *err)
{
    const simba_stored_note note = {request->note, request->note_size, row->note_token, row->note_written_at_ms};
    return store(db, request->mutex, &note, row->note_number, err);
}

int simba__sqlite_note_floor(simba__sqlite_db *db, uint64_t *ret_token, simba_error *err)
{
    simba__row row = {0};
    const int rc = simba__sqlite_note_identify(db, FLOOR, &row, err);
    *ret_token = row.note_token;
    return rc;
}

static int delete (simba__sqlite_db *db, simba__sqlite_db_statement which, const char *mutex, simba_error *err)
{
    sqlite3_bind_text(db->statements[which], 1, mutex, -1, SQLITE_STATIC);
    return simba__sqlite_db_run(db, which, err);
}

int simba__sqlite_note_forget(simba__sqlite_db *db, const char *mutex, uint64_t token, simba_error *err)
{
    uint64_t floor = 0;
    int rc = simba__sqlite_note_floor(db, &floor, err);
    if (rc == 0 && token > floor)
        rc = store(db, FLOOR, &(simba_stored_note){.token = token}, 0, err);
    if (rc == 0)
        rc = delete (db, SIMBA__SQLITE_DB_DELETE_NOTE, mutex, err);
    return rc == 0 ? delete (db, SIMBA__SQLITE_DB_DELETE, mutex, err) : rc;
}
