/* The MySQL and MariaDB store: mutexes in a table that Simba on the JVM may share.
 *
 *   options.c      what the URL says                    error.c     what errors mean: the table of outcomes
 *   schema.c       the table itself                     statements.c  the text of every statement
 *   conn.c, connect.c  one connection, and how it is made  session.c   a connection that is ready
 *   rows.c         rows in and out: the repository
 *   batch.c, writes.c, reads.c   what a worker does with requests
 *   ../sql         what the SQL stores share: what this client remembers of rows, and when it polls them
 *   backend.c      requests in, answers out
 */
#ifndef SIMBA_BACKENDS_MYSQL_MYSQL_H
#define SIMBA_BACKENDS_MYSQL_MYSQL_H

#include <simba/backend.h>

extern const simba_backend simba__backend_mysql;

#endif
