/* Rows of simba_lock and simba_note, in and out. Everything that is read is checked, because SQLite keeps anything in any column,
 * and people edit databases. Rows of simba_waiter only say whom to wake: decide.c reads them. */
#include <fnmatch.h>
#include <string.h>

#include "stores/sqlite/store.h"
#include "util/error.h"
#include "util/mem.h"

/* In the order of SIMBA__SQLITE_COLUMNS; those of a LIST go on with the name, the note and the queue. */
enum {
    C_ACQUIRED_AT,
    C_TTL_AT,
    C_TRANSITION_AT,
    C_OWNER,
    C_VERSION,
    C_TOKEN,
    C_NONCE,
    C_REVOKED,
    C_UNTIL,
    C_BOOT_ID,
    C_SOCKET,
    C_NEXT_NONCE,
    C_NEXT_UNTIL,
    C_MUTEX,
    C_NOTE,
    C_WAITERS = C_NOTE + 4,
    C_FIRST,
};
static const char *const columns[] = {"acquired_at", "ttl_at",     "transition_at",     "owner_id",      "version",
                                      "token",       "nonce",      "revoked_token",     "until_boot_ns", "boot_id",
                                      "socket",      "next_nonce", "next_until_boot_ns"};

/* --- simba_lock ----------------------------------------------------------------------------------- */

/* SQLite reads a text that is no number as 0, which would be a lease that has ended. */
static int check_types(simba__sqlite_db *db, sqlite3_stmt *statement, const char *mutex, simba_error *err)
{
    for (int i = 0; i <= C_NEXT_UNTIL; i++) {
        const bool is_text = i == C_OWNER || i == C_BOOT_ID || i == C_SOCKET;
        if (sqlite3_column_type(statement, i) != (is_text ? SQLITE_TEXT : SQLITE_INTEGER))
            return simba__sqlite_db_damaged(db, mutex, columns[i], is_text ? "is not a text" : "is not a number", err);
        if ((i == C_TOKEN || i == C_REVOKED) && sqlite3_column_int64(statement, i) < 0)
            return simba__sqlite_db_damaged(db, mutex, columns[i], "is negative", err);
    }
    return 0;
}

static int copy_text(simba__sqlite_db *db, sqlite3_stmt *statement, int column, const char *mutex, char *ret_text,
                     size_t size, simba_error *err)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    const size_t length = (size_t)sqlite3_column_bytes(statement, column);
    if (!text) /* the column is a text, so there was no memory to read it; and an unread lease is not a free one */
        return simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    if (length >= size)
        return simba__sqlite_db_damaged(db, mutex, columns[column], "is too long", err);
    if (strlen(text) != length)
        return simba__sqlite_db_damaged(db, mutex, columns[column], "has a zero byte in it", err);
    memcpy(ret_text, text, length + 1);
    return 0;
}

static int decode_lock(simba__sqlite_db *db, sqlite3_stmt *statement, const char *mutex, simba__sqlite_lock *ret_lock,
                       simba_error *err)
{
    char boot_id[sizeof db->boot_id];
    int code = check_types(db, statement, mutex, err);
    if (code == 0)
        code = copy_text(db, statement, C_BOOT_ID, mutex, boot_id, sizeof boot_id, err);
    if (code < 0)
        return code;
    ret_lock->exists = true;
    simba__row *row = &ret_lock->row;
    row->version = (uint64_t)sqlite3_column_int64(statement, C_VERSION);
    row->token = (uint64_t)sqlite3_column_int64(statement, C_TOKEN);
    row->revoked_token = (uint64_t)sqlite3_column_int64(statement, C_REVOKED);
    if (strcmp(boot_id, db->boot_id) != 0)
        return 0;
    code = copy_text(db, statement, C_OWNER, mutex, row->owner.id, sizeof row->owner.id, err);
    if (code == 0)
        code = copy_text(db, statement, C_SOCKET, mutex, ret_lock->socket, sizeof ret_lock->socket, err);
    row->owner.acquired_at_ms = sqlite3_column_int64(statement, C_ACQUIRED_AT);
    row->owner.ttl_at_ms = sqlite3_column_int64(statement, C_TTL_AT);
    row->owner.transition_at_ms = sqlite3_column_int64(statement, C_TRANSITION_AT);
    row->owner.token = row->owner.id[0] ? row->token : 0;
    row->nonce = (uint64_t)sqlite3_column_int64(statement, C_NONCE);
    row->until_ns = sqlite3_column_int64(statement, C_UNTIL);
    ret_lock->next_nonce = (uint64_t)sqlite3_column_int64(statement, C_NEXT_NONCE);
    ret_lock->next_until_ns = sqlite3_column_int64(statement, C_NEXT_UNTIL);
    return code;
}

int simba__sqlite_lock_load(simba__sqlite_db *db, const char *mutex, simba__sqlite_lock *ret_lock, simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_LOAD];
    memset(ret_lock, 0, sizeof *ret_lock);
    sqlite3_bind_text(statement, 1, mutex, -1, SQLITE_STATIC);
    const int rc = sqlite3_step(statement);
    int code = 0;
    if (rc == SQLITE_ROW)
        code = decode_lock(db, statement, mutex, ret_lock, err);
    else if (rc != SQLITE_DONE)
        code = simba__sqlite_db_fail(db, rc, err);
    sqlite3_reset(statement);
    return code;
}

