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
#include "util/saturate.h"
#include "util/text.h"

static const char *const statements[] = {
#define TEXT_OF(name, sql) [SIMBA__SQLITE_##name] = (sql),
    SIMBA__SQLITE_STATEMENTS(TEXT_OF)
#undef TEXT_OF
};

/* --- errors --------------------------------------------------------------------------------------- */

typedef enum spoils { ITS_STATEMENT, ITS_TRANSACTION, ITS_CONNECTION } spoils;

typedef struct meaning {
    int rc; /* of SQLite */
    int code;
    spoils spoils; /* everything inside of it can go on no more */
} meaning;

static meaning meaning_of(int rc)
{
    static const meaning meanings[] = {
        /* the next transaction opens the file that is there now */
        {SQLITE_READONLY_DBMOVED, SIMBA_EUNAVAILABLE, ITS_CONNECTION},
        {SQLITE_BUSY, SIMBA_ETIMEDOUT, ITS_TRANSACTION},
        {SQLITE_LOCKED, SIMBA_ETIMEDOUT, ITS_TRANSACTION},
        /* SQLite gave up on the locks of the wal-index, which another process had all the time */
        {SQLITE_PROTOCOL, SIMBA_ETIMEDOUT, ITS_TRANSACTION},
        {SQLITE_FULL, SIMBA_EUNAVAILABLE, ITS_TRANSACTION},
        {SQLITE_IOERR, SIMBA_EUNAVAILABLE, ITS_CONNECTION},
        {SQLITE_CANTOPEN, SIMBA_EUNAVAILABLE, ITS_CONNECTION},
        {SQLITE_READONLY, SIMBA_EPERM, ITS_CONNECTION},
        {SQLITE_PERM, SIMBA_EPERM, ITS_TRANSACTION},
        {SQLITE_AUTH, SIMBA_EPERM, ITS_TRANSACTION},
        {SQLITE_CORRUPT, SIMBA_ECORRUPT, ITS_CONNECTION},
        {SQLITE_NOTADB, SIMBA_ECORRUPT, ITS_CONNECTION},
        {SQLITE_NOMEM, SIMBA_ENOMEM, ITS_TRANSACTION},
        {SQLITE_CONSTRAINT, SIMBA_ESTORE, ITS_STATEMENT},
        {SQLITE_MISMATCH, SIMBA_ESTORE, ITS_STATEMENT},
        {SQLITE_TOOBIG, SIMBA_ESTORE, ITS_STATEMENT},
        {SQLITE_ERROR, SIMBA_ESTORE, ITS_STATEMENT},
    };
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].rc == rc || meanings[i].rc == (rc & 0xff))
            return meanings[i];
    return (meaning){rc, SIMBA_ESTORE, ITS_TRANSACTION};
}

int simba__sqlite_db_fail(simba__sqlite_db *db, int rc, simba_error *err)
{
    const meaning is = meaning_of(rc);
    db->row_failed = is.spoils == ITS_STATEMENT && db->handle && !sqlite3_get_autocommit(db->handle);
    db->broken |= is.spoils == ITS_CONNECTION;
    if (is.code == SIMBA_ETIMEDOUT)
        return simba__fail(err, is.code, "sqlite: %s: locked by another process", db->path);
    char reason[128];
    const char *text = db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);
    const int number = db->handle && is.code == SIMBA_EUNAVAILABLE ? sqlite3_system_errno(db->handle) : 0;
    if (number != 0)
        return simba__fail(err, is.code, "sqlite: %s: %s (%s)", db->path, text,
                           strerror_r(number, reason, sizeof reason));
    return simba__fail(err, is.code, "sqlite: %s: %s", db->path, text);
}

int simba__sqlite_db_damaged(simba__sqlite_db *db, const char *mutex, const char *column, const char *what,
                             simba_error *err)
{
    db->row_failed = true;
    return simba__fail(err, SIMBA_ECORRUPT, "sqlite: %s: mutex %.*s: %s %s", db->path, simba__text_cut(mutex, 66),
                       mutex, column, what);
}

