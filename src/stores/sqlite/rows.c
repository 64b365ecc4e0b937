/* Rows of simba_lock and simba_note, in and out. Everything that is read is checked, because SQLite keeps anything in any column,
 * and people edit databases. Rows of simba_waiter only say whom to wake: decide.c reads them. */
#include <fnmatch.h>
#include <string.h>

#include "stores/sqlite/store.h"
#include "util/error.h"
#include "util/mem.h"

/* In the order of SIMBA__SQLITE_ROW; those of a LIST go on with the queue. */
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
    C_NOTE,
    C_NOTE_TOKEN,
    C_NOTE_NUMBER,
    C_WRITTEN_AT,
    C_MUTEX,
    C_WAITERS,
    C_FIRST,
};

static const struct {
    const char *name;
    int type;
    bool has_sign;
} columns[] = {
    [C_ACQUIRED_AT] = {"acquired_at", SQLITE_INTEGER, true},
    [C_TTL_AT] = {"ttl_at", SQLITE_INTEGER, true},
    [C_TRANSITION_AT] = {"transition_at", SQLITE_INTEGER, true},
    [C_OWNER] = {"owner_id", SQLITE_TEXT, false},
    [C_VERSION] = {"version", SQLITE_INTEGER, true},
    [C_TOKEN] = {"token", SQLITE_INTEGER, false},
    [C_NONCE] = {"nonce", SQLITE_INTEGER, true},
    [C_REVOKED] = {"revoked_token", SQLITE_INTEGER, false},
    [C_UNTIL] = {"until_boot_ns", SQLITE_INTEGER, true},
    [C_BOOT_ID] = {"boot_id", SQLITE_TEXT, false},
    [C_SOCKET] = {"socket", SQLITE_TEXT, false},
    [C_NEXT_NONCE] = {"next_nonce", SQLITE_INTEGER, true},
    [C_NEXT_UNTIL] = {"next_until_boot_ns", SQLITE_INTEGER, true},
    [C_NOTE] = {"note", SQLITE_BLOB, false},
    [C_NOTE_TOKEN] = {"note_token", SQLITE_INTEGER, false},
    [C_NOTE_NUMBER] = {"note_number", SQLITE_INTEGER, false},
    [C_WRITTEN_AT] = {"written_at", SQLITE_INTEGER, false},
};

/* --- reading a row -------------------------------------------------------------------------------- */

