/* The SQLite store: mutexes in a file that the processes of one host share. sqlite.c tells the story; this is what its files
 * know of each other. Functions return 0 or a negative SIMBA_E… code, with "sqlite: <path>: <cause>" in *err. */
#ifndef SIMBA_STORES_SQLITE_STORE_H
#define SIMBA_STORES_SQLITE_STORE_H

#include <limits.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "core/row.h"
#include "util/table.h"

extern const simba_backend simba__backend_sqlite;

/* --- options.c: the URL ------------------------------------------------------------------------------ */

/* Takes the path out of the URL. SIMBA_EURL. */
int simba__sqlite_read_url(const simba_url *url, const char **ret_path, bool *ret_sync_full, simba_error *err);

/* --- share.c: which users share a database, as mode= and group= of the URL say ------------------------ */

/* All zero: the URL says nothing, and what exists is followed. */
typedef struct simba__sqlite_share {
    bool given;
    bool has_group; /* otherwise the group is that of the folder of the database */
    mode_t mode;    /* of a file: 0600, 0660 or 0666 */
    gid_t group;
} simba__sqlite_share;

/* SIMBA_EURL. */
int simba__sqlite_share_read(const simba_url *url, simba__sqlite_share *ret_share, simba_error *err);
/* For a folder that was made just now, with mode 0700. Removes it again if that fails. SIMBA_EPERM, SIMBA_EUNAVAILABLE. */
int simba__sqlite_share_new_folder(const simba__sqlite_share *share, const char *folder, simba_error *err);
/* Make an empty file, which nobody meets before it has its mode and group. There must be none at that path; the caller has
 * the lock of the folder. */
int simba__sqlite_share_new_file(const simba__sqlite_share *share, const char *path, simba_error *err);
/* SIMBA_EPERM: others who share the database could not make files beside it, or these files would get another group. */
int simba__sqlite_share_check_folder(const simba__sqlite_share *share, const char *path, simba_error *err);
/* Give all that belongs to the database its mode and group. SIMBA_EPERM, SIMBA_EUNAVAILABLE. */
int simba__sqlite_share_apply(const simba__sqlite_share *share, const char *path, simba_error *err);
/* What apply would change: SIMBA_EPERM, which names the first such file. */
int simba__sqlite_share_verify(const simba__sqlite_share *share, const char *path, simba_error *err);

/* --- db.c: timeouts ----------------------------------------------------------------------------------- */

/* How long to wait for the locks of other processes. The job waits; the client's thread ends that. */
typedef struct simba__sqlite_busy {
    simba_host *host;
    uint64_t seed;
    _Atomic int64_t until_ns;
    atomic_bool over;  /* the client closes: wait for nothing any more */
    atomic_bool waits; /* it has waited since it was set */
} simba__sqlite_busy;

void simba__sqlite_busy_init(simba__sqlite_busy *busy, simba_host *host);
void simba__sqlite_busy_set(simba__sqlite_busy *busy, simba_local until);
/* Sleep for a while. False: the time is over. */
bool simba__sqlite_busy_wait(simba__sqlite_busy *busy, int attempt);

/* --- file.c: the database as the file system sees it -------------------------------------------------- */

/* Make sure that `path` is a regular file that we may read and write, in a folder that we may write; make that folder (mode
 * 0700 unless it is shared, and none above it) and an empty file if they are missing. What exists is not touched. SIMBA_EPERM,
 * SIMBA_EURL (not a file, or no folder to make it in), SIMBA_ENOTSUP (a network file system), SIMBA_EUNAVAILABLE, SIMBA_ETIMEDOUT. */
int simba__sqlite_file_prepare(const char *path, const simba__sqlite_share *share, simba__sqlite_busy *busy,
                               simba_error *err);

/* Give a new file or folder beside the database the database's mode and group, so that the same users may use it. If the
 * group cannot be given, no other group gets its rights. `made` must be no link. */
void simba__sqlite_file_adopt_mode(const char *made, const char *database);

/* One of the files beside a database, such as "-wal". An inode of 0: there is none. */
typedef struct simba__sqlite_side {
    const char *ending;
    dev_t device;
    ino_t inode;
} simba__sqlite_side;

void simba__sqlite_file_identify(const char *path, const char *ending, simba__sqlite_side *ret_side);

