/* The process's end of the model of an SQL server: a dialect of src/stores/sql, with waiters and without. A connection opens a wire and
 * sends each ask as one message. As with a real client library, a connection that does not answer is given up after a while. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sql_model.h"
#include "util/clock.h"
#include "util/table.h"

#define CONNECT_TIMEOUT_NS (2 * SIM_S) /* as of the MySQL store */
#define ANSWER_TIMEOUT_NS (4 * SIM_S)  /* likewise */

typedef struct conn {
    simba__sql_connection *session;
    simba_host *host;
    sim *s;
    unsigned process;
    unsigned wire; /* 0: none */
    bool is_opening, is_asked, is_exact;
    simba__sql_kind kind; /* of the ask */
    bool has_waiters;     /* the answer to it */
    simba_timer timeout;
} conn;

typedef struct store {
    simba__sql_store sql; /* first: the functions of the table are its own */
    conn writer, reader;
} store;

static void end_wire(conn *self)
{
    if (self->wire && !client_is_muted(self->s, self->process)) /* a dead process has closed its wires */
        wire_close(self->s, self->wire);
    self->wire = 0;
    self->is_opening = self->is_asked = false;
    self->host->timer_clear(self->host, &self->timeout);
}

static void set_timeout(conn *self, int64_t ns)
{
    self->host->timer_set(self->host, &self->timeout, (simba_local){self->host->now(self->host).ns + ns});
}

static void lose(conn *self, simba__sql_effect effect)
{
    const bool was_asked = self->is_asked;
    simba__sql_failure why;
    (void)simba__sql_fail(&why, effect, SIMBA_EUNAVAILABLE, "sim: the connection is lost");
    end_wire(self);
    if (was_asked)
        simba__sql_answered(self->session, &why);
    else
        simba__sql_lost(self->session, &why);
}

static void on_timeout(simba_timer *timer, simba_local now)
{
    lose(SIMBA__OF_NODE(timer, conn, timeout), SIMBA__SQL_LOST);
}

/* --- asks ------------------------------------------------------------------------------------------------- */

static void copy_row(const simba__sql_row *from, sql_call *call)
{
    const unsigned n = call->rows++;
    sql_row *row = &call->row[n];
    strcpy(row->mutex, from->mutex);
    strcpy(row->owner_id, from->row.owner.id);
    row->acquired_at = from->row.owner.acquired_at_ms;
    row->ttl_at = from->row.owner.ttl_at_ms;
    row->transition_at = from->row.owner.transition_at_ms;
    row->version = from->version;
    row->nonce = from->row.nonce;
    row->nonce_version = from->nonce_version;
    row->revoked_version = from->row.revoked_token;
    row->forgotten_version = from->forgotten_version;
    call->has_lease[n] = from->is_put;
    call->is_forgotten[n] = from->is_forgotten_now;
    call->has_note[n] = from->note != NULL;
    if (!from->note)
        return;
    row->note_token = from->row.note_token;
    row->note_number = from->row.note_number;
    row->note_written_at = from->row.note_written_at_ms;
    row->note_size = from->note->note_size;
    memcpy(row->note, from->note->note, row->note_size);
}

static void copy_batch(const simba__sql_batch *batch, sql_call *call)
{
    for (size_t i = 0; i < batch->row_count; i++)
        if (batch->rows[i].presence == SIMBA__SQL_LOCKED)
            copy_row(&batch->rows[i], call);
    for (size_t i = 0; i < batch->waiter_count; i++) {
        const simba__sql_waiter *from = &batch->waiters[i];
        if ((!from->is_changed && !from->is_gone) || call->waiters == SQL_WAITERS)
            continue;
        sql_waiter *waiter = &call->waiter[call->waiters++];
        *waiter = (sql_waiter){.nonce = from->nonce,
                               .since = from->since,
                               .until = from->until,
                               .invited = from->invited,
                               .is_gone = from->is_gone};
        strcpy(waiter->mutex, batch->rows[from->row].mutex);
        strcpy(waiter->channel, from->channel);
    }
    for (size_t i = 0; i < batch->notice_count && i < SQL_NOTICES; i++, call->notices++) {
        strcpy(call->notice[i].channel, batch->notices[i].channel);
        snprintf(call->notice[i].payload, sizeof call->notice[i].payload, "%c %s", batch->notices[i].kind,
                 batch->notices[i].mutex);
    }
}

