/* See conn.h. */
#include "backends/postgresql/conn.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "util/assert.h"
#include "util/clock.h"
#include "util/table.h"

enum { READS_AT_ONCE = 64, SETTINGS_MAX = 80 };

/* --- the socket ------------------------------------------------------------------------------------------ */

static void unwatch(simba__pg_conn *conn)
{
    if (conn->is_watched)
        conn->host->watch_remove(conn->host, &conn->watch);
    conn->is_watched = false;
}

static bool watch(simba__pg_conn *conn, unsigned interest)
{
    unwatch(conn);
    conn->watch.fd = PQsocket(conn->pg);
    conn->watch.interest = interest;
    conn->is_watched = conn->host->watch_add(conn->host, &conn->watch) == 0;
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
    if (conn->addresses)
        freeaddrinfo(conn->addresses);
    conn->addresses = conn->next_address = NULL;
    conn->host->timer_clear(conn->host, &conn->timer);
    conn->state = SIMBA__PG_SHUT;
    conn->life++;
}

/* --- talking ----------------------------------------------------------------------------------------------- */

/* It has ended by itself: tell whoever has to know. */
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

static void finish_statement(simba__pg_conn *conn)
{
    PGresult *result = conn->result;
    simba__sql_failure why;
    conn->result = NULL;
    const ExecStatusType status = PQresultStatus(result);
    const bool worked = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY;
    if (!worked)
        simba__pg_fail_result(conn->options, conn->pg, result, &why);
    if (PQstatus(conn->pg) == CONNECTION_BAD)
        shut(conn);
    else
        conn->state = SIMBA__PG_IDLE;
    conn->events->answered(conn, worked ? result : NULL, worked ? NULL : &why);
    PQclear(result);
}