int simba__sqlite_lock_store(simba__sqlite_db *db, const char *mutex, const simba__sqlite_lock *lock, simba_error *err)
{
    const simba__sqlite_statement which = lock->exists ? SIMBA__SQLITE_UPDATE : SIMBA__SQLITE_INSERT;
    const simba__row *row = &lock->row;
    sqlite3_stmt *statement = db->statements[which];
    sqlite3_bind_text(statement, 1, mutex, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, row->owner.acquired_at_ms);
    sqlite3_bind_int64(statement, 3, row->owner.ttl_at_ms);
    sqlite3_bind_int64(statement, 4, row->owner.transition_at_ms);
    sqlite3_bind_text(statement, 5, row->owner.id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 6, (int64_t)row->version);
    sqlite3_bind_int64(statement, 7, (int64_t)row->token);
    sqlite3_bind_int64(statement, 8, (int64_t)row->nonce);
    sqlite3_bind_int64(statement, 9, (int64_t)row->revoked_token);
    sqlite3_bind_int64(statement, 10, row->until_ns);
    sqlite3_bind_text(statement, 11, db->boot_id, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 12, row->owner.id[0] ? lock->socket : "", -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 13, (int64_t)lock->next_nonce);
    sqlite3_bind_int64(statement, 14, lock->next_until_ns);
    return simba__sqlite_db_run(db, which, err);
}

/* --- simba_note ----------------------------------------------------------------------------------- */

/* A note from `column` on: note, note_token, note_number, written_at. NULL and no bytes: there is none. SQLite owns the bytes,
 * until the next step. */
static int decode_note(simba__sqlite_db *db, sqlite3_stmt *statement, int column, const char *mutex,
                       simba_stored_note *ret_note, uint64_t *ret_number, simba_error *err)
{
    static const char *const names[] = {"note", "note_token", "note_number", "written_at"};
    *ret_note = (simba_stored_note){0};
    *ret_number = 0;
    if (sqlite3_column_type(statement, column) == SQLITE_NULL)
        return 0; /* the mutex is not in the table */
    if (sqlite3_column_type(statement, column) != SQLITE_BLOB)
        return simba__sqlite_db_damaged(db, mutex, names[0], "is not a blob", err);
    for (int i = 1; i < 4; i++) {
        if (sqlite3_column_type(statement, column + i) != SQLITE_INTEGER)
            return simba__sqlite_db_damaged(db, mutex, names[i], "is not a number", err);
        if (sqlite3_column_int64(statement, column + i) < 0)
            return simba__sqlite_db_damaged(db, mutex, names[i], "is negative", err);
    }
    const void *bytes = sqlite3_column_blob(statement, column);
    const size_t size = (size_t)sqlite3_column_bytes(statement, column);
    if (size > SIMBA_NOTE_MAX)
        return simba__sqlite_db_damaged(db, mutex, names[0], "is too long", err);
    if (size > 0 && !bytes)
        return simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    *ret_number = (uint64_t)sqlite3_column_int64(statement, column + 2);
    *ret_note = (simba_stored_note){.bytes = bytes,
                                    .size = size,
                                    .token = (uint64_t)sqlite3_column_int64(statement, column + 1),
                                    .written_at_ms = sqlite3_column_int64(statement, column + 3)};
    return 0;
}

static simba__sqlite_note *copy_note(const simba_stored_note *note)
{
    simba__sqlite_note *copy = simba__malloc(sizeof *copy + note->size);
    if (!copy)
        return NULL;
    memcpy(copy->bytes, note->bytes, note->size);
    copy->stored = *note;
    copy->stored.bytes = copy->bytes;
    return copy;
}

int simba__sqlite_note_load(simba__sqlite_db *db, const char *mutex, simba__row *row, simba__sqlite_note **ret_note,
                            simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_LOAD_NOTE];
    simba_stored_note note = {0};
    sqlite3_bind_text(statement, 1, mutex, -1, SQLITE_STATIC);
    const int rc = sqlite3_step(statement);
    int code = 0;
    if (rc == SQLITE_ROW)
        code = decode_note(db, statement, 0, mutex, &note, &row->note_number, err);
    else if (rc != SQLITE_DONE)
        code = simba__sqlite_db_fail(db, rc, err);
    row->note_token = note.token;
    row->note_written_at_ms = note.written_at_ms;
    if (code == 0 && ret_note && note.size > 0 && !(*ret_note = copy_note(&note)))
        code = simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    sqlite3_reset(statement);
    return code;
}

static int store_note(simba__sqlite_db *db, const char *mutex, const simba_stored_note *note, uint64_t number,
                      simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_STORE_NOTE];
    sqlite3_bind_text(statement, 1, mutex, -1, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 2, note->size ? note->bytes : "", (int)note->size, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, (int64_t)note->token);
    sqlite3_bind_int64(statement, 4, (int64_t)number);
    sqlite3_bind_int64(statement, 5, note->written_at_ms);
    return simba__sqlite_db_run(db, SIMBA__SQLITE_STORE_NOTE, err);
}

