/* The text of every statement, with the names of our tables in it.
 *
 * There are two tables and a function, in the schema that the URL names:
 *   TABLE            one row per mutex, with the columns of all SQL stores (sql/row.h)
 *   TABLE_waiters    the queue of waiters: one row per contender. It is not logged: after a crash or a fail-over it is empty, and
 *                    a client that has connected anew has its waiters enter it again. Older programs also have rows in it for
 *                    holders: their `since` is the greatest number, and they wait for nothing
 *   TABLE_decide_4   carries out the requests of one moment. It decides as core/row.c does; a test compares the two. Its number
 *                    changes with its parameters or results, so that programs of two versions can share the tables
 *
 * Why a function: a statement that locks, decides, writes, keeps the queue and notifies takes the server longer to plan than to
 * carry out, and prepared statements do not survive a pooler. The server's process keeps the plans of a function. Each
 * statement in it sees what was committed before, so a release sees every waiter that has entered the queue: both lock the row.
 *
 * Nothing depends on the session, so a pooler may be in between. Time is clock_timestamp(), taken when the row is locked. */
#ifndef SIMBA_BACKENDS_POSTGRESQL_STATEMENTS_H
#define SIMBA_BACKENDS_POSTGRESQL_STATEMENTS_H

#include "backends/postgresql/options.h"
#include "backends/sql/row.h"

typedef enum simba__pg_statement {
    SIMBA__PG_DECIDE, /* of the requests, which are the rows of an array of texts, and of our channel */
    SIMBA__PG_LIST,
    SIMBA__PG_READ_NOTE, /* of this mutex: one row, which is all null but for the name and the time if there is none */
    SIMBA__PG_LOOK,      /* what there is: see schema.c */
    SIMBA__PG_MAKE_SCHEMA,
    SIMBA__PG_MAKE,   /* what is missing */
    SIMBA__PG_NOTIFY, /* a channel, with a payload */
    SIMBA__PG_STATEMENTS,
} simba__pg_statement;

/* A request is: what it asks for, one of these; mutex, id, nonce, token, ttl, ttl and transition, floor of the token; the note in
 * hexadecimal digits, and the number of its write. */
#define SIMBA__PG_ACQUIRE "a"
#define SIMBA__PG_QUEUE "q" /* acquire, or else enter the queue */
#define SIMBA__PG_RENEW "n"
#define SIMBA__PG_RELEASE "r" /* or leave the queue */
#define SIMBA__PG_FORCE "f"
#define SIMBA__PG_WRITE_NOTE "w"
#define SIMBA__PG_FORGET "x"
#define SIMBA__PG_SEE "s" /* change nothing, but keep those of our channel in the queue */

/* The answer has a row for each request, in their order: the columns of sql/row.h up to SIMBA__SQL_NOW, all null but the last
 * one if there is no such row; then these two. LIST and READ_NOTE have the columns up to SIMBA__SQL_NOTE_WRITTEN_AT. */
enum { SIMBA__PG_DEED = SIMBA__SQL_NOW + 1, SIMBA__PG_PLACE, SIMBA__PG_COLUMNS };
/* The beginning of DEED: as asked; nothing, and the row says why; otherwise somebody else has the row locked. */
enum { SIMBA__PG_DONE = 'd', SIMBA__PG_REFUSED = 'r' };

/* Free it with simba__free; NULL: out of memory. */
char *simba__pg_statement_text(simba__pg_statement statement, const simba__pg_options *options);

#endif
