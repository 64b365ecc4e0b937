/* One connection, on which one ask at a time is under way: the text of some statements, and all of their results, row by row.
 *
 * The library's calls run on a stack of their own and return when they would block (…_start, …_cont); the host watches the socket
 * meanwhile. Only connecting blocks, and is a job of a worker. */
#include <errmsg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "stores/mysql/library.h"
#include "stores/mysql/mysql.h"
#include "util/assert.h"
#include "util/clock.h"

enum { CALLS_AT_ONCE = 256, KEEP_TEXT = 1 << 16, CELLS_MAX = 16 };
_Static_assert((int)CELLS_MAX >= (int)SIMBA__SQL_COLUMNS, "a row has room");

/* --- the socket --------------------------------------------------------------------------------------------- */

static bool watch(simba__my_conn *conn, unsigned interest)
{
    if (conn->is_watched && interest == conn->io.interest)
        return true;
    if (conn->is_watched)
        return conn->host->io_change(conn->host, &conn->io, interest) == 0;
    conn->io.fd = (int)mysql_get_socket(conn->mysql);
    conn->io.interest = interest;
    conn->is_watched = conn->host->io_add(conn->host, &conn->io) == 0;
    return conn->is_watched;
}

static void block_sigpipe(const simba__my_conn *conn, simba__my_sigpipe *sigpipe)
{
    if (conn->options->tls)
        simba__my_sigpipe_block(sigpipe);
}

static void restore_sigpipe(const simba__my_conn *conn, const simba__my_sigpipe *sigpipe)
{
    if (conn->options->tls)
        simba__my_sigpipe_restore(sigpipe);
}

static int continue_call(simba__my_conn *conn, int events)
{
    switch (conn->call) {
    case SIMBA__MY_QUERY:
        return mysql_real_query_cont(&conn->rc, conn->mysql, events);
    case SIMBA__MY_NEXT:
        return mysql_next_result_cont(&conn->rc, conn->mysql, events);
    default:
        SIMBA__ASSERT(conn->call == SIMBA__MY_FETCH);
        return mysql_fetch_row_cont(&conn->row, conn->result, events);
    }
}

/* End it, in the middle of a call too: without a socket the call returns. Only an idle server is told good-bye. */
static void end(simba__my_conn *conn, bool abrupt)
{
    simba__my_sigpipe sigpipe;
    if (!conn->mysql)
        return;
    conn->host->timer_clear(conn->host, &conn->timer);
    conn->must_go_on = false;
    const int fd = (int)mysql_get_socket(conn->mysql);
    if (fd != conn->io.fd)
        conn->io.fd = -1; /* after an error the library closes it by itself */
    if (conn->is_watched)
        conn->host->io_remove(conn->host, &conn->io);
    conn->is_watched = false;
    block_sigpipe(conn, &sigpipe);
    if (fd >= 0 && (abrupt || conn->call != SIMBA__MY_NO_CALL))
        shutdown(fd, SHUT_RDWR);
    while (conn->wanted != 0)
        conn->wanted = continue_call(conn, conn->wanted & ~MYSQL_WAIT_TIMEOUT);
    mysql_free_result(conn->result);
    conn->result = NULL;
    conn->call = SIMBA__MY_NO_CALL;
    mysql_close(conn->mysql);
    conn->mysql = NULL;
    restore_sigpipe(conn, &sigpipe);
}

static void set_timer(simba__my_conn *conn, int64_t after_ns)
{
    conn->host->timer_set(conn->host, &conn->timer, (simba_local){conn->host->now(conn->host).ns + after_ns});
}

/* --- connecting ---------------------------------------------------------------------------------------------- */

/* The library does not say how long it will take, so only a thread of the client's own runs it. */
static bool run(simba_job *job, simba_local until)
{
    simba__my_conn *conn = SIMBA__OF_NODE(job, simba__my_conn, job);
    if (until.ns != INT64_MAX)
        return false;
    (void)simba__my_connect(conn, &conn->why);
    return true;
}

static void done(simba_job *job)
{
    simba__my_conn *conn = SIMBA__OF_NODE(job, simba__my_conn, job);
    conn->is_connecting = false;
    conn->host->timer_clear(conn->host, &conn->timer);
    if (conn->mysql && (atomic_load(&conn->over) || !watch(conn, SIMBA_READABLE))) {
        (void)simba__my_fail(conn, CR_SERVER_LOST, "interrupted", &conn->why);
        end(conn, false);
    }
    if (conn->mysql)
        simba__sql_opened(conn->owner);
    else
        simba__sql_lost(conn->owner, &conn->why);
}

static void open_conn(void *any)
{
    simba__my_conn *conn = any;
    conn->is_connecting = true;
    atomic_store(&conn->over, false);
    atomic_store(&conn->interrupt_at_ns, 0);
    set_timer(conn, conn->options->connect_timeout_ms * SIMBA__NS_PER_MS);
    conn->host->work(conn->host, &conn->job);
}

