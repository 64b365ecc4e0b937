/* The steps of a batch of requests that write, on a server that decides: one DECIDE for all rows, and another one for the
 * second request about a row, if there are several. There is no transaction around them.
 *
 * A row that another session works on delays no other: it is put off, and asked for again a little later. Failures:
 *
 *   remedy       one mutex                            several
 *   -----------  -----------------------------------  ----------------------------------------------------
 *   RETRY        again after a pause, five times      the same, then each mutex by itself
 *   LOCKED       put off for a while, to a batch of   each mutex by itself
 *                its own
 *   SPLIT        fails                                each mutex by itself
 *   LOST         put off if the connection had been idle, else fails; those that were not asked yet are put off
 *   RECONNECT    fails, and the connection is closed; likewise
 *   TELL         fails */
#ifndef SIMBA_BACKENDS_SQL_DECISIONS_H
#define SIMBA_BACKENDS_SQL_DECISIONS_H

#include "backends/sql/batch.h"

bool simba__sql_decisions_next(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now, bool is_over);

#endif
