/* See db.h.
 *
 * Durability, chosen on purpose: synchronous=NORMAL. SQLite then does not force each commit in the write-ahead log to
 * the disk. The latest commits can be lost, but only if the power or the kernel fails, never with a process. Does that
 * break "at no instant do two contenders hold the mutex"? No: when the kernel goes, so do all processes of this host,
 * and only those use the file. Afterwards there is another boot id, and every lease of the old boot is void, whether
 * its row was kept or lost. Only the latest fencing token can be lost for good, and the next one is not below it,
 * because the wall clock in microseconds is its floor. A token can repeat only if the power fails and the clock comes
 * back earlier than it was; sync=full closes that gap, at some twenty times the price of a commit.
 *
 * The log survives a crash of any process because it is in the page cache, which the kernel keeps. */
#include "backends/sqlite/db.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/sqlite/file.h"
#include "backends/sqlite/schema.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/text.h"

#define COLUMNS                                                                                                        \
    "acquired_at, ttl_at, transition_at, owner_id, version, token, nonce, revoked_token, until_boot_ns, boot_id"

static const char *const sql[SIMBA__SQLITE_DB_STATEMENTS] = {
    [SIMBA__SQLITE_DB_BEGIN_READ] = "BEGIN",
    [SIMBA__SQLITE_DB_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [SIMBA__SQLITE_DB_COMMIT] = "COMMIT",
    [SIMBA__SQLITE_DB_ROLLBACK] = "ROLLBACK",
    [SIMBA__SQLITE_DB_LOAD] = "SELECT " COLUMNS " FROM simba_mutex WHERE mutex = ?11",
    [SIMBA__SQLITE_DB_INSERT] =
        "INSERT INTO simba_mutex (" COLUMNS ", mutex) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    [SIMBA__SQLITE_DB_UPDATE] =
        "UPDATE simba_mutex SET acquired_at = ?1, ttl_at = ?2, transition_at = ?3, owner_id = ?4, version = ?5, "
        "token = ?6, nonce = ?7, revoked_token = ?8, until_boot_ns = ?9, boot_id = ?10 WHERE mutex = ?11",
    [SIMBA__SQLITE_DB_DELETE] = "DELETE FROM simba_mutex WHERE mutex = ?1",
    [SIMBA__SQLITE_DB_LIST] = "SELECT " COLUMNS ", mutex, note, note_token, note_number, written_at "
                              "FROM simba_mutex LEFT JOIN simba_note USING (mutex) ORDER BY mutex",
    [SIMBA__SQLITE_DB_LOAD_NOTE] = "SELECT note, note_token, note_number, written_at FROM simba_note WHERE mutex = ?1",
    [SIMBA__SQLITE_DB_STORE_NOTE] =
        ("INSERT OR REPLACE INTO simba_note (mutex, note, note_token, note_number, written_at) "
         "VALUES (?1, ?2, ?3, ?4, ?5)"),
    [SIMBA__SQLITE_DB_DELETE_NOTE] = "DELETE FROM simba_note WHERE mutex = ?1",
};

/* Parameters, one more than the column of a result. */
enum { P_OWNER = 4, P_BOOT_ID = 10, P_MUTEX = 11 };
enum { C_MUTEX = 10, C_NOTE = 11 };

/* --- errors --------------------------------------------------------------------------------------- */

static int code_of(int rc)
{
    if (rc == SQLITE_READONLY_DBMOVED)
        return SIMBA_EUNAVAILABLE; /* the next transaction opens the file that is there now */
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: /* SQLite gave up on the locks of the wal-index, which another process had all the time */
        return SIMBA_ETIMEDOUT;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return SIMBA_EUNAVAILABLE;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return SIMBA_EPERM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return SIMBA_ECORRUPT;
    case SQLITE_NOMEM:
        return SIMBA_ENOMEM;
    default:
        return SIMBA_ESTORE;
    }
}

/* Does the error concern only this statement, so that the transaction around it can go on? */
static bool is_local(int rc)
{
    const int primary = rc & 0xff;
    return primary == SQLITE_CONSTRAINT || primary == SQLITE_MISMATCH || primary == SQLITE_TOOBIG ||
           primary == SQLITE_ERROR;
}

static bool breaks_connection(int rc)
{
    const int primary = rc & 0xff;
    return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_IOERR ||
           primary == SQLITE_CANTOPEN || primary == SQLITE_READONLY;
}

