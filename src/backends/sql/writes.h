/* The steps of a batch of requests that write.
 *
 * They share one transaction: one statement locks and reads all rows, in the order of their names so that two batches do not
 * deadlock; core/row.c decides; one statement writes the rows that changed. A request that is alone needs no transaction. A
 * failure concerns the whole batch, one mutex, or nobody because the batch repeats the step:
 *
 *   remedy       one mutex                            several
 *   -----------  -----------------------------------  --------------------------------------------------------------
 *   RETRY        again after a pause, five times      the same, then each mutex by itself
 *   LOCKED       put off to a batch of its own, so    those that are free in one transaction; then those that are
 *                that nobody else waits for the row   locked are put off likewise
 *   SPLIT        fails                                each mutex by itself
 *   LOST         put off if the connection had been idle and a grant whose answer was lost is known again; else fails
 *   SHRINK       put off, with half as many rows in a statement; fails if that was one row
 *   RECONNECT    fails, and the connection is closed
 *   TELL         fails */
#ifndef SIMBA_BACKENDS_SQL_WRITES_H
#define SIMBA_BACKENDS_SQL_WRITES_H

#include "backends/sql/batch.h"

bool simba__sql_writes_next(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now, bool is_over);

#endif
