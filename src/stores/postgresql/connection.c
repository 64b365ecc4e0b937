/* One connection to a server by libpq, which never blocks: the host watches its socket, and one ask at a time is under way: some
 * statements, and all of their results.
 *
 * A worker looks up the names of the hosts and hands libpq their addresses, because libpq would look them up in the middle of it. libpq
 * tries one host after the other. If a host does not answer at all, another attempt begins with the next one. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "net/tcp.h"
#include "stores/postgresql/postgresql.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/descriptors.h"
#include "util/table.h"

enum { SETTINGS_MAX = 80 };

/* How many bytes a server may send while we connect. */
enum { GREETING_MOST = 1 << 20 };

/* And how many an answer may have, but for a list. */
enum { ANSWER_MOST = 2 << 20 };

enum { CELLS_MAX = 16, KEEP_TEXT = 1 << 16 };
_Static_assert((int)CELLS_MAX >= (int)SIMBA__SQL_COLUMNS, "a row has room");

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
    PQfinish(conn->pg);
    conn->pg = NULL;
}

static void shut(simba__pg_conn *conn)
{
    drop(conn);
    conn->host->timer_clear(conn->host, &conn->timer);
    conn->state = SIMBA__PG_SHUT;
    conn->has_failed = false;
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
    simba__sql_failure told = *why;
    const bool is_asked = conn->state == SIMBA__PG_ASKED;
    if (told.effect != SIMBA__SQL_AWAY)
        told.effect = SIMBA__SQL_LOST; /* whatever else it was, the connection is over */
    shut(conn);
    if (is_asked)
        simba__sql_answered(conn->owner, &told);
    else
        simba__sql_lost(conn->owner, &told);
}

static void lose_memory(simba__pg_conn *conn)
{
    simba__sql_failure why;
    (void)simba__sql_fail(&why, SIMBA__SQL_LOST, SIMBA_ENOMEM, "postgresql: out of memory");
    lose(conn, &why);
}

static void lose_talker(simba__pg_conn *conn)
{
    simba__sql_failure why;
    (void)simba__sql_fail(&why, SIMBA__SQL_AWAY, SIMBA_ECORRUPT,
                          "postgresql %s: this server does not answer what it was asked", conn->options->where);
    lose(conn, &why);
}

/* --- talking --------------------------------------------------------------------------------------------------- */

/* The server has answered all of it. */
static void finish_ask(simba__pg_conn *conn)
{
    simba__sql_failure why = conn->why;
    const bool has_failed = conn->has_failed;
    conn->state = SIMBA__PG_IDLE;
    if (!has_failed && conn->is_unreplicated)
        (void)simba__sql_fail(&why, SIMBA__SQL_TELL, SIMBA_EUNAVAILABLE,
                              "postgresql %s: the wait for the standby was cancelled, so a fail-over may lose this",
                              conn->options->where);
    if (PQstatus(conn->pg) == CONNECTION_BAD ||
        (has_failed && (why.effect == SIMBA__SQL_LOST || why.effect == SIMBA__SQL_AWAY)))
        shut(conn);
    simba__sql_answered(conn->owner, has_failed || conn->is_unreplicated ? &why : NULL);
}

static void tell_rows(simba__pg_conn *conn, const PGresult *result)
{
    simba__sql_cell cells[CELLS_MAX];
    const unsigned life = conn->life;
    const int count = PQnfields(result);
    for (int row = 0; row < PQntuples(result) && count <= CELLS_MAX && conn->life == life; row++) {
        for (int i = 0; i < count; i++)
            cells[i] = (simba__sql_cell){PQgetisnull(result, row, i) ? NULL : PQgetvalue(result, row, i),
                                         (size_t)PQgetlength(result, row, i)};
        simba__sql_took_row(conn->owner, conn->results, cells, (unsigned)count);
    }
}

/* Of several results the first error counts. A result comes row by row, if it is a list; its last part has none. */
static void take_result(simba__pg_conn *conn, PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    const bool is_answer = status == PGRES_TUPLES_OK || status == PGRES_SINGLE_TUPLE || status == PGRES_COMMAND_OK;
    if (!is_answer && !conn->has_failed) {
        simba__pg_fail_result(conn->options, conn->pg, result, &conn->why);
        conn->has_failed = true;
    } else if (is_answer && !conn->has_failed && status != PGRES_COMMAND_OK) {
        tell_rows(conn, result);
        conn->results += status == PGRES_TUPLES_OK;
    }
}