int simba__sqlite_db_fail(simba__sqlite_db *db, int rc, simba_error *err)
{
    const int code = code_of(rc);
    db->row_failed = is_local(rc) && db->handle && !sqlite3_get_autocommit(db->handle);
    db->broken |= breaks_connection(rc);
    if (code == SIMBA_ETIMEDOUT)
        return simba__fail(err, code, "sqlite: %s: locked by another process", db->path);
    char reason[128];
    const int number = db->handle ? sqlite3_system_errno(db->handle) : 0;
    if (code == SIMBA_EUNAVAILABLE && number != 0)
        return simba__fail(err, code, "sqlite: %s: %s (%s)", db->path, sqlite3_errmsg(db->handle),
                           strerror_r(number, reason, sizeof reason));
    return simba__fail(err, code, "sqlite: %s: %s", db->path,
                       db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc));
}

/* --- opening -------------------------------------------------------------------------------------- */

static int read_boot_id(char out[40], simba_error *err)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : read(fd, out, 39);
    if (fd >= 0)
        close(fd);
    if (length < 36)
        return simba__fail(err, SIMBA_ESYSTEM, "sqlite: cannot read %s, and without it leases would survive a reboot",
                           path);
    out[36] = '\0'; /* without the newline */
    return 0;
}

int simba__sqlite_db_init(simba__sqlite_db *db, simba_host *host, const char *path, bool sync_full, simba_error *err)
{
    simba__sqlite_patience_init(&db->patience, host);
    db->sync_full = sync_full;
    db->path = simba__strdup(path);
    return db->path ? read_boot_id(db->boot_id, err) : simba__fail(err, SIMBA_ENOMEM, "sqlite: out of memory");
}

static void close_handle(simba__sqlite_db *db)
{
    for (size_t i = 0; i < SIMBA__SQLITE_DB_STATEMENTS; i++) {
        sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    sqlite3_close(db->handle);
    db->handle = NULL;
    db->broken = false;
}

const char *simba__sqlite_db_real_path(const simba__sqlite_db *db)
{
    return sqlite3_db_filename(db->handle, "main");
}

/* SQLite moves the log into the database when the last connection closes. That is a change. We must not make it if we
 * do not know whose database it is, or if it is no longer the one at this path. */
static void leave_log_alone(simba__sqlite_db *db, bool alone)
{
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, (int)alone, NULL);
}

static int64_t log_size(const simba__sqlite_db *db)
{
    char path[PATH_MAX];
    struct stat status;
    snprintf(path, sizeof path, "%s-wal", simba__sqlite_db_real_path(db));
    return stat(path, &status) == 0 ? status.st_size : 0;
}

/* From this size on, reading the log each time takes longer than moving it into the database once in a while. */
enum { LONG_LOG = 64 * 1024 };

static int on_busy(void *user, int attempt)
{
    return simba__sqlite_patience_wait(user, attempt);
}

/* Move the log into the database as far as nobody uses it, without waiting for others. */
static void move_log(simba__sqlite_db *db, int how)
{
    sqlite3_busy_handler(db->handle, NULL, NULL);
    sqlite3_wal_checkpoint_v2(db->handle, "main", how, NULL, NULL);
    sqlite3_busy_handler(db->handle, on_busy, &db->patience);
}

/* Also true if that is not known, or would take long to find out. */
static bool is_any_owned(simba__sqlite_db *db)
{
    enum { MANY = 1000 };
    int rc = sqlite3_step(db->statements[SIMBA__SQLITE_DB_LIST]);
    for (int rows = 0; rc == SQLITE_ROW && rows < MANY; rows++) {
        if (sqlite3_column_bytes(db->statements[SIMBA__SQLITE_DB_LIST], P_OWNER - 1) > 0)
            break;
        rc = sqlite3_step(db->statements[SIMBA__SQLITE_DB_LIST]);
    }
    sqlite3_reset(db->statements[SIMBA__SQLITE_DB_LIST]);
    return rc != SQLITE_DONE;
}

/* Moving the log into the database waits for the disk several times, and the next process begins a new log, which waits
 * again. So a short log stays: reading it takes less time. But not while somebody owns a mutex: people move and copy a
 * database without its log, and the grant would be in the log. */
static void close_for_good(simba__sqlite_db *db)
{
    leave_log_alone(db, log_size(db) < LONG_LOG && !is_any_owned(db));
    close_handle(db);
}

void simba__sqlite_db_fini(simba__sqlite_db *db)
{
    if (db->handle)
        close_for_good(db);
    simba__free(db->path);
    db->path = NULL;
}