/* The database at `path` is no longer the one to which these files belong. SQLite goes by the name: it would take them for
 * files of the new one, and read pages of the old one out of them. Remove those that are still there while the old connection
 * is open: until it closes, no other file gets their inodes. */
int simba__sqlite_file_discard(const char *path, const simba__sqlite_side *sides, size_t count,
                               simba__sqlite_busy *busy, simba_error *err);

/* "sqlite: <path>: <what>: <reason>", for an errno. SIMBA_EPERM or SIMBA_EUNAVAILABLE. */
int simba__sqlite_file_fail(const char *path, const char *what, int number, simba_error *err);

/* --- wake.c: the sockets by which clients say "look" to each other ------------------------------------ */

enum { SIMBA__SQLITE_NAME_SIZE = 20 };

typedef struct simba__sqlite_wake {
    char folder[PATH_MAX + 8];
    int folder_fd; /* all -1: there is no socket */
    int fd;        /* bound to `name`; others send here */
    int sender;    /* sends to others */
    dev_t device;
    ino_t inode;
    char name[SIMBA__SQLITE_NAME_SIZE]; /* names this client in rows; without a socket it begins with '-' */
} simba__sqlite_wake;

typedef enum simba__sqlite_life { SIMBA__SQLITE_ALIVE, SIMBA__SQLITE_DEAD, SIMBA__SQLITE_MUTE } simba__sqlite_life;

void simba__sqlite_wake_init(simba__sqlite_wake *wake, uint64_t random);
/* Make the folder `<database>-wake`, if it is missing, and a socket in it. 0 or an errno. */
int simba__sqlite_wake_open(simba__sqlite_wake *wake, const char *database, uint64_t random);
/* Close it. The client then has a new name, by which nobody can reach it. `keep`: leave the name in the folder as that of a
 * dead process, for others to remove it with its rows. */
void simba__sqlite_wake_close(simba__sqlite_wake *wake, uint64_t random, bool keep);
/* False: somebody has removed the name, so that others take this client for dead. */
bool simba__sqlite_wake_is_current(const simba__sqlite_wake *wake);
/* Does the process of this name live? MUTE: it may, but cannot be reached. */
simba__sqlite_life simba__sqlite_wake_probe(const simba__sqlite_wake *wake, const char *name);
void simba__sqlite_wake_notify(const simba__sqlite_wake *wake, const char *name);
/* Remove the name of a dead process. */
void simba__sqlite_wake_remove(const simba__sqlite_wake *wake, const char *name);
void simba__sqlite_wake_drain(const simba__sqlite_wake *wake);
/* Call `dead` for the names of the folder whose processes have gone. Looks at 64 names. */
void simba__sqlite_wake_sweep(const simba__sqlite_wake *wake, void (*dead)(void *user, const char *name), void *user);

/* --- db.c: one connection; rows.c: rows in and out ---------------------------------------------------- */