static void take_notifications(simba__pg_conn *conn)
{
    const unsigned life = conn->life;
    PGnotify *notify;
    while (conn->life == life && (notify = PQnotifies(conn->pg))) {
        simba__sql_notified(conn->owner, notify->extra);
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
    bool is_copied = false;
    while (conn->state == SIMBA__PG_ASKED && !is_copied && !PQisBusy(conn->pg)) {
        const unsigned life = conn->life;
        PGresult *result = PQgetResult(conn->pg);
        is_copied = is_copy(result);
        if (result)
            take_result(conn, result);
        else
            finish_ask(conn);
        PQclear(result);
        if (conn->life != life)
            return;
    }
    if (conn->state == SIMBA__PG_ASKED && (is_copied || received(conn) > conn->received_most))
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

static void ask(void *any, const simba__sql_ask *what)
{
    simba__pg_conn *conn = any;
    SIMBA__ASSERT(conn->state == SIMBA__PG_IDLE);
    conn->state = SIMBA__PG_ASKED;
    conn->received_most = what->kind == SIMBA__SQL_LIST ? UINT64_MAX : received(conn) + ANSWER_MOST;
    conn->is_unreplicated = conn->has_failed = false;
    conn->results = 0;
    conn->text.length = 0;
    conn->text.failed = false;
    simba__sql_put_ask(&conn->text, &conn->words, what);
    simba__buffer_put(&conn->text, "", 1);
    if (conn->text.failed) {
        conn->host->timer_set(conn->host, &conn->timer, conn->host->now(conn->host));
        return;
    }
    (void)PQsendQuery(conn->pg, conn->text.data);
    if (what->kind == SIMBA__SQL_LIST)
        (void)PQsetSingleRowMode(conn->pg);
    if (conn->text.capacity > KEEP_TEXT)
        simba__buffer_free(&conn->text);
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
    simba__sql_opened(conn->owner);
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
    const int64_t delay_ns = (HURRY_FIRST_MS + HURRY_MORE_MS * (int64_t)conn->hurries) * SIMBA__NS_PER_MS;
    conn->begun_at = conn->host->now(conn->host);
    const simba_local hurry_at = {conn->begun_at.ns + delay_ns};
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
    (void)simba__sql_fail(&conn->why, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE,
                          "postgresql %s: cannot connect: no answer in time", conn->options->where);
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
    (void)simba__sql_fail(&conn->why, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE, "postgresql %s: cannot connect: %s",
                          conn->options->where, resolver->cause);
    lose(conn, &conn->why);
}

static void open_conn(void *any)
{
    simba__pg_conn *conn = any;
    SIMBA__ASSERT(conn->state == SIMBA__PG_SHUT);
    conn->open_by.ns = conn->host->now(conn->host).ns + conn->options->connect_timeout_ms * SIMBA__NS_PER_MS;
    conn->state = SIMBA__PG_RESOLVING;
    conn->resolver.given_up = false;
    simba__resolver_start(&conn->resolver);
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
    else if (conn->state == SIMBA__PG_ASKED && conn->text.failed)
        lose_memory(conn);
    else if (conn->state == SIMBA__PG_ASKED)
        take_input(conn);
}

/* While a name is looked up, simba__sql_lost follows when the name server has answered. After a silence another host may answer: an
 * old primary that waits for its standby does not. */
static bool close_conn(void *any, bool abrupt)
{
    simba__pg_conn *conn = any;
    conn->first += abrupt;
    if (conn->state == SIMBA__PG_RESOLVING)
        simba__resolver_give_up(&conn->resolver);
    else if (conn->state != SIMBA__PG_SHUT)
        shut(conn);
    return conn->state == SIMBA__PG_SHUT;
}

/* --- the dialect --------------------------------------------------------------------------------------------------- */

/* E'…', so that nothing depends on standard_conforming_strings. */
static void put_text(simba__buffer *out, const char *text)
{
    simba__buffer_put(out, "E'", 2);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            simba__buffer_put(out, text, 1);
        simba__buffer_put(out, text, 1);
    }
    simba__buffer_put(out, "'", 1);
}

static void put_bytes(simba__buffer *out, const void *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    simba__buffer_put(out, "E'\\\\x", 5);
    for (size_t i = 0; i < size; i++) {
        const char pair[2] = {digits[from[i] >> 4], digits[from[i] & 15]};
        simba__buffer_put(out, pair, 2);
    }
    simba__buffer_put(out, "'", 1);
}

#define NOW "floor(extract(epoch from clock_timestamp()) * 1000)::bigint"

int simba__pg_conn_init(simba__pg_conn *conn, simba_host *host, const simba__pg_options *options,
                        simba__sql_connection *owner)
{
    const char *format = options->schema[0] ? "\"%s\".\"%s%s\"" : "%s\"%s%s\"";
    conn->host = host;
    conn->options = options;
    conn->owner = owner;
    conn->io.ready = on_ready;
    conn->timer.fire = on_timer;
    conn->resolver = (simba__resolver){
        .host = host, .hosts = options->hosts, .host_count = options->host_count, .resolved = on_resolved};
    snprintf(conn->table, sizeof conn->table, format, options->schema, options->table, "");
    snprintf(conn->waiters, sizeof conn->waiters, format, options->schema, options->table, "_waiters");
    /* A grant that was told must not be lost with a crash or a fail-over; a place in the queue may. */
    conn->words =
        (simba__sql_words){.table = conn->table,
                           .waiters = conn->waiters,
                           .now = NOW,
                           .note = ", encode(note, 'hex'), note_written_at",
                           .begin = "begin isolation level read committed; set local lock_timeout = '1s'",
                           .last = "select " NOW ", set_config('idle_in_transaction_session_timeout', '500ms', true), "
                                   "set_config('synchronous_commit', case current_setting('synchronous_commit') "
                                   "when 'remote_apply' then 'remote_apply' else 'on' end, true)",
                           .write = "",
                           .write_waiters = "set local synchronous_commit = off; ",
                           .on_conflict = " on conflict (%s) do update set ",
                           .new_begin = "excluded.",
                           .new_end = "",
                           .keep = " on conflict do nothing",
                           .is_signed = true,
                           .put_text = put_text,
                           .put_bytes = put_bytes};
    return host->timer_add(host, &conn->timer);
}

void simba__pg_conn_fini(simba__pg_conn *conn)
{
    SIMBA__ASSERT(conn->state == SIMBA__PG_SHUT);
    simba__buffer_free(&conn->text);
}

const simba__sql_dialect simba__pg_dialect = {
    .has_waiters = true,
    .open = open_conn,
    .ask = ask,
    .close = close_conn,
    .look = simba__pg_look,
    .learn = simba__pg_learn,
    .check = simba__pg_check,
    .examine = simba__pg_examine,
};
