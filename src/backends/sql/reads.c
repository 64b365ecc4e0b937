/* See reads.h. */
#include "backends/sql/reads.h"

#include "util/assert.h"

/* Which step is under way. */
typedef enum phase {
    STARTING, /* none yet */
    CONNECTING,
    CHECKING,  /* that the table can be used, for the rows */
    GETTING,   /* the rows */
    DECIDING,  /* none, or the connection is closed: on to the item batch->at, which has no row */
    LISTING,   /* the table is checked for this item */
    ANSWERING, /* this item */
    DONE,
} phase;

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
        }
}

static bool get_more(simba__sql_batch *batch)
{
    batch->phase = GETTING;
    if (simba__sql_batch_step_rows(batch, SIMBA__SQL_GET, simba__sql_batch_any_row))
        return true;
    answer_rows(batch);
    batch->phase = DECIDING;
    batch->at = 0;
    return false;
}

/* --- after a failure -------------------------------------------------------------------------------------- */

static void settle(simba__sql_item *item, bool is_put_off, const simba_error *why)
{
    item->put_off = is_put_off;
    if (!is_put_off)
        simba__sql_item_fail(item, why);
}

/* Close a connection that is of no use any more. */
static bool undo(simba__sql_batch *batch, const simba__sql_failure *why)
{
    batch->phase = DECIDING;
    return simba__sql_batch_is_cut(why) && batch->link != SIMBA__SQL_DOWN &&
           simba__sql_batch_step(batch, SIMBA__SQL_CLOSE, NULL);
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
    batch->phase = DONE;
    return false;
}

/* --- one item after another ------------------------------------------------------------------------------- */

static bool answer(simba__sql_batch *batch)
{
    simba__sql_item *item = &batch->items[batch->at];
    batch->phase = ANSWERING;
    return simba__sql_batch_step(batch,
                                 item->ask.op == SIMBA_OP_LIST      ? SIMBA__SQL_LIST
                                 : item->ask.op == SIMBA_OP_PREPARE ? SIMBA__SQL_PREPARE
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
            item->put_off = true; /* those before have lost it */
            continue;
        }
        if (item->ask.op != SIMBA_OP_LIST)
            return answer(batch);
        batch->phase = LISTING;
        return simba__sql_batch_step(batch, SIMBA__SQL_READY, item);
    }
    batch->phase = DONE;
    return false;
}

static bool take_answer(simba__sql_batch *batch, const simba__sql_failure *why)
{
    simba__sql_item *item = &batch->items[batch->at++];
    if (why)
        settle(item, simba__sql_batch_may_put_off(batch, why), &why->error);
    batch->phase = DECIDING;
    if (item->ask.op == SIMBA_OP_PREPARE) /* statements may be prepared for the table as it was */
        return simba__sql_batch_step(batch, SIMBA__SQL_CLOSE, NULL);
    return why && undo(batch, why);
}

/* True: there is a step to be carried out. */
static bool take_outcome(simba__sql_batch *batch, const simba__sql_failure *why)
{
    switch ((phase)batch->phase) {
    case STARTING:
        batch->phase = CONNECTING;
        return simba__sql_batch_step(batch, SIMBA__SQL_READY_BARE, NULL);
    case CONNECTING:
        if (why)
            return fail_all(batch, why);
        batch->phase = batch->row_count > 0 ? CHECKING : DECIDING;
        return batch->phase == CHECKING && simba__sql_batch_step(batch, SIMBA__SQL_READY, NULL);
    case CHECKING:
    case GETTING:
        return why ? fail_rows(batch, why) : get_more(batch);
    case LISTING:
        return why ? take_answer(batch, why) : answer(batch);
    case ANSWERING:
        return take_answer(batch, why);
    default:
        SIMBA__ASSERT(batch->phase == DECIDING);
        return false;
    }
}

bool simba__sql_reads_next(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now, bool is_over)
{
    (void)now;
    (void)is_over; /* nothing is tried twice, so there is nothing to give up */
    return take_outcome(batch, why) || (batch->phase == DECIDING && decide(batch));
}