#define SIMBA__SQLITE_STATEMENTS(X)                                                                                    \
    X(BEGIN_READ, "BEGIN")                                                                                             \
    X(BEGIN_WRITE, "BEGIN IMMEDIATE")                                                                                  \
    X(COMMIT, "COMMIT")                                                                                                \
    X(ROLLBACK, "ROLLBACK")                                                                                            \
    X(LOAD, "SELECT " SIMBA__SQLITE_COLUMNS " FROM simba_lock WHERE mutex = ?1")                                       \
    X(INSERT, "INSERT INTO simba_lock (mutex, " SIMBA__SQLITE_COLUMNS ") "                                             \
              "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)")                                  \
    X(UPDATE, "UPDATE simba_lock SET acquired_at = ?2, ttl_at = ?3, transition_at = ?4, owner_id = ?5, version = ?6, " \
              "token = ?7, nonce = ?8, revoked_token = ?9, until_boot_ns = ?10, boot_id = ?11, socket = ?12, "         \
              "next_nonce = ?13, next_until_boot_ns = ?14 WHERE mutex = ?1")                                           \
    X(DELETE, "DELETE FROM simba_lock WHERE mutex = ?1")                                                               \
    X(LIST,                                                                                                            \
      "SELECT " SIMBA__SQLITE_COLUMNS ", mutex, note, note_token, note_number, written_at, "                           \
      "(SELECT count(*) FROM simba_waiter w WHERE w.mutex = simba_lock.mutex AND w.what = 'w'), "                      \
      "(SELECT id FROM simba_waiter w WHERE w.mutex = simba_lock.mutex AND w.what = 'w' ORDER BY since LIMIT 1) "      \
      "FROM simba_lock LEFT JOIN simba_note USING (mutex) ORDER BY mutex")                                             \
    X(OWNED, "SELECT 1 FROM simba_lock WHERE owner_id <> '' LIMIT 1")                                                  \
    X(LOAD_NOTE, "SELECT note, note_token, note_number, written_at FROM simba_note WHERE mutex = ?1")                  \
    X(STORE_NOTE, "INSERT OR REPLACE INTO simba_note (mutex, note, note_token, note_number, written_at) "              \
                  "VALUES (?1, ?2, ?3, ?4, ?5)")                                                                       \
    X(DELETE_NOTE, "DELETE FROM simba_note WHERE mutex = ?1")                                                          \
    X(QUEUE, "SELECT what, nonce, socket, until FROM simba_waiter WHERE mutex = ?1 ORDER BY what, since")              \
    X(ENTER, "INSERT INTO simba_waiter (nonce, mutex, what, since, id, socket, until, called) "                        \
             "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (nonce) DO UPDATE "                                  \
             "SET socket = excluded.socket, until = excluded.until, called = excluded.called")                         \
    X(BEFORE, "SELECT socket FROM simba_waiter WHERE mutex = ?1 AND what = 'w' "                                       \
              "AND since < (SELECT since FROM simba_waiter WHERE nonce = ?2) ORDER BY since DESC LIMIT 1")             \
    X(PLACE, "SELECT count(*) FROM simba_waiter WHERE mutex = ?1 AND what = 'w' "                                      \
             "AND since <= (SELECT since FROM simba_waiter WHERE nonce = ?2)")                                         \
    X(CALL, "UPDATE simba_waiter SET called = ?2 WHERE nonce = ?1")                                                    \
    X(CALL_OBSERVERS, "UPDATE simba_waiter SET called = ?2 WHERE mutex = ?1 AND what = 'o'")                           \
    X(PUT_BACK, "UPDATE simba_waiter SET since = ?2, called = 0 WHERE nonce = ?1")                                     \
    X(LEAVE, "DELETE FROM simba_waiter WHERE nonce = ?1")                                                              \
    X(BURY, "DELETE FROM simba_waiter WHERE socket = ?1")                                                              \
    X(LOOK, "SELECT what, mutex, nonce, called FROM simba_waiter WHERE socket = ?1 AND called > ?2")                   \
    X(OVERDUE, "SELECT w.what, w.mutex, w.nonce, 0 FROM simba_waiter w LEFT JOIN simba_lock l ON l.mutex = w.mutex "   \
               "WHERE w.socket = ?1 AND w.what = 'w' AND coalesce(l.owner_id, '') = '' "                               \
               "AND coalesce(l.next_until_boot_ns, 0) <= ?2")                                                          \
    X(ANY, "SELECT 1 FROM simba_waiter WHERE socket = ?1 LIMIT 1")

#define SIMBA__SQLITE_COLUMNS                                                                                          \
    "acquired_at, ttl_at, transition_at, owner_id, version, token, nonce, revoked_token, until_boot_ns, boot_id, "     \
    "socket, next_nonce, next_until_boot_ns"

typedef enum simba__sqlite_statement {
#define SIMBA__SQLITE_ENUM(name, sql) SIMBA__SQLITE_##name,
    SIMBA__SQLITE_STATEMENTS(SIMBA__SQLITE_ENUM)
#undef SIMBA__SQLITE_ENUM
        SIMBA__SQLITE_STATEMENT_COUNT
} simba__sqlite_statement;

