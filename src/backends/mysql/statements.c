/* See statements.h. */
#include "backends/mysql/statements.h"

#include <string.h>

#include "util/mem.h"

/* The server's clock in epoch milliseconds, whatever the time zone of the session, and past 2038 as well. It is taken
 * once per statement, when it begins: before it waits for any lock, action errs to the side of the holder. */
#define NOW "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) div 1000"

#define SHARED "mutex, acquired_at, ttl_at, transition_at, owner_id, version"
#define OURS ", nonce, nonce_version, revoked_version"
#define NOT_OURS ", null, null, null"
#define MARK ", note_token, note_number, forgotten_version"
#define NO_MARK NOT_OURS
#define NOTE ", note, note_written_at"
#define NO_NOTE ", null, null"

/* What comes before the rows, each row, and what comes after. $TABLE is the table. */
typedef struct shape {
    const char *head, *row, *tail;
    size_t params;
} shape;

#define SELECT(ours, note) "select " SHARED ours ", " NOW note ", last_insert_id() from `$TABLE`"
#define BY_NAME " where mutex in ("
#define ROW_IS_EMPTY "(?, 0, 0, 0, '', 0)"
#define FILL "insert into `$TABLE` (" SHARED ") values "
#define PUT_HEAD(ours) "insert into `$TABLE` (" SHARED ours ") values "
#define PUT_TAIL                                                                                                       \
    " on duplicate key update acquired_at = values(acquired_at), ttl_at = values(ttl_at), "                            \
    "transition_at = values(transition_at), owner_id = values(owner_id), version = values(version)"
#define PUT_TAIL_OURS                                                                                                  \
    ", nonce = values(nonce), nonce_version = values(nonce_version), revoked_version = values(revoked_version)"

/* The parameters of ACQUIRE: ttl, ttl + transition, id, with our columns floor and nonce, then floor, mutex, floor, the
 * greatest version. All assignments see the old version, in whichever order the server makes them. What is free is as in
 * core/row.c: no owner, or past the end; and, as on the JVM, the very last millisecond is nobody's to take.
 *
 * The token is left in last_insert_id() for the SELECT that follows. The answer to the UPDATE has it too, but not where the
 * table has triggers; what LAST_INSERT_ID(expr) leaves behind survives them, whatever they do. */
#define NEXT "greatest(version, ?) + 1"
#define ACQUIRE(ours)                                                                                                  \
    "update `$TABLE` set acquired_at = " NOW ", ttl_at = " NOW " + ?, transition_at = " NOW " + ?, owner_id = ?" ours  \
    ", version = last_insert_id(" NEXT ") where mutex = ? and (owner_id = '' or transition_at < " NOW ")"              \
    " and greatest(version, ?) < ?"

/* A live grant: mutex, token, id, and the nonce if there is one. The token alone distinguishes grants, unless a
 * fail-over has brought an older row back. */
#define LIVE(ours)                                                                                                     \
    " where mutex = ? and version = ? and convert(owner_id using utf8mb4) collate utf8mb4_bin = ?" ours                \
    " and transition_at >= " NOW
#define LIVE_OURS " and nonce = ? and nonce_version = version"
/* Mutex and so on, then the lease again: a renewal that waited for the row may have been overtaken by one that began
 * later, whose end stays. */
#define NOT_LATER " and transition_at <= " NOW " + ?"
#define RENEW "update `$TABLE` set ttl_at = " NOW " + ?, transition_at = " NOW " + ?"
/* acquired_at becomes 0. */
#define RELEASE                                                                                                        \
    "update `$TABLE` set acquired_at = last_insert_id(" NOW ") * 0, ttl_at = 0, transition_at = 0, owner_id = '', "    \
    "version = version + 1"

/* The new note, its token and number; the grant; the number again: a write that was overtaken by the next one of the
 * same grant has no effect. */
#define PUT_NOTE "update `$TABLE` set note = ?, note_token = ?, note_number = ?, note_written_at = " NOW
#define NOT_OVERTAKEN " and (note_token is null or note_token <> version or note_number <= ?)"
/* The mutex, twice: the column may take another name for it. */
#define FORGET                                                                                                         \
    "update `$TABLE` set acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '', nonce = null, "                \
    "nonce_version = null, revoked_version = null, note = null, note_token = null, note_number = null, "               \
    "note_written_at = null, forgotten_version = version "                                                             \
    "where mutex = ? and convert(mutex using utf8mb4) collate utf8mb4_bin = ? "                                        \
    "and (owner_id = '' or transition_at < " NOW ") and (forgotten_version is null or forgotten_version <> version)"

