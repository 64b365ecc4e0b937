/* The MySQL and MariaDB store: mutexes in a table that Simba on the JVM may share.
 *
 *   options.c      what the URL says                    error.c       what errors mean: the table of outcomes
 *   schema.c       the table itself                     statements.c  the text of every statement
 *   connect.c      how a connection is made             conn.c        one connection
 *   session.c      a connection that is ready           dialect.c     the steps of a batch as statements
 *   library.c      the client library                   backend.c     the store, which is that of backends/sql
 */
#ifndef SIMBA_BACKENDS_MYSQL_MYSQL_H
#define SIMBA_BACKENDS_MYSQL_MYSQL_H

#include <simba/backend.h>

extern const simba_backend simba__backend_mysql;

#endif
