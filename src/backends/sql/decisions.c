/* See decisions.h. In the batch, `pass` counts the requests about each row that are done with, `from` is where the rows of the
 * present step begin, and `at` where those of the next one do. */
#include "backends/sql/decisions.h"

#include "util/clock.h"

enum { TRIES_MAX = 5 };

/* --- answers --------------------------------------------------------------------------------------------- */

static void put_off(simba__sql_item *item, bool is_busy)
{
    item->put_off = true;
    item->is_busy = is_busy;
}

static void answer_refused(const simba__sql_batch *batch, const simba__sql_row *row)
{
    simba__sql_item *item = row->item;
    simba__sql_row tried = *row;
    const simba__row_now now = {row->now_ms * SIMBA__NS_PER_MS, row->now_ms * 1000};
    if (item->held_here && simba__row_is_free(&row->row, now)) {
        item->ask.reply = simba__sql_row_read(row);
        item->kept_back = true;
    } else if (!simba__sql_row_apply(&tried, &item->ask, item->floor)) {
        simba__sql_batch_fail_used_up(batch, row, item);
    } else if (tried.changed) {
        put_off(item, true); /* the row says that the request could have been carried out: it has just changed */
    } else {
        item->ask.reply.place = row->place;
    }
}

static void answer(const simba__sql_batch *batch, const simba__sql_row *row)
{
    simba__sql_item *item = row->item;
    item->version = row->version;
    item->mark = simba__sql_row_mark(row);
    if (row->flaw) {
        simba__sql_batch_fail_flawed(batch, row, item);
    } else if (row->deed == SIMBA__SQL_BUSY) {
        put_off(item, true);
    } else if (row->deed == SIMBA__SQL_REFUSED) {
        answer_refused(batch, row);
    } else {
        item->ask.reply = simba__sql_row_read(row);
        item->ask.reply.outcome = SIMBA_MINE;
    }
}

/* --- steps ----------------------------------------------------------------------------------------------- */

static bool has_item(const simba__sql_batch *batch, size_t row)
{
    return batch->firsts[row] + (size_t)batch->pass < batch->firsts[row + 1];
}

static bool step_rows(simba__sql_batch *batch)
{
    do {
        batch->from = batch->at;
        batch->to = batch->is_singly && batch->at < batch->row_count ? batch->at + 1 : batch->row_count;
        if (simba__sql_batch_step_rows(batch, SIMBA__SQL_DECIDE, has_item))
            return true;
    } while (batch->at < batch->row_count);
    return false;
}

/* The next rows; after the last one, the second request about each row, and so on. */
static bool decide(simba__sql_batch *batch)
{
    while (!step_rows(batch)) {
        bool is_over = true;
        batch->pass++;
        batch->at = 0;
        for (size_t row = 0; row < batch->row_count; row++)
            is_over &= !has_item(batch, row);
        if (is_over)
            return false;
    }
    for (size_t i = 0; i < batch->step.count; i++) {
        simba__sql_row *row = batch->step.rows[i];
        row->item = batch->order[batch->firsts[row - batch->rows] + (size_t)batch->pass];
    }
    return true;
}

/* --- after a failure --------------------------------------------------------------------------------------- */

static void fail_step(const simba__sql_batch *batch, const simba_error *why)
{
    for (size_t i = 0; i < batch->step.count; i++)
        simba__sql_item_fail(batch->step.rows[i]->item, why);
}

static void put_off_step(const simba__sql_batch *batch, bool is_busy)
{
    for (size_t i = 0; i < batch->step.count; i++)
        put_off(batch->step.rows[i]->item, is_busy);
}

/* Put off all requests that were not sent yet: another job has a connection for them. */
static bool put_off_rest(simba__sql_batch *batch)
{
    while (decide(batch))
        put_off_step(batch, false);
    return false;
}

/* The server has waited for the row in vain. The store remembers it, so that nobody else shares a statement with it. */
static void put_off_locked(const simba__sql_batch *batch)
{
    put_off_step(batch, true);
    for (size_t i = 0; i < batch->step.count; i++)
        batch->step.rows[i]->item->is_locked = true;
}

static bool pause(simba__sql_batch *batch)
{
    batch->at = batch->from;
    return simba__sql_batch_pause(batch);
}

static bool split(simba__sql_batch *batch)
{
    batch->is_singly = true;
    batch->tries = 0;
    batch->at = batch->from;
    return decide(batch);
}

static bool recover(simba__sql_batch *batch, const simba__sql_failure *why)
{
    const bool is_put_off = simba__sql_batch_may_put_off(batch, why);
    const bool several = batch->step.count > 1;
    const bool is_split = why->remedy == SIMBA__SQL_SPLIT || why->remedy == SIMBA__SQL_LOCKED;
    if (why->remedy == SIMBA__SQL_RETRY && batch->tries < TRIES_MAX)
        return pause(batch);
    if (several && (is_split || why->remedy == SIMBA__SQL_RETRY))
        return split(batch);
    if (why->remedy == SIMBA__SQL_LOCKED)
        put_off_locked(batch);
    else if (is_put_off)
        put_off_step(batch, false);
    else
        fail_step(batch, &why->error);
    if (simba__sql_batch_is_cut(why))
        return simba__sql_batch_step(batch, SIMBA__SQL_CLOSE, NULL);
    return decide(batch);
}

static bool fail_all(simba__sql_batch *batch, const simba_error *why)
{
    while (decide(batch))
        fail_step(batch, why);
    return false;
}

static bool fail_without_notes(simba__sql_batch *batch)
{
    const simba_error why = simba__sql_batch_without_notes(batch);
    fail_all(batch, &why);
    return simba__sql_batch_step(batch, SIMBA__SQL_CLOSE, NULL);
}

/* --- one step after another ---------------------------------------------------------------------------------- */

static bool begin(simba__sql_batch *batch, const simba__sql_failure *why)
{
    batch->pass = 0;
    batch->tries = 0;
    batch->at = 0;
    batch->is_singly = false;
    if (why)
        return fail_all(batch, &why->error);
    return batch->has_notes && !batch->table.has_notes ? fail_without_notes(batch) : decide(batch);
}

static bool decided(simba__sql_batch *batch)
{
    for (size_t i = 0; i < batch->step.count; i++)
        answer(batch, batch->step.rows[i]);
    batch->tries = 0;
    return decide(batch);
}

bool simba__sql_decisions_next(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now, bool is_over)
{
    simba_error late = {0};
    (void)now;
    switch (batch->step.action) {
    case SIMBA__SQL_NOTHING:
        return simba__sql_batch_step(batch, SIMBA__SQL_READY, NULL);
    case SIMBA__SQL_READY:
        return begin(batch, why);
    case SIMBA__SQL_PAUSE:
        if (!is_over)
            return decide(batch);
        simba__error_set(&late, SIMBA_ETIMEDOUT, "%s %s: no answer in time", batch->place.store, batch->place.where);
        return fail_all(batch, &late);
    case SIMBA__SQL_CLOSE:
        return put_off_rest(batch);
    default:
        return why ? recover(batch, why) : decided(batch);
    }
}