/* --- statements ----------------------------------------------------------------------------------- */

int simba__sqlite_db_step(simba__sqlite_db *db, simba__sqlite_statement which, simba_error *err)
{
    const int rc = sqlite3_step(db->statements[which]);
    if (rc == SQLITE_ROW)
        return 1;
    const int code = rc == SQLITE_DONE ? 0 : simba__sqlite_db_fail(db, rc, err);
    sqlite3_reset(db->statements[which]);
    return code;
}

int simba__sqlite_db_run(simba__sqlite_db *db, simba__sqlite_statement which, const simba__sqlite_value *values,
                         simba_error *err)
{
    sqlite3_stmt *statement = db->statements[which];
    for (int i = 0; i < sqlite3_bind_parameter_count(statement); i++) {
        if (values[i].text)
            sqlite3_bind_text(statement, i + 1, values[i].text, -1, SQLITE_STATIC);
        else
            sqlite3_bind_int64(statement, i + 1, values[i].number);
    }
    return simba__sqlite_db_step(db, which, err);
}

void simba__sqlite_db_rollback(simba__sqlite_db *db)
{
    /* Some errors have rolled back by themselves. */
    if (db->handle && !sqlite3_get_autocommit(db->handle) &&
        simba__sqlite_db_step(db, SIMBA__SQLITE_ROLLBACK, NULL) < 0)
        db->broken = true;
}

/* What is not prepared, because it is run once. */
static int execute(simba__sqlite_db *db, const char *sql, simba_error *err)
{
    const int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : simba__sqlite_db_fail(db, rc, err);
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
    const int code = simba__sqlite_db_step(db, SIMBA__SQLITE_LIST, err);
    sqlite3_reset(db->statements[SIMBA__SQLITE_LIST]);
    return code < 0 ? code : 0;
}

/* --- timeouts ------------------------------------------------------------------------------------- */

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
    const int64_t most_ns = attempt < 7 ? simba__min64((int64_t)FIRST_NS << attempt, LONGEST_NS) : LONGEST_NS;
    /* The pause is random, so that two processes that met once do not keep meeting. */
    uint64_t seed = busy->host->random(busy->host);
    const int64_t pause_ns = simba__min64(simba__random_range(&seed, most_ns / 2, most_ns), left_ns);
    const struct timespec pause = {0, (long)pause_ns};
    atomic_store(&busy->waits, true);
    nanosleep(&pause, NULL);
    return true;
}

static int on_busy(void *user, int attempt)
{
    return simba__sqlite_busy_wait(user, attempt);
}

/* --- what is stored ------------------------------------------------------------------------------- */

#define APPLICATION_ID 1399418210 /* 0x53696d62, "Simb" */
#define VERSION 2
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* In simba_lock the columns up to `version` are for people, and are those of the MySQL store: epoch milliseconds, '' for
 * nobody. until_boot_ns judges leases, on the boot-time clock of boot_id. `nonce` is 64 bits, as a signed number. Notes have a
 * table of their own, because a renewal writes the other one; its row '' keeps the greatest forgotten token. */
static const char tables_sql[] =
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
    "CREATE INDEX simba_news ON simba_waiter (socket, called);"
    "CREATE TABLE IF NOT EXISTS simba_note (" /* the version before has it */
    "mutex TEXT NOT NULL PRIMARY KEY,"
    "note BLOB NOT NULL,"
    "note_token INTEGER NOT NULL,"
    "note_number INTEGER NOT NULL,"
    "written_at INTEGER NOT NULL"
    ") WITHOUT ROWID;"
    "PRAGMA application_id = " TEXT(APPLICATION_ID) "; PRAGMA user_version = " TEXT(VERSION) ";";

/* The old table goes: a program of the version before that still runs is told "no such table", and one that starts sees a newer
 * version. */
