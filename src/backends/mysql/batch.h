/* A batch: what one job does on one connection. This is the worker's half of the store; what the answers lead to is in
 * backend.c. What is done with requests that write is in writes.c, with the others in reads.c.
 *
 * A job connects at its beginning or not at all. It may be run by a thread of the application, which must not be kept for
 * longer than it wants to wait, and connecting takes its time. So what was lost with a connection on the way is put off: it
 * becomes part of another job, which connects, on a thread that has time.
 *
 * A request may be answered, because its time is over, while the worker still has its item: so an item is a copy. */
#ifndef SIMBA_BACKENDS_MYSQL_BATCH_H
#define SIMBA_BACKENDS_MYSQL_BATCH_H

#include "backends/mysql/rows.h"

/* What a LIST or an EXAMINE found. */
typedef struct simba__my_found simba__my_found;
struct simba__my_found {
    simba__my_found *next;
    int64_t now_ms;
    simba_owner owner;
    simba_verdict verdict;
    const char *remedy;
    const char *what;
    bool is_flawed; /* LIST: a row that cannot be ours, for the log */
    char text[];    /* the mutex; what is wrong with the row; or the text of a finding */
};

typedef struct simba__sql_item {
    simba_request ask;                /* a copy with strings of its own; the reply is filled in by the worker */
    simba_request *request;           /* whom to answer; NULL: nobody, or nobody any more. In turns only */
    struct simba__sql_polled *polled; /* a poll of this mutex. In turns only */
    uint64_t floor;                   /* a new token is greater */
    bool guarded;       /* ACQUIRE: by our own books the mutex is held by another contender of this client */
    bool kept_back;     /* and yet it was free in the table */
    bool is_refused;    /* it was not even sent */
    bool put_off;       /* to be done by another job */
    bool is_given_up;   /* RENEW: nobody waits for it any more; other lanes may work on its mutex. In turns only */
    uint64_t version;   /* of the row, afterwards */
    simba_error *error; /* NULL: the reply counts */
    simba__my_found *found;
} simba__sql_item;

typedef struct simba__my_batch {
    simba__my_session session;
    simba__sql_item *items;
    size_t count, capacity;
    char *texts; /* strings of the items */
    size_t texts_size, texts_capacity;

    /* The worker's. */
    simba__sql_item **order; /* by name, then as they came */
    simba__my_row *rows;     /* one for each name */
    size_t *firsts;          /* of each row, the first in `order`; and one more for the end */
    size_t row_count;
    uint64_t seed;
} simba__my_batch;

void simba__my_batch_init(simba__my_batch *batch, simba_host *host, const simba__my_options *options);
void simba__my_batch_fini(simba__my_batch *batch);

/* In a turn: room for `count` items with `bytes` of text; then the items one by one. */
bool simba__my_batch_reserve(simba__my_batch *batch, size_t count, size_t bytes);
simba__sql_item *simba__my_batch_add(simba__my_batch *batch, const simba_request *request);
/* After the answers: forget the items. */
void simba__my_batch_clear(simba__my_batch *batch);

/* The text is there for the item alone, since others may fail with another. */
void simba__my_item_fail(simba__sql_item *item, const simba_error *why);
void simba__my_item_forget_found(simba__sql_item *item);
/* Rather than about the table. */
bool simba__my_item_is_about_row(const simba__sql_item *item);

/* On the worker: one row for each name among the items. */
void simba__my_batch_arrange(simba__my_batch *batch);
/* After an error: leave the connection as it should be found, or not at all. */
void simba__my_batch_undo(simba__my_batch *batch, const simba__sql_failure *why);
/* The connection is gone, but only because it was idle or because the statement was too large: do it again by another job. */
bool simba__my_batch_may_put_off(simba__my_batch *batch, const simba__sql_failure *why);

/* On the worker: either requests that write, or READ, LIST, EXAMINE and PREPARE. */
void simba__my_batch_write(simba__my_batch *batch);
void simba__my_batch_read(simba__my_batch *batch);

#endif