static void ask(void *any, const simba__sql_ask *what)
{
    conn *self = any;
    sql_call call = {.verb = SQL_ASK, .kind = what->kind};
    for (size_t i = 0; i < what->count; i++) {
        bool is_twice = false; /* a READ and a poll may want the same row */
        for (unsigned k = 0; k < call.names; k++)
            is_twice |= strcmp(call.name[k], what->names[i]) == 0;
        if (!is_twice)
            strcpy(call.name[call.names++], what->names[i]);
    }
    for (size_t i = 0; i < what->waited_count; i++)
        strcpy(call.waited_name[call.waited++], what->waited[i]);
    if (what->batch)
        copy_batch(what->batch, &call);
    if (what->kind == SIMBA__SQL_LISTEN || what->kind == SIMBA__SQL_NOTIFY)
        strcpy(call.channel, what->text);
    self->is_asked = true;
    self->kind = what->kind;
    self->has_waiters = what->waited_count > 0;
    set_timeout(self, ANSWER_TIMEOUT_NS);
    wire_send(self->s, self->wire, (const char *)&call, sizeof call);
}

/* --- answers ------------------------------------------------------------------------------------------------ */

enum { CELL = 80 };

typedef struct printed {
    char text[SIMBA__SQL_COLUMNS][CELL];
    simba__sql_cell cell[SIMBA__SQL_COLUMNS];
} printed;

static void print(printed *out, int column, const char *text)
{
    snprintf(out->text[column], CELL, "%s", text);
    out->cell[column] = (simba__sql_cell){out->text[column], strlen(out->text[column])};
}

static void print_number(printed *out, int column, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    print(out, column, text);
}

/* A row of the table, as the cells of a result. */
static void tell_row(conn *self, const sql_row *row, int64_t now_ms)
{
    printed out = {0};
    print(&out, SIMBA__SQL_MUTEX, row->mutex);
    print_number(&out, SIMBA__SQL_ACQUIRED_AT, (uint64_t)row->acquired_at);
    print_number(&out, SIMBA__SQL_TTL_AT, (uint64_t)row->ttl_at);
    print_number(&out, SIMBA__SQL_TRANSITION_AT, (uint64_t)row->transition_at);
    print(&out, SIMBA__SQL_OWNER_ID, row->owner_id);
    print_number(&out, SIMBA__SQL_VERSION, row->version);
    if (row->nonce_version) {
        print_number(&out, SIMBA__SQL_NONCE, row->nonce);
        print_number(&out, SIMBA__SQL_NONCE_VERSION, row->nonce_version);
    }
    print_number(&out, SIMBA__SQL_REVOKED_VERSION, row->revoked_version);
    print_number(&out, SIMBA__SQL_NOTE_TOKEN, row->note_token);
    print_number(&out, SIMBA__SQL_NOTE_NUMBER, row->note_number);
    if (row->forgotten_version)
        print_number(&out, SIMBA__SQL_FORGOTTEN_VERSION, row->forgotten_version);
    print_number(&out, SIMBA__SQL_NOW, (uint64_t)now_ms);
    char hex[2 * SIM_NOTE_SIZE + 1] = "";
    for (size_t i = 0; i < row->note_size; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)row->note[i]);
    if (row->note_size > 0)
        print(&out, SIMBA__SQL_NOTE, hex);
    print_number(&out, SIMBA__SQL_NOTE_WRITTEN_AT, (uint64_t)row->note_written_at);
    const unsigned count = self->kind == SIMBA__SQL_LOCK ? SIMBA__SQL_LOCK_COLUMNS
                           : self->kind == SIMBA__SQL_READ_NOTE || self->kind == SIMBA__SQL_LIST
                               ? SIMBA__SQL_COLUMNS
                               : SIMBA__SQL_READ_COLUMNS;
    simba__sql_took_row(self->session, 0, out.cell, count);
}

static void tell_waiter(conn *self, const sql_waiter *waiter)
{
    printed out = {0};
    print(&out, 0, waiter->mutex);
    print_number(&out, 1, waiter->nonce);
    print(&out, 2, waiter->channel);
    print_number(&out, 3, (uint64_t)waiter->since);
    print_number(&out, 4, (uint64_t)waiter->until);
    print_number(&out, 5, (uint64_t)waiter->invited);
    simba__sql_took_row(self->session, 1, out.cell, 6);
}

static void answered(conn *self, const sql_answer *answer)
{
    simba__sql_failure why;
    if (answer->code < 0) {
        (void)simba__sql_fail(&why, answer->effect, answer->code, "sim: it failed");
        if (answer->effect == SIMBA__SQL_LOST || answer->effect == SIMBA__SQL_AWAY)
            end_wire(self);
        self->is_asked = false;
        simba__sql_answered(self->session, &why);
        return;
    }
    for (unsigned i = 0; i < answer->rows; i++)
        tell_row(self, &answer->row[i], answer->now_ms);
    for (unsigned i = 0; i < answer->waiters; i++)
        tell_waiter(self, &answer->waiter[i]);
    if (self->kind == SIMBA__SQL_LOCK) {
        printed out = {0};
        print_number(&out, 0, (uint64_t)answer->now_ms);
        simba__sql_took_row(self->session, 1U + self->has_waiters, out.cell, 1);
    }
    self->is_asked = false;
    self->host->timer_clear(self->host, &self->timeout);
    simba__sql_answered(self->session, NULL);
}