static bool close_conn(void *any, bool abrupt)
{
    simba__my_conn *conn = any;
    if (!conn->is_connecting) {
        end(conn, abrupt);
        return true;
    }
    conn->host->timer_clear(conn->host, &conn->timer);
    simba__my_interrupt(conn);
    return false;
}

/* --- asking ----------------------------------------------------------------------------------------------------- */

/* The next call. What it waits for; 0: it is over. */
static int start_call(simba__my_conn *conn, simba__my_call call)
{
    conn->call = call;
    switch (call) {
    case SIMBA__MY_QUERY:
        return mysql_real_query_start(&conn->rc, conn->mysql, conn->text.data, conn->text.length);
    case SIMBA__MY_NEXT:
        return mysql_next_result_start(&conn->rc, conn->mysql);
    default:
        return mysql_fetch_row_start(&conn->row, conn->result);
    }
}

static void answered(simba__my_conn *conn, const simba__sql_failure *why)
{
    simba__sql_failure unwatched;
    conn->call = SIMBA__MY_NO_CALL;
    conn->host->timer_clear(conn->host, &conn->timer);
    if (conn->text.capacity > KEEP_TEXT)
        simba__buffer_free(&conn->text);
    if (conn->mysql && !watch(conn, SIMBA_READABLE)) {
        (void)simba__sql_fail(&unwatched, SIMBA__SQL_LOST, SIMBA_ENOMEM, "mysql: out of memory");
        why = &unwatched;
    }
    if (why && (why->effect == SIMBA__SQL_LOST || why->effect == SIMBA__SQL_AWAY))
        end(conn, false);
    simba__sql_answered(conn->owner, why);
}

static void fail(simba__my_conn *conn)
{
    simba__sql_failure why;
    (void)simba__my_fail_latest(conn, &why);
    answered(conn, &why);
}

static void fail_broken(simba__my_conn *conn, const char *text)
{
    simba__sql_failure why;
    (void)simba__my_fail_broken(conn, text, &why);
    end(conn, true);
    answered(conn, &why);
}

static void tell_row(simba__my_conn *conn)
{
    simba__sql_cell cells[CELLS_MAX];
    const unsigned count = mysql_num_fields(conn->result);
    const unsigned long *lengths = mysql_fetch_lengths(conn->result);
    for (unsigned i = 0; i < count; i++)
        cells[i] = (simba__sql_cell){conn->row[i], lengths[i]};
    simba__sql_took_row(conn->owner, conn->results, cells, count);
}

/* A call is over: what follows. False: nothing does. */
static bool take_result(simba__my_conn *conn, simba__my_call *ret_next)
{
    const bool fetched = conn->call == SIMBA__MY_FETCH;
    if (fetched && conn->row) {
        tell_row(conn);
        *ret_next = SIMBA__MY_FETCH;
        return true;
    }
    if (fetched ? mysql_errno(conn->mysql) != 0 : conn->rc != 0) {
        mysql_free_result(conn->result);
        conn->result = NULL;
        fail(conn);
        return false;
    }
    if (fetched) {
        mysql_free_result(conn->result);
        conn->result = NULL;
        conn->results++;
    } else if (mysql_field_count(conn->mysql) > CELLS_MAX) {
        fail_broken(conn, "the answer has another number of columns than was asked for");
        return false;
    } else if (mysql_field_count(conn->mysql) > 0) {
        conn->result = mysql_use_result(conn->mysql);
        if (!conn->result) {
            fail(conn);
            return false;
        }
        *ret_next = SIMBA__MY_FETCH;
        return true;
    }
    if (!mysql_more_results(conn->mysql)) {
        answered(conn, NULL);
        return false;
    }
    *ret_next = SIMBA__MY_NEXT;
    return true;
}

/* True: the call must wait. False: it is over. */
static bool await(simba__my_conn *conn, int wanted)
{
    conn->wanted = wanted;
    if (wanted == 0)
        return false;
    const unsigned interest = (wanted & MYSQL_WAIT_WRITE ? SIMBA_WRITABLE : 0) |
                              (wanted & (MYSQL_WAIT_READ | MYSQL_WAIT_EXCEPT) ? SIMBA_READABLE : 0);
    set_timer(conn, conn->options->timeout_ms * SIMBA__NS_PER_MS);
    if (!watch(conn, interest))
        fail_broken(conn, "out of memory");
    return true;
}

/* A call is over. One after another follows, until one must wait, or until others shall have their turn. */
static void go_on(simba__my_conn *conn)
{
    simba__my_sigpipe sigpipe;
    simba__my_call next;
    for (int calls = 0; calls < CALLS_AT_ONCE; calls++) {
        if (!take_result(conn, &next))
            return;
        block_sigpipe(conn, &sigpipe);
        const int wanted = start_call(conn, next);
        restore_sigpipe(conn, &sigpipe);
        if (await(conn, wanted))
            return;
    }
    conn->must_go_on = true;
    set_timer(conn, 0);
}

