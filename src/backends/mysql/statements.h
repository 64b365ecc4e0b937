/* The text of every statement. Statements for many rows come in sizes that are
 * powers of two; with fewer rows the last one is repeated. So few statements have to be prepared. */
#ifndef SIMBA_BACKENDS_MYSQL_STATEMENTS_H
#define SIMBA_BACKENDS_MYSQL_STATEMENTS_H

#include <mysql.h>

#include "backends/sql/batch.h"

enum { SIMBA__MY_SIZES = 10 };
_Static_assert(1 << (SIMBA__MY_SIZES - 1) == SIMBA__SQL_ROWS_MAX, "the largest size has room for all rows of a step");

/* A simba__sql_action that is one statement, or one of these. */
typedef unsigned simba__my_statement;
enum { SIMBA__MY_WRITE_NOTE = SIMBA__SQL_ACTIONS, SIMBA__MY_FORGET, SIMBA__MY_STATEMENTS };

/* Which columns the table has. Each kind includes the ones before. */
typedef enum simba__my_layout {
    SIMBA__MY_BARE,  /* the columns of Simba on the JVM */
    SIMBA__MY_OURS,  /* also ours, but not the columns of notes */
    SIMBA__MY_NOTES, /* also the columns of notes */
    SIMBA__MY_LAYOUTS,
} simba__my_layout;

/* How many parameters: for each row, and in all. */
size_t simba__my_statement_params(simba__my_statement statement, simba__my_layout layout);

/* The text for 2^size rows, to be freed; NULL: out of memory. */
char *simba__my_statement_text(simba__my_statement statement, size_t size, const char *table, simba__my_layout layout);

/* Does it have a result, of the columns in backends/sql/row.h? */
bool simba__my_statement_has_result(simba__my_statement statement);

#endif
