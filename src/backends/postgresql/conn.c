/* See conn.h. */
#include "backends/postgresql/conn.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "net/tcp.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/descriptors.h"
#include "util/table.h"

enum { SETTINGS_MAX = 80 };

/* How many bytes a server may send while we connect. */
enum { GREETING_MOST = 1 << 20 };

/* In an outage the first packet of a connection gets lost, and the kernel repeats it only after a second. So if a server does
 * not answer the first packet, another attempt begins. The first few attempts get little time; then one gets all of it, or
 * a server that is far away would never be reached. */
enum { HURRY_FIRST_MS = 100, HURRY_MORE_MS = 50, HURRIES_MOST = 4 };

/* --- the socket ---------------------------------------------------------------------------------------------- */

/* When a connection is lost libpq closes the socket by itself, and its number may be somebody else's by now. */
static void unwatch(simba__pg_conn *conn)
{
    if (!conn->is_watched)
        return;
    if (PQsocket(conn->pg) != conn->io.fd)
        conn->io.fd = -1;
    conn->host->io_remove(conn->host, &conn->io);
    conn->is_watched = false;
}

static bool watch(simba__pg_conn *conn, unsigned interest)
{
    unwatch(conn);
    conn->io.fd = PQsocket(conn->pg);
    conn->io.interest = interest;
    conn->is_watched = conn->host->io_add(conn->host, &conn->io) == 0;
    return conn->is_watched;
}

static void drop(simba__pg_conn *conn)
{
    unwatch(conn);
    PQclear(conn->result);
    conn->result = NULL;
    PQfinish(conn->pg);
    conn->pg = NULL;
}

static void shut(simba__pg_conn *conn)
{
    drop(conn);
    conn->host->timer_clear(conn->host, &conn->timer);
    conn->state = SIMBA__PG_SHUT;
    conn->life++;
}

/* So far, by the kernel's count; 0 from a socket file, at whose other end is one whom we trust. libpq would take in all that there
 * is, and does not say how much that was. */
