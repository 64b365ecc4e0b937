/* One connection to the server, for one thread at a time: the thread that runs the job. Any other thread may
 * interrupt it. session.h sets it up and prepares statements. */
#ifndef SIMBA_BACKENDS_MYSQL_CONN_H
#define SIMBA_BACKENDS_MYSQL_CONN_H

#include <mysql.h>
#include <pthread.h>
#include <simba/backend.h>
#include <stdatomic.h>

#include "backends/mysql/options.h"
#include "backends/sql/failure.h"

typedef enum simba__my_conn_state {
    SIMBA__MY_SHUT,
    SIMBA__MY_OPENING, /* connecting, setting up, or looking at the table */
    SIMBA__MY_OPEN,
} simba__my_conn_state;

typedef struct simba__my_conn {
    simba_host *host;
    const simba__my_options *options;
    MYSQL *mysql; /* NULL: not connected */

    pthread_mutex_t lock; /* of the three that follow */
    /* A descriptor of our own for the connection's socket, -1: none. The library closes its own at any time. */
    int fd;
    simba__my_conn_state state;
    simba_local open_by; /* OPENING: by when the present step has to be done */
    atomic_bool over;    /* the thread that waited for the job does not wait any more */
} simba__my_conn;

void simba__my_conn_init(simba__my_conn *conn, simba_host *host, const simba__my_options *options);
void simba__my_conn_fini(simba__my_conn *conn);

/* Close it. */
void simba__my_conn_end(simba__my_conn *conn);

/* For the table of the dialect, which says what they do: `any` is one of these, or a session, which begins with one. */
void simba__my_conn_interrupt(void *any);
void simba__my_conn_resume(void *any);
bool simba__my_conn_cut(void *any, simba_local now);

/* On the thread that has the connection: from now on this is the socket to interrupt. False: there are no descriptors left. */
bool simba__my_conn_show(simba__my_conn *conn, int fd);
/* An error of the server or of the library, by its number and text; the latest one of the connection. */
int simba__my_conn_fail(const simba__my_conn *conn, unsigned number, const char *text, simba__sql_failure *why);
int simba__my_conn_fail_latest(const simba__my_conn *conn, simba__sql_failure *why);
int simba__my_out_of_memory(simba__sql_failure *why);

/* The same for an answer that no server of MySQL's gives, and after which the connection cannot be used. */
int simba__my_conn_fail_broken(const simba__my_conn *conn, const char *text, simba__sql_failure *why);

/* A statement without parameters, and without a result or with one of so many columns, which the caller frees. Another answer
 * is an error. */
int simba__my_conn_say(simba__my_conn *conn, const char *sql, simba__sql_failure *why);
int simba__my_conn_query(simba__my_conn *conn, const char *sql, unsigned columns, MYSQL_RES **ret_result,
                         simba__sql_failure *why);

/* --- for those who open it ------------------------------------------------------------------------------ */

/* How long the next step of opening may take. */
void simba__my_conn_allow_ms(simba__my_conn *conn, int64_t ms);
/* The connection is open, or opening has failed: no step of opening is under way any more. */
void simba__my_conn_opened(simba__my_conn *conn, bool is_open);

#endif