/* Everything of it blocks, and belongs to one thread at a time: the one that opens the client, then the one that has the job. */
typedef struct simba__sqlite_db {
    sqlite3 *handle; /* NULL: closed; the next refresh opens it */
    sqlite3_stmt *statements[SIMBA__SQLITE_STATEMENT_COUNT];
    char *path;
    simba__sqlite_share share;   /* set before the file is opened */
    bool sync_full;              /* synchronous=FULL rather than NORMAL */
    bool broken;                 /* after some error the connection cannot be trusted any more */
    bool outdated;               /* its tables are those of the version before */
    bool row_failed;             /* the latest failure concerned one statement; the transaction is still good */
    char boot_id[40];            /* which boot of the machine the boot-time clock counts from */
    simba__sqlite_side sides[2]; /* the log and the wal-index that are in use */
    simba__sqlite_busy busy;
} simba__sqlite_db;

/* Fill in what is needed before opening. Takes a copy of the path. SIMBA_ENOMEM, SIMBA_ESYSTEM. */
int simba__sqlite_db_init(simba__sqlite_db *db, simba_host *host, const char *path, bool sync_full, simba_error *err);
/* Also after a failed init, and on zeroes. */
void simba__sqlite_db_fini(simba__sqlite_db *db);

/* Open the file, and create what is missing. If it is open already, make sure that it still is the file at that path, and
 * otherwise open that one. *ret_opened: it was opened now. */
int simba__sqlite_db_refresh(simba__sqlite_db *db, bool *ret_opened, simba_error *err);

/* It is open, and nothing has gone wrong with it. It may still be another file than the one at its path. */
static inline bool simba__sqlite_db_is_sound(const simba__sqlite_db *db)
{
    return db->handle && !db->broken && !db->outdated;
}

/* The path with its links resolved; NULL: the file is not open. */
const char *simba__sqlite_db_real_path(const simba__sqlite_db *db);

/* Make the tables of this version out of those of the version before. SIMBA_ESTATE: a mutex is held. */
int simba__sqlite_db_upgrade(simba__sqlite_db *db, int64_t now_ns, simba_error *err);
/* SIMBA_ESTORE, if that must happen first. */
int simba__sqlite_db_check_version(const simba__sqlite_db *db, simba_error *err);

int simba__sqlite_db_commit(simba__sqlite_db *db, simba_error *err);
void simba__sqlite_db_rollback(simba__sqlite_db *db);

/* Run a statement that has no result; set the error of an SQLite result code; report a row that simba cannot have written,
 * while the statement and the transaction are good (SIMBA_ECORRUPT). */
int simba__sqlite_db_run(simba__sqlite_db *db, simba__sqlite_statement which, simba_error *err);
int simba__sqlite_db_fail(simba__sqlite_db *db, int rc, simba_error *err);
int simba__sqlite_db_damaged(simba__sqlite_db *db, const char *mutex, const char *column, const char *what,
                             simba_error *err);

/* A row of simba_lock. */
typedef struct simba__sqlite_lock {
    simba__row row;
    char socket[SIMBA__SQLITE_NAME_SIZE]; /* of the owner's client */
    uint64_t next_nonce;                  /* the waiter that was called last, for whom the free mutex is reserved */
    int64_t next_until_ns;
    bool exists;
} simba__sqlite_lock;

/* All zero, if there is none. A lease or reservation of an earlier boot has ended: the row comes without it. SIMBA_ECORRUPT:
 * simba cannot have written the row; the transaction can go on without it. */
int simba__sqlite_lock_load(simba__sqlite_db *db, const char *mutex, simba__sqlite_lock *ret_lock, simba_error *err);
int simba__sqlite_lock_store(simba__sqlite_db *db, const char *mutex, const simba__sqlite_lock *lock, simba_error *err);

/* A row of a list. The name, the first waiter's id and the note are behind it. */
typedef struct simba__sqlite_listing simba__sqlite_listing;
struct simba__sqlite_listing {
    simba__sqlite_listing *next;
    const char *mutex; /* NULL: the row cannot be read, and `fault` says why */
    const char *fault;
    const char *first; /* the id of the contender that is first in the queue; NULL: nobody waits */
    simba_owner owner;
    int64_t now_ms;
    int64_t waiters;
    simba_stored_note note; /* no bytes: there is none */
    char text[];
};

/* Every mutex that matches the shell pattern (NULL: all), ordered by name. The caller frees the rows, also after a failure. */
int simba__sqlite_list(simba__sqlite_db *db, const char *pattern, simba__row_now now, simba__sqlite_listing **ret_first,
                       simba_error *err);

typedef struct simba__sqlite_note {
    simba_stored_note stored;
    char bytes[];
} simba__sqlite_note;

