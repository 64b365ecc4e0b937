/* A row of the table: from the cells of a result to core/row.h, and what a request makes of it. Pure.
 *
 * The columns of a result, in this order. The first six are those of Simba on the JVM. The others are simba's, and may be null:
 *   nonce             of the incarnation that has the grant
 *   nonce_version     the version of that grant: if the row has another version, somebody else has written it since
 *   revoked_version   the version of the latest grant that was forced away
 *   note_token        the version of the grant that wrote the note
 *   note_number       which write of that grant it was
 *   forgotten_version the version at which the mutex was forgotten. While the row has that version, nobody knows the mutex. The row
 *                     stays, so the next token is greater than all before it
 * The token of a grant is the version after it; a renewal leaves the version as it is. */
#ifndef SIMBA_STORES_SQL_ROW_H
#define SIMBA_STORES_SQL_ROW_H

#include "core/row.h"

/* A value as text; NULL: null. The text ends with a NUL, which `length` does not count. */
typedef struct simba__sql_cell {
    const char *text;
    size_t length;
} simba__sql_cell;

enum {
    SIMBA__SQL_MUTEX,
    SIMBA__SQL_ACQUIRED_AT,
    SIMBA__SQL_TTL_AT,
    SIMBA__SQL_TRANSITION_AT,
    SIMBA__SQL_OWNER_ID,
    SIMBA__SQL_VERSION,
    SIMBA__SQL_SHARED_COLUMNS, /* the columns before this have a value */
    SIMBA__SQL_NONCE = SIMBA__SQL_SHARED_COLUMNS,
    SIMBA__SQL_NONCE_VERSION,
    SIMBA__SQL_REVOKED_VERSION,
    SIMBA__SQL_NOTE_TOKEN,
    SIMBA__SQL_NOTE_NUMBER,
    SIMBA__SQL_FORGOTTEN_VERSION,
    SIMBA__SQL_LOCK_COLUMNS,                  /* the result of LOCK ends here */
    SIMBA__SQL_NOW = SIMBA__SQL_LOCK_COLUMNS, /* the server's clock: SEE, READ */
    SIMBA__SQL_READ_COLUMNS,
    SIMBA__SQL_NOTE = SIMBA__SQL_READ_COLUMNS, /* READ_NOTE, LIST */
    SIMBA__SQL_NOTE_WRITTEN_AT,
    SIMBA__SQL_COLUMNS,
};

typedef enum simba__sql_presence {
    SIMBA__SQL_MISSING,
    SIMBA__SQL_SEEN,   /* it was read without a lock */
    SIMBA__SQL_LOCKED, /* by this transaction */
} simba__sql_presence;

typedef struct simba__sql_row {
    const char *mutex;
    size_t first, last; /* of the items of a batch that are about it; `last` is the one behind them */
    simba__sql_presence presence;
    const char *flaw; /* why the row cannot be one of simba's or of the JVM's; NULL: it can */
    int64_t now_ms;   /* of the server */
    simba__row row;
    uint64_t version; /* as stored; the token of the grant, as long as there is one */
    uint64_t version_max;
    uint64_t nonce_version, forgotten_version;
    bool nonce_known;  /* the nonce belongs to the grant that the row shows */
    bool is_foreign;   /* it does not: perhaps a JVM contender's grant, which has no token */
    bool is_forgotten; /* the row is there for the sake of its version alone */

    /* What requests have changed. */
    bool is_put;               /* the columns of the lease */
    bool is_forgotten_now;     /* everything was removed, before whatever else has changed */
    const simba_request *note; /* the one that wrote the note */
    bool is_freed, is_noted;   /* for waiting.c */
} simba__sql_row;

/* The row does not exist. */
void simba__sql_row_clear(simba__sql_row *row, int64_t now_ms);
/* The row has these cells. `version_max`: the greatest version that fits into the column. */
void simba__sql_row_decode(simba__sql_row *row, const simba__sql_cell *cells, uint64_t version_max);
/* The server's clock. False: it is impossible. */
bool simba__sql_clock(const simba__sql_cell *cell, int64_t *ret_now_ms);
/* A number; false: it is null, or none. */
bool simba__sql_number(const simba__sql_cell *cell, uint64_t *ret_number);

/* Carry out a request on a row without a flaw. core/row.c decides. A new token is greater than `floor`. False: the version has
 * reached the end of its type, and nothing was done. */
bool simba__sql_row_apply(simba__sql_row *row, simba_request *request, uint64_t floor);
bool simba__sql_row_is_free(const simba__sql_row *row);
/* The answer to a READ of the row. */
simba_reply simba__sql_row_read(const simba__sql_row *row);

#endif
