/* See writes.h. */
#include "backends/sql/writes.h"

#include <string.h>

#include "util/assert.h"
#include "util/clock.h"
#include "util/mem.h"
#include "util/random.h"

enum { DEADLOCKS_MAX = 5 };

/* Which step is under way. */
typedef enum phase {
    STARTING, /* none yet */
    CONNECTING,
    DECIDING,   /* none, or a pause: the rows from batch->from to batch->to are to be tried */
    SETTLED,    /* none: their items have their answers or errors, or are put off */
    ALONE,      /* one request without a transaction */
    BEGINNING,  /* the transaction */
    LOCKING,    /* its rows */
    UNLOCKING,  /* because some rows are missing: they are made outside of the transaction */
    MAKING,     /* those */
    PUTTING,    /* the rows that changed */
    COMMITTING, /* them */
    UNDOING,    /* the transaction, after a failure */
    CLOSING,    /* the connection, after a failure */
    CHECKING,   /* whether a row that was skipped is locked or missing */
    DONE,
} phase;

/* Which rows are under work. */
typedef enum pass {
    ALL,     /* in one transaction */
    FREE,    /* those that nobody else has locked, in one transaction */
    SKIPPED, /* after FREE: the others, one by one */
    SINGLES, /* each by itself */
} pass;

/* --- the items of the rows that are under work ------------------------------------------------------------ */

static simba__sql_item **items_begin(const simba__sql_batch *batch)
{
    return batch->order + batch->firsts[batch->from];
}

static simba__sql_item **items_end(const simba__sql_batch *batch)
{
    return batch->order + batch->firsts[batch->to];
}

static bool is_one_row(const simba__sql_batch *batch)
{
    return batch->to - batch->from == 1;
}

static bool is_one_item(const simba__sql_batch *batch)
{
    return is_one_row(batch) && items_end(batch) - items_begin(batch) == 1;
}

static void fail_items(const simba__sql_batch *batch, const simba_error *why)
{
    for (simba__sql_item **at = items_begin(batch); at < items_end(batch); at++)
        if (!(*at)->is_refused)
            simba__sql_item_fail(*at, why);
}

static void put_off(const simba__sql_batch *batch)
{
    for (simba__sql_item **at = items_begin(batch); at < items_end(batch); at++)
        (*at)->put_off = !(*at)->is_refused;
}

/* Is there somebody left who waits for them? */
static bool is_wanted(const simba__sql_batch *batch, simba_local now, bool is_over)
{
    for (simba__sql_item **at = items_begin(batch); !is_over && at < items_end(batch); at++)
        if (now.ns < (*at)->ask.deadline.ns)
            return true;
    return false;
}

