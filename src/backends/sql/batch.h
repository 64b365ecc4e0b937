/* A batch: the requests that one job carries out on one connection, and the steps that this takes.
 *
 * Nothing here talks to a server. A decider, writes.c or reads.c, chooses the next step: connect, lock these rows, put
 * those, commit. Other code carries it out, reports the result, and asks for the next one. So the decisions (which rows
 * go into which statement, what to repeat after which error, what to leave to another job) run the same on a worker that
 * blocks, on connections that do not, and in a test whose server is an array. Pure, except that it allocates memory.
 *
 * A batch connects at its beginning or not at all. So a request that loses its connection on the way is put off: it becomes part
 * of another batch.
 *
 * A request stays with the store until it is complete, so an item refers to its strings. A poll is no request, and the mutex may
 * be unwatched meanwhile: so its name is copied. */
#ifndef SIMBA_BACKENDS_SQL_BATCH_H
#define SIMBA_BACKENDS_SQL_BATCH_H

#include "backends/sql/failure.h"
#include "backends/sql/row.h"

enum { SIMBA__SQL_ROWS_MAX = 512 }; /* of one statement */

/* --- items ---------------------------------------------------------------------------------------------- */

/* One thing that a LIST, an EXAMINE or a READ_NOTE found. */
typedef struct simba__sql_found simba__sql_found;
struct simba__sql_found {
    simba__sql_found *next;
    int64_t now_ms;
    simba_owner owner;
    simba_verdict verdict;
    const char *remedy;
    const char *what;
    bool is_flawed;         /* LIST: a row that cannot be ours, for the log */
    simba_stored_note note; /* LIST, READ_NOTE: its bytes lie behind the text */
    char text[];            /* the mutex; what is wrong with the row; or the text of a finding */
};

typedef struct simba__sql_item {
    simba_request ask;                /* a copy, whose strings are the request's; the decider fills in the reply */
    simba_request *request;           /* the request to answer; NULL: it is a poll. Under the client's lock only */
    struct simba__sql_polled *polled; /* a poll of this mutex. Under the client's lock only */
    uint64_t floor;                   /* a new token is greater */
    bool held_here;   /* ACQUIRE: as far as we remember, another contender of this client holds the mutex */
    bool kept_back;   /* and yet it was free in the table */
    bool is_refused;  /* it was not even sent */
    bool put_off;     /* to be done by another job */
    bool is_locked;   /* because somebody else keeps the row locked, and the server waits for it */
    bool is_busy;     /* and not at once: somebody else is at work on the row, and the server does not wait for it */
    bool is_expired;  /* the client waits for it no more. Under the client's lock only */
    bool lets_others; /* RENEW: other lanes may work on its mutex meanwhile. Under the client's lock only */
    uint64_t version; /* of the row, afterwards */
    simba__sql_mark mark; /* of its note, afterwards; not known if the row was not read */
    simba_error *error;   /* NULL: the reply counts */
    simba__sql_found *found, **found_end;
} simba__sql_item;

/* The text belongs to this item alone, since others may fail with another one. */
void simba__sql_item_fail(simba__sql_item *item, const simba_error *why);
/* True if the item concerns one mutex's row; false for LIST, EXAMINE, PREPARE and READ_NOTE. */
bool simba__sql_item_has_row(const simba__sql_item *item);
/* For code that carries out a LIST or a READ_NOTE: one row of the table, flawed or not, with these columns; the columns of a
 * row, perhaps of another mutex. SIMBA_ENOMEM: give up. */
int simba__sql_item_list(simba__sql_item *item, const simba__sql_row *row, const simba__sql_columns *columns);
int simba__sql_item_note(simba__sql_item *item, simba__sql_columns *columns);
/* For code that carries out an EXAMINE: all is well; or else this is the verdict, and the remedy, which may be NULL. `what` and
 * `remedy` are constants. */
