/* The PostgreSQL store: mutexes in a table, waiters in another. The code of stores/sql, over connections of libpq.
 *
 *   options.c    what the URL says             connection.c   a connection, which never blocks
 *   schema.c     the tables                    errors.c       what errors mean
 *   postgresql.c the store */
#ifndef SIMBA_STORES_POSTGRESQL_POSTGRESQL_H
#define SIMBA_STORES_POSTGRESQL_POSTGRESQL_H

#include <libpq-fe.h>

#include "net/resolver.h"
#include "stores/postgresql/options.h"
#include "stores/sql/sql.h"

extern const simba_backend simba__backend_postgresql;

/* --- the tables ----------------------------------------------------------------------------------------------- */

typedef enum simba__pg_step {
    SIMBA__PG_LOOK,
    SIMBA__PG_MAKE_SCHEMA,
    SIMBA__PG_MAKE,
    SIMBA__PG_LOOKED,
} simba__pg_step;

typedef struct simba__pg_schema {
    simba__pg_step step;
    bool has_made, is_known;
    bool has_table, has_waiters;
    bool has_schema;         /* the one that the URL names */
    bool is_shared_complete; /* the columns of the first version */
    char missing[64];        /* a column that is not there; "": none */
    bool is_read_only;
    bool has_fsync;
    bool has_sync_standbys; /* commits wait for standbys */
    long standbys;          /* that are connected */
    long version;           /* of the server, as a number */
    char server[64];        /* and as text */
    char sync_commit[16];
    char lacking[320]; /* rights that this user does not have */
    char text[6144];   /* the statement of the step */
} simba__pg_schema;

/* --- connections ---------------------------------------------------------------------------------------------- */

typedef enum simba__pg_state {
    SIMBA__PG_SHUT,
    SIMBA__PG_RESOLVING,  /* a worker looks a name up, which cannot be interrupted */
    SIMBA__PG_CONNECTING, /* libpq is at work */
    SIMBA__PG_IDLE,       /* it is open */
    SIMBA__PG_ASKED,      /* and something was asked */
} simba__pg_state;

typedef struct simba__pg_conn {
    simba_host *host;
    const simba__pg_options *options;
    simba__sql_connection *owner;
    simba__pg_state state;
    unsigned life; /* counts the times that it was shut */
    PGconn *pg;    /* NULL: there is none */
    simba__pg_schema schema;
    simba__sql_words words;
    char table[2 * SIMBA__PG_NAME_MAX + 8], waiters[2 * SIMBA__PG_NAME_MAX + 16]; /* quoted */

    /* What was asked. */
    simba__buffer text;
    unsigned results;       /* that have come and had columns */
    bool has_failed;        /* by `why` */
    bool is_unreplicated;   /* its commit did not wait for the standby that it should have waited for */
    uint64_t received_most; /* by this connection when that has been answered */
    simba_io io;
    bool is_watched;
    simba_timer timer; /* CONNECTING: when to begin another attempt. ASKED: it could not be sent */

    /* Opening. */
    simba_local open_by;
    simba_local next_at;  /* when to begin with the next host */
    simba_local begun_at; /* the attempt that is under way */
    unsigned hurries;     /* attempts in a row that were cut short because nobody answered the first packet */
    simba__resolver resolver;
    size_t first;           /* the target to begin with */
    simba__sql_failure why; /* the latest reason for which there is no connection, or no answer */
} simba__pg_conn;

/* SIMBA_ENOMEM. */
int simba__pg_conn_init(simba__pg_conn *conn, simba_host *host, const simba__pg_options *options,
                        simba__sql_connection *owner);
void simba__pg_conn_fini(simba__pg_conn *conn);
extern const simba__sql_dialect simba__pg_dialect;

/* schema.c: the functions of the dialect; `any` is a connection. */
const char *simba__pg_look(void *any, simba__sql_purpose purpose, bool begins, simba__sql_failure *why);
void simba__pg_learn(void *any, const simba__sql_cell *cells, unsigned count);
int simba__pg_check(void *any, simba__sql_table *ret_table, simba__sql_failure *why);
void simba__pg_examine(void *any, simba__sql_findings *findings);

/* errors.c. The outcome of a request, and what the store does about the error. */
int simba__pg_error_code(const char *sqlstate, simba__sql_effect *ret_effect);
/* Why a statement failed; the code of *why. */
int simba__pg_fail_result(const simba__pg_options *options, PGconn *pg, const PGresult *result,
                          simba__sql_failure *why);
/* Why there is no connection (any more), by what libpq says about it. */
int simba__pg_fail_connection(const simba__pg_options *options, PGconn *pg, simba__sql_failure *why);

#endif
