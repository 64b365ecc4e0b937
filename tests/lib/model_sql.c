/* See model_sql.h. */
#include "lib/model_sql.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void model_sql_init(model_sql *server)
{
    *server = (model_sql){.now_ms = 1000000,
                          .table = {.has_nonce = true,
                                    .has_notes = true,
                                    .is_exact = true,
                                    .mutex_chars = 12,
                                    .id_chars = 12,
                                    .rows_max = SIMBA__SQL_ROWS_MAX}};
}

static model_sql_row *find(model_sql *server, const char *mutex)
{
    for (size_t i = 0; i < server->count; i++)
        if (strcmp(server->rows[i].mutex, mutex) == 0)
            return &server->rows[i];
    return NULL;
}

model_sql_row *model_sql_row_of(model_sql *server, const char *mutex)
{
    model_sql_row *row = find(server, mutex);
    if (row)
        return row;
    assert(server->count < MODEL_SQL_ROWS);
    row = &server->rows[server->count++];
    *row = (model_sql_row){0};
    snprintf(row->mutex, sizeof row->mutex, "%s", mutex);
    return row;
}

/* --- locks and transactions ------------------------------------------------------------------------------ */

static void unlock(model_sql_conn *conn)
{
    for (size_t i = 0; i < conn->server->count; i++)
        if (conn->server->rows[i].locked_by == conn)
            conn->server->rows[i].locked_by = NULL;
}

static void commit(model_sql_conn *conn)
{
    for (size_t i = 0; i < conn->server->count; i++)
        if (conn->has_put[i])
            conn->server->rows[i] = conn->after[i];
    model_sql_roll_back(conn);
}

void model_sql_roll_back(model_sql_conn *conn)
{
    unlock(conn);
    memset(conn->has_put, 0, sizeof conn->has_put);
    conn->in_transaction = false;
}

static void drop(model_sql_conn *conn)
{
    model_sql_roll_back(conn);
    conn->is_up = false;
}

static bool is_foreign(const model_sql_conn *conn, const model_sql_row *row)
{
    return row && row->locked_by && row->locked_by != conn;
}

/* --- rows ------------------------------------------------------------------------------------------------ */

simba__sql_columns model_sql_columns(const model_sql *server, const model_sql_row *from)
{
    const bool has_nonce = server->table.has_nonce && from->nonce_version != 0;
    simba__sql_columns columns = {
        .mutex_length = strlen(from->mutex),
        .note_token = from->note_token,
        .note_number = from->note_number,
        .forgotten_version = from->forgotten_version,
        .note_length = from->note_size,
        .owner_length = strlen(from->owner_id),
        .acquired_at = from->acquired_at,
        .ttl_at = from->ttl_at,
        .transition_at = from->transition_at,
        .now_ms = server->now_ms,
        .version = from->version,
        .nonce = from->nonce,
        .nonce_version = from->nonce_version,
        .revoked_version = from->revoked_version,
    };
    strcpy(columns.mutex, from->mutex);
    strcpy(columns.owner_id, from->owner_id);
    memcpy(columns.note, from->note, from->note_size);
    columns.is_null[SIMBA__SQL_NONCE] = columns.is_null[SIMBA__SQL_NONCE_VERSION] = !has_nonce;
    columns.is_null[SIMBA__SQL_FORGOTTEN_VERSION] = from->forgotten_version == 0;
    return columns;
}

static void read_row(const model_sql_conn *conn, const model_sql_row *from, simba__sql_row *row)
{
    const simba__sql_columns columns = model_sql_columns(conn->server, from);
    simba__sql_row_decode(row, &columns, UINT32_MAX);
}

static void get_rows(model_sql_conn *conn, const simba__sql_step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        model_sql_row *row = find(conn->server, step->rows[i]->mutex);
        simba__sql_row_clear(step->rows[i], conn->server->now_ms);
        if (!row || (step->action == SIMBA__SQL_LOCK_FREE && is_foreign(conn, row)))
            continue;
        read_row(conn, row, step->rows[i]);
        if (step->action == SIMBA__SQL_LOCK_FREE)
            row->locked_by = conn;
    }
}

