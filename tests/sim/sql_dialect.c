/* The process's end of the model of an SQL server: two event-driven dialects of src/backends/sql, one of a server whose rows we
 * change, and one of a server that decides. A connection opens a wire, and
 * sends every step as one message. As with a real client library, a connection that was lost while it was idle is found out
 * by the next statement; one that does not answer is given up after a while; and after a failure to connect the next attempt
 * has to wait. */
#include <stdlib.h>
#include <string.h>

#include "backends/sql/store.h"
#include "sim/sql_model.h"
#include "util/clock.h"

#define CONNECT_TIMEOUT_NS (2 * SIM_S) /* as of the MySQL store */
#define ANSWER_TIMEOUT_NS (4 * SIM_S)  /* likewise */
#define FIRST_PAUSE_NS (20 * SIM_MS)
#define LONGEST_PAUSE_NS (500 * SIM_MS)

typedef enum conn_state {
    SHUT,
    OPENING,
    OPEN,
    LOST, /* and nobody has closed it */
} conn_state;

typedef struct conn {
    simba_host *host;
    sim *s;
    unsigned process;
    conn_state state;
    unsigned wire; /* 0: none */
    simba__sql_lane *lane;
    simba__sql_step *step; /* under way; NULL: none is */
    simba__sql_table *table;
    simba_timer patience;
    simba_local open_by, not_before;
    unsigned failures;
    sql_listener *listener; /* NULL: the server does not notify */
    bool tests;             /* the process waits for the answer to the test of its listener */
} conn;

typedef struct store {
    simba__sql_store sql; /* first: the functions of the table are its own */
    conn conns[SIMBA__SQL_LANES_MAX];
    sql_listener listener; /* PostgreSQL */
} store;

static simba_local in(const conn *self, int64_t ns)
{
    return (simba_local){self->host->now(self->host).ns + ns};
}

static void end_wire(conn *self)
{
    if (self->wire && !client_is_muted(self->s, self->process)) /* a dead process has closed its wires */
        wire_close(self->s, self->wire);
    self->wire = 0;
}

static void finish(conn *self, int rc, const simba__sql_failure *why)
{
    self->step = NULL;
    self->tests = false;
    self->host->timer_clear(self->host, &self->patience);
    simba__sql_carried_out(self->lane, rc, why);
}

static void fail(conn *self, simba__sql_remedy remedy, int code)
{
    simba__sql_failure why;
    (void)simba__sql_fail(&why, remedy, code, "sim: it failed");
    finish(self, code, &why);
}

/* The server may have lost its queue. */
static void doubt_queue(const conn *self)
{
    if (self->listener)
        simba__sql_listening_lost(&self->listener->listening);
}

/* The attempt to connect is over, in vain. */
static void fail_to_open(conn *self)
{
    const int64_t pause_ns = FIRST_PAUSE_NS << (self->failures < 5 ? self->failures : 5);
    end_wire(self);
    self->state = SHUT;
    doubt_queue(self);
    self->failures++;
    self->not_before = in(self, pause_ns < LONGEST_PAUSE_NS ? pause_ns : LONGEST_PAUSE_NS);
    fail(self, SIMBA__SQL_RECONNECT, SIMBA_EUNAVAILABLE);
}

/* The connection is of no use any more, and so are the answers that it owes. */
static void lose(conn *self, simba__sql_remedy remedy)
{
    if (self->state == OPENING) {
        fail_to_open(self);
        return;
    }
    end_wire(self);
    self->state = LOST;
    doubt_queue(self);
    if (self->step)
        fail(self, remedy, SIMBA_EUNAVAILABLE);
}

static void on_impatient(simba_timer *timer, simba_local now)
{
    (void)now;
    lose(SIMBA__OF_NODE(timer, conn, patience), SIMBA__SQL_LOST);
}

/* --- the wire --------------------------------------------------------------------------------------------- */

static sql_ask copy_ask(const simba__sql_item *item)
{
    sql_ask ask = {.request = item->ask, .floor = item->floor, .held_here = item->held_here};
    if (item->ask.id)
        strcpy(ask.id, item->ask.id);
    if (item->ask.note_size > 0)
        memcpy(ask.note, item->ask.note, item->ask.note_size);
    return ask;
}

