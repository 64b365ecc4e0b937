/* See writes.h. */
#include "backends/sql/writes.h"

#include <string.h>

#include "util/clock.h"
#include "util/mem.h"

enum { DEADLOCKS_MAX = 5 };

/* The next step. */
typedef enum next {
    STEP,   /* batch->step is to be carried out */
    DECIDE, /* how to begin with the rows from batch->from to batch->to */
    GO_ON,  /* with other rows: the items of these have answers or errors, or are put off */
    DONE,
} next;

/* Which rows are under work. */
typedef enum pass {
    ALL,     /* in one transaction */
    FREE,    /* the rows that nobody else has locked, in one transaction */
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

/* Does any request still wait for them? */
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

/* A value that the columns have no room for is not sent: it might come back as something else. */
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
    if (!is_one_item(batch) || item->held_here || !batch->table.is_exact)
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
    item->mark = simba__sql_row_mark(row);
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
    item->mark = simba__sql_row_mark(row);
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
        if (batch->table.is_exact)
            simba__error_set(&why, SIMBA_EUNAVAILABLE, "%s %s: the row of this mutex in %s was deleted just now",
                             place->store, place->where, place->table);
        else
            simba__error_set(&why, SIMBA_ECORRUPT, "%s %s: the column mutex of %s takes this name for another; %s",
                             place->store, place->where, place->table, batch->table.make_exact);
    } else if (row->flaw) {
        simba__sql_batch_fail_flawed(batch, row, item);
    } else if (item->held_here && !row->changed && simba__row_is_free(&row->row, now)) {
        item->ask.reply = simba__sql_row_read(row);
        item->kept_back = true;
    } else if (!simba__sql_row_apply(row, &item->ask, item->floor)) {
        simba__sql_batch_fail_used_up(batch, row, item);
    }
    item->version = row->version;
    item->mark = simba__sql_row_mark(row);
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

static next step(simba__sql_batch *batch, simba__sql_action action)
{
    simba__sql_batch_step(batch, action, NULL);
    return STEP;
}

static bool lock_more(simba__sql_batch *batch)
{
    return simba__sql_batch_step_rows(batch, batch->pass == FREE ? SIMBA__SQL_LOCK_FREE : SIMBA__SQL_LOCK,
                                      simba__sql_batch_any_row);
}

static next put_more(simba__sql_batch *batch)
{
    return simba__sql_batch_step_rows(batch, SIMBA__SQL_PUT, has_changed) ? STEP : step(batch, SIMBA__SQL_COMMIT);
}

/* All rows are locked. By LOCK_FREE those that are missing are skipped, since they might be locked. By LOCK they are made,
 * outside of the transaction: a lock on a row that is not there is a lock on the gap, and two who have that and insert are a
 * deadlock. */
static next use_locks(simba__sql_batch *batch)
{
    batch->at = batch->from;
    if (batch->pass != FREE && !batch->has_made_rows && lacks_rows(batch))
        return step(batch, SIMBA__SQL_ROLLBACK);
    apply_all(batch);
    return put_more(batch);
}

static next make_more(simba__sql_batch *batch)
{
    batch->has_made_rows = true;
    return simba__sql_batch_step_rows(batch, SIMBA__SQL_MAKE, is_lacking) ? STEP : step(batch, SIMBA__SQL_BEGIN);
}

/* --- after a failure ---------------------------------------------------------------------------------------- */

static next settle_later(simba__sql_batch *batch)
{
    put_off(batch);
    return GO_ON;
}

/* It is left to a batch of its own, so that nobody else has to wait for the lock. */
static next settle_locked(simba__sql_batch *batch)
{
    for (simba__sql_item **at = items_begin(batch); at < items_end(batch); at++)
        (*at)->is_locked = true;
    return settle_later(batch);
}

static next settle_failed(simba__sql_batch *batch)
{
    fail_items(batch, &batch->why.error);
    return GO_ON;
}

static next try_again(simba__sql_batch *batch)
{
    simba__sql_batch_pause(batch);
    return STEP;
}

/* This row by itself, if there is such a row. */
static next start_single(simba__sql_batch *batch, size_t row)
{
    batch->from = batch->at = row;
    batch->to = row + 1;
    batch->tries = 0;
    batch->why.error.code = 0;
    return row < batch->row_count ? DECIDE : DONE;
}

static next split(simba__sql_batch *batch)
{
    batch->pass = SINGLES;
    return start_single(batch, 0);
}

