/* Decides what an error of the server, or of its client library, means for a request and for the connection. */
#ifndef SIMBA_BACKENDS_POSTGRESQL_ERROR_H
#define SIMBA_BACKENDS_POSTGRESQL_ERROR_H

#include <libpq-fe.h>

#include "backends/postgresql/options.h"
#include "backends/sql/failure.h"

/* The outcome of a request, and what the batch does about the error. */
int simba__pg_error_code(const char *sqlstate, simba__sql_remedy *ret_remedy);

/* Why a statement failed; the code of *why. */
int simba__pg_fail_result(const simba__pg_options *options, PGconn *pg, const PGresult *result,
                          simba__sql_failure *why);
/* Why there is no connection (any more), by what libpq says about it. */
int simba__pg_fail_connection(const simba__pg_options *options, PGconn *pg, simba__sql_failure *why);
int simba__pg_out_of_memory(simba__sql_failure *why);

#endif