static void on_bytes(void *user, const char *data, size_t length)
{
    conn *self = user;
    sql_answer answer;
    memcpy(&answer, data, sizeof answer);
    if (answer.payload[0]) {
        simba__sql_notified(self->session, answer.payload);
    } else if (self->is_opening) {
        self->is_opening = false;
        self->is_exact = answer.is_exact;
        self->host->timer_clear(self->host, &self->timeout);
        simba__sql_opened(self->session);
    } else if (self->is_asked) {
        answered(self, &answer);
    }
}

static void on_connected(void *user, bool refused)
{
    conn *self = user;
    const sql_call call = {.verb = SQL_READY};
    if (refused) {
        self->wire = 0;
        lose(self, SIMBA__SQL_AWAY);
        return;
    }
    wire_send(self->s, self->wire, (const char *)&call, sizeof call);
}

static void on_lost(void *user)
{
    conn *self = user;
    self->wire = 0;
    lose(self, SIMBA__SQL_LOST);
}

/* --- the dialect ------------------------------------------------------------------------------------------ */

static void open_conn(void *any)
{
    static const sim_wire_events events = {on_connected, on_bytes, on_lost};
    conn *self = any;
    self->is_opening = true;
    set_timeout(self, CONNECT_TIMEOUT_NS);
    self->wire = wire_connect(self->s, self->process, 0, &events, self);
}

static bool close_conn(void *any, bool abrupt)
{
    end_wire(any);
    return true;
}

static const char *look(void *any, simba__sql_purpose purpose, bool begins, simba__sql_failure *why)
{
    return NULL;
}

static void learn(void *any, const simba__sql_cell *cells, unsigned count)
{
}

static int check(void *any, simba__sql_table *ret_table, simba__sql_failure *why)
{
    const conn *self = any;
    *ret_table = (simba__sql_table){.mutex_chars = 12,
                                    .id_chars = 12,
                                    .is_exact = self->is_exact,
                                    .make_exact = "make it exact",
                                    .version_max = UINT32_MAX,
                                    .rows_max = SIMBA__SQL_ROWS_MAX};
    return 0;
}

static const simba__sql_dialect polled = {
    .open = open_conn, .ask = ask, .close = close_conn, .look = look, .learn = learn, .check = check};
static const simba__sql_dialect queued = {.has_waiters = true,
                                          .open = open_conn,
                                          .ask = ask,
                                          .close = close_conn,
                                          .look = look,
                                          .learn = learn,
                                          .check = check};

/* --- the store -------------------------------------------------------------------------------------------- */

static int init_by(store *self, simba_host *host, const simba__sql_dialect *by, simba_error *err)
{
    conn *const conns[] = {&self->writer, &self->reader};
    simba__sql_connection *const sessions[] = {&self->sql.writer, &self->sql.reader};
    unsigned process = 0;
    sim *s = client_running(&process);
    for (size_t i = 0; i < 2; i++) {
        *conns[i] =
            (conn){.session = sessions[i], .host = host, .s = s, .process = process, .timeout = {.fire = on_timeout}};
        if (host->timer_add(host, &conns[i]->timeout) < 0)
            return SIMBA_ENOMEM;
    }
    const simba__sql_place place = {"sim", "server", "simba_mutex"};
    return simba__sql_init(&self->sql, host, by, place, &self->writer, &self->reader, err);
}

static int init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    return init_by(instance, host, &polled, err);
}

static int init_queued(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    return init_by(instance, host, &queued, err);
}

static void fini(void *instance)
{
    simba__sql_fini(instance);
}

static const char *const schemes[] = {"sim", NULL};

const simba_backend sim_sql_backend = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .instance_size = sizeof(store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_NOTE,
    .window = SIMBA__SQL_WINDOW,
    .init = init,
    SIMBA__SQL_FUNCTIONS,
    .fini = fini,
};

const simba_backend sim_postgresql_backend = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .instance_size = sizeof(store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_QUEUE | SIMBA_CAP_NOTE,
    .window = SIMBA__SQL_WINDOW,
    .init = init_queued,
    SIMBA__SQL_FUNCTIONS,
    .fini = fini,
};
