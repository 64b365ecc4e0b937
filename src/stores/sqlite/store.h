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

/* Which users share a database. All zero: the URL says nothing, and what exists is followed. */
typedef struct simba__sqlite_share {
    bool given;
    bool has_group; /* otherwise the group is that of the folder of the database */
    mode_t mode;    /* of a file: 0600, 0660 or 0666 */
    gid_t group;
} simba__sqlite_share;

typedef struct simba__sqlite_options {
    const char *path; /* in the URL */
    bool sync_full;   /* synchronous=FULL rather than NORMAL */
    simba__sqlite_share share;
} simba__sqlite_options;

/* SIMBA_EURL. */
int simba__sqlite_read_url(const simba_url *url, simba__sqlite_options *ret_options, simba_error *err);

/* --- share.c: who may use the files. SIMBA_EPERM, SIMBA_EUNAVAILABLE ----------------------------------- */

/* For a folder that was made just now, with mode 0700. Removes it again if that fails. */
int simba__sqlite_share_new_folder(const simba__sqlite_share *share, const char *folder, simba_error *err);
/* Make an empty file, which nobody meets before it has its mode and group. There must be none at that path; the caller has
 * the lock of the folder. */
int simba__sqlite_share_new_file(const simba__sqlite_share *share, const char *path, simba_error *err);
/* SIMBA_EPERM: others who share a database could not make files in this folder, or these files would get another group. */
int simba__sqlite_share_check_folder(const simba__sqlite_share *share, const char *folder, simba_error *err);
/* Give all that belongs to the database its mode and group. `only_look`: SIMBA_EPERM names the first file that has others. The path
 * has no links in it. */
int simba__sqlite_share_apply(const simba__sqlite_share *share, const char *path, bool only_look, simba_error *err);
/* Give something new beside the database the database's mode and group, so that the same users may use it. If the group cannot be
 * given, no other group gets its rights. */
void simba__sqlite_share_follow(const char *made, const char *database);

/* --- db.c: how long to wait for the locks of other processes ------------------------------------------- */

/* The job waits; the client's thread may end that. */
typedef struct simba__sqlite_busy {
    simba_host *host;
    _Atomic int64_t until_ns;
    atomic_bool over;  /* the client closes: wait for nothing any more */
    atomic_bool waits; /* it has waited since it was set */
} simba__sqlite_busy;

void simba__sqlite_busy_set(simba__sqlite_busy *busy, simba_local until);
/* Sleep for a while. False: the time is over. */
bool simba__sqlite_busy_wait(simba__sqlite_busy *busy, int attempt);

/* --- file.c: the database as the file system sees it -------------------------------------------------- */

/* Make sure that `path` is a regular file that we may read and write, in a folder that we may write; make that folder (mode
 * 0700 unless it is shared, and none above it) and an empty file if they are missing. What exists is not touched. SIMBA_EPERM,
 * SIMBA_EURL (not a file, or no folder to make it in), SIMBA_ENOTSUP (a network file system), SIMBA_EUNAVAILABLE, SIMBA_ETIMEDOUT. */
int simba__sqlite_file_prepare(const char *path, const simba__sqlite_share *share, simba__sqlite_busy *busy,
                               simba_error *err);

/* Which log and which wal-index are beside a database. An inode of 0: there is none. */
enum { SIMBA__SQLITE_SIDES = 2 };
typedef struct simba__sqlite_side {
    dev_t device;
    ino_t inode;
} simba__sqlite_side;

void simba__sqlite_file_identify(const char *path, simba__sqlite_side ret_sides[SIMBA__SQLITE_SIDES]);
/* The database at `path` is no longer the one to which these files belong. SQLite goes by the name: it would take them for
 * files of the new one, and read pages of the old one out of them. Remove those that are still there while the old connection
 * is open: until it closes, no other file gets their inodes. */
int simba__sqlite_file_discard(const char *path, const simba__sqlite_side sides[SIMBA__SQLITE_SIDES],
                               simba__sqlite_busy *busy, simba_error *err);

/* The folder of an absolute path. */
void simba__sqlite_file_folder(const char *path, char ret_folder[PATH_MAX]);
/* "sqlite: <path>: <what>: <reason>", for an errno. SIMBA_EPERM or SIMBA_EUNAVAILABLE. */
int simba__sqlite_file_fail(const char *path, const char *what, int number, simba_error *err);

/* --- wake.c: the sockets by which clients say "look" to each other ------------------------------------ */