static const char upgrade_sql[] =
    "INSERT INTO simba_lock SELECT mutex, 0, 0, 0, '', version, token, 0, revoked_token, 0, '', '', 0, 0 "
    "FROM simba_mutex; DROP TABLE simba_mutex;";

typedef enum schema { OURS, EMPTY, OLDER } schema;

/* Whose database it is. Only reads, by one statement, so that it sees one snapshot. SIMBA_ECORRUPT, SIMBA_ESTORE. */
static int look(simba__sqlite_db *db, schema *ret_schema, simba_error *err)
{
    static const char sql[] = "SELECT (SELECT application_id FROM pragma_application_id),"
                              "(SELECT user_version FROM pragma_user_version),"
                              "(SELECT count(*) FROM sqlite_master),"
                              "(SELECT page_size FROM pragma_page_size)";
    const char *path = db->path;
    sqlite3_stmt *statement = NULL;
    struct stat status;
    int application = 0;
    int version = 0;
    int tables = 0;
    int page = 0;
    int code = 0;
    int rc = sqlite3_prepare_v2(db->handle, sql, sizeof sql, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        application = sqlite3_column_int(statement, 0);
        version = sqlite3_column_int(statement, 1);
        tables = sqlite3_column_int(statement, 2);
        page = sqlite3_column_int(statement, 3);
    } else {
        code = simba__sqlite_db_fail(db, rc, err);
    }
    sqlite3_finalize(statement);
    if (code < 0)
        return code;
    *ret_schema = application != APPLICATION_ID ? EMPTY : version < VERSION ? OLDER : OURS;
    if (application != APPLICATION_ID && (application != 0 || version != 0 || tables != 0))
        return simba__fail(err, SIMBA_ECORRUPT,
                           "sqlite: %s is a database of another program; give simba a file of its own", path);
    if (application == APPLICATION_ID && version > VERSION)
        return simba__fail(err, SIMBA_ESTORE, "sqlite: %s was made by a newer version of simba", path);
    /* SQLite takes the rest of a truncated page for zeroes. An empty database has no page size yet. */
    if (*ret_schema != EMPTY && stat(simba__sqlite_db_real_path(db), &status) == 0 && page > 0 &&
        status.st_size % page != 0)
        return simba__fail(err, SIMBA_ECORRUPT, "sqlite: %s: its last page is cut off", path);
    return 0;
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

/* Another process may do the same: so look again when nobody else can write. */
static int make_tables(simba__sqlite_db *db, schema out_of, int64_t now_ns, schema *ret_found, simba_error *err)
{
    int code = execute(db, "BEGIN IMMEDIATE", err);
    if (code == 0)
        code = look(db, ret_found, err);
    if (code == 0 && *ret_found == out_of) {
        if (out_of == OLDER)
            code = refuse_if_held(db, now_ns, err);
        if (code == 0)
            code = execute(db, tables_sql, err);
        if (code == 0 && out_of == OLDER)
            code = execute(db, upgrade_sql, err);
    }
    if (code == 0)
        code = execute(db, "COMMIT", err);
    if (!sqlite3_get_autocommit(db->handle))
        (void)execute(db, "ROLLBACK", NULL);
    return code;
}

int simba__sqlite_db_upgrade(simba__sqlite_db *db, int64_t now_ns, simba_error *err)
{
    schema found;
    const int code = make_tables(db, OLDER, now_ns, &found, err);
    return code < 0 ? code : simba__sqlite_db_refresh(db, err);
}

int simba__sqlite_db_check_version(const simba__sqlite_db *db, simba_error *err)
{
    return !db->outdated
               ? 0
               : simba__fail(err, SIMBA_ESTORE,
                             "sqlite: %s was made by an older version of simba: run `simba init` with the same URL",
                             db->path);
}

/* --- opening and closing -------------------------------------------------------------------------- */

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

int simba__sqlite_db_init(simba__sqlite_db *db, simba_host *host, const simba__sqlite_options *options,
                          simba_error *err)
{
    db->busy.host = host;
    atomic_init(&db->busy.until_ns, INT64_MAX);
    atomic_init(&db->busy.over, false);
    atomic_init(&db->busy.waits, false);
    db->sync_full = options->sync_full;
    db->share = options->share;
    db->path = simba__strdup(options->path);
    return db->path ? read_boot_id(db->boot_id, err) : simba__fail(err, SIMBA_ENOMEM, "sqlite: out of memory");
}

const char *simba__sqlite_db_real_path(const simba__sqlite_db *db)
{
    return db->handle ? sqlite3_db_filename(db->handle, "main") : db->path;
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
        leave_log_alone(db, simba__sqlite_db_step(db, SIMBA__SQLITE_OWNED, NULL) == 0);
        sqlite3_reset(db->statements[SIMBA__SQLITE_OWNED]);
    }
    close_handle(db);
    simba__free(db->path);
    db->path = NULL;
}

