/* Carries out the steps of a batch as statements of PostgreSQL, on a connection that it opens when needed. */
#ifndef SIMBA_BACKENDS_POSTGRESQL_DIALECT_H
#define SIMBA_BACKENDS_POSTGRESQL_DIALECT_H

#include "backends/postgresql/listener.h"
#include "backends/postgresql/schema.h"
#include "backends/postgresql/statements.h"
#include "backends/sql/refusal.h"
#include "net/buffer.h"

/* The data that all lanes of a store share. */
typedef struct simba__pg_shared {
    const simba__pg_options *options;
    char *texts[SIMBA__PG_STATEMENTS];
    simba__pg_listener *listener;
} simba__pg_shared;

/* The task of a session. */
typedef enum simba__pg_task {
    SIMBA__PG_NO_TASK,
    SIMBA__PG_OPENS,    /* READY: connects */
    SIMBA__PG_LOOKS,    /* READY, EXAMINE, PREPARE: looks at the tables */
    SIMBA__PG_CREATES,  /* READY, PREPARE: makes the schema */
    SIMBA__PG_FILLS,    /* and then what belongs into it; then it looks again */
    SIMBA__PG_ASKS,     /* the statement of the step */
    SIMBA__PG_NOTIFIES, /* after a GET: the test of the listener */
} simba__pg_task;

/* A lane's connection. */
typedef struct simba__pg_session {
    simba__pg_conn conn;
    const simba__pg_shared *shared;
    simba__pg_task task;
    bool has_made; /* the missing tables: it does not make them twice */
    simba__sql_lane *lane;
    simba__sql_step *step;
    simba__sql_table *table;
    simba__pg_schema schema;
    simba__buffer asks;
    simba__sql_columns columns;
    simba__sql_refusal refusal;
} simba__pg_session;

int simba__pg_session_init(simba__pg_session *session, simba_host *host, const simba__pg_shared *shared);
void simba__pg_session_fini(simba__pg_session *session);

/* Its connections are simba__pg_session. */
extern const simba__sql_dialect simba__pg_dialect;

#endif