/* The identity of the note goes into `row`, and, unless ret_note is NULL, a copy of its bytes there (NULL: there is none). */
int simba__sqlite_note_load(simba__sqlite_db *db, const char *mutex, simba__row *row, simba__sqlite_note **ret_note,
                            simba_error *err);
int simba__sqlite_note_store(simba__sqlite_db *db, const simba_request *request, const simba__row *row,
                             simba_error *err);
/* The greatest token of the mutexes that were forgotten: a mutex that is made anew goes on from there. */
int simba__sqlite_note_floor(simba__sqlite_db *db, uint64_t *ret_token, simba_error *err);
int simba__sqlite_note_forget(simba__sqlite_db *db, const char *mutex, uint64_t token, simba_error *err);

/* --- decide.c: one batch ------------------------------------------------------------------------------ */

/* A mutex that this client watches: a row 'o'. */
typedef struct simba__sqlite_watch simba__sqlite_watch;
struct simba__sqlite_watch {
    simba__node node;          /* by its nonce, while somebody watches it */
    simba__sqlite_watch *next; /* in a list of what is to be written, or removed */
    simba_watch *shown;        /* NULL: nobody watches it any more */
    uint64_t nonce;
    enum { SIMBA__SQLITE_NEW, SIMBA__SQLITE_TAKEN, SIMBA__SQLITE_WRITTEN } state; /* of its row; taken: by a batch */
    char mutex[];
};

/* What requests a batch carries out together, in this order: the latter two each in a transaction. */
typedef enum simba__sqlite_part {
    SIMBA__SQLITE_SET_UP,
    SIMBA__SQLITE_READS,
    SIMBA__SQLITE_WRITES,
    SIMBA__SQLITE_PARTS
} simba__sqlite_part;

/* One request of a batch. */
typedef struct simba__sqlite_item {
    simba_request ask;      /* a copy, which the job fills in; its strings are the request's */
    simba_request *request; /* NULL: it was given up before the job began with it */
    atomic_bool taken;      /* by the job, or by the client that gives it up: whoever comes first */
    bool begun;             /* by the job */
    bool done;              /* `code` says how; otherwise the error of the batch does */
    int code;
    char *fault;
    simba__sqlite_note *note;
    simba__sqlite_listing *listed;
} simba__sqlite_item;

/* Something to tell the client: a row of simba_waiter that was called. */
typedef struct simba__sqlite_news simba__sqlite_news;
struct simba__sqlite_news {
    simba__sqlite_news *next;
    uint64_t nonce;
    char what;
    char mutex[];
};

typedef struct simba__sqlite_batch {
    simba_host *host;
    int64_t host_offset_ns; /* from our boot-time clock to that of processes outside of a time namespace */
    simba__sqlite_db db;
    simba__sqlite_wake wake;

    /* What is asked of it. */
    simba__sqlite_item *items;
    size_t count, capacity;
    size_t parts[SIMBA__SQLITE_PARTS]; /* how many there are of each */
    simba__sqlite_watch *watch, *unwatch;
    bool look;    /* for rows that were called */
    bool overdue; /* for mutexes that are free although this client waits for them */
    bool sweep;   /* remove what dead processes have left behind */

    /* What comes out. */
    simba_error error; /* of all that is not done */
    bool opened;       /* the database was opened anew */
    bool entered;      /* this client got a row in simba_waiter */
    bool waits;        /* it had some when it looked, as `overdue` asks */
    bool watched;      /* `watch` and `unwatch` are done */
    simba__sqlite_news *news;

    int64_t looked_ns; /* the greatest `called` that was read */
    simba__row_now now;
    char (*notify)[SIMBA__SQLITE_NAME_SIZE]; /* whom to notify after the commit */
    size_t notify_count, notify_capacity;
} simba__sqlite_batch;

simba__sqlite_part simba__sqlite_part_of(simba_op op);
/* Carry it out. May be called again after SIMBA_ETIMEDOUT. */
void simba__sqlite_batch_run(simba__sqlite_batch *batch);
/* Remove all rows of this client. */
int simba__sqlite_batch_leave(simba__sqlite_batch *batch);
/* The answers have been told. */
void simba__sqlite_batch_clear(simba__sqlite_batch *batch);

#endif