/* Of several results the first error counts, or else the last one that there is. */
static void keep_result(simba__pg_conn *conn, PGresult *result)
{
    const bool has_failed = PQresultStatus(conn->result) == PGRES_FATAL_ERROR && conn->result;
    PGresult *other = has_failed ? result : conn->result;
    if (!has_failed)
        conn->result = result;
    PQclear(other);
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

static void take_results(simba__pg_conn *conn)
{
    while (conn->state == SIMBA__PG_ASKED && !PQisBusy(conn->pg)) {
        PGresult *result = PQgetResult(conn->pg);
        if (result)
            keep_result(conn, result);
        else
            finish_statement(conn);
    }
}

static void take_input(simba__pg_conn *conn)
{
    const unsigned life = conn->life;
    for (int i = 0; i < READS_AT_ONCE && conn->life == life; i++) {
        const bool works = PQconsumeInput(conn->pg);
        take_notifications(conn);
        if (conn->life == life)
            take_results(conn);
        if (conn->life != life)
            return;
        if (!works || PQstatus(conn->pg) == CONNECTION_BAD) {
            simba__sql_failure why;
            simba__pg_fail_connection(conn->options, conn->pg, &why);
            lose(conn, &why);
            return;
        }
        struct pollfd more = {.fd = conn->watch.fd, .events = POLLIN};
        if (poll(&more, 1, 0) <= 0)
            return;
    }
    /* The server talks faster than we listen: what is left is reported anew. */
    if (conn->life == life && conn->host->watch_change(conn->host, &conn->watch, conn->watch.interest) < 0)
        lose_memory(conn);
}

/* False: it is lost. */
static bool send_rest(simba__pg_conn *conn)
{
    const int rc = PQflush(conn->pg);
    const unsigned interest = SIMBA_READABLE | (rc == 1 ? SIMBA_WRITABLE : 0);
    return rc >= 0 &&
           (interest == conn->watch.interest || conn->host->watch_change(conn->host, &conn->watch, interest) == 0);
}

void simba__pg_conn_ask(simba__pg_conn *conn, const char *sql, int count, const char *const *values)
{
    SIMBA__ASSERT(conn->state == SIMBA__PG_IDLE);
    conn->state = SIMBA__PG_ASKED;
    if (count > 0)
        (void)PQsendQueryParams(conn->pg, sql, count, NULL, values, NULL, NULL, 0);
    else
        (void)PQsendQuery(conn->pg, sql);
    /* Should it have failed, the socket says so, or libpq has the error for whoever asks for the result. */
    if (!send_rest(conn) || PQstatus(conn->pg) == CONNECTION_BAD || !PQisBusy(conn->pg))
        conn->host->timer_set(conn->host, &conn->timer, conn->host->now(conn->host));
}

/* --- opening ----------------------------------------------------------------------------------------------- */

static void try_next(simba__pg_conn *conn);

static void ignore_notice(void *user, const PGresult *notice)
{
    (void)user;
    (void)notice;
}

static const simba__pg_host *present_host(const simba__pg_conn *conn)
{
    return &conn->options->hosts[(conn->first_host + conn->tried - 1) % conn->options->host_count];
}

/* Of several errors, one that will not pass by itself is the one to tell. */
static void keep_reason(simba__pg_conn *conn, const simba__sql_failure *why)
{
    if (conn->why.error.code == 0 || simba__is_transient(conn->why.error.code))
        conn->why = *why;
}

static void attempt_failed(simba__pg_conn *conn, const char *reason)
{
    simba__sql_failure why;
    if (reason)
        simba__sql_fail(&why, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE, "postgresql %s: %s", present_host(conn)->at.where,
                        reason);
    else
        simba__pg_fail_connection(conn->options, conn->pg, &why);
    keep_reason(conn, &why);
    drop(conn);
    try_next(conn);
}

static void come_up(simba__pg_conn *conn)
{
    conn->host->timer_clear(conn->host, &conn->timer);
    conn->first_host = (size_t)(present_host(conn) - conn->options->hosts);
    if (PQsetnonblocking(conn->pg, 1) != 0 || !watch(conn, SIMBA_READABLE)) {
        attempt_failed(conn, "out of memory");
        return;
    }
    PQsetErrorVerbosity(conn->pg, PQERRORS_DEFAULT);
    conn->state = SIMBA__PG_IDLE;
    conn->events->opened(conn);
}

static void go_on_connecting(simba__pg_conn *conn)
{
    unwatch(conn); /* libpq may close this socket, and make another one of the same number */
    const PostgresPollingStatusType status = PQconnectPoll(conn->pg);
    if (status == PGRES_POLLING_OK)
        come_up(conn);
    else if (status == PGRES_POLLING_FAILED)
        attempt_failed(conn, NULL);
    else if (!watch(conn, status == PGRES_POLLING_READING ? SIMBA_READABLE : SIMBA_WRITABLE))
        attempt_failed(conn, "out of memory");
}

/* As many as there are left, should all have to be tried. */
static int64_t share_of_time(const simba__pg_conn *conn)
{
    int64_t left = 1 + (int64_t)(conn->options->host_count - conn->tried);
    for (const struct addrinfo *each = conn->next_address; each; each = each->ai_next)
        left++;
    return (conn->open_by.ns - conn->host->now(conn->host).ns) / left;
}

static void attempt(simba__pg_conn *conn, const char *address)
{
    const char *keywords[SETTINGS_MAX], *values[SETTINGS_MAX];
    const simba__endpoint *at = &present_host(conn)->at;
    char port[12];
    size_t count = 0;
    snprintf(port, sizeof port, "%d", at->port);
    for (const PQconninfoOption *option = conn->options->settings; option->keyword && count < SETTINGS_MAX - 4;
         option++) {
        if (!option->val || strcmp(option->keyword, "host") == 0 || strcmp(option->keyword, "hostaddr") == 0 ||
            strcmp(option->keyword, "port") == 0 || strncmp(option->keyword, "service", 7) == 0)
            continue;
        keywords[count] = option->keyword;
        values[count++] = option->val;
    }
    const char *const ours[][2] = {{"host", at->host}, {"hostaddr", address}, {"port", port}, {NULL, NULL}};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++, count++) {
        keywords[count] = ours[i][0];
        values[count] = ours[i][1];
    }
    if (address != conn->address)
        snprintf(conn->address, sizeof conn->address, "%s", address);
    conn->state = SIMBA__PG_CONNECTING;
    conn->host->timer_set(conn->host, &conn->timer,
                          (simba_local){conn->host->now(conn->host).ns + share_of_time(conn)});
    conn->pg = PQconnectStartParams(keywords, values, 0);
    if (!conn->pg) {
        attempt_failed(conn, "out of memory");
        return;
    }
    PQsetNoticeReceiver(conn->pg, ignore_notice, NULL);
    PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE);
    if (PQstatus(conn->pg) == CONNECTION_BAD)
        attempt_failed(conn, NULL);
    else if (!watch(conn, SIMBA_WRITABLE))
        attempt_failed(conn, "out of memory");
}