static uint64_t received(const simba__pg_conn *conn)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return getsockopt(PQsocket(conn->pg), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

/* It has ended by itself, or could not be opened. */
static void lose(simba__pg_conn *conn, const simba__sql_failure *why)
{
    const simba__sql_failure told = *why;
    const bool is_asked = conn->state == SIMBA__PG_ASKED;
    shut(conn);
    if (is_asked)
        conn->events->answered(conn, NULL, &told);
    else
        conn->events->lost(conn, &told);
}

static void lose_memory(simba__pg_conn *conn)
{
    simba__sql_failure why;
    simba__pg_out_of_memory(&why);
    lose(conn, &why);
}

static void lose_talker(simba__pg_conn *conn)
{
    simba__sql_failure why;
    simba__sql_fail(&why, SIMBA__SQL_RECONNECT, SIMBA_ECORRUPT,
                    "postgresql %s: this server does not answer what it was asked", conn->options->where);
    lose(conn, &why);
}

/* --- talking --------------------------------------------------------------------------------------------------- */

static void finish_statement(simba__pg_conn *conn)
{
    PGresult *result = conn->result;
    simba__sql_failure why;
    const ExecStatusType status = PQresultStatus(result);
    const bool is_answer = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    const bool worked = is_answer && !conn->is_unreplicated;
    conn->result = NULL;
    if (!is_answer)
        simba__pg_fail_result(conn->options, conn->pg, result, &why);
    else if (!worked)
        simba__sql_fail(&why, SIMBA__SQL_TELL, SIMBA_EUNAVAILABLE,
                        "postgresql %s: the wait for the standby was cancelled, so a fail-over may lose this",
                        conn->options->where);
    conn->state = SIMBA__PG_IDLE;
    if (PQstatus(conn->pg) == CONNECTION_BAD)
        shut(conn);
    conn->events->answered(conn, worked ? result : NULL, worked ? NULL : &why);
    PQclear(result);
}

/* Of several results the first error counts, or else the last one that there is. */
static void keep_result(simba__pg_conn *conn, PGresult *result)
{
    const bool has_failed = conn->result && PQresultStatus(conn->result) == PGRES_FATAL_ERROR;
    PQclear(has_failed ? result : conn->result);
    conn->result = has_failed ? conn->result : result;
}

static void take_notifications(simba__pg_conn *conn)
{
    const unsigned life = conn->life;
    PGnotify *notify;
    while (conn->life == life && (notify = PQnotifies(conn->pg))) {
        conn->events->notified(conn, notify->extra);
        PQfreemem(notify);
    }
}

/* libpq waits for us to send or to read a file: there would be another such result whenever we ask. */
static bool is_copy(const PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

static void take_results(simba__pg_conn *conn)
{
    while (conn->state == SIMBA__PG_ASKED && !is_copy(conn->result) && !PQisBusy(conn->pg)) {
        PGresult *result = PQgetResult(conn->pg);
        if (result)
            keep_result(conn, result);
        else
            finish_statement(conn);
    }
    if (conn->state == SIMBA__PG_ASKED && (is_copy(conn->result) || received(conn) > conn->received_most))
        lose_talker(conn);
}

/* A notification that came before an answer is told before it. One behind the answer may be in libpq's hands by now, so nothing
 * would report it. What is left in the socket is reported again. */
static void take_input(simba__pg_conn *conn)
{
    const unsigned life = conn->life;
    simba__sql_failure why;
    const bool works = PQconsumeInput(conn->pg);
    take_notifications(conn);
    if (conn->life == life)
        take_results(conn);
    if (conn->life == life)
        take_notifications(conn);
    if (conn->life == life && (!works || PQstatus(conn->pg) == CONNECTION_BAD)) {
        simba__pg_fail_connection(conn->options, conn->pg, &why);
        lose(conn, &why);
    }
}

/* False: it is lost. */
static bool send_rest(simba__pg_conn *conn)
{
    const int rc = PQflush(conn->pg);
    const unsigned interest = SIMBA_READABLE | (rc == 1 ? SIMBA_WRITABLE : 0);
    return rc >= 0 && (interest == conn->io.interest || conn->host->io_change(conn->host, &conn->io, interest) == 0);
}

void simba__pg_conn_ask(simba__pg_conn *conn, const char *sql, int count, const char *const *values, unsigned most)
{
    SIMBA__ASSERT(conn->state == SIMBA__PG_IDLE);
    conn->state = SIMBA__PG_ASKED;
    conn->received_most = received(conn) + most;
    conn->is_unreplicated = false;
    if (count > 0)
        (void)PQsendQueryParams(conn->pg, sql, count, NULL, values, NULL, NULL, 0);
    else
        (void)PQsendQuery(conn->pg, sql);
    /* If that failed, libpq returns the error with the result. */
    if (!send_rest(conn) || PQstatus(conn->pg) == CONNECTION_BAD || !PQisBusy(conn->pg))
        conn->host->timer_set(conn->host, &conn->timer, conn->host->now(conn->host));
}

/* --- connecting ------------------------------------------------------------------------------------------------ */

/* The server has committed and answers so, but somebody has ended its wait for the standby: that is a warning only, whose text
 * depends on the server's language. */
static void on_notice(void *user, const PGresult *notice)
{
    simba__pg_conn *conn = user;
    const char *source = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
    if (source && strcmp(source, "SyncRepWaitForLSN") == 0)
        conn->is_unreplicated = true;
}

static void come_up(simba__pg_conn *conn)
{
    if (conn->host->now(conn->host).ns - conn->begun_at.ns < HURRY_FIRST_MS * SIMBA__NS_PER_MS)
        conn->hurries = 0; /* the server is near */
    conn->host->timer_clear(conn->host, &conn->timer);
    if (PQsetnonblocking(conn->pg, 1) != 0 || !watch(conn, SIMBA_READABLE)) {
        lose_memory(conn);
        return;
    }
    PQsetErrorVerbosity(conn->pg, PQERRORS_DEFAULT);
    conn->state = SIMBA__PG_IDLE;
    conn->events->opened(conn);
}

static void go_on_connecting(simba__pg_conn *conn, PostgresPollingStatusType status)
{
    if (status == PGRES_POLLING_OK) {
        come_up(conn);
    } else if (status == PGRES_POLLING_FAILED) {
        simba__pg_fail_connection(conn->options, conn->pg, &conn->why);
        lose(conn, &conn->why);
    } else if (!watch(conn, status == PGRES_POLLING_READING ? SIMBA_READABLE : SIMBA_WRITABLE)) {
        lose_memory(conn);
    }
}

/* libpq has just begun to connect, or has failed to. */
static void begin_attempt(simba__pg_conn *conn, bool works)
{
    const int64_t patience_ns = (HURRY_FIRST_MS + HURRY_MORE_MS * (int64_t)conn->hurries) * SIMBA__NS_PER_MS;
    conn->begun_at = conn->host->now(conn->host);
    const simba_local hurry_at = {conn->begun_at.ns + patience_ns};
    const bool may_hurry = conn->hurries < HURRIES_MOST && hurry_at.ns < conn->next_at.ns;
    conn->host->timer_set(conn->host, &conn->timer, may_hurry ? hurry_at : conn->next_at);
    simba__tcp_repeat_evenly(PQsocket(conn->pg));
    go_on_connecting(conn, works ? PGRES_POLLING_WRITING : PGRES_POLLING_FAILED);
}

/* The settings, and as lists the targets from the first one on. */
static void connect_to(simba__pg_conn *conn, const char *hosts, const char *addresses, const char *ports,
                       int64_t share_ns)
{
    const char *keywords[SETTINGS_MAX] = {"host", "hostaddr", "port"},
               *values[SETTINGS_MAX] = {hosts, addresses, ports};
    size_t count = 3;
    for (const PQconninfoOption *option = conn->options->settings; option->keyword && count < SETTINGS_MAX - 1;
         option++)
        if (option->val && strncmp(option->keyword, "host", 4) != 0 && strcmp(option->keyword, "port") != 0 &&
            strncmp(option->keyword, "service", 7) != 0) {
            keywords[count] = option->keyword;
            values[count++] = option->val;
        }
    conn->state = SIMBA__PG_CONNECTING;
    conn->next_at.ns = conn->host->now(conn->host).ns + share_ns;
    simba__descriptors_hold(); /* it connects in there */
    conn->pg = PQconnectStartParams(keywords, values, 0);
    if (!conn->pg) {
        lose_memory(conn);
        return;
    }
    PQsetNoticeReceiver(conn->pg, on_notice, conn);
    PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE); /* only so it tells SQLSTATEs while it connects */
    begin_attempt(conn, PQstatus(conn->pg) != CONNECTION_BAD);
}

static void connect_to_targets(simba__pg_conn *conn)
{
    const simba__resolver *resolver = &conn->resolver;
    SIMBA__ASSERT(resolver->count > 0);
    char hosts[SIMBA__TARGETS_MAX * 257], addresses[SIMBA__TARGETS_MAX * 65], ports[SIMBA__TARGETS_MAX * 6];
    for (size_t i = 0, h = 0, a = 0, p = 0; i < resolver->count; i++) {
        const simba__target *target = &resolver->targets[(conn->first + i) % resolver->count];
        const char *comma = i ? "," : "";
        h += (size_t)snprintf(hosts + h, sizeof hosts - h, "%s%s", comma, target->host->host);
        a += (size_t)snprintf(addresses + a, sizeof addresses - a, "%s%s", comma, target->address);
        p += (size_t)snprintf(ports + p, sizeof ports - p, "%s%d", comma, target->host->port);
    }
    connect_to(conn, hosts, addresses, ports,
               conn->options->connect_timeout_ms * SIMBA__NS_PER_MS / (int64_t)resolver->count);
}

/* The one that it began with has not answered. */
static void try_next_target(simba__pg_conn *conn)
{
    simba__sql_fail(&conn->why, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE, "postgresql %s: cannot connect: no answer in time",
                    conn->options->where);
    conn->first++;
    if (conn->host->now(conn->host).ns >= conn->open_by.ns) {
        lose(conn, &conn->why);
        return;
    }
    drop(conn);
    connect_to_targets(conn);
}

/* The time of an attempt, or of the target, is over. An attempt whose first packet was answered has the time of its target. */
static void go_on_waiting(simba__pg_conn *conn, simba_local now)
{
    if (now.ns >= conn->next_at.ns) {
        try_next_target(conn);
    } else if (PQstatus(conn->pg) == CONNECTION_STARTED) {
        conn->hurries++;
        unwatch(conn);
        simba__descriptors_hold();
        begin_attempt(conn, PQresetStart(conn->pg));
    } else {
        conn->host->timer_set(conn->host, &conn->timer, conn->next_at);
    }
}

static void on_resolved(simba__resolver *resolver)
{
    simba__pg_conn *conn = SIMBA__OF_NODE(resolver, simba__pg_conn, resolver);
    if (resolver->count > 0 && !resolver->given_up) {
        connect_to_targets(conn);
        return;
    }
    simba__sql_fail(&conn->why, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE, "postgresql %s: cannot connect: %s",
                    conn->options->where, resolver->cause);
    lose(conn, &conn->why);
}

static void begin(simba__pg_conn *conn)
{
    SIMBA__ASSERT(conn->state == SIMBA__PG_SHUT);
    conn->open_by.ns = conn->host->now(conn->host).ns + conn->options->connect_timeout_ms * SIMBA__NS_PER_MS;
}

void simba__pg_conn_open(simba__pg_conn *conn)
{
    begin(conn);
    conn->state = SIMBA__PG_RESOLVING;
    conn->resolver.given_up = false;
    simba__resolver_start(&conn->resolver);
}

void simba__pg_conn_open_beside(simba__pg_conn *conn, const simba__pg_conn *other)
{
    SIMBA__ASSERT(simba__pg_conn_is_open(other));
    begin(conn);
    connect_to(conn, PQhost(other->pg), PQhost(other->pg)[0] == '/' ? "" : PQhostaddr(other->pg), PQport(other->pg),
               conn->options->connect_timeout_ms * SIMBA__NS_PER_MS);
}

/* --- the rest ------------------------------------------------------------------------------------------------------ */

static void on_ready(simba_io *socket, unsigned events)
{
    simba__pg_conn *conn = SIMBA__OF_NODE(socket, simba__pg_conn, io);
    if (conn->state == SIMBA__PG_CONNECTING) {
        unwatch(conn); /* libpq may close this socket, and make another one of the same number */
        simba__descriptors_hold();
        if (received(conn) > GREETING_MOST)
            lose_talker(conn);
        else
            go_on_connecting(conn, PQconnectPoll(conn->pg));
        return;
    }
    if (events & SIMBA_WRITABLE && !send_rest(conn))
        lose_memory(conn);
    else
        take_input(conn);
}

static void on_timer(simba_timer *timer, simba_local now)
{
    simba__pg_conn *conn = SIMBA__OF_NODE(timer, simba__pg_conn, timer);
    if (conn->state == SIMBA__PG_CONNECTING)
        go_on_waiting(conn, now);
    else if (conn->state == SIMBA__PG_ASKED)
        take_input(conn);
}

int simba__pg_conn_init(simba__pg_conn *conn, simba_host *host, const simba__pg_options *options,
                        const simba__pg_conn_events *events)
{
    conn->host = host;
    conn->options = options;
    conn->events = events;
    conn->io.ready = on_ready;
    conn->timer.fire = on_timer;
    conn->resolver = (simba__resolver){
        .host = host, .hosts = options->hosts, .host_count = options->host_count, .resolved = on_resolved};
    return host->timer_add(host, &conn->timer);
}

bool simba__pg_conn_is_open(const simba__pg_conn *conn)
{
    return conn->state == SIMBA__PG_IDLE || conn->state == SIMBA__PG_ASKED;
}

void simba__pg_conn_close(simba__pg_conn *conn)
{
    if (conn->state == SIMBA__PG_RESOLVING)
        simba__resolver_give_up(&conn->resolver);
    else if (conn->state != SIMBA__PG_SHUT)
        shut(conn);
}