static void write_row(const simba__sql_row *from, model_sql_row *row)
{
    snprintf(row->owner_id, sizeof row->owner_id, "%s", from->row.owner.id);
    row->acquired_at = from->row.owner.acquired_at_ms;
    row->ttl_at = from->row.owner.ttl_at_ms;
    row->transition_at = from->row.owner.transition_at_ms;
    row->version = from->version;
    row->nonce = from->row.nonce;
    row->nonce_version = from->nonce_version;
    row->revoked_version = from->row.revoked_token;
}

static int fail_to_fit(simba__sql_failure *why)
{
    return simba__sql_fail(why, SIMBA__SQL_SPLIT, SIMBA_ESTORE, "model: a value does not fit");
}

static int put_rows(model_sql_conn *conn, const simba__sql_step *step, simba__sql_failure *why)
{
    for (size_t i = 0; i < step->count; i++) {
        const model_sql_row *locked = find(conn->server, step->rows[i]->mutex);
        assert(conn->in_transaction && locked && locked->locked_by == conn && step->rows[i]->changed);
        model_sql_row *row = &conn->after[locked - conn->server->rows];
        *row = *locked;
        conn->has_put[locked - conn->server->rows] = true;
        if (row->does_not_fit)
            return fail_to_fit(why);
        write_row(step->rows[i], row);
    }
    return 0;
}

/* --- locks of a step -------------------------------------------------------------------------------------- */

/* A server that decides takes no lock for a request that only reads, or that has to wait and does not queue. */
static bool wants_lock(const model_sql_conn *conn, const model_sql_row *stored, const simba__sql_item *item)
{
    simba__sql_row row = {.mutex = stored->mutex};
    simba_request ask = item->ask;
    if (item->held_here || ask.op != SIMBA_OP_ACQUIRE || ask.queue)
        return !item->held_here;
    read_row(conn, stored, &row);
    return simba__sql_row_apply(&row, &ask, item->floor) && row.changed;
}

static void lock_to_decide(model_sql_conn *conn, const simba__sql_step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        const simba__sql_item *item = step->rows[i]->item;
        const bool makes = item->ask.op == SIMBA_OP_ACQUIRE && !item->held_here;
        model_sql_row *row =
            makes ? model_sql_row_of(conn->server, step->rows[i]->mutex) : find(conn->server, step->rows[i]->mutex);
        if (!row || step->rows[i]->skipped || !wants_lock(conn, row, item))
            continue;
        step->rows[i]->skipped = is_foreign(conn, row);
        if (!step->rows[i]->skipped)
            row->locked_by = conn;
    }
}

static bool needs_locks(const model_sql *server, simba__sql_action action)
{
    if (action == SIMBA__SQL_DECIDE)
        return server->waits_to_decide;
    return action == SIMBA__SQL_LOCK || action == SIMBA__SQL_MAKE || action == SIMBA__SQL_ACQUIRE ||
           action == SIMBA__SQL_RENEW || action == SIMBA__SQL_RELEASE;
}

const model_sql_row *model_sql_lock(model_sql_conn *conn, const simba__sql_step *step)
{
    if (step->action == SIMBA__SQL_DECIDE && !conn->server->waits_to_decide)
        lock_to_decide(conn, step);
    for (size_t i = 0; needs_locks(conn->server, step->action) && i < step->count; i++) {
        model_sql_row *row = find(conn->server, step->rows[i]->mutex);
        if (is_foreign(conn, row))
            return row;
        if (row)
            row->locked_by = conn;
    }
    return NULL;
}

/* --- a server that decides --------------------------------------------------------------------------------- */

static void write_note(const simba__sql_row *from, const simba_request *ask, model_sql_row *row)
{
    row->note_token = from->row.note_token;
    row->note_number = from->row.note_number;
    row->forgotten_version = from->is_forgotten ? row->version : 0;
    if (ask->op != SIMBA_OP_WRITE_NOTE && ask->op != SIMBA_OP_FORGET)
        return;
    assert(ask->note_size <= sizeof row->note);
    row->note_size = ask->note_size;
    if (ask->note_size > 0)
        memcpy(row->note, ask->note, ask->note_size);
}