/* The batch keeps a silent connection until its requests run out of time. Renewals soon do, and take it away from reads. */
static bool is_stubborn(const simba__sql_lane *lane)
{
    for (size_t i = 0; i < lane->batch.count; i++)
        if (lane->batch.items[i].ask.op != SIMBA_OP_RENEW)
            return !lane->reads;
    return false;
}

/* If it is the only one, nothing helps those who renew. See docs/safety.md. */
static void excuse_silence(const conn *self)
{
    sim *s = self->s;
    if (sql_state_of(s)->lanes == 1 && wire_is_silent(s, self->wire) && is_stubborn(self->lane))
        check_trouble(s, self->process, s->now, s->now + s->timing.op_timeout_ns);
}

static void send_step(conn *self, const simba__sql_step *step)
{
    sql_call call = {.action = step->action,
                     .count = (unsigned)step->count,
                     .channel = self->listener ? sql_listener_channel(self->listener) : 0};
    for (size_t i = 0; i < step->count; i++) {
        call.row[i] = *step->rows[i];
        strcpy(call.mutex[i], step->rows[i]->mutex);
        if (step->action == SIMBA__SQL_DECIDE)
            call.ask[i] = copy_ask(step->rows[i]->item);
    }
    if (step->item && step->item->ask.id)
        call.ask[0] = copy_ask(step->item);
    if (step->item && step->action == SIMBA__SQL_READ_NOTE)
        strcpy(call.mutex[0], step->item->ask.mutex);
    wire_send(self->s, self->wire, (const char *)&call, sizeof call);
    excuse_silence(self);
}

static void on_connected(void *user, bool refused)
{
    conn *self = user;
    if (refused) {
        self->wire = 0;
        fail_to_open(self);
    } else {
        send_step(self, &(simba__sql_step){.action = SIMBA__SQL_READY});
    }
}

/* Copy the rows that were read into the step. */
static void fill_in(simba__sql_step *step, const sql_answer *answer)
{
    step->matched = answer->matched;
    step->token = answer->token;
    if (step->action == SIMBA__SQL_READ_NOTE && answer->stored.mutex[0]) {
        simba__sql_columns columns = model_sql_columns(&(model_sql){.now_ms = answer->now_ms}, &answer->stored);
        if (simba__sql_item_note(step->item, &columns) < 0)
            abort();
    }
    const bool reads = step->action != SIMBA__SQL_MAKE && step->action != SIMBA__SQL_PUT;
    for (size_t i = 0; i < step->count && reads; i++) {
        const char *mutex = step->rows[i]->mutex;
        simba__sql_item *item = step->rows[i]->item;
        *step->rows[i] = answer->row[i];
        step->rows[i]->mutex = mutex;
        step->rows[i]->item = item;
    }
}

/* After a GET the connection that listens is tested, if need be. */
static bool is_to_test(const conn *self)
{
    return self->listener && !self->tests && self->step->action == SIMBA__SQL_GET &&
           self->listener->listening.hearing == SIMBA__SQL_LISTENS;
}

static void send_test(conn *self)
{
    const sql_call call = {.verb = SQL_NOTIFY, .channel = self->listener->channel};
    self->tests = true;
    wire_send(self->s, self->wire, (const char *)&call, sizeof call);
}

static void finish_well(conn *self)
{
    const simba__sql_action action = self->step->action;
    if (self->listener && (action == SIMBA__SQL_READY || action == SIMBA__SQL_READY_BARE))
        sql_listener_wake(self->listener);
    finish(self, 0, NULL);
}

static void on_bytes(void *user, const char *data, size_t length)
{
    conn *self = user;
    sql_answer answer;
    (void)length;
    memcpy(&answer, data, sizeof answer);
    if (self->state == OPENING) {
        self->state = OPEN;
        self->failures = 0;
        *self->table = answer.table;
        if (self->listener)
            simba__sql_listening_doubt(&self->listener->listening);
    } else if (self->tests) {
        simba__sql_listening_tested(&self->listener->listening);
    } else if (answer.code == 0) {
        fill_in(self->step, &answer);
    }
    if (answer.code < 0)
        fail(self, answer.remedy, answer.code);
    else if (is_to_test(self))
        send_test(self);
    else
        finish_well(self);
}

static void on_lost(void *user)
{
    conn *self = user;
    self->wire = 0;
    lose(self, SIMBA__SQL_LOST);
}

