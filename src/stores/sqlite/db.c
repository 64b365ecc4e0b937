/* The database: one connection, its tables and their versions, transactions.
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
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "stores/sqlite/store.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/random.h"
#include "util/text.h"

static const char *const statements[] = {
#define TEXT_OF(name, sql) [SIMBA__SQLITE_##name] = (sql),
    SIMBA__SQLITE_STATEMENTS(TEXT_OF)
#undef TEXT_OF
};

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

int simba__sqlite_db_damaged(simba__sqlite_db *db, const char *mutex, const char *column, const char *what,
                             simba_error *err)
{
    db->row_failed = true;
    return simba__fail(err, SIMBA_ECORRUPT, "sqlite: %s: mutex %.*s: %s %s", db->path, simba__text_cut(mutex, 66),
                       mutex, column, what);
}

/* --- what is stored ------------------------------------------------------------------------------- */

#define APPLICATION_ID 1399418210 /* 0x53696d62, "Simb" */
#define VERSION 2
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* In simba_lock the columns up to `version` are for people, and are those of the MySQL store: epoch milliseconds, '' for
 * nobody. until_boot_ns judges leases, on the boot-time clock of boot_id. `nonce` is 64 bits, as a signed number. Notes have a
 * table of their own, because a renewal writes the other one; its row '' keeps the greatest forgotten token. */
static const char lock_sql[] =
    "CREATE TABLE simba_lock ("
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
    "boot_id TEXT NOT NULL DEFAULT '',"
    "socket TEXT NOT NULL DEFAULT '',"       /* of the owner's client, for a revocation */
    "next_nonce INTEGER NOT NULL DEFAULT 0," /* the waiter that was called last */
    "next_until_boot_ns INTEGER NOT NULL DEFAULT 0"
    ") WITHOUT ROWID;"
    "CREATE TABLE simba_waiter ("
    "nonce INTEGER PRIMARY KEY," /* of the contender; an observer draws one */
    "mutex TEXT NOT NULL,"
    "what TEXT NOT NULL,"     /* 'o' observes, 'r' was revoked, 'w' waits */
    "since INTEGER NOT NULL," /* its place in the queue, in time */
    "id TEXT NOT NULL,"
    "socket TEXT NOT NULL,"     /* of its client */
    "until INTEGER NOT NULL,"   /* from then on it is an orphan, in ns on the boot-time clock */
    "called INTEGER NOT NULL);" /* when there was last something to hear, on that clock; 0: never */
    "CREATE INDEX simba_line ON simba_waiter (mutex, what, since);"
    "CREATE INDEX simba_news ON simba_waiter (socket, called);";

static const char note_sql[] = "CREATE TABLE IF NOT EXISTS simba_note ("
                               "mutex TEXT NOT NULL PRIMARY KEY,"
                               "note BLOB NOT NULL,"
                               "note_token INTEGER NOT NULL,"
                               "note_number INTEGER NOT NULL,"
                               "written_at INTEGER NOT NULL"
                               ") WITHOUT ROWID;";

static const char stamp_sql[] =
    "PRAGMA application_id = " TEXT(APPLICATION_ID) "; PRAGMA user_version = " TEXT(VERSION) ";";

typedef enum schema { OURS, EMPTY, OLDER, FOREIGN, NEWER } schema;

/* Only reads, by one statement, so that it sees one snapshot. Returns an SQLite result code. */
static int look(sqlite3 *handle, schema *ret_schema)
{
    static const char sql[] = "SELECT (SELECT application_id FROM pragma_application_id),"
                              "(SELECT user_version FROM pragma_user_version),"
                              "(SELECT count(*) FROM sqlite_master)";
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(handle, sql, sizeof sql, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        const int application = sqlite3_column_int(statement, 0);
        const int version = sqlite3_column_int(statement, 1);
        const bool ours = application == APPLICATION_ID;
        const bool empty = application == 0 && version == 0 && sqlite3_column_int(statement, 2) == 0;
        *ret_schema = !ours ? (empty ? EMPTY : FOREIGN) : version > VERSION ? NEWER : version < VERSION ? OLDER : OURS;
        rc = SQLITE_OK;
    }
    sqlite3_finalize(statement);
    return rc;
}