enum {
    SIMBA__SQLITE_NAME_SIZE = 20,
    SIMBA__SQLITE_SWEPT = 64, /* how many names of others a client looks at when it has made its own */
};

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
/* The names in the folder, of the SWEPT that it looks at, whose processes have gone. Returns how many. */
size_t simba__sqlite_wake_sweep(const simba__sqlite_wake *wake, char (*ret_dead)[SIMBA__SQLITE_NAME_SIZE]);

/* --- db.c: one connection ------------------------------------------------------------------------------ */

#define SIMBA__SQLITE_COLUMNS                                                                                          \
    "acquired_at, ttl_at, transition_at, owner_id, version, token, nonce, revoked_token, until_boot_ns, boot_id, "     \
    "socket, next_nonce, next_until_boot_ns"
/* A row that is read. */
#define SIMBA__SQLITE_ROW "SELECT " SIMBA__SQLITE_COLUMNS ", note, note_token, note_number, written_at, mutex"
#define SIMBA__SQLITE_ROWS " FROM simba_lock LEFT JOIN simba_note USING (mutex)"

#define SIMBA__SQLITE_STATEMENTS(X)                                                                                    \
    X(BEGIN_READ, "BEGIN")                                                                                             \
    X(BEGIN_WRITE, "BEGIN IMMEDIATE")                                                                                  \
    X(COMMIT, "COMMIT")                                                                                                \
    X(ROLLBACK, "ROLLBACK")                                                                                            \
    X(LOAD, SIMBA__SQLITE_ROW SIMBA__SQLITE_ROWS " WHERE mutex = ?1")                                                  \
    X(LIST,                                                                                                            \
      SIMBA__SQLITE_ROW ", (SELECT count(*) FROM simba_waiter w WHERE w.mutex = simba_lock.mutex AND w.what = 'w'), "  \
                        "(SELECT id FROM simba_waiter w WHERE w.mutex = simba_lock.mutex AND w.what = 'w' ORDER BY "   \
                        "since LIMIT 1)" SIMBA__SQLITE_ROWS " ORDER BY mutex")                                         \
    X(STORE, "INSERT OR REPLACE INTO simba_lock (mutex, " SIMBA__SQLITE_COLUMNS ") "                                   \
             "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)")                                   \
    X(DELETE, "DELETE FROM simba_lock WHERE mutex = ?1")                                                               \
    X(OWNED, "SELECT 1 FROM simba_lock WHERE owner_id <> '' LIMIT 1")                                                  \
    X(STORE_NOTE, "INSERT OR REPLACE INTO simba_note (mutex, note, note_token, note_number, written_at) "              \
                  "VALUES (?1, ?2, ?3, ?4, ?5)")                                                                       \
    X(DELETE_NOTE, "DELETE FROM simba_note WHERE mutex = ?1")                                                          \
    X(FLOOR, "SELECT note_token FROM simba_note WHERE mutex = ''")                                                     \
    X(RAISE_FLOOR, "INSERT INTO simba_note (mutex, note, note_token, note_number, written_at) "                        \
                   "VALUES ('', x'', ?1, 0, 0) ON CONFLICT (mutex) DO UPDATE "                                         \
                   "SET note_token = max(note_token, excluded.note_token)")                                            \
    X(QUEUE, "SELECT what, nonce, socket, until FROM simba_waiter WHERE mutex = ?1 ORDER BY what, since")              \
    X(ENTER, "INSERT INTO simba_waiter (nonce, mutex, what, since, id, socket, until, called) "                        \
             "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (nonce) DO UPDATE "                                  \
             "SET socket = excluded.socket, until = excluded.until, called = excluded.called")                         \
    X(PLACE, "SELECT (SELECT count(*) FROM simba_waiter b "                                                            \
             "WHERE b.mutex = w.mutex AND b.what = 'w' AND b.since <= w.since), "                                      \
             "(SELECT socket FROM simba_waiter b "                                                                     \
             "WHERE b.mutex = w.mutex AND b.what = 'w' AND b.since < w.since ORDER BY since DESC LIMIT 1) "            \
             "FROM simba_waiter w WHERE nonce = ?1")                                                                   \
    X(CALL, "UPDATE simba_waiter SET called = ?2 WHERE nonce = ?1")                                                    \
    X(CALL_OBSERVERS, "UPDATE simba_waiter SET called = ?2 WHERE mutex = ?1 AND what = 'o'")                           \
    X(PUT_BACK, "UPDATE simba_waiter SET since = ?2, called = 0 WHERE nonce = ?1")                                     \
    X(LEAVE, "DELETE FROM simba_waiter WHERE nonce = ?1")                                                              \
    X(BURY, "DELETE FROM simba_waiter WHERE socket = ?1")                                                              \
    X(LOOK, "SELECT what, mutex, nonce, called, 1 FROM simba_waiter WHERE socket = ?1 AND called > ?2")                \
    X(LOOK_AT_ALL, "SELECT w.what, w.mutex, w.nonce, w.called, w.called > ?2 OR (w.what = 'w' "                        \
                   "AND coalesce(l.owner_id, '') = '' AND coalesce(l.next_until_boot_ns, 0) <= ?3) "                   \
                   "FROM simba_waiter w LEFT JOIN simba_lock l ON l.mutex = w.mutex WHERE w.socket = ?1")

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
    char *path; /* as the URL has it */
    bool sync_full;
    simba__sqlite_share share;
    bool broken;      /* after some error the connection cannot be trusted any more */
    bool outdated;    /* its tables are those of the version before */
    bool reopened;    /* perhaps it is another file now. Whoever has noticed clears it */
    bool row_failed;  /* the latest failure concerned one statement; the transaction is still good */
    char boot_id[40]; /* which boot of the machine the boot-time clock counts from */
    simba__sqlite_side sides[SIMBA__SQLITE_SIDES];
    simba__sqlite_busy busy;
} simba__sqlite_db;

