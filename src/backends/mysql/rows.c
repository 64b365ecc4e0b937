/* See rows.h. */
#include "backends/mysql/rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"

/* --- parameters --------------------------------------------------------------------------------------- */

static void bind_text(MYSQL_BIND *bind, const char *text)
{
    bind->buffer_type = MYSQL_TYPE_STRING;
    bind->buffer = (char *)text; // NOLINT: the library only reads it
    bind->buffer_length = strlen(text);
    bind->length = &bind->buffer_length;
}

static void bind_number(MYSQL_BIND *bind, const uint64_t *number)
{
    bind->buffer_type = MYSQL_TYPE_LONGLONG;
    bind->buffer = (uint64_t *)number; // NOLINT: likewise
    bind->is_unsigned = 1;
}

static void bind_time(MYSQL_BIND *bind, const int64_t *ms)
{
    bind_number(bind, (const uint64_t *)ms);
    bind->is_unsigned = 0;
}

/* The smallest size that has room for so many. */
static size_t size_for(size_t rows)
{
    size_t size = 0;
    while ((size_t)1 << size < rows)
        size++;
    return size;
}

/* Fills in the parameters of one row. */
typedef void (*bind_row)(MYSQL_BIND *binds, const simba__my_row *row);

/* A statement for `count` rows, at most those of a statement; the last one is repeated. */
static int execute(simba__my_session *session, simba__my_statement which, simba__my_row *const *rows, size_t count,
                   bind_row bind, MYSQL_STMT **ret_statement, simba__sql_failure *why)
{
    const size_t size = size_for(count);
    const size_t params = simba__my_statement_params(which, session->schema.has_nonce);
    MYSQL_BIND *binds = simba__my_session_binds(session, params << size);
    if (!binds)
        return simba__my_out_of_memory(why);
    for (size_t i = 0; i < (size_t)1 << size; i++)
        bind(binds + i * params, rows[i < count ? i : count - 1]);
    return simba__my_session_execute(session, which, size, ret_statement, why);
}

/* The next of the rows from *at on for which `wanted` holds, as many as a statement takes. */
static size_t gather(const simba__my_session *session, simba__my_row *rows, size_t count, size_t *at,
                     bool (*wanted)(const simba__my_row *row), simba__my_row **out)
{
    size_t n = 0;
    for (; *at < count && n < session->most_rows; ++*at)
        if (wanted(&rows[*at]))
            out[n++] = &rows[*at];
    return n;
}

static void bind_name(MYSQL_BIND *binds, const simba__my_row *row)
{
    bind_text(&binds[0], row->mutex);
}

/* --- reading ------------------------------------------------------------------------------------------ */

/* Later times are not believed: in nanoseconds, and with a lease added to them, they have to be numbers still. */
#define TIME_MAX_MS (INT64_MAX / SIMBA__NS_PER_MS / 2)

/* What is wrong with a row that was read; NULL: nothing. */
static const char *flaw_of(const simba__my_columns *c)
{
    static const char *const null[SIMBA__MY_SHARED_COLUMNS] = {"mutex is null",    "acquired_at is null",
                                                               "ttl_at is null",   "transition_at is null",
                                                               "owner_id is null", "version is null"};
    for (size_t i = 0; i < SIMBA__MY_SHARED_COLUMNS; i++)
        if (c->is_null[i])
            return null[i];
    if (c->is_cut[SIMBA__MY_ACQUIRED_AT] || c->acquired_at > TIME_MAX_MS)
        return "acquired_at is out of range";
    if (c->is_cut[SIMBA__MY_TTL_AT] || c->ttl_at > TIME_MAX_MS)
        return "ttl_at is out of range";
    if (c->is_cut[SIMBA__MY_TRANSITION_AT] || c->transition_at > TIME_MAX_MS)
        return "transition_at is out of range";
    if (c->is_cut[SIMBA__MY_VERSION])
        return "version is out of range";
    if (c->is_null[SIMBA__MY_NOW] || c->now_ms < 0 || c->now_ms > TIME_MAX_MS)
        return "the server's clock is out of range";
    return NULL;
}