static int set_wal(simba__sqlite_db *db, simba_error *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA journal_mode = WAL", -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    const char *mode = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    const bool set = mode && strcmp(mode, "wal") == 0;
    const int code = set ? 0
                     : rc == SQLITE_ROW
                         ? simba__fail(err, SIMBA_ESTORE, "sqlite: %s: cannot keep a write-ahead log", db->path)
                         : simba__sqlite_db_fail(db, rc, err);
    sqlite3_finalize(statement);
    return code;
}

static int prepare_statements(simba__sqlite_db *db, simba_error *err)
{
    for (size_t i = 0; i < SIMBA__SQLITE_DB_STATEMENTS; i++) {
        const int rc = sqlite3_prepare_v3(db->handle, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &db->statements[i], NULL);
        if (rc == SQLITE_ERROR) /* no such table, no such column */
            return simba__fail(err, SIMBA_ECORRUPT, "sqlite: %s: %s", db->path, sqlite3_errmsg(db->handle));
        if (rc != SQLITE_OK)
            return simba__sqlite_db_fail(db, rc, err);
    }
    /* This value stays bound: every row that we write has it. */
    sqlite3_bind_text(db->statements[SIMBA__SQLITE_DB_INSERT], P_BOOT_ID, db->boot_id, 36, SQLITE_STATIC);
    sqlite3_bind_text(db->statements[SIMBA__SQLITE_DB_UPDATE], P_BOOT_ID, db->boot_id, 36, SQLITE_STATIC);
    return 0;
}

/* SQLite takes the rest of a truncated page for zeroes. */
static int check_whole(simba__sqlite_db *db, simba_error *err)
{
    sqlite3_stmt *statement = NULL;
    struct stat status;
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA page_size", -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    const int64_t page = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    if (rc != SQLITE_ROW)
        return simba__sqlite_db_fail(db, rc, err);
    if (stat(simba__sqlite_db_real_path(db), &status) != 0 || page <= 0 || status.st_size % page == 0)
        return 0;
    return simba__fail(err, SIMBA_ECORRUPT, "sqlite: %s: its last page is cut off", db->path);
}

/* Read a row, if there is one: it is better to find damage that the header does not show now than at the first lock. */
static int try_table(simba__sqlite_db *db, simba_error *err)
{
    const int rc = sqlite3_step(db->statements[SIMBA__SQLITE_DB_LIST]);
    const int code = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : simba__sqlite_db_fail(db, rc, err);
    sqlite3_reset(db->statements[SIMBA__SQLITE_DB_LIST]);
    return code;
}

static int refuse(const simba__sqlite_db *db, simba__sqlite_schema schema, simba_error *err)
{
    if (schema == SIMBA__SQLITE_SCHEMA_FOREIGN)
        return simba__fail(err, SIMBA_ECORRUPT,
                           "sqlite: %s is a database of another program; give simba a file of its own", db->path);
    if (schema == SIMBA__SQLITE_SCHEMA_NEWER)
        return simba__fail(err, SIMBA_ESTORE, "sqlite: %s was made by a newer version of simba", db->path);
    return 0;
}

/* Write nothing before it is clear whose database it is. */
static int identify(simba__sqlite_db *db, simba_error *err)
{
    simba__sqlite_schema schema = SIMBA__SQLITE_SCHEMA_FOREIGN;
    int rc = simba__sqlite_schema_look(db->handle, &schema);
    int code = rc == SQLITE_OK ? refuse(db, schema, err) : simba__sqlite_db_fail(db, rc, err);
    /* An empty database has no page size yet: by now another process may have made pages of another size than the
     * usual. */
    if (code == 0 && schema != SIMBA__SQLITE_SCHEMA_EMPTY)
        code = check_whole(db, err);
    /* A commit copies and sums up whole pages, and a row has some 150 bytes. A lock and unlock takes 0.87 of the time that it
     * takes with SQLite's usual pages of 4,096 bytes. Renewing 300,000 mutexes takes a tenth longer than with pages of 2,048. In
     * still smaller pages an ordinary row would spill over into a second page. */
    if (code == 0 && schema == SIMBA__SQLITE_SCHEMA_EMPTY)
        sqlite3_exec(db->handle, "PRAGMA page_size = 1024", NULL, NULL, NULL);
    if (code == 0)
        code = set_wal(db, err);
    if (code < 0 || schema == SIMBA__SQLITE_SCHEMA_OURS)
        return code;
    rc = simba__sqlite_schema_create(db->handle, &schema);
    return rc == SQLITE_OK ? refuse(db, schema, err) : simba__sqlite_db_fail(db, rc, err);
}

