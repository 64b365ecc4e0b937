/* The repository: rows of the table in and out, many by one statement. What may be done with a row is said in core/row.h.
 * Three statements decide by themselves, for a single mutex and without a transaction around them; they have to agree
 * with it.
 *
 * All of it blocks, and is for the thread that has the connection. After
 * an error inside of a transaction it is for the caller to roll back. */
#ifndef SIMBA_BACKENDS_MYSQL_ROWS_H
#define SIMBA_BACKENDS_MYSQL_ROWS_H

#include "backends/mysql/session.h"
#include "core/row.h"

typedef struct simba__my_row {
    const char *mutex;
    bool found;
    bool nonce_known; /* the columns of ours belong to the grant that the row shows */
    bool foreign;     /* they do not, or there are none: perhaps a JVM contender's grant, which has no token */
    bool changed;     /* to be put */
    bool skipped;     /* by LOCK_FREE: not found */
    const char *flaw; /* why the row cannot be one of ours or of the JVM's; NULL: it can */
    int64_t now_ms;   /* of the server, when the row was read */
    uint64_t version; /* as stored; the token of the grant, as long as there is one */
    uint64_t version_max;
    uint64_t nonce_version;
    uint64_t last_insert_id; /* of the session, when the row was read: after simba__my_acquire, the token it gave */
    simba__row row;
} simba__my_row;

/* Make those that are missing. That another process does the same at the same time is normal. */
int simba__my_try_init_rows(simba__my_session *session, simba__my_row *rows, size_t count, simba__sql_failure *why);

/* Read the rows of these mutexes, which must be sorted by strcmp and differ; `found` tells which there are. By GET; by LOCK,
 * and nobody else can change them until the transaction ends; or by LOCK_FREE, and those that somebody else has locked are
 * not found. */
int simba__my_get_rows(simba__my_session *session, simba__my_row *rows, size_t count, simba__my_statement how,
                       simba__sql_failure *why);
/* Every row there is, in any order, with flaws or without; names are cut to about a thousand bytes. */
int simba__my_list_rows(simba__my_session *session, int (*each)(void *user, const simba__my_row *row), void *user,
                        simba__sql_failure *why);

/* The error of a request about a row with a flaw. */
int simba__my_row_fail(const simba__my_session *session, const simba__my_row *row, simba__sql_failure *why);

/* Carry out a request on a row that was read, and has no flaw: core/row.c decides, except that a grant whose nonce is not known is
 * somebody's that can show its token. `floor`: the least that a new token may be, less one. False: the version has come
 * to the end of its type, and nothing was done. */
bool simba__my_apply(simba__my_row *row, simba_request *request, uint64_t floor);
/* Write the rows that have changed. They must be locked. */
int simba__my_put_rows(simba__my_session *session, simba__my_row *rows, size_t count, simba__sql_failure *why);

/* Grant the mutex if it is free: 1, and the token is the last_insert_id of the row that is read next; 0: it is not, or there
 * is no row. */
int simba__my_acquire(simba__my_session *session, const simba_request *request, uint64_t floor,
                      simba__sql_failure *why);
/* Extend the lease of this id, nonce and token: 1; 0: there is no such grant. */
int simba__my_renew(simba__my_session *session, const simba_request *request, simba__sql_failure *why);
/* End it: 1, and the server's now, or 0 where a trigger keeps it from us; 0: there is no such grant. */
int simba__my_release(simba__my_session *session, const simba_request *request, int64_t *ret_now_ms,
                      simba__sql_failure *why);

#endif
