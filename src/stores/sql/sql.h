/* A store over a table on an SQL server: one path for MySQL, MariaDB and PostgreSQL.
 *
 * What is stored. `simba_mutex` has a row for each mutex, which stays: mutex, acquired_at, ttl_at, transition_at, owner_id, version
 * are those of Simba on the JVM; nonce, nonce_version, revoked_version, note, note_token, note_number, note_written_at and
 * forgotten_version are simba's (row.h). PostgreSQL has `simba_mutex_waiters` too, a row for each waiter: mutex, nonce, channel,
 * since, until, invited.
 *
 * How it is decided: in C, by core/row.c, on rows that are locked. Two packets carry any batch of requests:
 *   1. begin; select … from simba_mutex where mutex in (…) for update skip locked; [the waiters of some;] select NOW
 *   2. insert … on duplicate key update …; [notes, waiters, notifications;] commit          or, if nothing changed: rollback
 * A mutex that did not come back is locked or missing. A plain select in the same transaction tells which. A row that is locked: an
 * acquire that would lose is refused by what the row says; all other requests stand aside for a few milliseconds. A row that is
 * missing: for an acquire the batch rolls back, makes the row by itself, and begins again.
 * Before packet 2 nothing has changed: a failure up to there is repeated once, unseen. After it the outcome is not known; the nonce
 * answers the next acquire. Until packet 2 is over the rows are locked, so whoever asks later sees its outcome. A client that
 * stops between the packets loses its transaction when the server's timeout is over, after a second at most.
 *
 *   ACQUIRE         free: version = greatest(version, floor) + 1, nonce, times. Own nonce: extend. Otherwise refused; on PostgreSQL
 *                   a waiter's row is written, if the contender queues.
 *   RENEW           id, token and nonce match and the lease lives: the two times.
 *   RELEASE, FORCE  owner '', times 0, version + 1. Waiters are notified. Not mine: the waiter's own row goes.
 *   WRITE_NOTE      mine, and no later write came first: the columns of notes.
 *   FORGET          free: everything null but the version; forgotten_version = version.
 *   READ, polls     a select without locks. READ_NOTE, LIST: the same with the note, row by row.
 *   EXAMINE, PREPARE  the dialect's schema.c.
 *
 * Who wakes whom. On PostgreSQL the transaction of a release reads the waiters under the lock of the row, and notifies up to three of
 * them (waiting.c). On MySQL, and behind a pooler that swallows notifications, waiters poll (polling.c).
 *
 * Two connections: the writer has batches and PREPARE, the reader everything else, and it listens. Each has one statement under way.
 * Requests gather meanwhile and form the next batch.
 *
 *   store.c    the contract: queues, deadlines, answers         connection.c     a connection that is ready
 *   batch.c    lock, decide, write                              reads.c       READ, polls, READ_NOTE, LIST, EXAMINE
 *   waiting.c  waiters, notifications                           polling.c     which rows to poll, and when
 *   row.c      cells to core/row.c and back                     grants.c      what this client remembers of rows
 *   statements.c  the text of both packets */
#ifndef SIMBA_STORES_SQL_SQL_H
#define SIMBA_STORES_SQL_SQL_H

#include "net/buffer.h"
#include "stores/sql/grants.h"
#include "stores/sql/polling.h"
#include "stores/sql/row.h"
#include "util/error.h"

typedef struct simba__sql_store simba__sql_store;
typedef struct simba__sql_connection simba__sql_connection;
typedef struct simba__sql_batch simba__sql_batch;

enum { SIMBA__SQL_ROWS_MAX = 512 /* of a batch */, SIMBA__SQL_WINDOW = 1024 };

/* --- failures -------------------------------------------------------------------------------------------- */

typedef enum simba__sql_effect {
    SIMBA__SQL_TELL,  /* tell the requests; nothing else helps */
    SIMBA__SQL_LOST,  /* the connection is over, perhaps only because it had been idle */
    SIMBA__SQL_AWAY,  /* connect again in a while, perhaps elsewhere, with a new look at the table */
    SIMBA__SQL_AGAIN, /* the server rolled back in favour of somebody else, or a lock was not given: later */
    SIMBA__SQL_ALONE, /* perhaps only one request is the cause: each by itself */
} simba__sql_effect;

typedef struct simba__sql_failure {
    simba__sql_effect effect;
    simba_error error;
} simba__sql_failure;

