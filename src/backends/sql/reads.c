/* See reads.h. */
#include "backends/sql/reads.h"

/* --- items that have no row, one after another ------------------------------------------------------------ */

static bool answer(simba__sql_batch *batch)
{
    simba__sql_item *item = &batch->items[batch->at];
    return simba__sql_batch_step(batch,
                                 item->ask.op == SIMBA_OP_LIST        ? SIMBA__SQL_LIST
                                 : item->ask.op == SIMBA_OP_READ_NOTE ? SIMBA__SQL_READ_NOTE
                                 : item->ask.op == SIMBA_OP_PREPARE   ? SIMBA__SQL_PREPARE
                                                                      : SIMBA__SQL_EXAMINE,
                                 item);
}

static bool decide(simba__sql_batch *batch)
{
    for (; batch->at < batch->count; batch->at++) {
        simba__sql_item *item = &batch->items[batch->at];
        if (simba__sql_item_has_row(item))
            continue;
        if (batch->link == SIMBA__SQL_DOWN) {
            item->put_off = true; /* the requests before it have lost the connection */
            continue;
        }
        if (item->ask.op == SIMBA_OP_EXAMINE || item->ask.op == SIMBA_OP_PREPARE)
            return answer(batch);
        return simba__sql_batch_step(batch, SIMBA__SQL_READY, item);
    }
    return false;
}

/* --- rows ----------------------------------------------------------------------------------------------- */

static void answer_rows(simba__sql_batch *batch)
{
    for (size_t i = 0; i < batch->row_count; i++)
        for (size_t k = batch->firsts[i]; k < batch->firsts[i + 1]; k++) {
            simba__sql_item *item = batch->order[k];
            if (batch->rows[i].flaw) {
                simba__sql_batch_fail_flawed(batch, &batch->rows[i], item);
                continue;
            }
            simba__sql_row_apply(&batch->rows[i], &item->ask, 0);
            item->version = batch->rows[i].version;
            item->mark = simba__sql_row_mark(&batch->rows[i]);
        }
}

static bool get_more(simba__sql_batch *batch)
{
    if (simba__sql_batch_step_rows(batch, SIMBA__SQL_GET, simba__sql_batch_any_row))
        return true;
    answer_rows(batch);
    batch->at = 0;
    return decide(batch);
}

/* --- after a failure -------------------------------------------------------------------------------------- */

static void settle(simba__sql_item *item, bool is_put_off, const simba_error *why)
{
    item->put_off = is_put_off;
    if (!is_put_off)
        simba__sql_item_fail(item, why);
}

/* Go on, after a connection that is of no use any more was closed. */
static bool undo(simba__sql_batch *batch, const simba__sql_failure *why)
{
    if (simba__sql_batch_is_cut(why) && batch->link != SIMBA__SQL_DOWN)
        return simba__sql_batch_step(batch, SIMBA__SQL_CLOSE, NULL);
    return decide(batch);
}

static bool fail_rows(simba__sql_batch *batch, const simba__sql_failure *why)
{
    const bool is_put_off = simba__sql_batch_may_put_off(batch, why);
    for (size_t i = 0; i < batch->firsts[batch->row_count]; i++)
        settle(batch->order[i], is_put_off, &why->error);
    batch->at = 0;
    return undo(batch, why);
}

static bool fail_all(simba__sql_batch *batch, const simba__sql_failure *why)
{
    for (size_t i = 0; i < batch->count; i++)
        settle(&batch->items[i], false, &why->error);
    return false;
}

static bool take_answer(simba__sql_batch *batch, const simba__sql_failure *why)
{
    simba__sql_item *item = &batch->items[batch->at++];
    if (why)
        settle(item, simba__sql_batch_may_put_off(batch, why), &why->error);
    if (item->ask.op == SIMBA_OP_PREPARE) /* statements may be prepared for the table as it was */
        return simba__sql_batch_step(batch, SIMBA__SQL_CLOSE, NULL);
    return why ? undo(batch, why) : decide(batch);
}

/* The table can be used. */
static bool answer_usable(simba__sql_batch *batch)
{
    simba__sql_item *item = &batch->items[batch->at];
    if (item->ask.op == SIMBA_OP_LIST || batch->table.has_notes)
        return answer(batch);
    const simba_error why = simba__sql_batch_without_notes(batch);
    simba__sql_item_fail(item, &why);
    batch->at++;
    return simba__sql_batch_step(batch, SIMBA__SQL_CLOSE, NULL);
}

bool simba__sql_reads_next(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now, bool is_over)
{
    (void)now;
    (void)is_over; /* nothing is tried twice, so there is nothing to give up */
    switch (batch->step.action) {
    case SIMBA__SQL_NOTHING:
        return simba__sql_batch_step(batch, SIMBA__SQL_READY_BARE, NULL);
    case SIMBA__SQL_READY_BARE:
        if (why)
            return fail_all(batch, why);
        return batch->row_count > 0 ? simba__sql_batch_step(batch, SIMBA__SQL_READY, NULL) : decide(batch);
    case SIMBA__SQL_READY:
        if (batch->step.item) /* a LIST, or a note */
            return why ? take_answer(batch, why) : answer_usable(batch);
        return why ? fail_rows(batch, why) : get_more(batch);
    case SIMBA__SQL_GET:
        return why ? fail_rows(batch, why) : get_more(batch);
    case SIMBA__SQL_CLOSE:
        return decide(batch);
    default:
        return take_answer(batch, why);
    }
}