/* --- the dialect ------------------------------------------------------------------------------------------ */

static void get_ready(conn *self)
{
    static const sim_wire_events events = {on_connected, on_bytes, on_lost};
    if (self->state != SHUT) {
        finish_well(self); /* lost or not: the next statement finds out */
    } else if (self->failures > 0 && self->host->now(self->host).ns < self->not_before.ns) {
        fail(self, SIMBA__SQL_RECONNECT, SIMBA_EUNAVAILABLE);
    } else {
        self->state = OPENING;
        self->open_by = in(self, CONNECT_TIMEOUT_NS);
        self->host->timer_set(self->host, &self->patience, self->open_by);
        self->wire = wire_connect(self->s, self->process, 0, &events, self);
    }
}

static void start(void *instance, simba__sql_lane *lane, simba__sql_step *step, simba__sql_table *table)
{
    conn *self = instance;
    self->lane = lane;
    self->step = step;
    self->table = table;
    if (step->action == SIMBA__SQL_READY || step->action == SIMBA__SQL_READY_BARE) {
        get_ready(self);
    } else if (step->action == SIMBA__SQL_CLOSE) {
        end_wire(self);
        self->state = SHUT;
        doubt_queue(self);
        finish(self, 0, NULL);
    } else if (self->state == LOST) {
        fail(self, SIMBA__SQL_LOST, SIMBA_EUNAVAILABLE);
    } else {
        self->host->timer_set(self->host, &self->patience, in(self, ANSWER_TIMEOUT_NS));
        send_step(self, step);
    }
}

static void interrupt(void *instance)
{
    lose(instance, SIMBA__SQL_RECONNECT);
}

static bool cut(void *instance, simba_local now)
{
    conn *self = instance;
    if (self->state == OPENING && now.ns < self->open_by.ns)
        return false;
    interrupt(self);
    return true;
}

static const simba__sql_dialect dialect = {.start = start, .interrupt = interrupt, .cut = cut};
static const simba__sql_dialect deciding = {.decides = true, .start = start, .interrupt = interrupt, .cut = cut};

/* --- the store -------------------------------------------------------------------------------------------- */

static int init_lanes(store *self, simba_host *host, const simba__sql_dialect *by, simba_error *err)
{
    void *conns[SIMBA__SQL_LANES_MAX];
    unsigned process = 0;
    sim *s = client_running(&process);
    for (unsigned i = 0; i < sql_state_of(s)->lanes; i++) {
        self->conns[i] = (conn){.host = host, .s = s, .process = process, .patience = {.fire = on_impatient}};
        self->conns[i].listener = by->decides ? &self->listener : NULL;
        conns[i] = &self->conns[i];
        if (host->timer_add(host, &self->conns[i].patience) < 0)
            return SIMBA_ENOMEM;
    }
    const simba__sql_place place = {"sim", "server", "simba_mutex"};
    if (by->decides && sql_listener_init(&self->listener, s, process, &self->sql, host) < 0)
        return SIMBA_ENOMEM;
    return simba__sql_init(&self->sql, host, by, place, conns, sql_state_of(s)->lanes, err);
}

static int init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    (void)url;
    return init_lanes(instance, host, &dialect, err);
}

static int init_deciding(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    (void)url;
    return init_lanes(instance, host, &deciding, err);
}

static void close_deciding(void *instance)
{
    store *self = instance;
    sql_listener_close(&self->listener);
    simba__sql_close(instance);
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
    .submit = simba__sql_submit,
    .expire = simba__sql_expire,
    .flush = simba__sql_flush,
    .watch = simba__sql_watch,
    .unwatch = simba__sql_unwatch,
    .woken = simba__sql_flush,
    .close = simba__sql_close,
    .fini = fini,
};

const simba_backend sim_postgresql_backend = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .instance_size = sizeof(store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_QUEUE | SIMBA_CAP_NOTE,
    .window = SIMBA__SQL_WINDOW,
    .init = init_deciding,
    .submit = simba__sql_submit,
    .expire = simba__sql_expire,
    .flush = simba__sql_flush,
    .watch = simba__sql_watch,
    .unwatch = simba__sql_unwatch,
    .woken = simba__sql_flush,
    .close = close_deciding,
    .fini = fini,
};
