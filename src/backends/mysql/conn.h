/* One connection to the server, for one thread at a time: whoever runs the job that uses it. It is opened when it is
 * needed, set up so that nothing depends on how the server was configured, and opened anew after it was lost.
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
#ifndef SIMBA_BACKENDS_MYSQL_CONN_H
#define SIMBA_BACKENDS_MYSQL_CONN_H

#include <mysql.h>
#include <pthread.h>
#include <simba/backend.h>
#include <stdatomic.h>

#include "backends/mysql/error.h"
#include "backends/mysql/options.h"
#include "backends/mysql/schema.h"
#include "backends/mysql/statements.h"

typedef struct simba__my_conn {
    simba_host *host;
    const simba__my_options *options;
    MYSQL *mysql; /* NULL: not connected */
    simba__my_schema schema;
    MYSQL_STMT *statements[SIMBA__MY_STATEMENTS][SIMBA__MY_SIZES];
    size_t most_rows; /* of a statement */
    bool reused;      /* it has served a job before */

    unsigned number;         /* of the latest error */
    simba__my_remedy remedy; /* for it */

    simba_local not_before; /* after a failure: when to try again to connect */
    unsigned failures;      /* in a row */
    simba_error refusal;    /* the latest of those */

    simba__my_columns columns; /* where results are put */
    MYSQL_BIND *binds;         /* parameters of a statement */
    size_t bind_capacity;

    pthread_mutex_t lock; /* of the three that follow */
    /* A descriptor of our own for the connection's socket, -1: none. The library closes its own whenever it likes. */
    int fd;
    bool is_open;        /* it is set up, and the table was looked at */
    simba_local open_by; /* while it is being opened: by when the present step has to be done. INT64_MAX: it is not */
    atomic_bool over;    /* who waited for the job does not wait any more */
} simba__my_conn;

void simba__my_conn_init(simba__my_conn *conn, simba_host *host, const simba__my_options *options);
void simba__my_conn_fini(simba__my_conn *conn);

/* Connect if need be, and look at the table. A table that is missing is an error, unless `bare`. */
int simba__my_conn_ready(simba__my_conn *conn, bool bare, simba_error *err);
/* Close it. */
void simba__my_conn_end(simba__my_conn *conn);

/* Any thread: end what it waits for. `resume`, before the next job. */
void simba__my_conn_interrupt(simba__my_conn *conn);
void simba__my_conn_resume(simba__my_conn *conn);
/* The same as `interrupt`, except that a connection which is being opened in time is left alone: whoever comes next would only
 * have to begin anew, and never get one where that takes longer than a request has time. False: it was. */
bool simba__my_conn_cut(simba__my_conn *conn, simba_local now);
/* On the thread that has the connection: from now on this is the socket to interrupt. False: there are no descriptors left. */
bool simba__my_conn_show(simba__my_conn *conn, int fd);
/* An error of the server or of the library, by its number and text. */
int simba__my_conn_fail(simba__my_conn *conn, unsigned number, const char *text, simba_error *err);

/* A statement of its own, without parameters; its result, if it has one, is for the caller to free. */
int simba__my_conn_say(simba__my_conn *conn, const char *sql, simba_error *err);
int simba__my_conn_query(simba__my_conn *conn, const char *sql, MYSQL_RES **ret_result, simba_error *err);

/* Room for so many parameters, all zeroed. NULL: out of memory. */
MYSQL_BIND *simba__my_conn_binds(simba__my_conn *conn, size_t count);
/* Execute a prepared statement for 2^size rows, with the parameters in conn->binds. */
int simba__my_conn_execute(simba__my_conn *conn, simba__my_statement which, size_t size, MYSQL_STMT **ret_statement,
                           simba_error *err);
/* The next row of its result, in conn->columns. 1, 0 at the end, or an error. */
int simba__my_conn_fetch(simba__my_conn *conn, MYSQL_STMT *statement, simba_error *err);

#endif