static int64_t since_epoch(int64_t ms)
{
    return ms < 0 ? 0 : ms;
}

static void decode_owner(const simba__my_columns *c, simba__my_row *row)
{
    simba_owner *owner = &row->row.owner;
    /* An id that a JVM contender was given may be longer than ours can be. */
    const size_t length = c->owner_length < SIMBA_ID_MAX ? c->owner_length : SIMBA_ID_MAX;
    memcpy(owner->id, c->owner_id, length);
    if (length == 0)
        return;
    owner->acquired_at_ms = since_epoch(c->acquired_at);
    owner->ttl_at_ms = since_epoch(c->ttl_at);
    owner->transition_at_ms = since_epoch(c->transition_at);
    owner->token = c->version;
    /* Others may have it when transition_at is past, not when it is reached. */
    row->row.until_ns = (owner->transition_at_ms + 1) * SIMBA__NS_PER_MS;
}

static void decode(const simba__my_columns *c, const simba__my_schema *schema, simba__my_row *row)
{
    row->found = true;
    row->changed = false;
    memset(&row->row, 0, sizeof row->row);
    row->row.counts_tokens = true;
    row->flaw = flaw_of(c);
    if (row->flaw)
        return;
    row->now_ms = c->now_ms;
    row->version = c->version;
    row->last_insert_id = c->last_insert_id;
    row->version_max = schema->version_max;
    row->nonce_known =
        !c->is_null[SIMBA__MY_NONCE] && !c->is_null[SIMBA__MY_NONCE_VERSION] && c->nonce_version == c->version;
    row->foreign = !row->nonce_known && c->owner_length > 0;
    row->row.token = c->version;
    row->row.nonce = row->nonce_known ? c->nonce : 0;
    row->row.revoked_token = c->is_null[SIMBA__MY_REVOKED_VERSION] ? 0 : c->revoked_version;
    decode_owner(c, row);
}

/* Also one that was cut ends, somewhere. */
static const char *end_mutex(simba__my_columns *c)
{
    const size_t most = sizeof c->mutex - 1;
    c->mutex[c->is_null[SIMBA__MY_MUTEX] ? 0 : c->mutex_length < most ? c->mutex_length : most] = '\0';
    return c->mutex;
}

static bool is_any(const simba__my_row *row)
{
    (void)row;
    return true;
}

static int by_name(const void *key, const void *element)
{
    return strcmp(key, (*(simba__my_row *const *)element)->mutex);
}

static int get_some(simba__my_session *session, simba__my_row **rows, size_t count, simba__my_statement how,
                    simba__sql_failure *why)
{
    MYSQL_STMT *statement = NULL;
    int rc = execute(session, how, rows, count, bind_name, &statement, why);
    if (rc < 0)
        return rc;
    while ((rc = simba__my_session_fetch(session, statement, why)) == 1) {
        /* A name that only the column takes for one of ours is not found here. */
        simba__my_row **row = bsearch(end_mutex(&session->columns), rows, count, sizeof *rows, by_name);
        if (row)
            decode(&session->columns, &session->schema, *row);
    }
    return rc;
}

int simba__my_get_rows(simba__my_session *session, simba__my_row *rows, size_t count, simba__my_statement how,
                       simba__sql_failure *why)
{
    simba__my_row *some[SIMBA__MY_ROWS_MAX];
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        rows[i] = (simba__my_row){.mutex = rows[i].mutex, .row = {.counts_tokens = true}};
        rows[i].now_ms = session->conn.host->epoch_us(session->conn.host) / 1000; /* for those that there are not */
    }
    for (size_t at = 0; rc == 0 && at < count;) {
        const size_t n = gather(session, rows, count, &at, is_any, some);
        rc = get_some(session, some, n, how, why);
    }
    return rc;
}

