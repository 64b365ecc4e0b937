/* The text of every statement, with the names of our tables in it.
 *
 * There are two tables and a function, in the schema that the URL names:
 *   TABLE            one row per mutex, with the columns of all SQL stores (sql/row.h)
 *   TABLE_waiters    the line of those who wait: one row per contender. It is not logged: after a crash it is empty, and who
 *                    waits enters it again when the lease that it knows of has ended
 *   TABLE_decide_1   carries out the requests of one moment. What it decides is what core/row.c decides; a test holds the two
 *                    against each other. Its number changes with its parameters or results, so that programs of two versions
 *                    can share the tables
 *
 * Why a function: a statement that locks, decides, writes, keeps the line and notifies takes the server longer to plan than to
 * carry out, and prepared statements do not survive a pooler. The plans of a function are kept with the server's process. Each
 * statement in it sees what was committed before, so whoever releases sees everybody who has entered the line: both have the
 * row locked.
 *
 * Nothing depends on the session, so a pooler may be in between. Time is clock_timestamp(), taken when the row is locked. */
#ifndef SIMBA_BACKENDS_POSTGRESQL_STATEMENTS_H
#define SIMBA_BACKENDS_POSTGRESQL_STATEMENTS_H

#include "backends/postgresql/options.h"

typedef enum simba__pg_statement {
    SIMBA__PG_DECIDE, /* ops, mutexes, ids, nonces, tokens, ttls, leases, floors, channel */
    SIMBA__PG_GET,    /* mutexes */
    SIMBA__PG_KEEP,   /* mutexes, channel: the same, and the waiters of this client stay in line */
    SIMBA__PG_LIST,
    SIMBA__PG_LOOK, /* what there is: see schema.c */
    SIMBA__PG_MAKE_SCHEMA,
    SIMBA__PG_MAKE,   /* what is missing */
    SIMBA__PG_NOTIFY, /* channel, payload */
    SIMBA__PG_STATEMENTS,
} simba__pg_statement;

/* The columns of DECIDE, GET, KEEP and LIST: those of sql/row.h up to SIMBA__SQL_NOW, then these. */
enum { SIMBA__PG_DEED = 10, SIMBA__PG_PLACE };

/* What a request is to DECIDE, as a character. */
enum {
    SIMBA__PG_OP_ACQUIRE = 'a',
    SIMBA__PG_OP_QUEUE = 'q', /* acquire, or else enter the line */
    SIMBA__PG_OP_RENEW = 'n',
    SIMBA__PG_OP_RELEASE = 'r', /* or leave the line */
    SIMBA__PG_OP_FORCE = 'f',
    SIMBA__PG_OP_LOOK = 'l', /* change nothing */
};

/* What DECIDE did, as the first character of the column. */
enum {
    SIMBA__PG_DONE = 'd',   /* as asked; the row is as it is now */
    SIMBA__PG_SEEN = 's',   /* nothing; the row says why */
    SIMBA__PG_LOCKED = 'l', /* nothing: somebody else has the row locked, or has just made it */
};

/* Free each; NULL: out of memory. */
char *simba__pg_statement_text(simba__pg_statement statement, const simba__pg_options *options);

#endif