static void decide_row(const model_sql_conn *conn, simba__sql_row *row)
{
    simba__sql_item *item = row->item;
    simba_request ask = item->ask;
    model_sql_row *stored = find(conn->server, row->mutex);
    const bool was_skipped = row->skipped;
    simba__sql_row_clear(row, conn->server->now_ms);
    row->deed = SIMBA__SQL_REFUSED;
    if (!stored)
        return;
    read_row(conn, stored, row);
    row->deed = was_skipped ? SIMBA__SQL_BUSY : SIMBA__SQL_REFUSED;
    row->place = 3;
    simba__sql_row tried = *row;
    if (stored->locked_by != conn || !simba__sql_row_apply(&tried, &ask, item->floor) || !tried.changed)
        return;
    if (ask.op != SIMBA_OP_WRITE_NOTE)
        write_row(&tried, stored);
    write_note(&tried, &ask, stored);
    read_row(conn, stored, row);
    row->deed = SIMBA__SQL_DONE;
}

static int decide(const model_sql_conn *conn, const simba__sql_step *step, simba__sql_failure *why)
{
    for (size_t i = 0; i < step->count; i++) {
        const model_sql_row *stored = find(conn->server, step->rows[i]->mutex);
        if (stored && stored->does_not_fit)
            return fail_to_fit(why);
    }
    for (size_t i = 0; i < step->count; i++)
        decide_row(conn, step->rows[i]);
    return 0;
}

/* --- one mutex by itself ----------------------------------------------------------------------------------- */

static bool is_live_grant(const model_sql_conn *conn, const model_sql_row *row, const simba_request *ask)
{
    return row->version == ask->token && strcmp(row->owner_id, ask->id) == 0 &&
           (!conn->server->table.has_nonce || (row->nonce == ask->nonce && row->nonce_version == row->version)) &&
           row->transition_at >= conn->server->now_ms &&
           (ask->op != SIMBA_OP_RENEW || row->transition_at <= conn->server->now_ms + ask->ttl_ms + ask->transition_ms);
}

static void change_one(model_sql_conn *conn, simba__sql_step *step)
{
    const simba_request *ask = &step->item->ask;
    const int64_t now_ms = conn->server->now_ms;
    model_sql_row *row = find(conn->server, ask->mutex);
    simba__sql_row_clear(step->rows[0], now_ms);
    if (!row)
        return;
    const bool is_free = row->owner_id[0] == '\0' || row->transition_at < now_ms;
    step->matched = step->action == SIMBA__SQL_ACQUIRE ? is_free : is_live_grant(conn, row, ask);
    if (step->matched && step->action == SIMBA__SQL_RELEASE) {
        row->owner_id[0] = '\0';
        row->acquired_at = row->ttl_at = row->transition_at = 0;
        row->version++;
    } else if (step->matched) {
        row->ttl_at = now_ms + ask->ttl_ms;
        row->transition_at = row->ttl_at + ask->transition_ms;
    }
    if (step->matched && step->action == SIMBA__SQL_ACQUIRE) {
        row->version = (row->version > step->item->floor ? row->version : step->item->floor) + 1;
        row->nonce_version = step->token = row->version;
        row->nonce = ask->nonce;
        row->acquired_at = now_ms;
        snprintf(row->owner_id, sizeof row->owner_id, "%s", ask->id);
    }
    read_row(conn, row, step->rows[0]);
}

/* --- steps ------------------------------------------------------------------------------------------------- */

static int get_ready(model_sql_conn *conn, bool bare, simba__sql_table *table, simba__sql_failure *why)
{
    conn->is_up = bare || !conn->server->is_missing;
    *table = conn->server->table;
    return conn->is_up ? 0 : simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ESTORE, "model: there is no table");
}

static void list_rows(const model_sql_conn *conn, simba__sql_item *item)
{
    for (size_t i = 0; i < conn->server->count; i++) {
        simba__sql_row row = {.mutex = conn->server->rows[i].mutex};
        read_row(conn, &conn->server->rows[i], &row);
        const simba__sql_columns columns = model_sql_columns(conn->server, &conn->server->rows[i]);
        assert(simba__sql_item_list(item, &row, &columns) == 0);
    }
}

