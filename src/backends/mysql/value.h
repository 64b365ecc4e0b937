/* The values of a row of a prepared statement, as the server sends them.
 *
 * The client library would follow every length that a server sends, also out of its buffer, and has no function for some types
 * that a server may name. So it hands the values to us (STMT_ATTR_CB_RESULT), and we look where they end. Pure. */
#ifndef SIMBA_BACKENDS_MYSQL_VALUE_H
#define SIMBA_BACKENDS_MYSQL_VALUE_H

#include <mysql.h>

#include "backends/sql/row.h"

/* Put the value of this type that begins at *at into a column, and move *at behind it. False: it does not end before `end`, or
 * its type is not one that this column can have. */
bool simba__my_value_take(simba__sql_columns *columns, unsigned column, enum enum_field_types type, bool is_unsigned,
                          const unsigned char **at, const unsigned char *end);

#endif
