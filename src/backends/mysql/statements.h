/* The text of the statement for every action that is one, and where the columns of results go. Statements for many rows come in sizes, powers of two:
 * with fewer rows the last one is repeated, so that few statements have to be prepared. */
#ifndef SIMBA_BACKENDS_MYSQL_STATEMENTS_H
#define SIMBA_BACKENDS_MYSQL_STATEMENTS_H

#include <mysql.h>

#include "backends/sql/batch.h"

enum { SIMBA__MY_SIZES = 10 };
_Static_assert(1 << (SIMBA__MY_SIZES - 1) == SIMBA__SQL_ROWS_MAX, "the largest size has room for all rows of a step");

/* How many parameters: for each row, and in all. */
size_t simba__my_statement_params(simba__sql_action action, bool has_nonce);

/* The text for 2^size rows, to free; NULL: out of memory. */
char *simba__my_statement_text(simba__sql_action action, size_t size, const char *table, bool has_nonce);

/* Does it have a result? Then bind it. */
bool simba__my_statement_has_result(simba__sql_action action);
void simba__my_columns_bind(simba__sql_columns *columns, MYSQL_BIND binds[SIMBA__SQL_COLUMNS]);

#endif
