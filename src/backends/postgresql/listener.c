/* See listener.h. */
#include "backends/postgresql/listener.h"

#include <inttypes.h>
#include <stdio.h>

#include "util/table.h"

/* Ask for the notifications; asking once more changes nothing. */
static void start_listening(simba__pg_conn *conn)
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
    simba__sql_listening *listening = &SIMBA__OF_NODE(conn, simba__pg_listener, conn)->listening;
    if (!result) {
        simba__pg_conn_close(conn);
        on_lost(conn, why);
    } else if (listening->hearing == SIMBA__SQL_OPENING) {
        simba__sql_listening_up(listening);
    } else {
        simba__sql_listening_answered(listening);
    }
}

static void on_notified(simba__pg_conn *conn, const char *payload)
{
    simba__sql_listening_heard(&SIMBA__OF_NODE(conn, simba__pg_listener, conn)->listening, payload);
}

/* A notification that the server knows of goes out before this is answered. */
static void ask(simba__sql_listening *listening)
{
    start_listening(&SIMBA__OF_NODE(listening, simba__pg_listener, listening)->conn);
}

static void shut(simba__sql_listening *listening)
{
    simba__pg_conn_close(&SIMBA__OF_NODE(listening, simba__pg_listener, listening)->conn);
}

int simba__pg_listener_init(simba__pg_listener *listener, simba_host *host, const simba__pg_options *options,
                            simba__sql_store *store)
{
    static const simba__pg_conn_events events = {start_listening, on_answered, on_lost, on_notified};
    static const simba__sql_listening_deeds deeds = {ask, shut};
    snprintf(listener->channel, sizeof listener->channel, "simba_%016" PRIx64, host->random(host));
    const int rc = simba__sql_listening_init(&listener->listening, store, host, &deeds);
    return rc < 0 ? rc : simba__pg_conn_init(&listener->conn, host, options, &events);
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
