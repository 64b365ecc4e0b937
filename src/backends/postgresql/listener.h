/* The connection that listens, on a channel of this client alone, beside a connected lane. It hands notifications to
 * sql/listening.h. */
#ifndef SIMBA_BACKENDS_POSTGRESQL_LISTENER_H
#define SIMBA_BACKENDS_POSTGRESQL_LISTENER_H

#include "backends/postgresql/conn.h"
#include "backends/sql/listening.h"

typedef struct simba__pg_listener {
    simba__sql_listening listening;
    simba__pg_conn conn;
    char channel[32];
} simba__pg_listener;

/* SIMBA_ENOMEM. */
int simba__pg_listener_init(simba__pg_listener *listener, simba_host *host, const simba__pg_options *options,
                            simba__sql_store *store);
void simba__pg_listener_close(simba__pg_listener *listener);
/* If somebody here waits, and it is time, listen beside this connection, which is open. */
void simba__pg_listener_wake(simba__pg_listener *listener, const simba__pg_conn *lane);
/* The channel for the queue; "": nobody is to enter it. */
const char *simba__pg_listener_channel(const simba__pg_listener *listener);

#endif