int simba__my_list_rows(simba__my_session *session, int (*each)(void *user, const simba__my_row *row), void *user,
                        simba__sql_failure *why)
{
    MYSQL_STMT *statement = NULL;
    int rc = simba__my_session_execute(session, SIMBA__MY_LIST, 0, &statement, why);
    if (rc < 0)
        return rc;
    int failed = 0;
    while ((rc = simba__my_session_fetch(session, statement, why)) == 1) {
        if (failed < 0)
            continue; /* to the end, or the connection could not be used again */
        simba__my_row row = {.mutex = end_mutex(&session->columns)};
        decode(&session->columns, &session->schema, &row);
        failed = each(user, &row);
    }
    if (rc == 0 && failed < 0)
        rc = simba__my_out_of_memory(why);
    return rc;
}

int simba__my_row_fail(const simba__my_session *session, const simba__my_row *row, simba__sql_failure *why)
{
    return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ECORRUPT,
                           "mysql %s: the row of this mutex in %s cannot be right: %s", session->conn.options->where,
                           session->conn.options->table, row->flaw);
}

/* --- making ------------------------------------------------------------------------------------------- */

static bool is_missing(const simba__my_row *row)
{
    return !row->found;
}

int simba__my_try_init_rows(simba__my_session *session, simba__my_row *rows, size_t count, simba__sql_failure *why)
{
    simba__my_row *some[SIMBA__MY_ROWS_MAX];
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < count;) {
        MYSQL_STMT *statement;
        const size_t n = gather(session, rows, count, &at, is_missing, some);
        if (n > 0)
            rc = execute(session, SIMBA__MY_TRY_INIT, some, n, bind_name, &statement, why);
    }
    return rc;
}

/* --- writing ------------------------------------------------------------------------------------------ */

/* A row is somebody else's grant if its nonce is not known, unless the request can show the token: every grant has another
 * version. */
static void fill_in_nonce(simba__my_row *row, const simba_request *request)
{
    if (!row->nonce_known)
        row->row.nonce = request->token != 0 && request->token == row->version ? request->nonce : ~request->nonce;
}

/* What core/row.c made of the row, as versions: a grant or its end is a new one, a renewal is not. */
static void number_change(simba__my_row *row, uint64_t token_before)
{
    const bool ended = row->row.owner.id[0] == '\0';
    if (ended)
        row->row.token++; /* as the JVM does: whoever looks sees that something has changed */
    if (ended || row->row.token != token_before)
        row->version = row->row.token;
    row->nonce_known = !ended;
    row->foreign = false;
    row->changed = true;
}

bool simba__my_apply(simba__my_row *row, simba_request *request, uint64_t floor)
{
    assert(!row->flaw);
    const simba__row_now now = {row->now_ms * SIMBA__NS_PER_MS, row->now_ms * 1000};
    const bool is_free = simba__row_is_free(&row->row, now);
    if (request->op == SIMBA_OP_ACQUIRE && is_free) {
        if (floor > row->row.token)
            row->row.token = floor;
        if (row->row.token >= row->version_max)
            return false;
    }
    fill_in_nonce(row, request);
    /* Without our columns the row does not say so, but the end of a grant is a release, and it was not ours. */
    const bool forced_away = row->row.owner.id[0] == '\0' && row->version == request->token + 1;
    const uint64_t token_before = row->row.token;
    const bool foreign = row->foreign && !is_free;
    if (simba__row_apply(&row->row, now, request))
        number_change(row, token_before);
    else if (foreign)
        request->reply.owner.token = 0;
    if (request->op == SIMBA_OP_RENEW && request->token != 0 && forced_away)
        request->reply.outcome = SIMBA_REVOKED;
    request->reply.now_ms = row->now_ms;
    return true;
}

static bool has_changed(const simba__my_row *row)
{
    return row->changed;
}

static void bind_shared(MYSQL_BIND *binds, const simba__my_row *row)
{
    bind_text(&binds[0], row->mutex);
    bind_time(&binds[1], &row->row.owner.acquired_at_ms);
    bind_time(&binds[2], &row->row.owner.ttl_at_ms);
    bind_time(&binds[3], &row->row.owner.transition_at_ms);
    bind_text(&binds[4], row->row.owner.id);
    bind_number(&binds[5], &row->version);
}

