/* The text of every statement, and the columns that results have. Statements for many rows come in sizes, powers of two:
 * with fewer rows the last one is repeated, so that few statements have to be prepared. */
#ifndef SIMBA_BACKENDS_MYSQL_STATEMENTS_H
#define SIMBA_BACKENDS_MYSQL_STATEMENTS_H

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum simba__my_statement {
    SIMBA__MY_GET,       /* read rows */
    SIMBA__MY_LOCK,      /* read rows and lock them */
    SIMBA__MY_LOCK_FREE, /* the same for those that nobody else has locked */
    SIMBA__MY_LIST,      /* read all */
    SIMBA__MY_TRY_INIT,  /* make rows, some of which may exist */
    SIMBA__MY_PUT,       /* write rows that are locked */
    SIMBA__MY_ACQUIRE,   /* one row: grant it if it is free. The token is the last insert id of a GET after it */
    SIMBA__MY_RENEW,     /* one row: extend the lease of a grant */
    SIMBA__MY_RELEASE,   /* one row: end a grant. Its insert id is the server's now, unless there is a trigger */
    SIMBA__MY_STATEMENTS,
} simba__my_statement;

enum { SIMBA__MY_SIZES = 10, SIMBA__MY_ROWS_MAX = 1 << (SIMBA__MY_SIZES - 1) };

/* The columns of a result, in this order. */
enum {
    SIMBA__MY_MUTEX,
    SIMBA__MY_ACQUIRED_AT,
    SIMBA__MY_TTL_AT,
    SIMBA__MY_TRANSITION_AT,
    SIMBA__MY_OWNER_ID,
    SIMBA__MY_VERSION,
    SIMBA__MY_SHARED_COLUMNS, /* those before have to be there */
    SIMBA__MY_NONCE = SIMBA__MY_SHARED_COLUMNS,
    SIMBA__MY_NONCE_VERSION,
    SIMBA__MY_REVOKED_VERSION,
    SIMBA__MY_NOW,
    SIMBA__MY_LAST_INSERT_ID,
    SIMBA__MY_COLUMNS,
};

/* A row of a result. */
typedef struct simba__my_columns {
    char mutex[1024];
    char owner_id[1024];
    unsigned long mutex_length, owner_length; /* as stored; what does not fit above is cut */
    int64_t acquired_at, ttl_at, transition_at, now_ms;
    uint64_t version, nonce, nonce_version, revoked_version, last_insert_id;
    my_bool is_null[SIMBA__MY_COLUMNS];
    my_bool is_cut[SIMBA__MY_COLUMNS]; /* the value did not fit */
} simba__my_columns;

/* How many parameters: for each row, and in all. */
size_t simba__my_statement_params(simba__my_statement which, bool has_nonce);

/* The text for 2^size rows, to free; NULL: out of memory. */
char *simba__my_statement_text(simba__my_statement which, size_t size, const char *table, bool has_nonce);

/* Does it have a result? Then bind it. */
bool simba__my_statement_has_result(simba__my_statement which);
void simba__my_columns_bind(simba__my_columns *columns, MYSQL_BIND binds[SIMBA__MY_COLUMNS]);

#endif