static int keep_a_log(simba__sqlite_db *db, simba_error *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA journal_mode = WAL", -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    const char *mode = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    int code = rc == SQLITE_ROW ? 0 : simba__sqlite_db_fail(db, rc, err);
    if (code == 0 && (!mode || strcmp(mode, "wal") != 0))
        code = simba__fail(err, SIMBA_ESTORE, "sqlite: %s: cannot keep a write-ahead log", db->path);
    sqlite3_finalize(statement);
    return code;
}

/* Write nothing before it is clear whose database it is. */
static int open_handle(simba__sqlite_db *db, simba_error *err)
{
    schema found;
    int rc = sqlite3_open_v2(db->path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        return simba__sqlite_db_fail(db, rc, err);
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_handler(db->handle, on_busy, &db->busy);
    leave_log_alone(db, log_size(db) > 0);
    if (sqlite3_db_readonly(db->handle, "main"))
        return simba__fail(err, SIMBA_EPERM, "sqlite: %s can only be read", db->path);
    int code = look(db, &found, err);
    if (code == 0 && found != OLDER) {
        /* A commit copies and sums up whole pages, and a row has some 150 bytes. A lock and unlock takes 0.87 of the time that it
         * takes with SQLite's usual pages of 4,096 bytes. Renewing 300,000 mutexes takes a tenth longer than with pages of 2,048.
         * In still smaller pages an ordinary row would spill over into a second page. */
        if (found == EMPTY)
            (void)execute(db, "PRAGMA page_size = 1024", NULL);
        code = keep_a_log(db, err);
    }
    if (code == 0 && found == EMPTY)
        code = make_tables(db, EMPTY, 0, &found, err);
    db->outdated = code == 0 && found == OLDER; /* perhaps because the version before was faster */
    if (code < 0 || db->outdated)
        return code;
    leave_log_alone(db, false);
    code = execute(db, db->sync_full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", err);
    return code < 0 ? code : prepare_statements(db, err);
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
            simba__sqlite_file_identify(simba__sqlite_db_real_path(db), db->sides);
            return 0;
        }
        close_handle(db);
        const bool deleted = code == SIMBA_EUNAVAILABLE && access(db->path, F_OK) != 0;
        /* SQLite does not ask the busy handler everywhere, for example not in the change to a write-ahead log. */
        if ((code != SIMBA_ETIMEDOUT && !deleted) || !simba__sqlite_busy_wait(&db->busy, attempt))
            return code;
    }
}

int simba__sqlite_db_refresh(simba__sqlite_db *db, simba_error *err)
{
    int moved = 0;
    if (db->handle) /* this costs one stat() */
        sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (simba__sqlite_db_is_sound(db) && !moved)
        return 0;
    if (moved) {
        /* If it was moved, then without its log: move as much of the log into it as we still can. */
        sqlite3_busy_handler(db->handle, NULL, NULL);
        sqlite3_wal_checkpoint_v2(db->handle, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        const int code = simba__sqlite_file_discard(simba__sqlite_db_real_path(db), db->sides, &db->busy, err);
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
    db->reopened |= code == 0 && !waited;
    return code;
}
