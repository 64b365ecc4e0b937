/* The PostgreSQL store. Its modules, the lowest first; none uses one below it:
 *
 *   options      what the URL says                      error       what errors mean: the table of outcomes
 *   statements   the text of every statement            schema      the tables and the function, as they are found
 *   conn         one connection, on the host's reactor  listener    the connection that is told of releases
 *   dialect      the steps of a batch as statements     backend     the store, which is that of backends/sql
 *
 * Everything runs under the client's lock: libpq is used without blocking, and a worker looks names up. The server decides: a function of
 * ours, which `simba init` makes, carries out all requests of one moment in one statement (statements.h). */
#ifndef SIMBA_BACKENDS_POSTGRESQL_POSTGRESQL_H
#define SIMBA_BACKENDS_POSTGRESQL_POSTGRESQL_H

#include <simba/backend.h>

extern const simba_backend simba__backend_postgresql;

#endif