/* SQLite reads a text that is no number as 0, which would be a lease that has ended. */
static int check_types(simba__sqlite_db *db, sqlite3_stmt *statement, int first, int last, const char *mutex,
                       simba_error *err)
{
    for (int i = first; i <= last; i++) {
        if (sqlite3_column_type(statement, i) != columns[i].type)
            return simba__sqlite_db_damaged(db, mutex, columns[i].name,
                                            columns[i].type == SQLITE_TEXT   ? "is not a text"
                                            : columns[i].type == SQLITE_BLOB ? "is not a blob"
                                                                             : "is not a number",
                                            err);
        if (columns[i].type == SQLITE_INTEGER && !columns[i].has_sign && sqlite3_column_int64(statement, i) < 0)
            return simba__sqlite_db_damaged(db, mutex, columns[i].name, "is negative", err);
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
        return simba__sqlite_db_damaged(db, mutex, columns[column].name, "is too long", err);
    if (strlen(text) != length)
        return simba__sqlite_db_damaged(db, mutex, columns[column].name, "has a zero byte in it", err);
    memcpy(ret_text, text, length + 1);
    return 0;
}

static int decode_lock(simba__sqlite_db *db, sqlite3_stmt *statement, const char *mutex, simba__sqlite_lock *ret_lock,
                       simba_error *err)
{
    char boot_id[sizeof db->boot_id];
    int code = check_types(db, statement, C_ACQUIRED_AT, C_NEXT_UNTIL, mutex, err);
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

/* No bytes: there is no note. SQLite owns them, until the next step. */
static int decode_note(simba__sqlite_db *db, sqlite3_stmt *statement, const char *mutex, simba__row *row,
                       simba_stored_note *ret_note, simba_error *err)
{
    if (sqlite3_column_type(statement, C_NOTE) == SQLITE_NULL)
        return 0; /* the mutex is not in that table */
    const int code = check_types(db, statement, C_NOTE, C_WRITTEN_AT, mutex, err);
    const void *bytes = sqlite3_column_blob(statement, C_NOTE);
    const size_t size = (size_t)sqlite3_column_bytes(statement, C_NOTE);
    if (code < 0)
        return code;
    if (size > SIMBA_NOTE_MAX)
        return simba__sqlite_db_damaged(db, mutex, columns[C_NOTE].name, "is too long", err);
    if (size > 0 && !bytes)
        return simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    row->note_token = (uint64_t)sqlite3_column_int64(statement, C_NOTE_TOKEN);
    row->note_number = (uint64_t)sqlite3_column_int64(statement, C_NOTE_NUMBER);
    row->note_written_at_ms = sqlite3_column_int64(statement, C_WRITTEN_AT);
    *ret_note = (simba_stored_note){bytes, size, row->note_token, row->note_written_at_ms};
    return 0;
}

/* One with copies of these behind it. */
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

int simba__sqlite_load(simba__sqlite_db *db, const char *mutex, simba__sqlite_lock *ret_lock,
                       simba__sqlite_listing **ret_note, simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_LOAD];
    simba_stored_note note = {0};
    memset(ret_lock, 0, sizeof *ret_lock);
    int code = simba__sqlite_run(db, err, LOAD, SIMBA__SQLITE_TEXT(mutex));
    if (code <= 0)
        return code;
    code = decode_lock(db, statement, mutex, ret_lock, err);
    if (code == 0 && ret_note)
        code = decode_note(db, statement, mutex, &ret_lock->row, &note, err);
    if (code == 0 && note.size > 0 && !(*ret_note = make_listing(mutex, NULL, &note)))
        code = simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    sqlite3_reset(statement);
    return code;
}

/* --- the list ------------------------------------------------------------------------------------- */

/* *ret_listing stays NULL for a mutex that does not match. */
static int read_listing(simba__sqlite_db *db, sqlite3_stmt *statement, const char *pattern, simba__row_now now,
                        simba__sqlite_listing **ret_listing, simba_error *err)
{
    const bool is_text = sqlite3_column_type(statement, C_MUTEX) == SQLITE_TEXT; /* before it is read as one */
    const char *text = (const char *)sqlite3_column_text(statement, C_MUTEX);
    const char *mutex = text ? text : "";
    const size_t length = (size_t)sqlite3_column_bytes(statement, C_MUTEX);
    const char *first = (const char *)sqlite3_column_text(statement, C_FIRST);
    simba__sqlite_lock lock = {0};
    simba_stored_note note = {0};
    simba_error fault;
    if (!text && is_text)
        return simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    if (text && pattern && fnmatch(pattern, mutex, 0) != 0)
        return 0;
    int code = 0;
    if (!is_text || length > SIMBA_MUTEX_BYTES || strlen(mutex) != length)
        code = simba__sqlite_db_damaged(db, mutex, "its name", "is none", &fault);
    if (code == 0)
        code = decode_lock(db, statement, mutex, &lock, &fault);
    if (code == 0)
        code = decode_note(db, statement, mutex, &lock.row, &note, &fault);
    if (code < 0 && code != SIMBA_ECORRUPT)
        return simba__fail(err, code, "%s", fault.text);
    const bool shows_first = code == 0 && first && strlen(first) <= SIMBA_ID_MAX;
    simba__sqlite_listing *made = make_listing(code == 0 ? mutex : fault.text, shows_first ? first : NULL, &note);
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
    int rc;
    while ((rc = simba__sqlite_db_step(db, SIMBA__SQLITE_LIST, err)) > 0) {
        const int code = read_listing(db, statement, pattern, now, end, err);
        if (code < 0) {
            sqlite3_reset(statement);
            return code;
        }
        if (*end)
            end = &(*end)->next;
    }
    return rc;
}

/* --- writing -------------------------------------------------------------------------------------- */

int simba__sqlite_store(simba__sqlite_db *db, const char *mutex, const simba__sqlite_lock *lock, simba_error *err)
{
    const simba__row *row = &lock->row;
    return simba__sqlite_run(
        db, err, STORE, SIMBA__SQLITE_TEXT(mutex), SIMBA__SQLITE_NUMBER(row->owner.acquired_at_ms),
        SIMBA__SQLITE_NUMBER(row->owner.ttl_at_ms), SIMBA__SQLITE_NUMBER(row->owner.transition_at_ms),
        SIMBA__SQLITE_TEXT(row->owner.id), SIMBA__SQLITE_NUMBER(row->version), SIMBA__SQLITE_NUMBER(row->token),
        SIMBA__SQLITE_NUMBER(row->nonce), SIMBA__SQLITE_NUMBER(row->revoked_token), SIMBA__SQLITE_NUMBER(row->until_ns),
        SIMBA__SQLITE_TEXT(db->boot_id), SIMBA__SQLITE_TEXT(row->owner.id[0] ? lock->socket : ""),
        SIMBA__SQLITE_NUMBER(lock->next_nonce), SIMBA__SQLITE_NUMBER(lock->next_until_ns));
}

int simba__sqlite_store_note(simba__sqlite_db *db, const simba_request *request, const simba__row *row,
                             simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_STORE_NOTE];
    sqlite3_bind_text(statement, 1, request->mutex, -1, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 2, request->note_size ? request->note : "", (int)request->note_size, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, (int64_t)row->note_token);
    sqlite3_bind_int64(statement, 4, (int64_t)row->note_number);
    sqlite3_bind_int64(statement, 5, row->note_written_at_ms);
    return simba__sqlite_db_step(db, SIMBA__SQLITE_STORE_NOTE, err);
}

int simba__sqlite_forget(simba__sqlite_db *db, const char *mutex, uint64_t token, simba_error *err)
{
    int rc = simba__sqlite_run(db, err, RAISE_FLOOR, SIMBA__SQLITE_NUMBER(token));
    if (rc == 0)
        rc = simba__sqlite_run(db, err, DELETE_NOTE, SIMBA__SQLITE_TEXT(mutex));
    return rc < 0 ? rc : simba__sqlite_run(db, err, DELETE, SIMBA__SQLITE_TEXT(mutex));
}

int simba__sqlite_floor(simba__sqlite_db *db, uint64_t *ret_token, simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_FLOOR];
    int rc = simba__sqlite_db_step(db, SIMBA__SQLITE_FLOOR, err);
    *ret_token = 0;
    if (rc <= 0)
        return rc;
    const int64_t token = sqlite3_column_int64(statement, 0);
    rc = 0;
    if (sqlite3_column_type(statement, 0) != SQLITE_INTEGER || token < 0)
        rc = simba__sqlite_db_damaged(db, "", columns[C_NOTE_TOKEN].name, "is not a token", err);
    else
        *ret_token = (uint64_t)token;
    sqlite3_reset(statement);
    return rc;
}
