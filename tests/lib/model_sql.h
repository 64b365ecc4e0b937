/* A model of an SQL server, for the steps that src/backends/sql decides on: rows, row locks, a clock, connections that are
 * dropped before or after a statement was carried out, and a replica that is behind. No threads and no time but its own. */
#ifndef SIMBA_TESTS_LIB_MODEL_SQL_H
#define SIMBA_TESTS_LIB_MODEL_SQL_H

#include "backends/sql/batch.h"

enum { MODEL_SQL_ROWS = 16 };

typedef struct model_sql_row {
    char mutex[16];
    char owner_id[16];
    int64_t acquired_at, ttl_at, transition_at;
    uint64_t version, nonce, nonce_version, revoked_version;
    const void *locked_by; /* a connection, or whoever else; NULL: nobody */
    bool does_not_fit;     /* it cannot be written */
} model_sql_row;

typedef struct model_sql {
    model_sql_row rows[MODEL_SQL_ROWS];
    size_t count;
    int64_t now_ms;
    simba__sql_table table; /* as READY tells it */
    bool is_missing;        /* there is no table */
} model_sql;

/* What goes wrong with an action, the next times that it comes up. */
typedef struct model_sql_fault {
    simba__sql_action action;
    unsigned times;
    simba__sql_remedy remedy; /* LOST and the like: the connection is dropped */
    bool is_carried_out;      /* and only the answer is lost */
} model_sql_fault;

typedef struct model_sql_conn {
    model_sql *server;
    bool is_up;
    bool in_transaction;
    model_sql_row before[MODEL_SQL_ROWS]; /* the transaction */
    model_sql_fault fault;
    char log[512]; /* the actions, as in " ready begin lock:3" */
} model_sql_conn;

/* An empty table that has all columns, at a time of 1000000. */
void model_sql_init(model_sql *server);
/* The row of a mutex, which is made if need be. */
model_sql_row *model_sql_row_of(model_sql *server, const char *mutex);
/* As that of a simba__sql_dialect. */
int model_sql_carry_out(void *instance, simba__sql_step *step, simba__sql_table *table, simba__sql_failure *why);

#endif