static void ask(void *any, const simba__sql_ask *what)
{
    simba__my_conn *conn = any;
    simba__my_sigpipe sigpipe;
    conn->text.length = 0;
    conn->text.failed = false;
    conn->results = 0;
    conn->call = SIMBA__MY_QUERY;
    simba__sql_put_ask(&conn->text, &conn->words, what);
    if (!conn->text.failed) {
        block_sigpipe(conn, &sigpipe);
        const int wanted = start_call(conn, SIMBA__MY_QUERY);
        restore_sigpipe(conn, &sigpipe);
        if (await(conn, wanted))
            return;
    }
    conn->must_go_on = true; /* it has failed: not before this returns */
    set_timer(conn, 0);
}

static void on_ready(simba_io *io, unsigned events)
{
    simba__my_conn *conn = SIMBA__OF_NODE(io, simba__my_conn, io);
    simba__sql_failure why;
    simba__my_sigpipe sigpipe;
    if (conn->call == SIMBA__MY_NO_CALL) { /* the server has ended it, or says what it was not asked */
        (void)simba__my_fail(conn, CR_SERVER_LOST, "the connection is lost", &why);
        end(conn, true);
        simba__sql_lost(conn->owner, &why);
        return;
    }
    const int happened =
        (events & SIMBA_READABLE ? MYSQL_WAIT_READ : 0) | (events & SIMBA_WRITABLE ? MYSQL_WAIT_WRITE : 0);
    if (conn->must_go_on)
        return;
    block_sigpipe(conn, &sigpipe);
    const int wanted = continue_call(conn, happened ? happened : conn->wanted & ~MYSQL_WAIT_TIMEOUT);
    restore_sigpipe(conn, &sigpipe);
    if (!await(conn, wanted))
        go_on(conn);
}

static void on_timer(simba_timer *timer, simba_local now)
{
    simba__my_conn *conn = SIMBA__OF_NODE(timer, simba__my_conn, timer);
    simba__sql_failure why;
    if (conn->is_connecting) { /* a TLS handshake waits inside of the library, and must be interrupted */
        const int64_t at_ns = atomic_load(&conn->interrupt_at_ns);
        if (at_ns != 0 && now.ns >= at_ns)
            simba__my_interrupt(conn);
        else
            set_timer(conn, at_ns ? at_ns - now.ns : conn->options->connect_timeout_ms * SIMBA__NS_PER_MS);
        return;
    }
    if (conn->must_go_on && conn->text.failed) {
        conn->must_go_on = false;
        (void)simba__sql_fail(&why, SIMBA__SQL_TELL, SIMBA_ENOMEM, "mysql: out of memory");
        answered(conn, &why);
        return;
    }
    if (conn->must_go_on) {
        conn->must_go_on = false;
        go_on(conn);
        return;
    }
    (void)simba__sql_fail(&why, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE, "mysql %s: no answer within %u ms",
                          conn->options->where, conn->options->timeout_ms);
    end(conn, true);
    answered(conn, &why);
}

/* --- the dialect --------------------------------------------------------------------------------------------------- */

/* In hexadecimal digits nothing depends on the modes of the server. */
static void put_bytes(simba__buffer *out, const void *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    simba__buffer_put(out, "x'", 2);
    for (size_t i = 0; i < size; i++) {
        const char pair[2] = {digits[from[i] >> 4], digits[from[i] & 15]};
        simba__buffer_put(out, pair, 2);
    }
    simba__buffer_put(out, "'", 1);
}

static void put_text(simba__buffer *out, const char *text)
{
    simba__buffer_put(out, "_utf8mb4 ", 9);
    put_bytes(out, text, strlen(text));
}

/* The time, whatever the time zone of the session, and past 2038 as well. */
#define NOW "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) div 1000"

int simba__my_conn_init(simba__my_conn *conn, simba_host *host, const simba__my_options *options,
                        simba__sql_connection *owner)
{
    *conn = (simba__my_conn){.host = host,
                             .options = options,
                             .owner = owner,
                             .fd = -1,
                             .job = {.run = run, .done = done},
                             .io = {.ready = on_ready},
                             .timer = {.fire = on_timer}};
    snprintf(conn->table, sizeof conn->table, "`%s`", options->table);
    conn->words = (simba__sql_words){.table = conn->table,
                                     .now = NOW,
                                     .note = ", hex(note), note_written_at",
                                     .begin = "start transaction",
                                     .last = "select " NOW,
                                     .write = "",
                                     .write_waiters = "",
                                     .on_conflict = " on duplicate key update ",
                                     .new_begin = "values(",
                                     .new_end = ")",
                                     .keep = " on duplicate key update version = version",
                                     .put_text = put_text,
                                     .put_bytes = put_bytes};
    pthread_mutex_init(&conn->lock, NULL);
    return host->timer_add(host, &conn->timer);
}

void simba__my_conn_fini(simba__my_conn *conn)
{
    SIMBA__ASSERT(!conn->mysql);
    simba__buffer_free(&conn->text);
    pthread_mutex_destroy(&conn->lock);
}

const simba__sql_dialect simba__my_dialect = {
    .open = open_conn,
    .ask = ask,
    .close = close_conn,
    .look = simba__my_look,
    .learn = simba__my_learn,
    .check = simba__my_check,
    .examine = simba__my_examine,
};