/* Another process may do the same: *ret_schema is the final state. Returns an SQLite result code. */
static int create(sqlite3 *handle, schema *ret_schema)
{
    int rc = sqlite3_exec(handle, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return rc;
    rc = look(handle, ret_schema);
    if (rc == SQLITE_OK && *ret_schema == EMPTY) {
        rc = sqlite3_exec(handle, lock_sql, NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(handle, note_sql, NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(handle, stamp_sql, NULL, NULL, NULL);
        *ret_schema = OURS;
    }
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(handle, "COMMIT", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL);
    return rc;
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
    simba__sqlite_busy_init(&db->busy, host);
    db->sync_full = sync_full;
    db->path = simba__strdup(path);
    return db->path ? read_boot_id(db->boot_id, err) : simba__fail(err, SIMBA_ENOMEM, "sqlite: out of memory");
}

const char *simba__sqlite_db_real_path(const simba__sqlite_db *db)
{
    return db->handle ? sqlite3_db_filename(db->handle, "main") : NULL;
}

static void close_handle(simba__sqlite_db *db)
{
    for (size_t i = 0; i < SIMBA__SQLITE_STATEMENT_COUNT; i++) {
        sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    sqlite3_close(db->handle);
    db->handle = NULL;
    db->broken = db->outdated = false;
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

/* Moving the log into the database waits for the disk, and so does the next process when it begins a new one: that is half of the
 * time of `simba run -- true`. So a short log stays: reading it takes less time. But not while somebody owns a mutex: people move
 * and copy a database without its log, and the grant would be in the log. */
void simba__sqlite_db_fini(simba__sqlite_db *db)
{
    enum { SHORT_LOG = 64 * 1024 };
    if (simba__sqlite_db_is_sound(db) && log_size(db) < SHORT_LOG) {
        leave_log_alone(db, sqlite3_step(db->statements[SIMBA__SQLITE_OWNED]) == SQLITE_DONE);
        sqlite3_reset(db->statements[SIMBA__SQLITE_OWNED]);
    }
    close_handle(db);
    simba__free(db->path);
    db->path = NULL;
}

static int on_busy(void *user, int attempt)
{
    return simba__sqlite_busy_wait(user, attempt);
}

/* What a PRAGMA answers. */
static int ask_pragma(simba__sqlite_db *db, const char *sql, char *ret_text, size_t size, simba_error *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    const unsigned char *text = rc == SQLITE_ROW ? sqlite3_column_text(statement, 0) : NULL;
    snprintf(ret_text, size, "%s", text ? (const char *)text : "");
    const int code = rc == SQLITE_ROW ? 0 : simba__sqlite_db_fail(db, rc, err);
    sqlite3_finalize(statement);
    return code;
}

/* SQLite takes the rest of a truncated page for zeroes. */
static int check_whole(simba__sqlite_db *db, simba_error *err)
{
    char size[24];
    struct stat status;
    const int code = ask_pragma(db, "PRAGMA page_size", size, sizeof size, err);
    const long page = code < 0 ? 0 : strtol(size, NULL, 10);
    if (code < 0)
        return code;
    if (stat(simba__sqlite_db_real_path(db), &status) != 0 || page <= 0 || status.st_size % page == 0)
        return 0;
    return simba__fail(err, SIMBA_ECORRUPT, "sqlite: %s: its last page is cut off", db->path);
}

static int refuse(const simba__sqlite_db *db, schema found, simba_error *err)
{
    if (found == FOREIGN)
        return simba__fail(err, SIMBA_ECORRUPT,
                           "sqlite: %s is a database of another program; give simba a file of its own", db->path);
    if (found == NEWER)
        return simba__fail(err, SIMBA_ESTORE, "sqlite: %s was made by a newer version of simba", db->path);
    return 0;
}

/* Write nothing before it is clear whose database it is. */
static int identify(simba__sqlite_db *db, simba_error *err)
{
    schema found = FOREIGN;
    char mode[16];
    int rc = look(db->handle, &found);
    int code = rc == SQLITE_OK ? refuse(db, found, err) : simba__sqlite_db_fail(db, rc, err);
    /* An empty database has no page size yet: by now another process may have made pages of another size than the
     * usual. */
    if (code == 0 && found != EMPTY)
        code = check_whole(db, err);
    db->outdated = code == 0 && found == OLDER;
    if (code < 0 || db->outdated)
        return code;
    /* A commit copies and sums up whole pages, and a row has some 150 bytes. A lock and unlock takes 0.87 of the time that it
     * takes with SQLite's usual pages of 4,096 bytes. Renewing 300,000 mutexes takes a tenth longer than with pages of 2,048. In
     * still smaller pages an ordinary row would spill over into a second page. */
    if (found == EMPTY)
        sqlite3_exec(db->handle, "PRAGMA page_size = 1024", NULL, NULL, NULL);
    code = ask_pragma(db, "PRAGMA journal_mode = WAL", mode, sizeof mode, err);
    if (code == 0 && strcmp(mode, "wal") != 0)
        code = simba__fail(err, SIMBA_ESTORE, "sqlite: %s: cannot keep a write-ahead log", db->path);
    if (code < 0 || found == OURS)
        return code;
    rc = create(db->handle, &found);
    db->outdated = rc == SQLITE_OK && found == OLDER; /* the version before was faster */
    return rc == SQLITE_OK ? refuse(db, found, err) : simba__sqlite_db_fail(db, rc, err);
}

/* Also reads a row, if there is one: it is better to find damage that the header does not show now than at the first lock. */
static int prepare_statements(simba__sqlite_db *db, simba_error *err)
{
    for (size_t i = 0; i < SIMBA__SQLITE_STATEMENT_COUNT; i++) {
        const int rc =
            sqlite3_prepare_v3(db->handle, statements[i], -1, SQLITE_PREPARE_PERSISTENT, &db->statements[i], NULL);
        if (rc == SQLITE_ERROR) /* no such table, no such column */
            return simba__fail(err, SIMBA_ECORRUPT, "sqlite: %s: %s", db->path, sqlite3_errmsg(db->handle));
        if (rc != SQLITE_OK)
            return simba__sqlite_db_fail(db, rc, err);
    }
    const int rc = sqlite3_step(db->statements[SIMBA__SQLITE_LIST]);
    const int code = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : simba__sqlite_db_fail(db, rc, err);
    sqlite3_reset(db->statements[SIMBA__SQLITE_LIST]);
    return code;
}

static int open_handle(simba__sqlite_db *db, simba_error *err)
{
    int rc = sqlite3_open_v2(db->path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        return simba__sqlite_db_fail(db, rc, err);
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_handler(db->handle, on_busy, &db->busy);
    leave_log_alone(db, log_size(db) > 0);
    if (sqlite3_db_readonly(db->handle, "main"))
        return simba__fail(err, SIMBA_EPERM, "sqlite: %s can only be read", db->path);
    int code = identify(db, err);
    if (code < 0 || db->outdated)
        return code;
    leave_log_alone(db, false);
    rc = sqlite3_exec(db->handle, db->sync_full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", NULL,
                      NULL, NULL);
    return rc == SQLITE_OK ? prepare_statements(db, err) : simba__sqlite_db_fail(db, rc, err);
}

/* A process that opens a file while others create it, or delete it, meets all kinds of half-way states. */
static int open_patiently(simba__sqlite_db *db, simba_error *err)
{
    for (int attempt = 0;; attempt++) {
        int code = simba__sqlite_file_prepare(db->path, &db->share, &db->busy, err);
        if (code < 0)
            return code;
        code = open_handle(db, err);
        if (code == 0) {
            /* Remember which log and wal-index it uses, so that they can be told from others of the same name. */
            simba__sqlite_file_identify(simba__sqlite_db_real_path(db), "-wal", &db->sides[0]);
            simba__sqlite_file_identify(simba__sqlite_db_real_path(db), "-shm", &db->sides[1]);
            return 0;
        }
        close_handle(db);
        const bool deleted = code == SIMBA_EUNAVAILABLE && access(db->path, F_OK) != 0;
        /* SQLite does not ask the busy handler everywhere, for example not in the change to a write-ahead log. */
        if ((code != SIMBA_ETIMEDOUT && !deleted) || !simba__sqlite_busy_wait(&db->busy, attempt))
            return code;
    }
}

int simba__sqlite_db_refresh(simba__sqlite_db *db, bool *ret_opened, simba_error *err)
{
    int moved = 0;
    *ret_opened = false;
    if (db->handle) /* this costs one stat() */
        sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (simba__sqlite_db_is_sound(db) && !moved)
        return 0;
    if (moved) {
        /* If it was moved, then without its log: move as much of the log into it as we still can. */
        sqlite3_busy_handler(db->handle, NULL, NULL);
        sqlite3_wal_checkpoint_v2(db->handle, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        const int code = simba__sqlite_file_discard(simba__sqlite_db_real_path(db), db->sides, 2, &db->busy, err);
        if (code < 0)
            return code;
    }
    /* Whoever waits for `simba init` has nothing to be told. */
    const bool waited = db->outdated && !moved;
    if (db->handle) {
        leave_log_alone(db, true);
        close_handle(db);
    }
    const int code = open_patiently(db, err);
    *ret_opened = code == 0 && !waited;
    return code;
}

/* --- the version before ---------------------------------------------------------------------------- */

int simba__sqlite_db_check_version(const simba__sqlite_db *db, simba_error *err)
{
    return db->outdated
               ? simba__fail(err, SIMBA_ESTORE,
                             "sqlite: %s was made by an older version of simba: run `simba init` with the same URL",
                             db->path)
               : 0;
}

/* A holder that still renews its lease by the old table would lose it, and another could be granted the mutex before it has
 * noticed. */
static int refuse_if_held(simba__sqlite_db *db, int64_t now_ns, simba_error *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db->handle,
                                "SELECT mutex, owner_id, until_boot_ns FROM simba_mutex WHERE owner_id <> '' "
                                "AND boot_id = ?1 AND until_boot_ns > ?2 ORDER BY until_boot_ns DESC",
                                -1, &statement, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, db->boot_id, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2, now_ns);
        rc = sqlite3_step(statement);
    }
    int code = 0;
    if (rc == SQLITE_ROW)
        code = simba__fail(
            err, SIMBA_ESTATE,
            "sqlite: %s: %s holds %s for another %lld s; end all programs that use this database, and run "
            "`simba init` again",
            db->path, (const char *)sqlite3_column_text(statement, 1), (const char *)sqlite3_column_text(statement, 0),
            (long long)((sqlite3_column_int64(statement, 2) - now_ns) / (1000 * SIMBA__NS_PER_MS) + 1));
    else if (rc != SQLITE_DONE)
        code = simba__sqlite_db_fail(db, rc, err);
    sqlite3_finalize(statement);
    return code;
}

/* What the version before kept beside the database: a file, and a folder of FIFOs. */
static void remove_bells(const char *database)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s-notify", database);
    unlink(path);
    snprintf(path, sizeof path, "%s-bells", database);
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        unlinkat(dirfd(entries), entry->d_name, 0);
    if (entries)
        closedir(entries);
    rmdir(path);
}

/* The old table goes: a program of the version before that still runs is told "no such table", and one that starts sees a newer
 * version. */
int simba__sqlite_db_upgrade(simba__sqlite_db *db, int64_t now_ns, simba_error *err)
{
    static const char copy_sql[] =
        "INSERT INTO simba_lock SELECT mutex, 0, 0, 0, '', version, token, 0, revoked_token, 0, '', '', 0, 0 "
        "FROM simba_mutex; DROP TABLE simba_mutex;";
    const char *const steps[] = {lock_sql, note_sql, copy_sql, stamp_sql, "COMMIT"};
    schema found = OLDER;
    bool opened;
    int rc = sqlite3_exec(db->handle, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return simba__sqlite_db_fail(db, rc, err);
    rc = look(db->handle, &found);
    int code = rc == SQLITE_OK ? 0 : simba__sqlite_db_fail(db, rc, err);
    if (code == 0 && found == OLDER)
        code = refuse_if_held(db, now_ns, err);
    for (size_t i = 0; i < sizeof steps / sizeof *steps && code == 0 && found == OLDER; i++) {
        rc = sqlite3_exec(db->handle, steps[i], NULL, NULL, NULL);
        code = rc == SQLITE_OK ? 0 : simba__sqlite_db_fail(db, rc, err);
    }
    if (!sqlite3_get_autocommit(db->handle))
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    if (code < 0)
        return code;
    remove_bells(simba__sqlite_db_real_path(db));
    return simba__sqlite_db_refresh(db, &opened, err);
}

/* --- timeouts ------------------------------------------------------------------------------------- */

void simba__sqlite_busy_init(simba__sqlite_busy *busy, simba_host *host)
{
    busy->host = host;
    busy->seed = host->random(host);
    atomic_init(&busy->until_ns, INT64_MAX);
    atomic_init(&busy->over, false);
    atomic_init(&busy->waits, false);
}

void simba__sqlite_busy_set(simba__sqlite_busy *busy, simba_local until)
{
    atomic_store(&busy->until_ns, until.ns);
    atomic_store(&busy->waits, false);
}

bool simba__sqlite_busy_wait(simba__sqlite_busy *busy, int attempt)
{
    enum { FIRST_NS = 20000, LONGEST_NS = 2000000 };
    const int64_t left_ns = atomic_load(&busy->until_ns) - busy->host->now(busy->host).ns;
    if (atomic_load(&busy->over) || left_ns <= 0)
        return false;
    int64_t pause_ns = attempt < 7 ? (int64_t)FIRST_NS << attempt : LONGEST_NS;
    if (pause_ns > LONGEST_NS)
        pause_ns = LONGEST_NS;
    /* The pause is random, so that two processes that met once do not keep meeting. */
    pause_ns = simba__random_range(&busy->seed, pause_ns / 2, pause_ns);
    if (pause_ns > left_ns)
        pause_ns = left_ns;
    atomic_store(&busy->waits, true);
    const struct timespec pause = {0, (long)pause_ns};
    nanosleep(&pause, NULL);
    return true;
}

/* --- transactions --------------------------------------------------------------------------------- */

int simba__sqlite_db_run(simba__sqlite_db *db, simba__sqlite_statement which, simba_error *err)
{
    sqlite3_stmt *statement = db->statements[which];
    const int rc = sqlite3_step(statement);
    const int code = rc == SQLITE_DONE ? 0 : simba__sqlite_db_fail(db, rc, err);
    sqlite3_reset(statement);
    return code;
}

int simba__sqlite_db_commit(simba__sqlite_db *db, simba_error *err)
{
    return simba__sqlite_db_run(db, SIMBA__SQLITE_COMMIT, err);
}

void simba__sqlite_db_rollback(simba__sqlite_db *db)
{
    /* Some errors have rolled back by themselves. */
    if (db->handle && !sqlite3_get_autocommit(db->handle) && simba__sqlite_db_run(db, SIMBA__SQLITE_ROLLBACK, NULL) < 0)
        db->broken = true;
}
