/* See listener.h. */
#include "backends/postgresql/listener.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/clock.h"
#include "util/table.h"

#define TEST_NS (2000 * SIMBA__NS_PER_MS)
#define FIRST_PAUSE_NS (50 * SIMBA__NS_PER_MS)
enum { DOUBLINGS = 6 };

static void set_hearing(simba__pg_listener *listener, simba__pg_hearing hearing)
{
    listener->hearing = hearing;
    simba__sql_set_pace(listener->store, hearing == SIMBA__PG_HEARS ? SIMBA__SQL_RARELY : SIMBA__SQL_OFTEN);
}

static void fall_asleep(simba__pg_listener *listener)
{
    simba_host *host = listener->conn.host;
    host->timer_clear(host, &listener->timer);
    listener->not_before.ns =
        host->now(host).ns + (FIRST_PAUSE_NS << (listener->failures < DOUBLINGS ? listener->failures : DOUBLINGS));
    listener->failures++;
    set_hearing(listener, SIMBA__PG_ASLEEP);
}

static void on_lost(simba__pg_conn *conn, const simba__sql_failure *why)
{
    (void)why; /* the lanes tell what is wrong with the server */
    fall_asleep(SIMBA__OF_NODE(conn, simba__pg_listener, conn));
}

static void on_opened(simba__pg_conn *conn)
{
    const simba__pg_listener *listener = SIMBA__OF_NODE(conn, simba__pg_listener, conn);
    char sql[48];
    snprintf(sql, sizeof sql, "listen %s", listener->channel);
    simba__pg_conn_ask(conn, sql, 0, NULL);
}

static void on_answered(simba__pg_conn *conn, const PGresult *result, const simba__sql_failure *why)
{
    simba__pg_listener *listener = SIMBA__OF_NODE(conn, simba__pg_listener, conn);
    (void)why;
    if (result) {
        set_hearing(listener, SIMBA__PG_LISTENS);
        return;
    }
    simba__pg_conn_close(conn);
    fall_asleep(listener);
}

static void on_notified(simba__pg_conn *conn, const char *payload)
{
    simba__pg_listener *listener = SIMBA__OF_NODE(conn, simba__pg_listener, conn);
    const bool is_test = strcmp(payload, "0") == 0;
    if (is_test && (listener->hearing == SIMBA__PG_TESTS || listener->hearing == SIMBA__PG_LISTENS)) {
        conn->host->timer_clear(conn->host, &listener->timer);
        listener->failures = 0;
        set_hearing(listener, SIMBA__PG_HEARS);
    }
    if (is_test || payload[0] < '1' || payload[0] > '3' || payload[1] != ' ')
        return;
    if (payload[0] == '1')
        simba__sql_notified(listener->store, payload + 2);
    else
        simba__sql_stand_by(listener->store, payload + 2, (unsigned)(payload[0] - '1'));
}

/* Nothing came. */
static void on_timer(simba_timer *timer, simba_local now)
{
    simba__pg_listener *listener = SIMBA__OF_NODE(timer, simba__pg_listener, timer);
    simba_host *host = listener->conn.host;
    (void)now;
    if (listener->hearing != SIMBA__PG_TESTS)
        return;
    host->log(
        host, SIMBA_LOG_WARN,
        "postgresql %s: notifications do not arrive, probably because a pooler in transaction mode is in between; "
        "waiters poll instead",
        listener->conn.options->where);
    simba__pg_conn_close(&listener->conn);
    set_hearing(listener, SIMBA__PG_DEAF);
}

int simba__pg_listener_init(simba__pg_listener *listener, simba_host *host, const simba__pg_options *options,
                            simba__sql_store *store)
{
    static const simba__pg_conn_events events = {
        .opened = on_opened, .answered = on_answered, .lost = on_lost, .notified = on_notified};
    listener->store = store;
    listener->timer.fire = on_timer;
    snprintf(listener->channel, sizeof listener->channel, "simba_%016" PRIx64, host->random(host));
    const int rc = host->timer_add(host, &listener->timer);
    return rc < 0 ? rc : simba__pg_conn_init(&listener->conn, host, options, &events, false);
}

void simba__pg_listener_close(simba__pg_listener *listener)
{
    listener->is_closing = true;
    simba__pg_conn_close(&listener->conn);
    listener->conn.host->timer_clear(listener->conn.host, &listener->timer);
    listener->hearing = SIMBA__PG_ASLEEP;
}

void simba__pg_listener_wake(simba__pg_listener *listener, const simba__pg_conn *lane)
{
    simba_host *host = listener->conn.host;
    if (listener->hearing != SIMBA__PG_ASLEEP || listener->is_closing || listener->store->polling.mutexes.count == 0 ||
        host->now(host).ns < listener->not_before.ns)
        return;
    listener->hearing = SIMBA__PG_OPENING;
    simba__pg_conn_open_beside(&listener->conn, lane);
}

const char *simba__pg_listener_channel(const simba__pg_listener *listener)
{
    return listener->hearing == SIMBA__PG_DEAF ? "" : listener->channel;
}

bool simba__pg_listener_wants_test(const simba__pg_listener *listener)
{
    return listener->hearing == SIMBA__PG_LISTENS;
}

void simba__pg_listener_tested(simba__pg_listener *listener)
{
    simba_host *host = listener->conn.host;
    if (listener->hearing != SIMBA__PG_LISTENS)
        return;
    listener->hearing = SIMBA__PG_TESTS;
    host->timer_set(host, &listener->timer, (simba_local){host->now(host).ns + TEST_NS});
}