void simba__sql_item_tell(simba__sql_item *item, bool is_fine, simba_verdict otherwise, const char *what,
                          const char *remedy, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* --- steps ---------------------------------------------------------------------------------------------- */

typedef enum simba__sql_action {
    SIMBA__SQL_NOTHING,    /* the batch begins */
    SIMBA__SQL_READY,      /* connect, if there is no connection; examine the table, and check that it can be used */
    SIMBA__SQL_READY_BARE, /* connect; the table may be missing or not be one of ours */
    SIMBA__SQL_CLOSE,      /* end the connection */
    SIMBA__SQL_BEGIN,      /* a transaction */
    SIMBA__SQL_COMMIT,
    SIMBA__SQL_ROLLBACK,
    SIMBA__SQL_GET,       /* read the rows */
    SIMBA__SQL_LOCK,      /* read the rows and lock them */
    SIMBA__SQL_LOCK_FREE, /* the same; does not find rows that another session has locked */
    SIMBA__SQL_MAKE,      /* make the rows; another process may have made some of them at the same time */
    SIMBA__SQL_PUT,       /* write the rows, which are locked */
    SIMBA__SQL_ACQUIRE,   /* grant the item's mutex if it is free; read its row in any case */
    SIMBA__SQL_RENEW,     /* extend the item's lease, unless it ends later already; read its row if that matched */
    SIMBA__SQL_RELEASE,   /* end the item's grant; fill in now_ms of its row if that matched */
    SIMBA__SQL_DECIDE,    /* carry out the one request that each row has, and fill in its row, deed and place */
    SIMBA__SQL_LIST,      /* call simba__sql_item_list for every row */
    SIMBA__SQL_READ_NOTE, /* call simba__sql_item_note for the row of the item's mutex */
    SIMBA__SQL_EXAMINE,   /* call simba__sql_item_tell for every finding */
    SIMBA__SQL_PREPARE,   /* make the table, or the columns that it lacks, and see that this user may use it */
    SIMBA__SQL_PAUSE,     /* wait, some milliseconds */
    SIMBA__SQL_ACTIONS,
} simba__sql_action;

typedef struct simba__sql_step {
    simba__sql_action action;
    simba__sql_row **rows; /* sorted by strcmp, and no two are the same */
    size_t count;
    simba__sql_item *item;
    int64_t pause_ns;

    /* Filled in by the code that carries it out. */
    bool matched;   /* ACQUIRE, RENEW, RELEASE: it was carried out */
    uint64_t token; /* ACQUIRE that matched: of the grant */
} simba__sql_step;

/* For code that carries out a step about rows: mark all rows as missing at `now_ms`; find the row of that name
 * (NULL: there is none). */
void simba__sql_step_clear_rows(const simba__sql_step *step, int64_t now_ms);
simba__sql_row *simba__sql_step_find_row(const simba__sql_step *step, const char *mutex);

/* The properties of the table that READY found. */
typedef struct simba__sql_table {
    bool has_notes;         /* it has the columns of notes */
    bool has_nonce;         /* a grant whose answer was lost is known again */
    bool is_exact;          /* names differ if any byte does */
    const char *make_exact; /* if they do not: what to do about it, as in "make it utf8mb4_bin" */
    unsigned mutex_chars, id_chars;
    uint64_t rows_max; /* of a statement, as far as the server takes them */
    bool skips_locked; /* LOCK_FREE works */
} simba__sql_table;

/* --- the batch ------------------------------------------------------------------------------------------ */

typedef enum simba__sql_link {
    SIMBA__SQL_DOWN,  /* there is no connection */
    SIMBA__SQL_FRESH, /* it was made by this batch */
    SIMBA__SQL_IDLED, /* an earlier batch has used it; it may have ended since */
} simba__sql_link;

/* For messages. */
typedef struct simba__sql_place {
    const char *store; /* "mysql" */
    const char *where; /* the server */
    const char *table;
} simba__sql_place;

typedef struct simba__sql_batch simba__sql_batch;

/* Fill in batch->step with the next step, and return true; false: there is none. `why`: how the step before failed;
 * NULL: it succeeded, or there was none. */
typedef bool (*simba__sql_decider)(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now,
                                   bool is_over);

struct simba__sql_batch {
    simba__sql_place place;
    simba__sql_item *items; /* the beginning of a block that the other arrays are in, too */
    size_t count, capacity;
    char *names; /* of polls */
    size_t names_size, names_capacity;

    simba__sql_item **order; /* the items that have a row, by name, then as they came */
    simba__sql_row *rows;    /* one for each name */
    size_t *firsts;          /* of each row, the first in `order`; and one more for the end */
    size_t row_count;

    simba__sql_link link;
    simba__sql_table table;
    size_t rows_max;     /* of a statement */
    bool in_transaction; /* BEGIN was answered, and no end of it */
    uint64_t seed;

    simba__sql_decider decider;
    simba__sql_step step;
    simba__sql_row *chunk[SIMBA__SQL_ROWS_MAX]; /* the rows of the step */

    /* The decider's. */
    int pass;
    size_t from, to; /* the rows that it is about */
    size_t at;       /* the rows before it have been part of a step of this phase; reads.c: the item */
    unsigned tries;
    bool has_made_rows, is_undoing, may_put_off;
    bool has_notes;         /* its items write notes, or forget mutexes */
    bool is_singly;         /* decisions.c: each row has a statement of its own */
    simba__sql_failure why; /* the latest; code 0: none */
};

void simba__sql_batch_init(simba__sql_batch *batch, simba__sql_place place, uint64_t seed);
void simba__sql_batch_fini(simba__sql_batch *batch);

/* Make room for `count` items, of which some are polls of mutexes whose names have so many `bytes`; then add them one by one. */
bool simba__sql_batch_reserve(simba__sql_batch *batch, size_t count, size_t bytes);
simba__sql_item *simba__sql_batch_add(simba__sql_batch *batch, simba_request *request);
simba__sql_item *simba__sql_batch_add_poll(simba__sql_batch *batch, const char *mutex, simba_local deadline);
/* After the answers: drop the items. */
void simba__sql_batch_clear(simba__sql_batch *batch);

/* Begin with the added items: either requests that write, by simba__sql_writes_next or simba__sql_decisions_next, or
 * READ, LIST, EXAMINE and PREPARE, by simba__sql_reads_next. */
void simba__sql_batch_begin(simba__sql_batch *batch, simba__sql_decider decider);
/* The next step to carry out; NULL: all items have answers or errors, or are put off. `why`: how the step before
 * failed, or NULL. `is_over`: nobody waits for the batch any more. */
simba__sql_step *simba__sql_batch_next(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now,
                                       bool is_over);

/* --- for the deciders ----------------------------------------------------------------------------------- */

/* A step about the next rows from batch->at to batch->to for which `wanted` holds, as many as a statement takes.
 * False: none are left. */
bool simba__sql_batch_step_rows(simba__sql_batch *batch, simba__sql_action action,
                                bool (*wanted)(const simba__sql_batch *batch, size_t row));
bool simba__sql_batch_any_row(const simba__sql_batch *batch, size_t row);
/* A step about nothing in particular, or about an item. */
bool simba__sql_batch_step(simba__sql_batch *batch, simba__sql_action action, simba__sql_item *item);
/* A pause before the next try, which is longer each time. */
bool simba__sql_batch_pause(simba__sql_batch *batch);

/* Does this failure make the connection unusable? */
bool simba__sql_batch_is_cut(const simba__sql_failure *why);
/* Before the connection is closed: had it only been idle for too long, or was the statement too large? Then another
 * job may repeat it, in smaller statements. */
bool simba__sql_batch_may_put_off(simba__sql_batch *batch, const simba__sql_failure *why);
/* The error of a request about a note, if the table has no room for notes. The caller closes the connection, so that
 * the next one sees what `simba init` may have done since. */
simba_error simba__sql_batch_without_notes(const simba__sql_batch *batch);
/* The error of a request about a row whose version has reached the end of its type. */
void simba__sql_batch_fail_used_up(const simba__sql_batch *batch, const simba__sql_row *row, simba__sql_item *item);

/* The error of a request about a row with a flaw. */
void simba__sql_batch_fail_flawed(const simba__sql_batch *batch, const simba__sql_row *row, simba__sql_item *item);

#endif
