/* See listener.h. */
#include "backends/postgresql/listener.h"

#include <inttypes.h>
#include <stdio.h>

#include "util/table.h"

static void on_opened(simba__pg_conn *conn)
{
    char sql[48];
    snprintf(sql, sizeof sql, "listen %s", SIMBA__OF_NODE(conn, simba__pg_listener, conn)->channel);
    simba__pg_conn_ask(conn, sql, 0, NULL, SIMBA__PG_ANSWER_MOST);
}

/* The lanes report the errors of the server. */
static void on_lost(simba__pg_conn *conn, const simba__sql_failure *why)
{
    (void)why;
    simba__sql_listening_down(&SIMBA__OF_NODE(conn, simba__pg_listener, conn)->listening);
}

static void on_answered(simba__pg_conn *conn, const PGresult *result, const simba__sql_failure *why)
{
    if (result) {
        simba__sql_listening_up(&SIMBA__OF_NODE(conn, simba__pg_listener, conn)->listening);
        return;
    }
    simba__pg_conn_close(conn);
    on_lost(conn, why);
}

static void on_notified(simba__pg_conn *conn, const char *payload)
{
    simba__sql_listening_heard(&SIMBA__OF_NODE(conn, simba__pg_listener, conn)->listening, payload);
}

static void on_deaf(simba__sql_listening *listening)
{
    simba__pg_conn_close(&SIMBA__OF_NODE(listening, simba__pg_listener, listening)->conn);
}

int simba__pg_listener_init(simba__pg_listener *listener, simba_host *host, const simba__pg_options *options,
                            simba__sql_store *store)
{
    static const simba__pg_conn_events events = {on_opened, on_answered, on_lost, on_notified};
    snprintf(listener->channel, sizeof listener->channel, "simba_%016" PRIx64, host->random(host));
    const int rc = simba__sql_listening_init(&listener->listening, store, host, on_deaf);
    return rc < 0 ? rc : simba__pg_conn_init(&listener->conn, host, options, &events, false);
}

void simba__pg_listener_close(simba__pg_listener *listener)
{
    simba__sql_listening_close(&listener->listening);
    simba__pg_conn_close(&listener->conn);
}

void simba__pg_listener_wake(simba__pg_listener *listener, const simba__pg_conn *lane)
{
    if (simba__sql_listening_begin(&listener->listening))
        simba__pg_conn_open_beside(&listener->conn, lane);
}

const char *simba__pg_listener_channel(const simba__pg_listener *listener)
{
    return simba__sql_listening_may_wait(&listener->listening) ? listener->channel : "";
}
