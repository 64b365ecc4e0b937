/* A lane: one connection to the server, and the batch that it carries out.
 *
 * This module alone knows how steps are driven. A dialect has one of two forms:
 *
 *   blocking       `carry_out` returns when the step is over. The whole batch is a job, which a worker thread runs.
 *   event-driven   `start` begins a step under the lock and returns. When the step is over the dialect calls
 *                  simba__sql_carried_out, and the lane starts the next one. There is no job; a pause is a timer.
 *
 * In both forms the store begins a batch by simba__sql_lane_begin, and the lane calls `ended` when it is over, under the lock. */
#ifndef SIMBA_BACKENDS_SQL_LANE_H
#define SIMBA_BACKENDS_SQL_LANE_H

#include <stdatomic.h>

#include "backends/sql/batch.h"

typedef struct simba__sql_lane simba__sql_lane;

/* The functions of a server and its client library. `conn` is one of the connections that simba__sql_init was given.
 *
 * A READY that succeeds has filled in *table; after one that fails there is no connection. A row that is read is filled in
 * by simba__sql_row_clear and, if it is there, simba__sql_row_decode. */
typedef struct simba__sql_dialect {
    /* For requests that write: does the server decide (decisions.h), or core/row.c (writes.h)? Writing a note and
     * forgetting a mutex are a DECIDE in any case: the statement that writes also makes the server's checks. */
    bool decides;

    /* The blocking form. On the thread of the job; may block. 0, or the code of *why. */
    int (*carry_out)(void *conn, simba__sql_step *step, simba__sql_table *table, simba__sql_failure *why);
    /* Forget an earlier `interrupt` or `cut`. */
    void (*resume)(void *conn);

    /* The event-driven form; NULL in the other one. Under the lock; must not block. The dialect calls
     * simba__sql_carried_out once for every step, under the lock: later, or before `start` returns. The step and the
     * table stay put until then. PAUSE is never started. */
    void (*start)(void *conn, simba__sql_lane *lane, simba__sql_step *step, simba__sql_table *table);

    /* Interrupt the connection, so that the step under way fails soon. Blocking: on any thread; the next steps fail as well,
     * until `resume`. Event-driven: under the lock; simba__sql_carried_out may be called before this returns. The next step is a
     * CLOSE. */
    void (*interrupt)(void *conn);
    /* Like `interrupt`, but it leaves a connection alone that is being opened in time: otherwise the next batch
     * would have to begin anew, and would never get a connection if that takes longer than a request may. False: it
     * was left alone. */
    bool (*cut)(void *conn, simba_local now);
} simba__sql_dialect;

typedef enum simba__sql_stage {
    SIMBA__SQL_LANE_IDLE,   /* it has no batch that was begun */
    SIMBA__SQL_LANE_WORKS,  /* blocking: the batch is the job's */
    SIMBA__SQL_LANE_CALLS,  /* event-driven: the dialect is being called, and the step is not over */
    SIMBA__SQL_LANE_CALLED, /* the same, and meanwhile the step is over */
    SIMBA__SQL_LANE_AWAITS, /* event-driven: the step is under way */
    SIMBA__SQL_LANE_PAUSES, /* event-driven: until the timer fires */
} simba__sql_stage;

/* How long the store still waits for a batch. */
typedef enum simba__sql_patience {
    SIMBA__SQL_WAITED_FOR, /* there are requests or polls that have time left */
    SIMBA__SQL_GRACE,      /* there are none: the connection is cut in a while */
    SIMBA__SQL_CUT,        /* it was */
} simba__sql_patience;

struct simba__sql_lane {
    simba_host *host;
    const simba__sql_dialect *dialect;
    void *conn;
    void (*ended)(
        simba__sql_lane *lane); /* under the lock: the batch is over, and the lane idle; also inside of `begin` */
    simba__sql_batch batch;
    bool reads;     /* the batch is one of requests that read */
    bool polls;     /* some of its items are polls */
    bool gives_way; /* a renewal needs a lane: its connection is cut, and its requests wait for another lane */
    simba__sql_stage stage;
    simba__sql_patience patience;
    simba_local cut_at;  /* in GRACE: when to cut the connection */
    atomic_bool is_over; /* nobody waits for the batch any more */

    simba_job job;          /* blocking */
    simba_timer pause;      /* event-driven */
    simba__sql_failure why; /* event-driven: of the step before; code 0: it worked */

    /* The store's. */
    struct simba__sql_store *self;
    uint64_t began;    /* on the clock of the polling */
    simba_local since; /* the same moment on ours */
};

/* SIMBA_ENOMEM. */
int simba__sql_lane_init(simba__sql_lane *lane, simba_host *host, const simba__sql_dialect *dialect, void *conn,
                         simba__sql_place place);
bool simba__sql_lane_is_idle(const simba__sql_lane *lane);

/* Carry out the items of the batch. The caller has set `reads` and `polls`. */
void simba__sql_lane_begin(simba__sql_lane *lane);
/* Event-driven, under the lock: the step that was started is over. `rc`: 0, or the code of *why, which is copied. */
void simba__sql_carried_out(simba__sql_lane *lane, int rc, const simba__sql_failure *why);

/* Nobody waits for the batch. Give it some time to end by itself, then cut its connection. Returns when to call this
 * again; INT64_MAX: not for this batch, which may have ended meanwhile. */
simba_local simba__sql_lane_expire(simba__sql_lane *lane, simba_local now);
/* The client closes: end the batch soon, or now. Leaves an idle lane alone. */
void simba__sql_lane_interrupt(simba__sql_lane *lane);

#endif
