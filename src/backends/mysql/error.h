/* Decides what an error of the server, or of its client library, means for a request and for the connection. */
#ifndef SIMBA_BACKENDS_MYSQL_ERROR_H
#define SIMBA_BACKENDS_MYSQL_ERROR_H

#include "backends/sql/failure.h"

/* The outcome of a request, and what the batch does about the error. */
int simba__my_error_code(unsigned number, simba__sql_remedy *ret_remedy);

#endif