/* Fill in *why and return `code`. */
#define simba__sql_fail(why, what_follows, code, ...)                                                                  \
    ((why)->effect = (what_follows), simba__fail(&(why)->error, (code), __VA_ARGS__))

/* --- what a server is asked ------------------------------------------------------------------------------- */

typedef enum simba__sql_kind {
    SIMBA__SQL_TEXT,     /* a statement of the dialect's own */
    SIMBA__SQL_LOCK,     /* packet 1. Results: rows; waiters, if any were asked for; the time */
    SIMBA__SQL_SEE,      /* in the same transaction, without locks. One result, like those of READ and so on */
    SIMBA__SQL_MAKE,     /* roll back, then make the rows that are missing */
    SIMBA__SQL_WRITE,    /* packet 2 */
    SIMBA__SQL_ROLLBACK, /* its other form */
    SIMBA__SQL_READ,
    SIMBA__SQL_READ_NOTE,
    SIMBA__SQL_LIST,
    SIMBA__SQL_LISTEN, /* on the channel */
    SIMBA__SQL_NOTIFY, /* the own channel, by "0" */
} simba__sql_kind;

typedef struct simba__sql_waiter {
    size_t row; /* of the batch */
    uint64_t nonce;
    char channel[32];
    int64_t since, until, invited;
    bool is_changed, is_gone;
} simba__sql_waiter;

typedef struct simba__sql_notice {
    char channel[32];
    char kind; /* '1': invited; '2', '3': stands by; '4': a note */
    const char *mutex;
} simba__sql_notice;

/* Stays put until it is answered; the names only until it was asked. */
typedef struct simba__sql_ask {
    simba__sql_kind kind;
    const char *text;         /* TEXT; LISTEN, NOTIFY: the channel */
    const char *const *names; /* LOCK, SEE, MAKE, READ, READ_NOTE */
    size_t count;
    const char *const *waited; /* LOCK: whose waiters to read */
    size_t waited_count;
    const simba__sql_batch *batch; /* WRITE */
} simba__sql_ask;

/* --- dialects --------------------------------------------------------------------------------------------- */

/* How a server wants its statements. */
typedef struct simba__sql_words {
    const char *table, *waiters;     /* quoted */
    const char *now;                 /* the server's clock in epoch milliseconds */
    const char *note;                /* ", " and the note in hexadecimal digits, and when it was written */
    const char *begin;               /* the statements of packet 1 before the rows, */
    const char *last;                /* and the last one, which selects the time */
    const char *write;               /* packet 2, also as a rollback, begins with this, */
    const char *write_waiters;       /* or this, if it is lost with the server without harm */
    const char *on_conflict;         /* what an insert says about rows that exist; %s: their key */
    const char *new_begin, *new_end; /* around a column, for the value to be inserted */
    const char *keep;                /* the same, if those rows are to stay as they are */
    bool is_signed;                  /* numbers have 63 bits and a sign */
    void (*put_text)(simba__buffer *out, const char *text);
    void (*put_bytes)(simba__buffer *out, const void *bytes, size_t size);
} simba__sql_words;

/* Append the statements of this ask. */
void simba__sql_put_ask(simba__buffer *out, const simba__sql_words *words, const simba__sql_ask *ask);
/* A name in the URL that goes into statements: only letters, digits, _ and $, at most `most`. `ret_name` has room for one more, and is
 * untouched when the key was not given. SIMBA_EURL. */
int simba__sql_name(const simba_url *url, const char *key, size_t most, char *ret_name, simba_error *err);

/* The properties of the table that matter to requests. */
typedef struct simba__sql_table {
    unsigned mutex_chars, id_chars;
    bool mutex_is_ascii, id_is_ascii; /* other characters are refused */
    bool is_exact;                    /* names differ if any byte does */
    const char *make_exact;           /* if they do not: what to do about it */
    uint64_t version_max;
    size_t rows_max; /* of a batch */
} simba__sql_table;

/* Why statements of schema.c are sent. */
typedef enum simba__sql_purpose { SIMBA__SQL_TO_OPEN, SIMBA__SQL_TO_PREPARE, SIMBA__SQL_TO_EXAMINE } simba__sql_purpose;