static void read_note(const model_sql_conn *conn, simba__sql_item *item)
{
    const model_sql_row *row = find(conn->server, item->ask.mutex);
    simba__sql_columns columns = row ? model_sql_columns(conn->server, row) : (simba__sql_columns){0};
    if (row)
        assert(simba__sql_item_note(item, &columns) == 0);
}

static int carry_out_locked(model_sql_conn *conn, simba__sql_step *step, simba__sql_table *table,
                            simba__sql_failure *why)
{
    switch (step->action) {
    case SIMBA__SQL_READY:
    case SIMBA__SQL_READY_BARE:
        return get_ready(conn, step->action == SIMBA__SQL_READY_BARE, table, why);
    case SIMBA__SQL_CLOSE:
        drop(conn);
        return 0;
    case SIMBA__SQL_BEGIN:
        conn->in_transaction = true;
        return 0;
    case SIMBA__SQL_COMMIT:
        commit(conn);
        return 0;
    case SIMBA__SQL_ROLLBACK:
        model_sql_roll_back(conn);
        return 0;
    case SIMBA__SQL_GET:
    case SIMBA__SQL_LOCK:
    case SIMBA__SQL_LOCK_FREE:
        get_rows(conn, step);
        return 0;
    case SIMBA__SQL_MAKE:
        for (size_t i = 0; i < step->count; i++)
            model_sql_row_of(conn->server, step->rows[i]->mutex);
        return 0;
    case SIMBA__SQL_PUT:
        return put_rows(conn, step, why);
    case SIMBA__SQL_ACQUIRE:
    case SIMBA__SQL_RENEW:
    case SIMBA__SQL_RELEASE:
        change_one(conn, step);
        return 0;
    case SIMBA__SQL_DECIDE:
        return decide(conn, step, why);
    case SIMBA__SQL_LIST:
        list_rows(conn, step->item);
        return 0;
    case SIMBA__SQL_READ_NOTE:
        read_note(conn, step->item);
        return 0;
    case SIMBA__SQL_PREPARE:
        conn->server->is_missing = false;
        return 0;
    default:
        return 0;
    }
}

static int carry_out(model_sql_conn *conn, simba__sql_step *step, simba__sql_table *table, simba__sql_failure *why)
{
    const int rc = model_sql_lock(conn, step)
                       ? simba__sql_fail(why, SIMBA__SQL_LOCKED, SIMBA_ETIMEDOUT, "model: a row is locked")
                       : carry_out_locked(conn, step, table, why);
    if (!conn->in_transaction)
        unlock(conn);
    return rc;
}

static void note(model_sql_conn *conn, const simba__sql_step *step)
{
    static const char *const words[SIMBA__SQL_ACTIONS] = {
        "",    "ready",   "bare",  "close",   "begin",  "commit", "rollback", "get",     "lock",    "free",  "make",
        "put", "acquire", "renew", "release", "decide", "list",   "note",     "examine", "prepare", "pause",
    };
    const size_t length = strlen(conn->log);
    const size_t room = sizeof conn->log - length;
    if (step->count > 0)
        snprintf(conn->log + length, room, " %s:%zu", words[step->action], step->count);
    else
        snprintf(conn->log + length, room, " %s", words[step->action]);
}

int model_sql_carry_out(void *instance, simba__sql_step *step, simba__sql_table *table, simba__sql_failure *why)
{
    model_sql_conn *conn = instance;
    model_sql_fault *fault = &conn->fault;
    note(conn, step);
    if (fault->times == 0 || fault->action != step->action)
        return carry_out(conn, step, table, why);
    fault->times--;
    if (fault->is_carried_out)
        (void)carry_out(conn, step, table, why);
    if (simba__sql_batch_is_cut(&(simba__sql_failure){.remedy = fault->remedy}))
        drop(conn);
    return simba__sql_fail(why, fault->remedy, SIMBA_EUNAVAILABLE, "model: fault");
}