int simba__sqlite_note_store(simba__sqlite_db *db, const simba_request *request, const simba__row *row,
                             simba_error *err)
{
    const simba_stored_note note = {request->note, request->note_size, row->note_token, row->note_written_at_ms};
    return store_note(db, request->mutex, &note, row->note_number, err);
}

/* The name of the row that keeps the floor. No mutex has this name. */
#define FLOOR ""

int simba__sqlite_note_floor(simba__sqlite_db *db, uint64_t *ret_token, simba_error *err)
{
    simba__row row = {0};
    const int rc = simba__sqlite_note_load(db, FLOOR, &row, NULL, err);
    *ret_token = row.note_token;
    return rc;
}

int simba__sqlite_note_forget(simba__sqlite_db *db, const char *mutex, uint64_t token, simba_error *err)
{
    uint64_t floor = 0;
    int rc = simba__sqlite_note_floor(db, &floor, err);
    if (rc == 0 && token > floor)
        rc = store_note(db, FLOOR, &(simba_stored_note){.token = token}, 0, err);
    static const simba__sqlite_statement deletes[] = {SIMBA__SQLITE_DELETE_NOTE, SIMBA__SQLITE_DELETE};
    for (size_t i = 0; i < 2 && rc == 0; i++) {
        sqlite3_bind_text(db->statements[deletes[i]], 1, mutex, -1, SQLITE_STATIC);
        rc = simba__sqlite_db_run(db, deletes[i], err);
    }
    return rc;
}

/* --- the list ------------------------------------------------------------------------------------- */

/* One with room for three texts behind it. */
static simba__sqlite_listing *make_listing(const char *mutex, const char *first, const simba_stored_note *note)
{
    const size_t mutex_size = strlen(mutex) + 1;
    const size_t first_size = first ? strlen(first) + 1 : 0;
    simba__sqlite_listing *made = simba__calloc(1, sizeof *made + mutex_size + first_size + note->size);
    if (!made)
        return NULL;
    made->mutex = memcpy(made->text, mutex, mutex_size);
    if (first)
        made->first = memcpy(made->text + mutex_size, first, first_size);
    made->note = *note;
    if (note->size > 0)
        made->note.bytes = memcpy(made->text + mutex_size + first_size, note->bytes, note->size);
    return made;
}

/* *ret_listing stays NULL for a mutex that does not match. */
static int read_listing(simba__sqlite_db *db, sqlite3_stmt *statement, const char *pattern, simba__row_now now,
                        simba__sqlite_listing **ret_listing, simba_error *err)
{
    const bool is_text = sqlite3_column_type(statement, C_MUTEX) == SQLITE_TEXT; /* before it is read as one */
    const char *text = (const char *)sqlite3_column_text(statement, C_MUTEX);
    const char *mutex = text ? text : "";
    const size_t length = (size_t)sqlite3_column_bytes(statement, C_MUTEX);
    simba__sqlite_lock lock = {0};
    simba_stored_note note = {0};
    if (!text && is_text)
        return simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    if (text && pattern && fnmatch(pattern, mutex, 0) != 0)
        return 0;
    int code = 0;
    simba_error fault;
    if (!is_text || length > SIMBA_MUTEX_BYTES || strlen(mutex) != length)
        code = simba__sqlite_db_damaged(db, mutex, "its name", "is none", &fault);
    else
        code = decode_lock(db, statement, mutex, &lock, &fault);
    if (code == 0)
        code = decode_note(db, statement, C_NOTE, mutex, &note, &lock.row.note_number, &fault);
    if (code < 0 && code != SIMBA_ECORRUPT)
        return simba__fail(err, code, "%s", fault.text);
    const char *first = code == 0 ? (const char *)sqlite3_column_text(statement, C_FIRST) : NULL;
    if (first && strlen(first) > SIMBA_ID_MAX)
        first = NULL;
    simba__sqlite_listing *made = make_listing(code == 0 ? mutex : fault.text, first, &note);
    if (!made)
        return simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    if (code < 0) {
        made->fault = made->mutex;
        made->mutex = NULL;
    } else {
        simba__row_show(&lock.row, now, &made->owner, &made->now_ms);
        made->waiters = sqlite3_column_int64(statement, C_WAITERS);
    }
    db->row_failed = false;
    *ret_listing = made;
    return 0;
}

int simba__sqlite_list(simba__sqlite_db *db, const char *pattern, simba__row_now now, simba__sqlite_listing **ret_first,
                       simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_LIST];
    simba__sqlite_listing **end = ret_first;
    int code = 0;
    int rc = sqlite3_step(statement);
    for (; rc == SQLITE_ROW && code == 0; rc = sqlite3_step(statement)) {
        code = read_listing(db, statement, pattern, now, end, err);
        if (*end)
            end = &(*end)->next;
    }
    if (code == 0 && rc != SQLITE_DONE)
        code = simba__sqlite_db_fail(db, rc, err);
    sqlite3_reset(statement);
    return code;
}