static int open_handle(simba__sqlite_db *db, simba_error *err)
{
    int rc = sqlite3_open_v2(db->path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        return simba__sqlite_db_fail(db, rc, err);
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_handler(db->handle, on_busy, &db->patience);
    leave_log_alone(db, log_size(db) > 0);
    if (sqlite3_db_readonly(db->handle, "main"))
        return simba__fail(err, SIMBA_EPERM, "sqlite: %s can only be read", db->path);
    int code = identify(db, err);
    if (code < 0)
        return code;
    leave_log_alone(db, false);
    rc = sqlite3_exec(db->handle, db->sync_full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", NULL,
                      NULL, NULL);
    if (rc != SQLITE_OK)
        return simba__sqlite_db_fail(db, rc, err);
    if (log_size(db) >= LONG_LOG)
        move_log(db, SQLITE_CHECKPOINT_TRUNCATE); /* the last process may have been killed, and so may the next */
    code = prepare_statements(db, err);
    return code < 0 ? code : try_table(db, err);
}

/* Remember which log and wal-index this connection uses, so that they can be told from others of the same name. */
static void remember_sides(simba__sqlite_db *db)
{
    simba__sqlite_file_identify(simba__sqlite_db_real_path(db), "-wal", &db->sides[0]);
    simba__sqlite_file_identify(simba__sqlite_db_real_path(db), "-shm", &db->sides[1]);
}

/* A process that opens a file while others create it, or delete it, meets all kinds of half-way states. */
static int open_patiently(simba__sqlite_db *db, simba_error *err)
{
    for (int attempt = 0;; attempt++) {
        int code = simba__sqlite_file_prepare(db->path, &db->patience, err);
        if (code < 0)
            return code;
        code = open_handle(db, err);
        if (code == 0) {
            remember_sides(db);
            return 0;
        }
        close_handle(db);
        const bool deleted = code == SIMBA_EUNAVAILABLE && access(db->path, F_OK) != 0;
        /* SQLite does not ask the busy handler everywhere, for example not in the change to a write-ahead log. */
        if ((code != SIMBA_ETIMEDOUT && !deleted) || !simba__sqlite_patience_wait(&db->patience, attempt))
            return code;
    }
}

static bool has_moved(simba__sqlite_db *db)
{
    int moved = 0;
    sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved); /* this costs one stat() */
    return moved;
}

/* The database was moved away or deleted. If it was moved, then without its log: move as much of the log into it as we
 * still can. */
static int part_with_moved(simba__sqlite_db *db, simba_error *err)
{
    move_log(db, SQLITE_CHECKPOINT_PASSIVE);
    return simba__sqlite_file_discard(simba__sqlite_db_real_path(db), db->sides, 2, &db->patience, err);
}

int simba__sqlite_db_refresh(simba__sqlite_db *db, bool *ret_opened, simba_error *err)
{
    *ret_opened = false;
    const bool moved = db->handle && has_moved(db);
    if (db->handle && !db->broken && !moved)
        return 0;
    int code = moved ? part_with_moved(db, err) : 0;
    if (code < 0)
        return code;
    if (db->handle) {
        leave_log_alone(db, true);
        close_handle(db);
    }
    code = open_patiently(db, err);
    *ret_opened = code == 0;
    return code;
}

/* --- transactions --------------------------------------------------------------------------------- */

int simba__sqlite_db_run(simba__sqlite_db *db, simba__sqlite_db_statement which, simba_error *err)
{
    sqlite3_stmt *statement = db->statements[which];
    const int rc = sqlite3_step(statement);
    if (rc == SQLITE_DONE) {
        sqlite3_reset(statement);
        return 0;
    }
    const int code = simba__sqlite_db_fail(db, rc, err);
    sqlite3_reset(statement);
    return code;
}

int simba__sqlite_db_begin(simba__sqlite_db *db, bool writes, simba_error *err)
{
    return simba__sqlite_db_run(db, writes ? SIMBA__SQLITE_DB_BEGIN_WRITE : SIMBA__SQLITE_DB_BEGIN_READ, err);
}

int simba__sqlite_db_commit(simba__sqlite_db *db, simba_error *err)
{
    return simba__sqlite_db_run(db, SIMBA__SQLITE_DB_COMMIT, err);
}

