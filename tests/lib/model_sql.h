/* A model of an SQL server, for the steps that src/backends/sql decides on: rows, row locks, a clock, connections
 * that drop before or after a statement was carried out, and a replica that is behind. It has no threads, and a
 * clock of its own. */
#ifndef SIMBA_TESTS_LIB_MODEL_SQL_H
#define SIMBA_TESTS_LIB_MODEL_SQL_H

#include "backends/sql/batch.h"

enum { MODEL_SQL_ROWS = 16 };

typedef struct model_sql_row {
    char mutex[16];
    char owner_id[16];
    int64_t acquired_at, ttl_at, transition_at;
    uint64_t version, nonce, nonce_version, revoked_version, note_token, note_number, forgotten_version;
    char note[64];
    size_t note_size;
    const void *locked_by; /* the connection, or another holder; NULL: nobody */
    bool does_not_fit;     /* it cannot be written */
} model_sql_row;

typedef struct model_sql {
    model_sql_row rows[MODEL_SQL_ROWS];
    size_t count;
    int64_t now_ms;
    simba__sql_table table; /* as READY tells it */
    bool is_missing;        /* there is no table */
    bool waits_to_decide;   /* DECIDE waits for locked rows, as MySQL does; otherwise it skips them */
} model_sql;

/* A fault of an action, for the next times that the action comes up. */
typedef struct model_sql_fault {
    simba__sql_action action;
    unsigned times;
    simba__sql_remedy remedy; /* LOST and the like drop the connection */
    bool is_carried_out;      /* the action is carried out, and only the answer is lost */
} model_sql_fault;

typedef struct model_sql_conn {
    model_sql *server;
    bool is_up;
    bool in_transaction;
    model_sql_row after[MODEL_SQL_ROWS]; /* the changes of the transaction, until it is committed */
    bool has_put[MODEL_SQL_ROWS];
    model_sql_fault fault;
    char log[512]; /* the actions, as in " ready begin lock:3" */
} model_sql_conn;

/* An empty table that has all columns, at a time of 1000000. */
void model_sql_init(model_sql *server);
/* The row of a mutex; makes it if it is missing. */
model_sql_row *model_sql_row_of(model_sql *server, const char *mutex);
/* The columns of a row as they are sent. */
simba__sql_columns model_sql_columns(const model_sql *server, const model_sql_row *from);
/* Take the locks that a step needs, one after the other, and keep the locks that it got. NULL: it has them all; otherwise
 * the first row that somebody else has locked. */
const model_sql_row *model_sql_lock(model_sql_conn *conn, const simba__sql_step *step);
/* Give up all locks and all changes that were not committed. */
void model_sql_roll_back(model_sql_conn *conn);
/* The `carry_out` of a simba__sql_dialect. A step that needs a row that somebody else has locked fails at once. */
int model_sql_carry_out(void *instance, simba__sql_step *step, simba__sql_table *table, simba__sql_failure *why);

#endif
