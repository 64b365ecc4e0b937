/* A store over a table on an SQL server: the contract of simba/backend.h, without what is particular to a server.
 *
 *   failure.h             why a statement failed, and what helps
 *   row.c                 a row of the table, and what a request does with it
 *   memory.c              what this client remembers of rows
 *   polling.c             which rows it polls, when, and what is news
 *   batch.c               requests that share a job, and the steps that it takes
 *   writes.c, reads.c     decide on the steps
 *   store.c               queues, lanes, deadlines, answers
 *
 * All but store.c is pure, so that it can be run without a server. A dialect carries out the steps.
 *
 * The client libraries block, so steps are carried out by jobs. There are a few lanes, each a connection with a batch of
 * requests. Requests gather; when a lane is idle it takes all of them, so what a busy client asks for in one go is one
 * transaction. One lane that waits for a locked row does not keep the others waiting. Requests that write are begun from the
 * first lane on, those that only read, and the polls, from the last.
 *
 * A job may take longer than a request has time. Then the request is answered by a timer; and a while after the last one has
 * gone the connection is cut, which ends the job. */
#ifndef SIMBA_BACKENDS_SQL_STORE_H
#define SIMBA_BACKENDS_SQL_STORE_H

#include <stdatomic.h>

#include "backends/sql/batch.h"
#include "backends/sql/memory.h"
#include "backends/sql/polling.h"

enum { SIMBA__SQL_LANES_MAX = 8 };

/* What a server and its client library bring. `conn` is one of the connections that simba__sql_init was given. */
typedef struct simba__sql_dialect {
    /* On the thread of the job; may block. READY fills in *table; if it fails there is no connection. A row that is read is
     * filled in by simba__sql_row_clear and, if it is there, simba__sql_row_decode. 0, or the code of *why. */
    int (*carry_out)(void *conn, simba__sql_step *step, simba__sql_table *table, simba__sql_failure *why);
    /* Any thread: end what it waits for, now and until `resume`. */
    void (*interrupt)(void *conn);
    void (*resume)(void *conn);
    /* The same as `interrupt`, except that a connection which is being opened in time is left alone: whoever comes next would
     * only have to begin anew, and never get one where that takes longer than a request has time. False: it was left alone. */
    bool (*cut)(void *conn, simba_local now);
} simba__sql_dialect;

typedef struct simba__sql_store simba__sql_store;

/* How long the store still waits for a job. */
typedef enum simba__sql_patience {
    SIMBA__SQL_WAITED_FOR, /* there are requests or polls that have time left */
    SIMBA__SQL_GRACE,      /* there are none: the connection is cut in a while */
    SIMBA__SQL_CUT,        /* it was */
} simba__sql_patience;

typedef struct simba__sql_lane {
    simba__sql_store *self;
    void *conn;
    simba_job job;
    simba__sql_batch batch;
    bool running; /* the batch is the job's */
    bool reads;
    bool polls;        /* some of its items are polls */
    uint64_t began;    /* on the clock of the polling */
    simba_local since; /* the same moment on ours */
    simba__sql_patience patience;
    simba_local cut_at;  /* in GRACE: when to cut the connection */
    atomic_bool is_over; /* nobody waits for the job any more */
} simba__sql_lane;

typedef struct simba__sql_queue {
    simba_request *first, **end;
} simba__sql_queue;

/* The first member of a store's instance, so that the functions below are those of its table. */
struct simba__sql_store {
    simba_host *host;
    const simba__sql_dialect *dialect;
    simba__sql_place place;
    simba__sql_lane lanes[SIMBA__SQL_LANES_MAX];
    unsigned lane_count;
    simba__sql_queue writes, reads;
    bool read_last; /* what was begun last */
    bool polls;     /* a poll is under way */
    bool closing;
    simba__sql_memory memory;
    simba__sql_polling polling;
    simba_timer deadline; /* at or before the earliest deadline of what is outstanding */
    simba_timer poll;
};

/* `conns`: as many as there are to be lanes, which stay the caller's. SIMBA_ENOMEM; then, too, `fini` is called. */
int simba__sql_init(simba__sql_store *self, simba_host *host, const simba__sql_dialect *dialect, simba__sql_place place,
                    void *const *conns, unsigned count, simba_error *err);
void simba__sql_submit(void *instance, simba_request *request);
void simba__sql_flush(void *instance); /* and `woken` */
int simba__sql_watch(void *instance, simba_topic *topic);
void simba__sql_unwatch(void *instance, simba_topic *topic);
void simba__sql_close(void *instance);
/* The connections are not touched. */
void simba__sql_fini(simba__sql_store *self);

#endif