/* By the table in writes.h, after the connection was left as it should be found, or closed. */
static next recover(simba__sql_batch *batch)
{
    const bool one = is_one_row(batch);
    batch->is_undoing = false;
    if (batch->pass == FREE && batch->link != SIMBA__SQL_DOWN)
        return split(batch); /* an old server does not know LOCK_FREE, or it is about something else */
    if (batch->link == SIMBA__SQL_DOWN) {
        batch->pass = batch->pass == FREE ? ALL : batch->pass; /* that was all of them */
        const bool is_regained = batch->table.has_nonce || batch->why.remedy != SIMBA__SQL_LOST;
        return batch->may_put_off && is_regained ? settle_later(batch) : settle_failed(batch);
    }
    switch (batch->why.remedy) {
    case SIMBA__SQL_RETRY:
        return batch->tries < DEADLOCKS_MAX ? try_again(batch) : one ? settle_failed(batch) : split(batch);
    case SIMBA__SQL_LOCKED:
        if (one)
            return settle_locked(batch);
        batch->pass = FREE;
        return step(batch, SIMBA__SQL_BEGIN);
    case SIMBA__SQL_SPLIT:
        return one ? settle_failed(batch) : split(batch);
    default:
        return settle_failed(batch);
    }
}

static next undo(simba__sql_batch *batch, const simba__sql_failure *why)
{
    batch->is_undoing = true;
    batch->why = *why;
    batch->may_put_off = simba__sql_batch_may_put_off(batch, why);
    if (simba__sql_batch_is_cut(why))
        return step(batch, SIMBA__SQL_CLOSE);
    return batch->in_transaction ? step(batch, SIMBA__SQL_ROLLBACK) : recover(batch);
}

/* --- one stretch of rows after another ---------------------------------------------------------------------- */

static next decide(simba__sql_batch *batch, simba_local now, bool is_over)
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
        return GO_ON;
    batch->has_made_rows = false;
    return try_alone(batch) ? STEP : step(batch, SIMBA__SQL_BEGIN);
}

/* What is locked is for another job: those who have their answers by now are told when this one ends, and must not wait for
 * the lock meanwhile. What is only missing is made. */
static next check_skipped(simba__sql_batch *batch, size_t row)
{
    while (row < batch->row_count && !batch->rows[row].skipped)
        row++;
    const next first = start_single(batch, row);
    if (first == DONE || batch->link == SIMBA__SQL_DOWN)
        return first;
    simba__sql_batch_step_rows(batch, SIMBA__SQL_GET, simba__sql_batch_any_row);
    return STEP;
}

static next go_on(simba__sql_batch *batch)
{
    switch ((pass)batch->pass) {
    case FREE:
        batch->pass = SKIPPED;
        return check_skipped(batch, 0);
    case SKIPPED:
        return check_skipped(batch, batch->to);
    case SINGLES:
        return start_single(batch, batch->to);
    default:
        return DONE;
    }
}

/* Rows that are there, as those of renewals are, can be locked without waiting for those that somebody else has locked. A row
 * that is to be made could not be told from a locked one. */
static bool may_skip_locked(const simba__sql_batch *batch)
{
    bool all_renew = true;
    for (size_t i = 0; i < batch->count; i++)
        all_renew &= batch->items[i].ask.op == SIMBA_OP_RENEW;
    return all_renew && batch->row_count > 1 && batch->table.skips_locked;
}

static next connected(simba__sql_batch *batch, const simba__sql_failure *why)
{
    batch->pass = may_skip_locked(batch) ? FREE : ALL;
    batch->tries = 0;
    batch->is_undoing = false;
    batch->why = why ? *why : (simba__sql_failure){0};
    if (why)
        return settle_failed(batch);
    refuse_oversized(batch);
    return DECIDE;
}

/* A step of the transaction, or of one request without it, worked. */
static next worked(simba__sql_batch *batch)
{
    switch (batch->step.action) {
    case SIMBA__SQL_BEGIN:
        batch->at = batch->from;
        return lock_more(batch) ? STEP : DONE;
    case SIMBA__SQL_LOCK:
    case SIMBA__SQL_LOCK_FREE:
        return lock_more(batch) ? STEP : use_locks(batch);
    case SIMBA__SQL_ROLLBACK:
    case SIMBA__SQL_MAKE:
        return make_more(batch);
    case SIMBA__SQL_PUT:
        return put_more(batch);
    case SIMBA__SQL_COMMIT:
        return GO_ON;
    default:
        return answer_alone(batch) ? GO_ON : step(batch, SIMBA__SQL_BEGIN);
    }
}

/* After the step that was carried out. */
static next take_outcome(simba__sql_batch *batch, const simba__sql_failure *why)
{
    switch (batch->step.action) {
    case SIMBA__SQL_NOTHING:
        return step(batch, SIMBA__SQL_READY);
    case SIMBA__SQL_READY:
        return connected(batch, why);
    case SIMBA__SQL_PAUSE:
        return DECIDE;
    case SIMBA__SQL_GET:
        return !why && batch->rows[batch->from].found ? settle_locked(batch) : DECIDE;
    default:
        if (!batch->is_undoing)
            return why ? undo(batch, why) : worked(batch);
        return why ? step(batch, SIMBA__SQL_CLOSE) : recover(batch);
    }
}

bool simba__sql_writes_next(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now, bool is_over)
{
    next then = take_outcome(batch, why);
    while (then == DECIDE || then == GO_ON)
        then = then == DECIDE ? decide(batch, now, is_over) : go_on(batch);
    return then == STEP;
}