static void bind_all(MYSQL_BIND *binds, const simba__my_row *row)
{
    bind_shared(binds, row);
    bind_number(&binds[6], &row->row.nonce);
    bind_number(&binds[7], &row->nonce_version);
    bind_number(&binds[8], &row->row.revoked_token);
}

int simba__my_put_rows(simba__my_session *session, simba__my_row *rows, size_t count, simba__sql_failure *why)
{
    simba__my_row *some[SIMBA__MY_ROWS_MAX];
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < count;) {
        MYSQL_STMT *statement;
        const size_t n = gather(session, rows, count, &at, has_changed, some);
        for (size_t i = 0; i < n; i++)
            some[i]->nonce_version = some[i]->nonce_known ? some[i]->version : 0;
        if (n > 0)
            rc = execute(session, SIMBA__MY_PUT, some, n, session->schema.has_nonce ? bind_all : bind_shared,
                         &statement, why);
    }
    return rc;
}

/* --- one mutex by itself -------------------------------------------------------------------------------- */

/* How many rows it matched. */
static int execute_one(simba__my_session *session, simba__my_statement which, uint64_t *ret_insert_id,
                       simba__sql_failure *why)
{
    MYSQL_STMT *statement = NULL;
    const int rc = simba__my_session_execute(session, which, 0, &statement, why);
    if (rc < 0)
        return rc;
    if (ret_insert_id)
        *ret_insert_id = mysql_stmt_insert_id(statement);
    return mysql_stmt_affected_rows(statement) > 0;
}

int simba__my_acquire(simba__my_session *session, const simba_request *request, uint64_t floor, simba__sql_failure *why)
{
    const int64_t lease_ms = request->ttl_ms + request->transition_ms;
    MYSQL_BIND *bind = simba__my_session_binds(session, 9);
    if (!bind)
        return simba__my_out_of_memory(why);
    bind_time(bind++, &request->ttl_ms);
    bind_time(bind++, &lease_ms);
    bind_text(bind++, request->id);
    if (session->schema.has_nonce) {
        bind_number(bind++, &floor);
        bind_number(bind++, &request->nonce);
    }
    bind_number(bind++, &floor);
    bind_text(bind++, request->mutex);
    bind_number(bind++, &floor);
    bind_number(bind++, &session->schema.version_max);
    return execute_one(session, SIMBA__MY_ACQUIRE, NULL, why);
}

/* The parameters that name a grant. */
static void bind_grant(const simba__my_session *session, MYSQL_BIND *binds, const simba_request *request)
{
    bind_text(&binds[0], request->mutex);
    bind_number(&binds[1], &request->token);
    bind_text(&binds[2], request->id);
    if (session->schema.has_nonce)
        bind_number(&binds[3], &request->nonce);
}

int simba__my_renew(simba__my_session *session, const simba_request *request, simba__sql_failure *why)
{
    const int64_t lease_ms = request->ttl_ms + request->transition_ms;
    MYSQL_BIND *binds = simba__my_session_binds(session, 6);
    if (!binds)
        return simba__my_out_of_memory(why);
    bind_time(&binds[0], &request->ttl_ms);
    bind_time(&binds[1], &lease_ms);
    bind_grant(session, binds + 2, request);
    return execute_one(session, SIMBA__MY_RENEW, NULL, why);
}

int simba__my_release(simba__my_session *session, const simba_request *request, int64_t *ret_now_ms,
                      simba__sql_failure *why)
{
    MYSQL_BIND *binds = simba__my_session_binds(session, 4);
    uint64_t now_ms = 0;
    if (!binds)
        return simba__my_out_of_memory(why);
    bind_grant(session, binds, request);
    const int matched = execute_one(session, SIMBA__MY_RELEASE, &now_ms, why);
    if (matched == 1)
        *ret_now_ms = (int64_t)now_ms;
    return matched;
}
