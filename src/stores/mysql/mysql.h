/* The MySQL and MariaDB store: mutexes in a table that Simba on the JVM may share. The code of stores/sql, over connections of
 * libmariadb.
 *
 *   options.c      what the URL says                    errors.c       what errors mean
 *   connect.c      connecting, on a worker              greeting.c     the server's first packet
 *   connection.c   a connection, which never blocks     schema.c       the table
 *   library.c      the client library                   mysql.c        the store */
#ifndef SIMBA_STORES_MYSQL_MYSQL_H
#define SIMBA_STORES_MYSQL_MYSQL_H

#include <mysql.h>
#include <pthread.h>
#include <stdatomic.h>

#include "stores/mysql/options.h"
#include "stores/sql/sql.h"

extern const simba_backend simba__backend_mysql;

/* --- the table ----------------------------------------------------------------------------------------------- */

typedef enum simba__my_step {
    SIMBA__MY_SETTINGS, /* of the connection */
    SIMBA__MY_ISOLATION,
    SIMBA__MY_TABLE,
    SIMBA__MY_COLUMNS,
    SIMBA__MY_MAKE,
    SIMBA__MY_RIGHTS, /* statements that change nothing: this one and the next two */
    SIMBA__MY_LOOKED = SIMBA__MY_RIGHTS + 3,
} simba__my_step;

typedef struct simba__my_schema {
    simba__my_step step;
    bool has_made;
    char text[1536];           /* the statement of the step */
    simba__sql_failure rights; /* which one this user lacks; code 0: none */

    bool exists;
    unsigned columns; /* as bits */
    unsigned mutex_chars, id_chars;
    char engine[32];
    char mutex_collation[64], id_collation[64];
    char version_type[16];
    uint64_t max_packet; /* of the server */
    char server[64];     /* its version */
    int durability;      /* innodb_flush_log_at_trx_commit */
    bool read_only;
} simba__my_schema;

/* --- connections ---------------------------------------------------------------------------------------------- */

typedef enum simba__my_call { SIMBA__MY_NO_CALL, SIMBA__MY_QUERY, SIMBA__MY_NEXT, SIMBA__MY_FETCH } simba__my_call;

typedef struct simba__my_conn {
    simba_host *host;
    const simba__my_options *options;
    simba__sql_connection *owner;
    MYSQL *mysql; /* NULL: not connected */
    simba__my_schema schema;
    simba__sql_words words;
    char table[80]; /* quoted */

    /* Connecting, on a worker. */
    simba_job job;
    bool is_connecting;
    simba__sql_failure why;
    simba_local open_by;
    _Atomic int64_t interrupt_at_ns; /* the same; 0: no worker has begun */
    pthread_mutex_t lock;            /* of the two that follow */
    int fd;                          /* a descriptor of our own for the connection's socket, -1: none */
    atomic_bool over;                /* nobody waits for the connection any more */

    /* The call of the library that is under way. */
    simba__my_call call;
    int wanted; /* what it waits for */
    int rc;
    MYSQL_RES *result;
    MYSQL_ROW row;
    unsigned results; /* that had columns */
    simba__buffer text;
    simba_io io;
    bool is_watched, must_go_on; /* the call is over */
    simba_timer timer;           /* when it must go on; or when its silence is too long */
} simba__my_conn;

/* SIMBA_ENOMEM. */
int simba__my_conn_init(simba__my_conn *conn, simba_host *host, const simba__my_options *options,
                        simba__sql_connection *owner);
void simba__my_conn_fini(simba__my_conn *conn);
extern const simba__sql_dialect simba__my_dialect;

/* connect.c. On a worker; blocks until the connection is open, or until *why says why it is not. */
bool simba__my_connect(simba__my_conn *conn, simba__sql_failure *why);
/* It is to fail soon. */
void simba__my_interrupt(simba__my_conn *conn);

/* schema.c: the functions of the dialect; `any` is a connection. */
const char *simba__my_look(void *any, simba__sql_purpose purpose, bool begins, simba__sql_failure *why);
void simba__my_learn(void *any, const simba__sql_cell *cells, unsigned count);
int simba__my_check(void *any, simba__sql_table *ret_table, simba__sql_failure *why);
void simba__my_examine(void *any, simba__sql_findings *findings);

/* errors.c. An error of the server or of the library, by its number and text; the latest one of the connection. */
int simba__my_error_code(unsigned number, simba__sql_effect *ret_effect);
int simba__my_fail(const simba__my_conn *conn, unsigned number, const char *text, simba__sql_failure *why);
int simba__my_fail_latest(const simba__my_conn *conn, simba__sql_failure *why);
/* An answer that no server of MySQL's gives, and after which the connection cannot be used. */
int simba__my_fail_broken(const simba__my_conn *conn, const char *text, simba__sql_failure *why);

#endif