/* Fill in what is needed before opening. SIMBA_ENOMEM, SIMBA_ESYSTEM. */
int simba__sqlite_db_init(simba__sqlite_db *db, simba_host *host, const simba__sqlite_options *options,
                          simba_error *err);
/* Also after a failed init, and on zeroes. */
void simba__sqlite_db_fini(simba__sqlite_db *db);

/* Open the file, and create what is missing. If it is open already, make sure that it still is the file at that path, and
 * otherwise open that one. */
int simba__sqlite_db_refresh(simba__sqlite_db *db, simba_error *err);

/* It is open, and nothing has gone wrong with it. It may still be another file than the one at its path. */
static inline bool simba__sqlite_db_is_sound(const simba__sqlite_db *db)
{
    return db->handle && !db->broken && !db->outdated;
}

/* The path, with its links resolved if the file is open. */
const char *simba__sqlite_db_real_path(const simba__sqlite_db *db);

/* Make the tables of this version out of those of the version before. SIMBA_ESTATE: a mutex is held. */
int simba__sqlite_db_upgrade(simba__sqlite_db *db, int64_t now_ns, simba_error *err);
/* SIMBA_ESTORE, if that must happen first. */
int simba__sqlite_db_check_version(const simba__sqlite_db *db, simba_error *err);

/* A parameter of a statement: a text, or else a number. */
typedef struct simba__sqlite_value {
    const char *text;
    int64_t number;
} simba__sqlite_value;

#define SIMBA__SQLITE_TEXT(value) ((simba__sqlite_value){.text = (value)})
#define SIMBA__SQLITE_NUMBER(value) ((simba__sqlite_value){.number = (int64_t)(value)})

/* Run a statement, with a value for each of its parameters. 1: there is a row; read it, and then step on, or reset it. 0: it is
 * done. Texts must last until then. */