#define SELECTS(tail)                                                                                                  \
    {                                                                                                                  \
        {SELECT(NOT_OURS NO_MARK, NO_NOTE) BY_NAME, "?", tail, 1},                                                     \
            {SELECT(OURS NO_MARK, NO_NOTE) BY_NAME, "?", tail, 1},                                                     \
        {                                                                                                              \
            SELECT(OURS MARK, NO_NOTE) BY_NAME, "?", tail, 1                                                           \
        }                                                                                                              \
    }

/* By the layout of the table. A statement that is the same with and without notes is there once. */
static const shape shapes[SIMBA__MY_STATEMENTS][SIMBA__MY_LAYOUTS] = {
    [SIMBA__SQL_GET] = SELECTS(")"),
    [SIMBA__SQL_LOCK] = SELECTS(") for update"),
    [SIMBA__SQL_LOCK_FREE] = SELECTS(") for update skip locked"),
    [SIMBA__SQL_LIST] = {{SELECT(NOT_OURS NO_MARK, NO_NOTE), "", "", 0},
                         {SELECT(OURS NO_MARK, NO_NOTE), "", "", 0},
                         {SELECT(OURS MARK, NOTE), "", "", 0}},
    [SIMBA__SQL_MAKE] = {{FILL, ROW_IS_EMPTY, " on duplicate key update version = version", 1},
                         {FILL, ROW_IS_EMPTY, " on duplicate key update version = version", 1}},
    [SIMBA__SQL_PUT] = {{PUT_HEAD(""), "(?, ?, ?, ?, ?, ?)", PUT_TAIL, 6},
                        {PUT_HEAD(OURS), "(?, ?, ?, ?, ?, ?, ?, ?, ?)", PUT_TAIL PUT_TAIL_OURS, 9}},
    [SIMBA__SQL_ACQUIRE] = {{ACQUIRE(""), "", "", 7}, {ACQUIRE(", nonce_version = " NEXT ", nonce = ?"), "", "", 9}},
    [SIMBA__SQL_RENEW] = {{RENEW LIVE("") NOT_LATER, "", "", 6}, {RENEW LIVE(LIVE_OURS) NOT_LATER, "", "", 7}},
    [SIMBA__SQL_RELEASE] = {{RELEASE LIVE(""), "", "", 3}, {RELEASE LIVE(LIVE_OURS), "", "", 4}},
    [SIMBA__SQL_READ_NOTE] = {[SIMBA__MY_NOTES] = {SELECT(OURS MARK, NOTE) BY_NAME, "?", ")", 1}},
    [SIMBA__MY_WRITE_NOTE] = {[SIMBA__MY_NOTES] = {PUT_NOTE LIVE(LIVE_OURS) NOT_OVERTAKEN, "", "", 8}},
    [SIMBA__MY_FORGET] = {[SIMBA__MY_NOTES] = {FORGET, "", "", 2}},
};

static const shape *shape_of(simba__my_statement statement, simba__my_layout layout)
{
    const shape *of_layouts = shapes[statement];
    return &of_layouts[of_layouts[layout].head ? layout : SIMBA__MY_OURS];
}

size_t simba__my_statement_params(simba__my_statement statement, simba__my_layout layout)
{
    return shape_of(statement, layout)->params;
}

char *simba__my_statement_text(simba__my_statement statement, size_t size, const char *table, simba__my_layout layout)
{
    const shape *parts = shape_of(statement, layout);
    const size_t rows = (size_t)1 << size;
    const size_t head_room = strlen(parts->head) + strlen(table);
    const size_t row_length = strlen(parts->row);
    char *text = simba__malloc(head_room + rows * (row_length + 2) + strlen(parts->tail) + 1);
    if (!text)
        return NULL;
    /* The head is one of ours, with the table's name in it once. */
    const char *mark = strstr(parts->head, "$TABLE");
    char *end = text;
    end = mempcpy(end, parts->head, (size_t)(mark - parts->head));
    end = stpcpy(end, table);
    end = stpcpy(end, mark + sizeof "$TABLE" - 1);
    for (size_t i = 0; i < rows && row_length > 0; i++) {
        if (i > 0)
            end = stpcpy(end, ", ");
        end = stpcpy(end, parts->row);
    }
    stpcpy(end, parts->tail);
    return text;
}

bool simba__my_statement_has_result(simba__my_statement statement)
{
    return statement == SIMBA__SQL_GET || statement == SIMBA__SQL_LOCK || statement == SIMBA__SQL_LOCK_FREE ||
           statement == SIMBA__SQL_LIST || statement == SIMBA__SQL_READ_NOTE;
}