static unsigned characters(const char *text)
{
    unsigned n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* What the columns have no room for is not sent: it might come back as something else. */
static void refuse_oversized(const simba__sql_batch *batch)
{
    const simba__sql_table *table = &batch->table;
    for (simba__sql_item **at = items_begin(batch); at < items_end(batch); at++) {
        const simba_request *ask = &(*at)->ask;
        simba_error why = {0};
        if (ask->id && characters(ask->id) > table->id_chars)
            simba__error_set(&why, SIMBA_EINVAL,
                             "%s: the id \"%.40s\" has %u characters, and the column owner_id of %s takes %u",
                             batch->place.store, ask->id, characters(ask->id), batch->place.table, table->id_chars);
        else if (characters(ask->mutex) > table->mutex_chars)
            simba__error_set(&why, SIMBA_EINVAL, "%s: the name has %u characters, and the column mutex of %s takes %u",
                             batch->place.store, characters(ask->mutex), batch->place.table, table->mutex_chars);
        (*at)->is_refused = why.code < 0;
        if ((*at)->is_refused)
            simba__sql_item_fail(*at, &why);
    }
}

/* --- one request by itself ------------------------------------------------------------------------------ */

/* False: that takes a transaction. */
static bool try_alone(simba__sql_batch *batch)
{
    simba__sql_item *item = *items_begin(batch);
    if (!is_one_item(batch) || item->guarded || !batch->table.is_exact)
        return false;
    if (item->ask.op != SIMBA_OP_ACQUIRE && item->ask.op != SIMBA_OP_RENEW &&
        (item->ask.op != SIMBA_OP_RELEASE || item->ask.token == 0))
        return false;
    batch->at = batch->from;
    simba__sql_batch_step_rows(batch,
                               item->ask.op == SIMBA_OP_ACQUIRE ? SIMBA__SQL_ACQUIRE
                               : item->ask.op == SIMBA_OP_RENEW ? SIMBA__SQL_RENEW
                                                                : SIMBA__SQL_RELEASE,
                               simba__sql_batch_any_row);
    batch->step.item = item;
    batch->phase = ALONE;
    return true;
}

/* It is ours by what the statement said; now what the row says: the times, or that it is gone already. */
static void answer_granted(simba__sql_item *item, const simba__sql_row *row, uint64_t token)
{
    item->ask.reply = simba__sql_row_read(row);
    if (row->found && row->version == token && strcmp(row->row.owner.id, item->ask.id) == 0) {
        item->ask.reply.outcome = SIMBA_MINE;
        item->ask.reply.owner = row->row.owner;
    }
    item->version = row->version;
}

/* False: the statement did not answer the request, and a transaction has to. */
static bool answer_alone(const simba__sql_batch *batch)
{
    const simba__sql_step *step = &batch->step;
    const simba__sql_row *row = step->rows[0];
    simba__sql_item *item = step->item;
    if (step->action == SIMBA__SQL_RELEASE && step->matched) {
        item->ask.reply = (simba_reply){.outcome = SIMBA_MINE, .now_ms = row->now_ms};
        item->version = item->ask.token + 1;
        return true;
    }
    if (step->matched && !row->flaw) {
        answer_granted(item, row, step->action == SIMBA__SQL_ACQUIRE ? step->token : item->ask.token);
        return true;
    }
    simba__sql_row tried = *row;
    if (step->action != SIMBA__SQL_ACQUIRE || !row->found || row->flaw ||
        !simba__sql_row_apply(&tried, &item->ask, item->floor) || tried.changed)
        return false;
    item->version = row->version;
    return true;
}

/* --- the transaction ------------------------------------------------------------------------------------ */

/* It is missing, and somebody wants to acquire it. */
static bool is_lacking(const simba__sql_batch *batch, size_t row)
{
    for (size_t i = batch->firsts[row]; i < batch->firsts[row + 1] && !batch->rows[row].found; i++)
        if (batch->order[i]->ask.op == SIMBA_OP_ACQUIRE && !batch->order[i]->is_refused)
            return true;
    return false;
}

static bool lacks_rows(const simba__sql_batch *batch)
{
    for (size_t i = batch->from; i < batch->to; i++)
        if (is_lacking(batch, i))
            return true;
    return false;
}

static bool has_changed(const simba__sql_batch *batch, size_t row)
{
    return batch->rows[row].changed;
}

static void apply_item(const simba__sql_batch *batch, simba__sql_row *row, simba__sql_item *item)
{
    const simba__sql_place *place = &batch->place;
    simba_error why = {0};
    simba__free(item->error); /* of an earlier try */
    item->error = NULL;
    item->kept_back = false;
    const simba__row_now now = {row->now_ms * SIMBA__NS_PER_MS, row->now_ms * 1000};
    if (!row->found && item->ask.op == SIMBA_OP_ACQUIRE) {
        simba__error_set(&why, batch->table.is_exact ? SIMBA_EUNAVAILABLE : SIMBA_ECORRUPT,
                         batch->table.is_exact
                             ? "%s %s: the row of this mutex in %s was deleted just now"
                             : "%s %s: the column mutex of %s takes this name for another; make it utf8mb4_bin",
                         place->store, place->where, place->table);
    } else if (row->flaw) {
        simba__sql_batch_fail_flawed(batch, row, item);
    } else if (item->guarded && !row->changed && simba__row_is_free(&row->row, now)) {
        item->ask.reply = simba__sql_row_read(row);
        item->kept_back = true;
    } else if (!simba__sql_row_apply(row, &item->ask, item->floor)) {
        simba__error_set(&why, SIMBA_ECORRUPT, "%s %s: the version of this mutex in %s is used up: it is %llu",
                         place->store, place->where, place->table, (unsigned long long)row->version);
    }
    item->version = row->version;
    if (why.code < 0)
        simba__sql_item_fail(item, &why);
}

static void apply_all(simba__sql_batch *batch)
{
    for (size_t i = batch->from; i < batch->to; i++) {
        simba__sql_row *row = &batch->rows[i];
        row->skipped = batch->pass == FREE && !row->found;
        for (size_t k = batch->firsts[i]; k < batch->firsts[i + 1] && !row->skipped; k++)
            if (!batch->order[k]->is_refused)
                apply_item(batch, row, batch->order[k]);
    }
}

/* Steps that are about one statement, or as many as it takes for all rows. */
static bool enter(simba__sql_batch *batch, phase next, simba__sql_action action)
{
    batch->phase = next;
    return simba__sql_batch_step(batch, action, NULL);
}

static bool transact(simba__sql_batch *batch)
{
    return enter(batch, BEGINNING, SIMBA__SQL_BEGIN);
}

static bool lock_more(simba__sql_batch *batch)
{
    batch->phase = LOCKING;
    return simba__sql_batch_step_rows(batch, batch->pass == FREE ? SIMBA__SQL_LOCK_FREE : SIMBA__SQL_LOCK,
                                      simba__sql_batch_any_row);
}

/* Outside of the transaction: a lock on a row that is not there is a lock on the gap, and two who have that and insert are
 * a deadlock. */
static bool make_more(simba__sql_batch *batch)
{
    batch->phase = MAKING;
    return simba__sql_batch_step_rows(batch, SIMBA__SQL_MAKE, is_lacking);
}

static bool put_more(simba__sql_batch *batch)
{
    batch->phase = PUTTING;
    return simba__sql_batch_step_rows(batch, SIMBA__SQL_PUT, has_changed) ||
           enter(batch, COMMITTING, SIMBA__SQL_COMMIT);
}

/* All rows are locked. By LOCK_FREE those that are missing are skipped, since they might be locked. */
static bool use_locks(simba__sql_batch *batch)
{
    if (batch->pass != FREE && !batch->has_made_rows && lacks_rows(batch))
        return enter(batch, UNLOCKING, SIMBA__SQL_ROLLBACK);
    apply_all(batch);
    batch->at = batch->from;
    return put_more(batch);
}

/* --- after a failure ---------------------------------------------------------------------------------------- */

/* The items have what they get. */
static bool settle(simba__sql_batch *batch)
{
    batch->phase = SETTLED;
    return false;
}

static bool settle_later(simba__sql_batch *batch)
{
    put_off(batch);
    return settle(batch);
}

static bool settle_failed(simba__sql_batch *batch)
{
    fail_items(batch, &batch->why.error);
    return settle(batch);
}

/* First of all: leave the connection as it should be found, or not at all. */
static bool undo(simba__sql_batch *batch, const simba__sql_failure *why)
{
    batch->why = *why;
    batch->may_put_off = simba__sql_batch_may_put_off(batch, why);
    if (simba__sql_batch_is_cut(why))
        return enter(batch, CLOSING, SIMBA__SQL_CLOSE);
    return enter(batch, UNDOING, SIMBA__SQL_ROLLBACK) && batch->in_transaction;
}

static bool try_again(simba__sql_batch *batch)
{
    const int64_t most_ns = (int64_t)(batch->tries + 1) * 4 * SIMBA__NS_PER_MS;
    batch->tries++;
    enter(batch, DECIDING, SIMBA__SQL_PAUSE);
    batch->step.pause_ns = simba__random_range(&batch->seed, SIMBA__NS_PER_MS / 2, most_ns);
    return true;
}

/* This row by itself; after the last one: none. */
static bool start_single(simba__sql_batch *batch, size_t row)
{
    batch->phase = row < batch->row_count ? DECIDING : DONE;
    batch->from = batch->at = row;
    batch->to = row + 1;
    batch->tries = 0;
    batch->why.error.code = 0;
    return false;
}

static bool split(simba__sql_batch *batch)
{
    batch->pass = SINGLES;
    return start_single(batch, 0);
}

/* Then go on, by the table in writes.h. */
static bool recover(simba__sql_batch *batch)
{
    const bool one = is_one_row(batch);
    if (batch->pass == FREE)
        return split(batch); /* an old server does not know LOCK_FREE, or it is about something else */
    if (batch->link == SIMBA__SQL_DOWN) {
        const bool is_regained = batch->table.has_nonce || batch->why.remedy != SIMBA__SQL_LOST;
        return batch->may_put_off && is_regained ? settle_later(batch) : settle_failed(batch);
    }
    switch (batch->why.remedy) {
    case SIMBA__SQL_RETRY:
        return batch->tries < DEADLOCKS_MAX ? try_again(batch) : one ? settle_failed(batch) : split(batch);
    case SIMBA__SQL_LOCKED:
        if (one)
            return settle_later(batch);
        batch->pass = FREE;
        return transact(batch);
    case SIMBA__SQL_SPLIT:
        return one ? settle_failed(batch) : split(batch);
    default:
        return settle_failed(batch);
    }
}

/* --- one stretch of rows after another ---------------------------------------------------------------------- */

/* The first step for these rows, if they need one. */
static bool decide(simba__sql_batch *batch, simba_local now, bool is_over)
{
    if (!is_wanted(batch, now, is_over)) {
        if (batch->why.error.code == 0)
            simba__error_set(&batch->why.error, SIMBA_ETIMEDOUT, "%s %s: no answer in time", batch->place.store,
                             batch->place.where);
        return settle_failed(batch);
    }
    if (batch->link == SIMBA__SQL_DOWN)
        return settle_later(batch); /* other rows have lost it */
    if (is_one_item(batch) && (*items_begin(batch))->is_refused)
        return settle(batch);
    batch->has_made_rows = false;
    return try_alone(batch) || transact(batch);
}

/* What is locked is for another job: those who have their answers by now are told when this one ends, and must not wait for
 * the lock meanwhile. What is only missing is made. */
static bool check_skipped(simba__sql_batch *batch, size_t row)
{
    while (row < batch->row_count && !batch->rows[row].skipped)
        row++;
    start_single(batch, row);
    if (batch->phase == DONE || batch->link == SIMBA__SQL_DOWN)
        return false;
    batch->phase = CHECKING;
    return simba__sql_batch_step_rows(batch, SIMBA__SQL_GET, simba__sql_batch_any_row);
}

/* The next rows. */
static bool go_on(simba__sql_batch *batch)
{
    switch ((pass)batch->pass) {
    case FREE:
        batch->pass = SKIPPED;
        return check_skipped(batch, 0);
    case SKIPPED:
        return check_skipped(batch, batch->to);
    case SINGLES:
        return start_single(batch, batch->to);
    case ALL:
        break;
    }
    batch->phase = DONE;
    return false;
}

/* --- the step that was carried out --------------------------------------------------------------------------- */

static bool take_connected(simba__sql_batch *batch, const simba__sql_failure *why)
{
    batch->tries = 0;
    batch->why = why ? *why : (simba__sql_failure){0};
    if (why)
        return settle_failed(batch);
    refuse_oversized(batch);
    batch->phase = DECIDING;
    return false;
}

static bool take_checked(simba__sql_batch *batch, const simba__sql_failure *why)
{
    if (!why && batch->rows[batch->from].found)
        return settle_later(batch);
    batch->phase = DECIDING;
    return false;
}

/* A step of the transaction, or of one request without it, worked. */
static bool take_worked(simba__sql_batch *batch)
{
    switch ((phase)batch->phase) {
    case ALONE:
        return answer_alone(batch) ? settle(batch) : transact(batch);
    case BEGINNING:
        batch->at = batch->from;
        return lock_more(batch);
    case LOCKING:
        return lock_more(batch) || use_locks(batch);
    case UNLOCKING:
        batch->at = batch->from;
        return make_more(batch);
    case MAKING:
        batch->has_made_rows = true;
        return make_more(batch) || transact(batch);
    case PUTTING:
        return put_more(batch);
    default:
        SIMBA__ASSERT(batch->phase == COMMITTING);
        return settle(batch);
    }
}

/* True: there is a step to be carried out. */
static bool take_outcome(simba__sql_batch *batch, const simba__sql_failure *why)
{
    switch ((phase)batch->phase) {
    case STARTING:
        return enter(batch, CONNECTING, SIMBA__SQL_READY);
    case CONNECTING:
        return take_connected(batch, why);
    case DECIDING:
        return false;
    case UNDOING:
        return why ? enter(batch, CLOSING, SIMBA__SQL_CLOSE) : recover(batch);
    case CLOSING:
        return recover(batch);
    case CHECKING:
        return take_checked(batch, why);
    default:
        return why ? undo(batch, why) : take_worked(batch);
    }
}

bool simba__sql_writes_next(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now, bool is_over)
{
    bool has_step = take_outcome(batch, why);
    while (!has_step && batch->phase != DONE)
        switch ((phase)batch->phase) {
        case DECIDING:
            has_step = decide(batch, now, is_over);
            break;
        case UNDOING: /* there was nothing to undo */
            has_step = recover(batch);
            break;
        default:
            SIMBA__ASSERT(batch->phase == SETTLED);
            has_step = go_on(batch);
        }
    return has_step;
}