static void on_looked_up(simba__lookup *lookup)
{
    simba__pg_conn *conn = lookup->owner;
    conn->lookup = NULL;
    if (conn->is_given_up) {
        simba__sql_fail(&conn->why, SIMBA__SQL_LOST, SIMBA_ETIMEDOUT, "postgresql %s: its name was not found in time",
                        present_host(conn)->at.where);
        lose(conn, &conn->why);
        return;
    }
    conn->addresses = conn->next_address = lookup->found;
    lookup->found = NULL;
    if (!conn->addresses)
        attempt_failed(conn, lookup->why);
    else
        try_next(conn);
}

static void look_up(simba__pg_conn *conn, const simba__pg_host *at)
{
    conn->state = SIMBA__PG_RESOLVING;
    conn->lookup = simba__lookup_start(conn->host, at->at.host, at->at.port, on_looked_up, conn);
    if (!conn->lookup)
        attempt_failed(conn, "out of memory");
}

static void try_next(simba__pg_conn *conn)
{
    simba__address parsed;
    while (conn->next_address) {
        const struct addrinfo *at = conn->next_address;
        conn->next_address = at->ai_next;
        char address[64];
        if (getnameinfo(at->ai_addr, at->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST) == 0) {
            attempt(conn, address);
            return;
        }
    }
    if (conn->addresses)
        freeaddrinfo(conn->addresses);
    conn->addresses = NULL;
    if (conn->tried == conn->options->host_count || conn->host->now(conn->host).ns >= conn->open_by.ns) {
        lose(conn, &conn->why);
        return;
    }
    conn->tried++;
    const simba__pg_host *host = present_host(conn);
    if (host->at.host[0] == '/' || host->address[0])
        attempt(conn, host->address);
    else if (simba__address_parse(host->at.host, host->at.port, &parsed))
        attempt(conn, host->at.host);
    else
        look_up(conn, host);
}

static void begin(simba__pg_conn *conn)
{
    SIMBA__ASSERT(conn->state == SIMBA__PG_SHUT);
    conn->life++;
    conn->is_given_up = false;
    conn->why = (simba__sql_failure){0};
    conn->open_by.ns = conn->host->now(conn->host).ns + conn->options->connect_timeout_ns;
}

void simba__pg_conn_open(simba__pg_conn *conn)
{
    begin(conn);
    conn->tried = 0;
    try_next(conn);
}

void simba__pg_conn_open_beside(simba__pg_conn *conn, const simba__pg_conn *other)
{
    SIMBA__ASSERT(simba__pg_conn_is_open(other));
    begin(conn);
    conn->tried = conn->options->host_count; /* the host before the first one, and no others */
    conn->first_host = other->first_host + 1;
    snprintf(conn->address, sizeof conn->address, "%s", other->address);
    attempt(conn, conn->address);
}

/* --- the rest ---------------------------------------------------------------------------------------------- */

static void on_ready(simba_watch *socket, unsigned events)
{
    simba__pg_conn *conn = SIMBA__OF_NODE(socket, simba__pg_conn, watch);
    const unsigned life = conn->life;
    if (conn->state == SIMBA__PG_CONNECTING) {
        go_on_connecting(conn);
        return;
    }
    if (events & SIMBA_WRITABLE && !send_rest(conn))
        lose_memory(conn);
    if (conn->life == life)
        take_input(conn);
}

/* The attempt has had its share; or a statement could not be sent. */
static void on_timer(simba_timer *timer, simba_local now)
{
    simba__pg_conn *conn = SIMBA__OF_NODE(timer, simba__pg_conn, timer);
    (void)now;
    if (conn->state == SIMBA__PG_CONNECTING)
        attempt_failed(conn, "no answer in time");
    else if (conn->state == SIMBA__PG_ASKED)
        take_input(conn);
}

int simba__pg_conn_init(simba__pg_conn *conn, simba_host *host, const simba__pg_options *options,
                        const simba__pg_conn_events *events, bool answers)
{
    conn->host = host;
    conn->options = options;
    conn->events = events;
    conn->watch.ready = on_ready;
    conn->watch.answers = answers;
    conn->timer.fire = on_timer;
    return host->timer_add(host, &conn->timer);
}

void simba__pg_conn_fini(simba__pg_conn *conn)
{
    SIMBA__ASSERT(conn->state == SIMBA__PG_SHUT && !conn->lookup);
}

bool simba__pg_conn_is_open(const simba__pg_conn *conn)
{
    return conn->state == SIMBA__PG_IDLE || conn->state == SIMBA__PG_ASKED;
}

void simba__pg_conn_close(simba__pg_conn *conn)
{
    if (conn->state == SIMBA__PG_RESOLVING) {
        conn->is_given_up = true;
        simba__lookup_give_up(conn->lookup);
    } else if (conn->state != SIMBA__PG_SHUT) {
        shut(conn);
    }
}