void simba__sqlite_db_rollback(simba__sqlite_db *db)
{
    /* Some errors have rolled back by themselves. */
    if (db->handle && !sqlite3_get_autocommit(db->handle) &&
        simba__sqlite_db_run(db, SIMBA__SQLITE_DB_ROLLBACK, NULL) < 0)
        db->broken = true;
}

/* --- rows ----------------------------------------------------------------------------------------- */

/* In the order of COLUMNS. */
static const char *const columns[] = {"acquired_at", "ttl_at", "transition_at", "owner_id",      "version",
                                      "token",       "nonce",  "revoked_token", "until_boot_ns", "boot_id"};
enum { C_ACQUIRED_AT, C_TTL_AT, C_TRANSITION_AT, C_OWNER, C_VERSION, C_TOKEN, C_NONCE, C_REVOKED, C_UNTIL, C_BOOT_ID };

int simba__sqlite_db_damaged(simba__sqlite_db *db, const char *mutex, const char *column, const char *what,
                             simba_error *err)
{
    db->row_failed = true;
    return simba__fail(err, SIMBA_ECORRUPT, "sqlite: %s: mutex %.*s: %s %s", db->path, simba__text_cut(mutex, 66),
                       mutex, column, what);
}

/* SQLite keeps anything in any column. It reads a text that is no number as 0, which would be a lease that has
 * ended. */
static int check_types(simba__sqlite_db *db, sqlite3_stmt *statement, const char *mutex, simba_error *err)
{
    for (int i = 0; i <= C_BOOT_ID; i++) {
        const bool is_text = i == C_OWNER || i == C_BOOT_ID;
        if (sqlite3_column_type(statement, i) != (is_text ? SQLITE_TEXT : SQLITE_INTEGER))
            return simba__sqlite_db_damaged(db, mutex, columns[i], is_text ? "is not a text" : "is not a number", err);
        if ((i == C_TOKEN || i == C_REVOKED) && sqlite3_column_int64(statement, i) < 0)
            return simba__sqlite_db_damaged(db, mutex, columns[i], "is negative", err);
    }
    return 0;
}

static int copy_id(simba__sqlite_db *db, sqlite3_stmt *statement, const char *mutex, simba_owner *owner,
                   simba_error *err)
{
    const unsigned char *id = sqlite3_column_text(statement, C_OWNER);
    const size_t length = (size_t)sqlite3_column_bytes(statement, C_OWNER);
    if (!id)
        return simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    if (length > SIMBA_ID_MAX)
        return simba__sqlite_db_damaged(db, mutex, columns[C_OWNER], "is too long", err);
    if (strlen((const char *)id) != length)
        return simba__sqlite_db_damaged(db, mutex, columns[C_OWNER], "has a zero byte in it", err);
    memcpy(owner->id, id, length + 1);
    return 0;
}

static int decode(simba__sqlite_db *db, sqlite3_stmt *statement, const char *mutex, simba__row *ret_row,
                  simba_error *err)
{
    int code = check_types(db, statement, mutex, err);
    if (code < 0)
        return code;
    simba__row row = {
        .version = (uint64_t)sqlite3_column_int64(statement, C_VERSION),
        .token = (uint64_t)sqlite3_column_int64(statement, C_TOKEN),
        .revoked_token = (uint64_t)sqlite3_column_int64(statement, C_REVOKED),
    };
    const unsigned char *boot_id = sqlite3_column_text(statement, C_BOOT_ID);
    if (!boot_id) /* the column is a text, so there was no memory to read it; and an unread lease is not a free one */
        return simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
    if (strcmp((const char *)boot_id, db->boot_id) == 0) {
        code = copy_id(db, statement, mutex, &row.owner, err);
        if (code < 0)
            return code;
        row.owner.acquired_at_ms = sqlite3_column_int64(statement, C_ACQUIRED_AT);
        row.owner.ttl_at_ms = sqlite3_column_int64(statement, C_TTL_AT);
        row.owner.transition_at_ms = sqlite3_column_int64(statement, C_TRANSITION_AT);
        row.owner.token = row.owner.id[0] ? row.token : 0;
        row.nonce = (uint64_t)sqlite3_column_int64(statement, C_NONCE);
        row.until_ns = sqlite3_column_int64(statement, C_UNTIL);
    }
    *ret_row = row;
    return 0;
}

static int check_number(simba__sqlite_db *db, sqlite3_stmt *statement, int column, const char *mutex, const char *name,
                        simba_error *err)
{
    if (sqlite3_column_type(statement, column) != SQLITE_INTEGER)
        return simba__sqlite_db_damaged(db, mutex, name, "is not a number", err);
    return sqlite3_column_int64(statement, column) < 0 ? simba__sqlite_db_damaged(db, mutex, name, "is negative", err)
                                                       : 0;
}

