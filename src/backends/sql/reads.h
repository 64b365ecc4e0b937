/* The steps of a batch of requests that only read, and of those about the table itself. One statement reads all rows. */
#ifndef SIMBA_BACKENDS_SQL_READS_H
#define SIMBA_BACKENDS_SQL_READS_H

#include "backends/sql/batch.h"

bool simba__sql_reads_next(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now, bool is_over);

#endif
