/* A connection that is ready for our statements: opened when it is needed, set up so that nothing depends on how the server
 * was configured, with the table looked at, and opened anew after it was lost.
 *
 * Settings of every session, and why:
 *   sql_mode STRICT_ALL_TABLES    a value that does not fit is an error, not another value
 *   autocommit 1                  what is one statement is committed when it is answered
 *   completion_type 0             the same after a commit: no transaction begins by itself, and the connection stays
 *   REPEATABLE READ               works with every format of the binary log; all that matters is read with a lock
 *   innodb_lock_wait_timeout 1    the shortest there is: others of the batch wait as well
 *   lock_wait_timeout 1           the same for the lock of a table
 *   sql_select_limit              none: a row that is not shown would be taken for one that there is not
 *   idle_transaction_timeout 2    MariaDB: a process that freezes inside of a transaction does not keep its rows
 *   wait_timeout 60               MySQL, which does not have that: the same after a minute */
#ifndef SIMBA_BACKENDS_MYSQL_SESSION_H
#define SIMBA_BACKENDS_MYSQL_SESSION_H

#include "backends/mysql/conn.h"
#include "backends/mysql/schema.h"
#include "backends/mysql/statements.h"
#include "backends/sql/refusal.h"

typedef struct simba__my_session {
    simba__my_conn conn; /* first: the dialect interrupts it */
    simba__my_schema schema;
    MYSQL_STMT *statements[SIMBA__MY_STATEMENTS][SIMBA__MY_SIZES];

    simba__sql_refusal refusal; /* after a failure */

    simba__sql_columns columns; /* where results are put */
    const MYSQL_STMT *fetched;  /* whose row is being read */
    bool is_broken;             /* that row is not as the server has said */
    MYSQL_BIND *binds;          /* parameters of a statement */
    size_t bind_capacity;
} simba__my_session;

void simba__my_session_fini(simba__my_session *session);

/* Connect if necessary, and examine the table. A missing table is an error, unless `bare`. */
int simba__my_session_ready(simba__my_session *session, bool bare, simba__sql_failure *why);
/* Close it. */
void simba__my_session_end(simba__my_session *session);

/* Room for so many parameters, all zeroed. NULL: out of memory. */
MYSQL_BIND *simba__my_session_binds(simba__my_session *session, size_t count);
/* Execute a prepared statement for 2^size rows, with the parameters in session->binds. */
int simba__my_session_execute(simba__my_session *session, simba__my_statement which, size_t size,
                              MYSQL_STMT **ret_statement, simba__sql_failure *why);
/* The next row of its result, in session->columns. 1, 0 at the end, or an error. */
int simba__my_session_fetch(simba__my_session *session, MYSQL_STMT *statement, simba__sql_failure *why);

#endif