int simba__sqlite_db_decode_note(simba__sqlite_db *db, sqlite3_stmt *statement, int column, const char *mutex,
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
        const int rc = check_number(db, statement, column + i, mutex, names[i], err);
        if (rc < 0)
            return rc;
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

int simba__sqlite_db_load(simba__sqlite_db *db, const char *mutex, simba__row *ret_row, bool *ret_exists,
                          simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_DB_LOAD];
    sqlite3_bind_text(statement, P_MUTEX, mutex, -1, SQLITE_STATIC);
    const int rc = sqlite3_step(statement);
    int code = 0;
    if (rc == SQLITE_ROW)
        code = decode(db, statement, mutex, ret_row, err);
    else if (rc == SQLITE_DONE)
        memset(ret_row, 0, sizeof *ret_row);
    else
        code = simba__sqlite_db_fail(db, rc, err);
    *ret_exists = rc == SQLITE_ROW;
    sqlite3_reset(statement);
    return code;
}

int simba__sqlite_db_store(simba__sqlite_db *db, const char *mutex, const simba__row *row, bool exists,
                           simba_error *err)
{
    const simba__sqlite_db_statement which = exists ? SIMBA__SQLITE_DB_UPDATE : SIMBA__SQLITE_DB_INSERT;
    sqlite3_stmt *statement = db->statements[which];
    sqlite3_bind_int64(statement, 1, row->owner.acquired_at_ms);
    sqlite3_bind_int64(statement, 2, row->owner.ttl_at_ms);
    sqlite3_bind_int64(statement, 3, row->owner.transition_at_ms);
    sqlite3_bind_text(statement, P_OWNER, row->owner.id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 5, (int64_t)row->version);
    sqlite3_bind_int64(statement, 6, (int64_t)row->token);
    sqlite3_bind_int64(statement, 7, (int64_t)row->nonce);
    sqlite3_bind_int64(statement, 8, (int64_t)row->revoked_token);
    sqlite3_bind_int64(statement, 9, row->until_ns);
    sqlite3_bind_text(statement, P_MUTEX, mutex, -1, SQLITE_STATIC);
    return simba__sqlite_db_run(db, which, err);
}

/* False for a name that no client can ask for, and for NULL: then there was no memory to read it. */
static bool is_name(sqlite3_stmt *statement, const char *mutex)
{
    const size_t length = (size_t)sqlite3_column_bytes(statement, C_MUTEX);
    return sqlite3_column_type(statement, C_MUTEX) == SQLITE_TEXT && length <= SIMBA_MUTEX_BYTES &&
           strlen(mutex) == length;
}

int simba__sqlite_db_list(simba__sqlite_db *db, const char *pattern, simba__sqlite_db_each each, void *user,
                          simba_error *err)
{
    sqlite3_stmt *statement = db->statements[SIMBA__SQLITE_DB_LIST];
    int code = 0;
    int rc = sqlite3_step(statement);
    for (; rc == SQLITE_ROW && code == 0; rc = sqlite3_step(statement)) {
        const bool is_text = sqlite3_column_type(statement, C_MUTEX) == SQLITE_TEXT;
        const char *mutex = (const char *)sqlite3_column_text(statement, C_MUTEX);
        simba__row row;
        simba_stored_note note = {0};
        if (!mutex && is_text) {
            code = simba__sqlite_db_fail(db, SQLITE_NOMEM, err);
            continue;
        }
        if (mutex && pattern && fnmatch(pattern, mutex, 0) != 0)
            continue;
        if (!mutex || !is_text || !is_name(statement, mutex))
            code = simba__sqlite_db_damaged(db, mutex ? mutex : "", "its name", "is none", err);
        else
            code = decode(db, statement, mutex, &row, err);
        if (code == 0)
            code = simba__sqlite_db_decode_note(db, statement, C_NOTE, mutex, &note, &row.note_number, err);
        if (code == 0 || code == SIMBA_ECORRUPT) {
            code = each(user, mutex ? mutex : "", code == 0 ? &row : NULL, &note, err);
            db->row_failed = code < 0;
        }
    }
    if (code == 0 && rc != SQLITE_DONE)
        code = simba__sqlite_db_fail(db, rc, err);
    sqlite3_reset(statement);
    return code;
}