typedef struct simba__sql_findings simba__sql_findings;
/* All is well; or else this is the verdict, and the remedy, which may be NULL. */
void simba__sql_find(simba__sql_findings *findings, bool is_fine, simba_verdict otherwise, const char *what,
                     const char *remedy, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* One server's protocol. `conn` is a connection of the dialect's. All functions run under the client's lock, and none blocks. */
typedef struct simba__sql_dialect {
    bool has_waiters;
    /* A connection that is shut. simba__sql_opened or simba__sql_lost follows, later. */
    void (*open)(void *conn);
    /* One that is open and idle. simba__sql_took_row for each row, then simba__sql_answered, later. */
    void (*ask)(void *conn, const simba__sql_ask *ask);
    /* Shut it, and say nothing more about it; without a word to the server if it is `abrupt`. False: it cannot be ended just now,
     * and simba__sql_lost follows. */
    bool (*close)(void *conn, bool abrupt);

    /* The next statement for this purpose; NULL: there is none. `why`: how the one before failed; NULL: it worked, or there was none.
     * A failure that is returned in *why has not been put right. */
    const char *(*look)(void *conn, simba__sql_purpose purpose, bool begins, simba__sql_failure *why);
    /* A row of its answer. */
    void (*learn)(void *conn, const simba__sql_cell *cells, unsigned count);
    /* May the table be used? 0, or the code of *why. */
    int (*check)(void *conn, simba__sql_table *ret_table, simba__sql_failure *why);
    void (*examine)(void *conn, simba__sql_findings *findings);
} simba__sql_dialect;

/* For dialects. `connection` is the one that the connection belongs to. */
void simba__sql_opened(simba__sql_connection *connection);
/* `result` counts the results that have columns. */
void simba__sql_took_row(simba__sql_connection *connection, unsigned result, const simba__sql_cell *cells,
                         unsigned count);
/* A failure that is LOST or AWAY, and the connection is shut; or it is idle. */
void simba__sql_answered(simba__sql_connection *connection, const simba__sql_failure *why);
/* It could not be opened, or has ended by itself while nothing was asked. */
void simba__sql_lost(simba__sql_connection *connection, const simba__sql_failure *why);
void simba__sql_notified(simba__sql_connection *connection, const char *payload);

/* --- connections ---------------------------------------------------------------------------------------------- */

typedef enum simba__sql_state {
    SIMBA__SQL_SHUT,
    SIMBA__SQL_OPENING,
    SIMBA__SQL_ENDING,  /* it was closed, and the dialect is not done with it */
    SIMBA__SQL_LOOKING, /* it is open, and schema.c has statements */
    SIMBA__SQL_READY,
    SIMBA__SQL_ASKED,
} simba__sql_state;

struct simba__sql_connection {
    simba__sql_store *store;
    void *conn;
    simba__sql_state state;
    simba__sql_purpose purpose; /* LOOKING */
    simba__sql_ask looking;
    simba__sql_table table;
    simba__sql_failure unusable; /* READY: why the table cannot be used; code 0: it can */

    unsigned failures; /* to open, in a row */
    simba_local not_before;
    simba__sql_failure why; /* the latest of them */

    const simba__sql_ask *ask;
    void (*row)(simba__sql_connection *connection, unsigned result, const simba__sql_cell *cells, unsigned count);
    void (*answered)(simba__sql_connection *connection, const simba__sql_failure *why);
    simba_local asked_at;
    size_t wanted;       /* requests that wait for the answer and have not expired */
    simba_local overdue; /* when to give the connection up, if nothing is wanted any more */
    bool has_rows;       /* some of the answer has come */
    bool is_repeated;    /* what was lost is asked again; until there is an answer */
};

/* Open it if it is shut and its pause is over. `is_asked`: for requests. False: it is too early; `connection->why` says why. */
bool simba__sql_connection_open(simba__sql_connection *connection, bool is_asked);
/* READY. `wanted`: how many requests wait for it. The ask stays put. */
void simba__sql_connection_ask(simba__sql_connection *connection, const simba__sql_ask *ask, size_t wanted,
                               void (*row)(simba__sql_connection *, unsigned, const simba__sql_cell *, unsigned),
                               void (*answered)(simba__sql_connection *, const simba__sql_failure *));
/* READY: the statements of schema.c; `answered` follows. */
void simba__sql_connection_look(simba__sql_connection *connection, simba__sql_purpose purpose, size_t wanted,
                                void (*answered)(simba__sql_connection *, const simba__sql_failure *));
/* Its server is silent: give it up. What was asked fails as LOST. */
void simba__sql_connection_drop(simba__sql_connection *connection);
/* Close it, and say nothing to whoever has asked. */
void simba__sql_connection_close(simba__sql_connection *connection);
/* A request that waits for the answer has expired. */
void simba__sql_connection_expired(simba__sql_connection *connection);

/* --- the batch --------------------------------------------------------------------------------------------- */

typedef struct simba__sql_item {
    simba_request *request; /* NULL: it has been told */
    size_t row;
    bool is_expired;
    bool is_aside;     /* its row is locked by somebody else */
    bool is_kept_back; /* the mutex is free, but another contender of this client holds it by its own clock */
} simba__sql_item;

typedef enum simba__sql_phase {
    SIMBA__SQL_NO_BATCH,
    SIMBA__SQL_LOCKS,
    SIMBA__SQL_SEES,
    SIMBA__SQL_MAKES,
    SIMBA__SQL_WRITES,
    SIMBA__SQL_UNDOES, /* all are told */
} simba__sql_phase;

struct simba__sql_batch {
    simba__sql_phase phase;
    simba__sql_item *items; /* by row, then in the order in which they came; one block with those that follow */
    simba__sql_row *rows;   /* by name */
    const char **names, **waited;
    char (*texts)[SIMBA_MUTEX_BYTES + 1]; /* the rows' names: a request may go before the others of its row */
    size_t count, row_count, capacity;
    simba__sql_waiter *waiters;
    size_t waiter_count, waiter_capacity;
    simba__sql_notice *notices;
    size_t notice_count, notice_capacity;
    bool lacks_memory;
    bool has_made; /* rows that were missing */
    bool writes;   /* more than waiters */
    int64_t now_ms;
    simba_local began;
    uint64_t began_tick; /* on the clock of the polling */
    simba__sql_ask ask;
};

/* The writer is ready and requests wait: begin. */
void simba__sql_batch_begin(simba__sql_store *store);
/* Tell all that are left in it. */
void simba__sql_batch_end(simba__sql_store *store, const simba__sql_failure *why);
void simba__sql_batch_fini(simba__sql_batch *batch);
/* The rows of the batch; NULL: it has no row of that name. */
simba__sql_row *simba__sql_batch_find(const simba__sql_batch *batch, const char *mutex);

/* --- waiting ----------------------------------------------------------------------------------------------- */

typedef enum simba__sql_hearing {
    SIMBA__SQL_OFF,
    SIMBA__SQL_LISTENS, /* and the test is to be sent */
    SIMBA__SQL_TESTS,   /* it was */
    SIMBA__SQL_HEARS,
    SIMBA__SQL_DEAF, /* it did not come: waiters poll */
} simba__sql_hearing;

typedef struct simba__sql_waiting {
    simba__sql_hearing hearing;
    char channel[32];       /* of this client */
    bool has_heard;         /* this connection has */
    bool may_be_elsewhere;  /* the writer has connected since, perhaps to another server */
    bool must_enter;        /* waiters may not be in the server's queue */
    unsigned failures;      /* in a row */
    unsigned deaf_tests;    /* in a row */
    simba_local not_before; /* OFF */
    simba_timer timer;      /* TESTS: until when to wait. DEAF: when to test again */
    simba__sql_ask ask, test;
} simba__sql_waiting;

int simba__sql_waiting_init(simba__sql_store *store);
/* Should the reader listen, or the writer test? */
bool simba__sql_waiting_wants_reader(const simba__sql_store *store);
bool simba__sql_waiting_wants_writer(const simba__sql_store *store);
/* The reader is to be left alone: reads go by the writer. */
bool simba__sql_waiting_needs_quiet(const simba__sql_store *store);
void simba__sql_waiting_listen(simba__sql_store *store);
void simba__sql_waiting_test(simba__sql_store *store);
/* A connection was opened, or was lost. */
void simba__sql_waiting_opened(simba__sql_store *store, const simba__sql_connection *connection);
void simba__sql_waiting_lost(simba__sql_store *store, const simba__sql_connection *connection);
void simba__sql_waiting_heard(simba__sql_store *store, const char *payload);

/* Are the waiters of this request's mutex to be read? */
bool simba__sql_waits(const simba__sql_store *store, const simba_request *request);
void simba__sql_waiting_learn(simba__sql_batch *batch, const simba__sql_cell *cells, unsigned count);
/* The item was decided: it enters or leaves the queue. */
void simba__sql_waiting_decided(simba__sql_store *store, simba__sql_row *row, simba_request *request);
/* All items of this row were. */
void simba__sql_waiting_settle(simba__sql_store *store, const simba__sql_row *row);

/* --- reads ------------------------------------------------------------------------------------------------- */

/* This connection is ready: begin with what waits. False: nothing does. */
bool simba__sql_reads_begin(simba__sql_store *store, simba__sql_connection *connection);
bool simba__sql_reads_wait(const simba__sql_store *store, simba_local now);
/* They cannot be asked. */
void simba__sql_reads_fail(simba__sql_store *store, const simba__sql_failure *why);
/* A row was read: remember it, and tell who watches it. */
void simba__sql_saw(simba__sql_store *store, simba__sql_row *row, const simba_reply *reply, uint64_t began,
                    simba_local now);

/* --- the store --------------------------------------------------------------------------------------------- */

/* Linked through `next`. A request in a list has no backend_data; one of a batch has its item. Until it is complete, its reply is
 * the store's: `now_ms` when it first stood aside, `place` when it is due again, both in ns; `status` the flags below. */
typedef struct simba__sql_list {
    simba_request *first, **end;
} simba__sql_list;

enum { SIMBA__SQL_WAS_REPEATED = 1, SIMBA__SQL_GOES_ALONE = 2 };

typedef enum simba__sql_life { SIMBA__SQL_OPEN, SIMBA__SQL_CLOSING, SIMBA__SQL_CLOSED } simba__sql_life;

/* For messages. */
typedef struct simba__sql_place {
    const char *store; /* "mysql" */
    const char *where; /* the server */
    const char *table;
} simba__sql_place;

/* The first member of a store's instance, so that the functions below are those of its table. */
struct simba__sql_store {
    simba_host *host;
    const simba__sql_dialect *dialect;
    simba__sql_place place;
    simba__sql_life life;
    simba__sql_connection writer, reader;
    simba__sql_list renewals, writes, reads;
    simba__sql_list prepares;
    simba_request *preparing; /* NULL: none is */
    simba__sql_list aside;    /* their rows are locked */
    simba_timer again;        /* when to take some of those up */
    simba_timer poll;
    simba_timer timeout; /* with connections */
    simba__sql_batch batch;
    simba__sql_polling polling;
    simba__sql_grants grants;
    simba__sql_waiting waiting;

    /* reads.c: what is asked. */
    simba__sql_connection *reads_by; /* NULL: nothing is */
    simba__sql_ask read;
    simba__sql_list asked, expired; /* those that are asked */
    simba__list polled;             /* of simba__sql_polled: the polls that are asked, or are to be */
    const char **names;
    bool latest_polled; /* the latest ask had polls */
    uint64_t began_tick;
    size_t flaws;
};

/* `writer` and `reader` are connections; they stay the caller's. SIMBA_ENOMEM; even then, call `fini`. */
int simba__sql_init(simba__sql_store *store, simba_host *host, const simba__sql_dialect *dialect,
                    simba__sql_place place, void *writer, void *reader, simba_error *err);
void simba__sql_submit(void *instance, simba_request *request);
void simba__sql_expire(void *instance, simba_request *request);
void simba__sql_flush(void *instance); /* and `woken` */
int simba__sql_watch(void *instance, simba_watch *watch);
void simba__sql_unwatch(void *instance, simba_watch *watch);
void simba__sql_close(void *instance);
void simba__sql_fini(simba__sql_store *store);
/* The functions of a table that are the same for every SQL store. */
#define SIMBA__SQL_FUNCTIONS                                                                                           \
    .submit = simba__sql_submit, .expire = simba__sql_expire, .flush = simba__sql_flush, .watch = simba__sql_watch,    \
    .unwatch = simba__sql_unwatch, .woken = simba__sql_flush, .close = simba__sql_close

void simba__sql_list_append(simba__sql_list *list, simba_request *request);
/* The first of them, linked through `next`. */
simba_request *simba__sql_list_take(simba__sql_list *list);
/* Fail it with this error. */
void simba__sql_tell(simba__sql_store *store, simba_request *request, const simba__sql_failure *why);
/* It comes again: at once, unless its time is over; or when its row may be free. */
void simba__sql_repeat(simba__sql_store *store, simba_request *request);
void simba__sql_stand_aside(simba__sql_store *store, simba_request *request);
/* Fail all that wait for the writer. */
void simba__sql_fail_writes(simba__sql_store *store, const simba__sql_failure *why);
void simba__sql_go_on(simba__sql_store *store);
/* A connection has become ready or idle, or could not be opened. */
void simba__sql_settled(simba__sql_connection *connection);
/* The timer fires at `at` at the latest. */
void simba__sql_arm_timeout(simba__sql_store *store, simba_local at);

#endif
