/* Carries out the steps of a batch as statements of MySQL and MariaDB. Three of them decide by themselves whether a
 * mutex is free or whose it is, without a transaction around them; they have to agree with core/row.h. */
#ifndef SIMBA_BACKENDS_MYSQL_DIALECT_H
#define SIMBA_BACKENDS_MYSQL_DIALECT_H

#include "backends/mysql/session.h"
#include "backends/sql/store.h"

/* Its connections are simba__my_session. */
extern const simba__sql_dialect simba__my_dialect;

#endif
