/* A row of the table that the SQL stores share: as it came from the server, and what a request does with it.
 * core/row.h has the rules for a row; this file has its storage. Pure. */
#ifndef SIMBA_BACKENDS_SQL_ROW_H
#define SIMBA_BACKENDS_SQL_ROW_H

#include "core/row.h"

/* The columns of a result, in this order. The first six are those of Simba on the JVM. The three after them are ours; a table
 * may lack them, and their values are null then:
 *   nonce             of the incarnation that the grant belongs to
 *   nonce_version     the version of that grant: if the row has another version, somebody else has written it since
 *   revoked_version   the version of the latest grant that was forced away
 * So are those of notes, which came later:
 *   note_token          the version of the grant that wrote the note; null: there was none, or it was forgotten
 *   note_number         which write of that grant it was
 *   forgotten_version   the version at which the mutex was forgotten. While the row still has it, nobody knows the mutex. The row
 *                       stays, so the next token is greater than all before, also if a JVM contender is the next one */
enum {
    SIMBA__SQL_MUTEX,
    SIMBA__SQL_ACQUIRED_AT,
    SIMBA__SQL_TTL_AT,
    SIMBA__SQL_TRANSITION_AT,
    SIMBA__SQL_OWNER_ID,
    SIMBA__SQL_VERSION,
    SIMBA__SQL_SHARED_COLUMNS, /* the columns before this have to be there */
    SIMBA__SQL_NONCE = SIMBA__SQL_SHARED_COLUMNS,
    SIMBA__SQL_NONCE_VERSION,
    SIMBA__SQL_REVOKED_VERSION,
    SIMBA__SQL_NOTE_TOKEN,
    SIMBA__SQL_NOTE_NUMBER,
    SIMBA__SQL_FORGOTTEN_VERSION,
    SIMBA__SQL_NOW,  /* the server's clock */
    SIMBA__SQL_NOTE, /* its bytes, for LIST and READ_NOTE only, and when they were written */
    SIMBA__SQL_NOTE_WRITTEN_AT,
    SIMBA__SQL_EXTRA, /* the dialect's own */
    SIMBA__SQL_COLUMNS,
};

/* The values of one row of a result. */
typedef struct simba__sql_columns {
    char mutex[1024];
    char owner_id[1024];
    char note[SIMBA_NOTE_MAX];
    unsigned long mutex_length, owner_length, note_length; /* as stored; longer texts are cut above */
    int64_t acquired_at, ttl_at, transition_at, now_ms, note_written_at;
    uint64_t version, nonce, nonce_version, revoked_version, note_token, note_number, forgotten_version, extra;
    char is_null[SIMBA__SQL_COLUMNS];
    char is_cut[SIMBA__SQL_COLUMNS]; /* the value did not fit */
} simba__sql_columns;

/* The result of the request about a row, if the server decides. */
typedef enum simba__sql_deed {
    SIMBA__SQL_REFUSED, /* nothing was changed; the row says why */
    SIMBA__SQL_DONE,    /* as asked; the row is as it is now */
    SIMBA__SQL_BUSY,    /* nothing was changed: somebody else is at work on the row */
} simba__sql_deed;

typedef struct simba__sql_row {
    const char *mutex;
    struct simba__sql_item *item; /* DECIDE: the request about it */
    simba__sql_deed deed;         /* DECIDE: the outcome */
    int64_t place;                /* DECIDE: in the queue, see simba_reply; 0: not known */
    bool found;
    bool is_forgotten; /* the row is there for the sake of its version alone */
    bool nonce_known;  /* the columns of ours belong to the grant that the row shows */
    bool foreign;      /* they do not, or there are none: perhaps a JVM contender's grant, which has no token */
    bool changed;      /* to be put */
    bool skipped;      /* by LOCK_FREE: not found */
    const char *flaw;  /* why the row cannot be one of ours or of the JVM's; NULL: it can */
    int64_t now_ms;    /* of the server, when the row was read */
    uint64_t version;  /* as stored; the token of the grant, as long as there is one */
    uint64_t version_max;
    uint64_t nonce_version; /* as it is put */
    simba__row row;
} simba__sql_row;

/* Distinguishes one note of a mutex from the next. */
typedef struct simba__sql_mark {
    bool is_known;
    uint64_t token, number;
} simba__sql_mark;

simba__sql_mark simba__sql_row_mark(const simba__sql_row *row);

/* The row does not exist, unless `simba__sql_row_decode` follows. */
void simba__sql_row_clear(simba__sql_row *row, int64_t now_ms);
/* The row has these columns. `version_max`: the greatest version that fits into the column. */
void simba__sql_row_decode(simba__sql_row *row, const simba__sql_columns *columns, uint64_t version_max);
/* Fill in one of the columns from its text, as servers send it; NULL is null. The text of a number ends with a NUL. */
void simba__sql_columns_set(simba__sql_columns *columns, int column, const char *text, size_t length);
/* Fill in a column that is a number, from an uint64_t, or from an int64_t in its bits. */
void simba__sql_columns_set_number(simba__sql_columns *columns, int column, uint64_t number, bool is_unsigned);
/* The name in the columns, as a string, terminated even if it was cut. */
const char *simba__sql_columns_mutex(simba__sql_columns *columns);
/* The note in the columns. False: there is none. If it is too long for a note, its size says so, and it has no
 * bytes. */
bool simba__sql_columns_note(const simba__sql_columns *columns, simba_stored_note *ret_note);
/* Why the clock in the columns, which is there even without a row, is impossible; NULL: it is not. */
const char *simba__sql_columns_clock_flaw(const simba__sql_columns *columns);

/* Carry out a request on a row without a flaw. core/row.c decides, except that a grant with an unknown nonce belongs
 * to the contender that has its token. A new token is greater than `floor`. False: the version has reached the end
 * of its type, and nothing was done. */
bool simba__sql_row_apply(simba__sql_row *row, simba_request *request, uint64_t floor);
/* The answer to a READ of the row. */
simba_reply simba__sql_row_read(const simba__sql_row *row);

#endif