#define simba__sqlite_run(db, err, name, ...)                                                                          \
    simba__sqlite_db_run((db), SIMBA__SQLITE_##name, (const simba__sqlite_value[]){__VA_ARGS__}, (err))
int simba__sqlite_db_run(simba__sqlite_db *db, simba__sqlite_statement which, const simba__sqlite_value *values,
                         simba_error *err);
int simba__sqlite_db_step(simba__sqlite_db *db, simba__sqlite_statement which, simba_error *err);

void simba__sqlite_db_rollback(simba__sqlite_db *db);

/* Set the error of an SQLite result code; report a row that simba cannot have written, while the statement and the transaction are
 * good (SIMBA_ECORRUPT). */
int simba__sqlite_db_fail(simba__sqlite_db *db, int rc, simba_error *err);
int simba__sqlite_db_damaged(simba__sqlite_db *db, const char *mutex, const char *column, const char *what,
                             simba_error *err);

/* --- rows.c: rows in and out ---------------------------------------------------------------------------- */

/* A row of simba_lock. */
typedef struct simba__sqlite_lock {
    simba__row row;
    char socket[SIMBA__SQLITE_NAME_SIZE]; /* of the owner's client */
    uint64_t next_nonce;                  /* the waiter that was called last, for whom the free mutex is reserved */
    int64_t next_until_ns;
    bool exists;
} simba__sqlite_lock;

/* What an answer shows of a mutex. Texts and note are behind it. */
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

/* All zero, if there is none. A lease or reservation of an earlier boot has ended: the row comes without it. With `ret_note` the
 * identity of the note is in the row, and *ret_note becomes a copy of it, unless there is none. SIMBA_ECORRUPT: simba cannot
 * have written the row; the transaction can go on without it. */
int simba__sqlite_load(simba__sqlite_db *db, const char *mutex, simba__sqlite_lock *ret_lock,
                       simba__sqlite_listing **ret_note, simba_error *err);
int simba__sqlite_store(simba__sqlite_db *db, const char *mutex, const simba__sqlite_lock *lock, simba_error *err);
/* The note of a request, with its identity in `row`. */
int simba__sqlite_store_note(simba__sqlite_db *db, const simba_request *request, const simba__row *row,
                             simba_error *err);
/* Remove the mutex. The greatest token of those that were forgotten stays: one that is made anew goes on from there. */
int simba__sqlite_forget(simba__sqlite_db *db, const char *mutex, uint64_t token, simba_error *err);
int simba__sqlite_floor(simba__sqlite_db *db, uint64_t *ret_token, simba_error *err);

/* Every mutex that matches the shell pattern (NULL: all), ordered by name. The caller frees the rows, also after a failure. */
int simba__sqlite_list(simba__sqlite_db *db, const char *pattern, simba__row_now now, simba__sqlite_listing **ret_first,
                       simba_error *err);

/* --- decide.c: one batch ------------------------------------------------------------------------------ */

/* What requests a batch carries out together, in this order: the latter two each in a transaction. */
typedef enum simba__sqlite_part {
    SIMBA__SQLITE_SET_UP,
    SIMBA__SQLITE_READS,
    SIMBA__SQLITE_WRITES,
    SIMBA__SQLITE_PARTS
} simba__sqlite_part;

/* Who has it: the job begins with it, or the client gives it up, whoever comes first. */
enum { SIMBA__SQLITE_WAITS, SIMBA__SQLITE_BEGUN, SIMBA__SQLITE_GIVEN_UP };

/* One request of a batch. */
typedef struct simba__sqlite_item {
    simba_request *request;
    simba_request ask; /* a copy, which the job fills in; its strings are the request's */
    simba__sqlite_part part;
    atomic_int state;
    int code; /* once its part is done; negative: `fault` says why */
    char *fault;
    simba__sqlite_listing *listed; /* of a LIST; the note of a READ_NOTE */
} simba__sqlite_item;

/* A mutex that this client watches: a row 'o'. */
typedef struct simba__sqlite_watch simba__sqlite_watch;
struct simba__sqlite_watch {
    simba__node node;          /* by its nonce, while somebody watches it */
    simba__sqlite_watch *next; /* in a list of rows to be written or removed */
    bool listed;               /* it is in such a list, */
    bool enters;               /* whose batch writes its row */
    simba_watch *shown;        /* NULL: nobody watches it any more */
    uint64_t nonce;
    char mutex[];
};

/* Something to tell the client: a row of simba_waiter that was called. */
typedef struct simba__sqlite_news simba__sqlite_news;
struct simba__sqlite_news {
    simba__sqlite_news *next;
    uint64_t nonce;
    char what;
    char mutex[];
};

/* For which of its rows a client looks. */
typedef enum simba__sqlite_look {
    SIMBA__SQLITE_NO_LOOK,
    SIMBA__SQLITE_LOOK_CALLED,
    SIMBA__SQLITE_LOOK_OVERDUE, /* also for mutexes that are free although it waits for them */
} simba__sqlite_look;

typedef struct simba__sqlite_batch {
    simba_host *host;
    int64_t host_offset_ns; /* from our boot-time clock to that of processes outside of a time namespace */
    simba__sqlite_db db;
    simba__sqlite_wake wake;

    /* What is asked of it. */
    simba__sqlite_item *items;
    size_t count;
    bool todo[SIMBA__SQLITE_PARTS]; /* cleared as they are done */
    simba__sqlite_watch *watches;   /* to be written or removed, with the writes */
    simba__sqlite_look look;        /* with the reads */
    bool sweep;                     /* remove what dead processes have left behind */

    /* What comes out. */
    simba_error error; /* of all that is not done */
    bool has_rows;     /* in simba_waiter, perhaps. Stays from batch to batch */
    simba__sqlite_news *news;

    int64_t looked_ns; /* the greatest `called` that was read */
    simba__row_now now;
    char (*notify)[SIMBA__SQLITE_NAME_SIZE]; /* whom to notify after the commit */
    size_t notify_count, notify_capacity;
} simba__sqlite_batch;

simba__sqlite_part simba__sqlite_part_of(simba_op op);
/* Carry it out. May be called again after SIMBA_ETIMEDOUT. */
void simba__sqlite_batch_run(simba__sqlite_batch *batch);
/* The answers have been told. */
void simba__sqlite_batch_clear(simba__sqlite_batch *batch);

#endif
