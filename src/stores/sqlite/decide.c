/* One batch: reads in a transaction, then everything else in a transaction that excludes all others from its beginning.
 * core/row.h says who may have a mutex; this file adds who waits for it, and whom a change concerns. */
#include <string.h>

#include "stores/sqlite/store.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/saturate.h"

#define RESERVE_NS (100 * SIMBA__NS_PER_MS) /* a free mutex waits so long for the contender that was called */
#define ORPHAN_NS                                                                                                      \
    (30000 * SIMBA__NS_PER_MS) /* a contender asks anew within this time after the lease that it was told of */

#define NUMBER SIMBA__SQLITE_NUMBER
#define TEXT SIMBA__SQLITE_TEXT

typedef simba__sqlite_batch batch;
typedef simba__sqlite_lock lock;

/* --- rows of simba_waiter ----------------------------------------------------------------------------- */

/* The process of this socket has ended. */
static int bury(batch *b, const char *socket, simba_error *err)
{
    const int rc = simba__sqlite_run(&b->db, err, BURY, TEXT(socket));
    if (rc == 0)
        simba__sqlite_wake_remove(&b->wake, socket);
    return rc;
}

/* "" if it cannot be one. A value that is no text would not be found again by its name. */
static void read_name(sqlite3_stmt *statement, int column, char ret_name[SIMBA__SQLITE_NAME_SIZE])
{
    const bool is_text = sqlite3_column_type(statement, column) == SQLITE_TEXT;
    const char *text = is_text ? (const char *)sqlite3_column_text(statement, column) : NULL;
    const size_t length = (size_t)sqlite3_column_bytes(statement, column);
    memset(ret_name, 0, SIMBA__SQLITE_NAME_SIZE);
    if (text && length < SIMBA__SQLITE_NAME_SIZE && strlen(text) == length)
        memcpy(ret_name, text, length + 1);
}

/* Notify that client after the commit. If there is no memory to remember it, the client looks by itself within a second. */
static void notify_later(batch *b, const char *socket)
{
    for (size_t i = 0; i < b->notify_count; i++)
        if (strcmp(b->notify[i], socket) == 0)
            return;
    if (b->notify_count == b->notify_capacity) {
        const size_t capacity = b->notify_capacity ? 2 * b->notify_capacity : 16;
        void *grown = simba__realloc(b->notify, capacity * sizeof *b->notify);
        if (!grown)
            return;
        b->notify = grown;
        b->notify_capacity = capacity;
    }
    memcpy(b->notify[b->notify_count++], socket, sizeof *b->notify);
}

/* The mutex has changed: call all that observe it. If it is `freed`, call the first contender in the queue that lives, and reserve
 * the mutex for it. 1: there were rows. */
static int call_queue(batch *b, const char *mutex, lock *freed, simba_error *err)
{
    sqlite3_stmt *queue = b->db.statements[SIMBA__SQLITE_QUEUE];
    bool observed = false;
    int code = 0;
    int rc = simba__sqlite_run(&b->db, err, QUEUE, TEXT(mutex));
    const bool any = rc > 0;
    if (freed) {
        freed->next_nonce = 0;
        freed->next_until_ns = 0;
    }
    for (; rc > 0; rc = code < 0 ? code : simba__sqlite_db_step(&b->db, SIMBA__SQLITE_QUEUE, err)) {
        char socket[SIMBA__SQLITE_NAME_SIZE];
        const char *what = (const char *)sqlite3_column_text(queue, 0);
        const uint64_t nonce = (uint64_t)sqlite3_column_int64(queue, 1);
        read_name(queue, 2, socket);
        if (what && *what == 'o') {
            observed = true;
            notify_later(b, socket);
            continue;
        }
        if (!freed)
            break; /* observers come first */
        const simba__sqlite_life life = simba__sqlite_wake_probe(&b->wake, socket);
        if (sqlite3_column_int64(queue, 3) <= b->now.ns) {
            code = simba__sqlite_run(&b->db, err, LEAVE, NUMBER(nonce));
        } else if (life == SIMBA__SQLITE_DEAD) {
            code = bury(b, socket, err);
        } else if (life == SIMBA__SQLITE_ALIVE && what && *what == 'w') {
            freed->next_nonce = nonce;
            freed->next_until_ns = b->now.ns + RESERVE_NS;
            notify_later(b, socket);
            code = simba__sqlite_run(&b->db, err, CALL, NUMBER(nonce), NUMBER(b->now.ns));
            break;
        }
    }
    sqlite3_reset(queue);
    if (code == 0 && rc >= 0 && observed)
        code = simba__sqlite_run(&b->db, err, CALL_OBSERVERS, TEXT(mutex), NUMBER(b->now.ns));
    return rc < 0 ? rc : code < 0 ? code : any;
}

typedef struct waiter {
    const char *what;
    const char *mutex, *id, *socket;
    uint64_t nonce;
    int64_t since_ns, until_ns, called_ns;
} waiter;

static int enter(batch *b, const waiter *w, simba_error *err)
{
    return simba__sqlite_run(&b->db, err, ENTER, NUMBER(w->nonce), TEXT(w->mutex), TEXT(w->what), NUMBER(w->since_ns),
                             TEXT(w->id), TEXT(w->socket), NUMBER(w->until_ns), NUMBER(w->called_ns));
}

/* The contender waits. It keeps the place that it has. Nobody whose process has ended stays right before it: so a waiter never
 * waits for the dead, except for those that die later. */
static int wait_in_line(batch *b, simba_request *request, const lock *l, size_t index, simba_error *err)
{
    sqlite3_stmt *place = b->db.statements[SIMBA__SQLITE_PLACE];
    const int64_t told_ns = simba__row_is_free(&l->row, b->now) ? b->now.ns : l->row.until_ns;
    const waiter self = {.what = "w",
                         .mutex = request->mutex,
                         .id = request->id,
                         .socket = b->wake.name,
                         .nonce = request->nonce,
                         .since_ns = b->now.ns + (int64_t)index,
                         .until_ns = simba__sat_add(told_ns, ORPHAN_NS)};
    b->has_rows = true;
    int rc = enter(b, &self, err);
    while (rc == 0 && (rc = simba__sqlite_run(&b->db, err, PLACE, NUMBER(request->nonce))) > 0) {
        char before[SIMBA__SQLITE_NAME_SIZE];
        request->reply.place = sqlite3_column_int64(place, 0);
        read_name(place, 1, before);
        sqlite3_reset(place);
        if (simba__sqlite_wake_probe(&b->wake, before) != SIMBA__SQLITE_DEAD)
            return 0;
        rc = bury(b, before, err);
    }
    return rc;
}

/* --- requests ----------------------------------------------------------------------------------------- */

/* A contender that was called has 100 ms to come. A time that is further away comes from no clock of this boot. */
static bool is_reserved(const batch *b, const lock *l, uint64_t nonce)
{
    const int64_t left_ns = simba__sat_sub(l->next_until_ns, b->now.ns);
    return l->next_nonce != 0 && l->next_nonce != nonce && left_ns > 0 && left_ns <= RESERVE_NS;
}

static int acquire(batch *b, simba_request *request, lock *l, size_t index, simba_error *err)
{
    const uint64_t token = l->row.token;
    const uint64_t called = l->next_nonce;
    bool mine = false;
    if (simba__row_is_free(&l->row, b->now) && is_reserved(b, l, request->nonce))
        request->reply.now_ms = b->now.epoch_us / 1000; /* nobody's: the contender asks again soon */
    else
        mine = simba__row_apply(&l->row, b->now, request);
    if (request->reply.status < 0) {
        b->db.row_failed = true;
        return simba__fail(err, request->reply.status, "sqlite: %s: no greater token is left for it", b->db.path);
    }
    if (!mine)
        return request->queue ? wait_in_line(b, request, l, index, err) : 0;
    memcpy(l->socket, b->wake.name, sizeof l->socket);
    if (l->row.token == token) /* it had this grant already */
        return simba__sqlite_store(&b->db, request->mutex, l, err);
    l->next_nonce = 0;
    l->next_until_ns = 0;
    int code = 0;
    if (called != 0 && called != request->nonce) /* it did not come */
        code = simba__sqlite_run(&b->db, err, PUT_BACK, NUMBER(called), NUMBER(b->now.ns));
    if (code == 0)
        code = call_queue(b, request->mutex, NULL, err);
    if (code > 0)
        code = simba__sqlite_run(&b->db, err, LEAVE, NUMBER(request->nonce));
    return code < 0 ? code : simba__sqlite_store(&b->db, request->mutex, l, err);
}

/* By the owner, or by a contender that waits no more, who may have been called. */
static int release(batch *b, simba_request *request, lock *l, simba_error *err)
{
    bool freed = simba__row_apply(&l->row, b->now, request);
    int code = 0;
    if (!freed) {
        code = simba__sqlite_run(&b->db, err, LEAVE, NUMBER(request->nonce));
        freed = l->exists && l->next_nonce == request->nonce && simba__row_is_free(&l->row, b->now);
    }
    if (code == 0 && freed)
        code = call_queue(b, request->mutex, l, err);
    return code < 0 || !freed ? code : simba__sqlite_store(&b->db, request->mutex, l, err);
}

/* The owner hears of it by a row of its own. */
static int force(batch *b, simba_request *request, lock *l, simba_error *err)
{
    const lock before = *l;
    if (!simba__row_apply(&l->row, b->now, request))
        return 0;
    int code = call_queue(b, request->mutex, l, err);
    if (code >= 0 && simba__sqlite_wake_probe(&b->wake, before.socket) == SIMBA__SQLITE_ALIVE) {
        const waiter owner = {.what = "r",
                              .mutex = request->mutex,
                              .id = before.row.owner.id,
                              .socket = before.socket,
                              .nonce = before.row.nonce,
                              .since_ns = b->now.ns,
                              .until_ns = simba__sat_add(before.row.until_ns, ORPHAN_NS),
                              .called_ns = b->now.ns};
        code = enter(b, &owner, err);
        notify_later(b, before.socket);
    }
    return code < 0 ? code : simba__sqlite_store(&b->db, request->mutex, l, err);
}

static int renew(batch *b, simba_request *request, lock *l, simba_error *err)
{
    if (simba__row_apply(&l->row, b->now, request)) {
        memcpy(l->socket, b->wake.name, sizeof l->socket);
        return simba__sqlite_store(&b->db, request->mutex, l, err);
    }
    return request->reply.outcome == SIMBA_REVOKED ? simba__sqlite_run(&b->db, err, LEAVE, NUMBER(request->nonce)) : 0;
}

/* WRITE_NOTE and FORGET. */
static int change_note(batch *b, simba_request *request, lock *l, simba_error *err)
{
    if (!simba__row_apply(&l->row, b->now, request))
        return 0;
    const int code = call_queue(b, request->mutex, NULL, err);
    if (code < 0)
        return code;
    return request->op == SIMBA_OP_FORGET ? simba__sqlite_forget(&b->db, request->mutex, l->row.token, err)
                                          : simba__sqlite_store_note(&b->db, request, &l->row, err);
}

static int carry_out(batch *b, simba__sqlite_item *item, simba_error *err)
{
    simba_request *request = &item->ask;
    const simba_op op = request->op;
    const bool needs_note = op == SIMBA_OP_READ_NOTE || op == SIMBA_OP_WRITE_NOTE || op == SIMBA_OP_FORGET;
    lock l;
    if (op == SIMBA_OP_LIST)
        return simba__sqlite_list(&b->db, request->mutex, b->now, &item->listed, err);
    int code = simba__sqlite_load(&b->db, request->mutex, &l, needs_note ? &item->listed : NULL, err);
    if (code == 0 && !l.exists && op == SIMBA_OP_ACQUIRE) {
        /* A mutex that was forgotten goes on with greater tokens, and with versions that nobody has seen. */
        code = simba__sqlite_floor(&b->db, &l.row.token, err);
        l.row.version = l.row.token;
    }
    if (code < 0)
        return code;
    switch (op) {
    case SIMBA_OP_ACQUIRE:
        return acquire(b, request, &l, (size_t)(item - b->items), err);
    case SIMBA_OP_RENEW:
        return renew(b, request, &l, err);
    case SIMBA_OP_RELEASE:
        return release(b, request, &l, err);
    case SIMBA_OP_FORCE_RELEASE:
        return force(b, request, &l, err);
    case SIMBA_OP_WRITE_NOTE:
    case SIMBA_OP_FORGET:
        return change_note(b, request, &l, err);
    default: /* it only reads */
        (void)simba__row_apply(&l.row, b->now, request);
        return 0;
    }
}

/* --- what a client looks for --------------------------------------------------------------------------- */

static int look(batch *b, simba_error *err)
{
    const bool overdue = b->look == SIMBA__SQLITE_LOOK_OVERDUE;
    const simba__sqlite_statement which = overdue ? SIMBA__SQLITE_LOOK_AT_ALL : SIMBA__SQLITE_LOOK;
    sqlite3_stmt *statement = b->db.statements[which];
    int64_t looked_ns = b->looked_ns;
    bool all = true;
    int rc = simba__sqlite_db_run(
        &b->db, which, (simba__sqlite_value[]){TEXT(b->wake.name), NUMBER(looked_ns), NUMBER(b->now.ns)}, err);
    if (overdue)
        b->has_rows = rc != 0;
    for (; rc > 0; rc = simba__sqlite_db_step(&b->db, which, err)) {
        const char *what = (const char *)sqlite3_column_text(statement, 0);
        const char *mutex = (const char *)sqlite3_column_text(statement, 1);
        const int64_t called_ns = sqlite3_column_int64(statement, 3);
        const size_t size = mutex ? strlen(mutex) + 1 : 0;
        if (!sqlite3_column_int(statement, 4))
            continue;
        simba__sqlite_news *news =
            what && size > 0 && size <= SIMBA_MUTEX_BYTES + 1 ? simba__malloc(sizeof *news + size) : NULL;
        all &= news != NULL;
        if (!news)
            continue;
        news->what = *what;
        news->nonce = (uint64_t)sqlite3_column_int64(statement, 2);
        memcpy(news->mutex, mutex, size);
        news->next = b->news;
        b->news = news;
        looked_ns = simba__max64(looked_ns, called_ns);
    }
    if (all)
        b->looked_ns = looked_ns;
    return rc;
}

/* --- the batch ----------------------------------------------------------------------------------------- */

simba__sqlite_part simba__sqlite_part_of(simba_op op)
{
    switch (op) {
    case SIMBA_OP_EXAMINE:
    case SIMBA_OP_PREPARE:
        return SIMBA__SQLITE_SET_UP;
    case SIMBA_OP_READ:
    case SIMBA_OP_LIST:
    case SIMBA_OP_READ_NOTE:
        return SIMBA__SQLITE_READS;
    default:
        return SIMBA__SQLITE_WRITES;
    }
}

/* The clock of the host, on which all processes that share the file agree. */
static int64_t host_ns(const batch *b)
{
    return b->host->now(b->host).ns + b->host_offset_ns;
}

static void drop_results(simba__sqlite_item *item)
{
    simba__free(item->fault);
    for (simba__sqlite_listing *row = item->listed, *next; row; row = next) {
        next = row->next;
        simba__free(row);
    }
    item->fault = NULL;
    item->listed = NULL;
}

/* A PREPARE. Opening has created everything that was missing, but an older database may have other tables, mode and group. */
static int prepare(batch *b, simba_error *err)
{
    int rc = b->db.outdated ? simba__sqlite_db_upgrade(&b->db, host_ns(b), err) : 0;
    if (rc == 0)
        rc = simba__sqlite_share_apply(&b->db.share, simba__sqlite_db_real_path(&b->db), false, err);
    b->db.row_failed = true; /* it concerns nothing else */
    return rc;
}

/* What fails alone does not concern the rest. */
static int carry_out_all(batch *b, simba__sqlite_part part)
{
    for (size_t i = 0; i < b->count; i++) {
        simba__sqlite_item *item = &b->items[i];
        simba_error error;
        int state = SIMBA__SQLITE_WAITS;
        if (item->part != part)
            continue;
        atomic_compare_exchange_strong(&item->state, &state, SIMBA__SQLITE_BEGUN);
        if (state == SIMBA__SQLITE_GIVEN_UP)
            continue;       /* its strings may be gone */
        drop_results(item); /* of an earlier run */
        memset(&item->ask.reply, 0, sizeof item->ask.reply);
        b->db.row_failed = false;
        item->code = item->ask.op == SIMBA_OP_EXAMINE   ? 0
                     : item->ask.op == SIMBA_OP_PREPARE ? prepare(b, &error)
                                                        : carry_out(b, item, &error);
        if (item->code < 0 && !b->db.row_failed) {
            b->error = error;
            return item->code;
        }
        if (item->code < 0)
            item->fault = simba__strdup(error.text);
    }
    return 0;
}

static int sweep(batch *b)
{
    char dead[SIMBA__SQLITE_SWEPT][SIMBA__SQLITE_NAME_SIZE];
    const size_t count = simba__sqlite_wake_sweep(&b->wake, dead);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = bury(b, dead[i], &b->error);
    return rc;
}

static int write_watches(batch *b)
{
    int rc = 0;
    for (const simba__sqlite_watch *w = b->watches; w && rc == 0; w = w->next) {
        const waiter self = {.what = "o",
                             .mutex = w->mutex,
                             .id = "",
                             .socket = b->wake.name,
                             .nonce = w->nonce,
                             .since_ns = b->now.ns,
                             .until_ns = INT64_MAX};
        b->has_rows |= w->enters;
        rc = w->enters ? enter(b, &self, &b->error) : simba__sqlite_run(&b->db, &b->error, LEAVE, NUMBER(w->nonce));
    }
    return rc;
}

/* One that writes excludes all others from its beginning. SIMBA_ETIMEDOUT: another process was writing for longer than the
 * timeout. */
static int carry_out_transaction(batch *b, simba__sqlite_part part)
{
    const bool writes = part == SIMBA__SQLITE_WRITES;
    b->notify_count = 0;
    int rc = simba__sqlite_db_step(&b->db, writes ? SIMBA__SQLITE_BEGIN_WRITE : SIMBA__SQLITE_BEGIN_READ, &b->error);
    /* Not before: a lease may have ended while we waited for the lock. */
    b->now = (simba__row_now){.ns = host_ns(b), .epoch_us = b->host->epoch_us(b->host)};
    if (rc == 0 && !writes && b->look)
        rc = look(b, &b->error);
    if (rc == 0 && writes && b->sweep)
        rc = sweep(b);
    if (rc == 0 && writes)
        rc = write_watches(b);
    if (rc == 0)
        rc = carry_out_all(b, part);
    if (rc == 0)
        rc = simba__sqlite_db_step(&b->db, SIMBA__SQLITE_COMMIT, &b->error);
    if (rc < 0)
        return rc;
    b->todo[part] = false;
    b->sweep &= !writes;
    for (size_t i = 0; i < b->notify_count; i++) /* never before the commit: whoever is woken must find the change */
        simba__sqlite_wake_notify(&b->wake, b->notify[i]);
    return 0;
}

void simba__sqlite_batch_run(batch *b)
{
    /* Make sure that the open file is the one at its path: a grant in a file that nobody else sees is worth nothing. */
    int rc = simba__sqlite_db_refresh(&b->db, &b->error);
    if (rc == 0 && b->todo[SIMBA__SQLITE_SET_UP]) {
        rc = carry_out_all(b, SIMBA__SQLITE_SET_UP);
        b->todo[SIMBA__SQLITE_SET_UP] = false;
    }
    if (rc == 0 && (b->todo[SIMBA__SQLITE_READS] || b->todo[SIMBA__SQLITE_WRITES]))
        rc = simba__sqlite_db_check_version(&b->db, &b->error);
    if (rc == 0 && b->todo[SIMBA__SQLITE_READS])
        rc = carry_out_transaction(b, SIMBA__SQLITE_READS);
    if (rc == 0 && b->todo[SIMBA__SQLITE_WRITES])
        rc = carry_out_transaction(b, SIMBA__SQLITE_WRITES);
    if (rc < 0)
        simba__sqlite_db_rollback(&b->db);
    b->error.code = rc;
}

void simba__sqlite_batch_clear(batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        drop_results(&b->items[i]);
    for (simba__sqlite_news *news = b->news, *next; news; news = next) {
        next = news->next;
        simba__free(news);
    }
    simba__free(b->items);
    b->items = NULL;
    b->count = 0;
    b->news = NULL;
    b->watches = NULL;
    memset(b->todo, 0, sizeof b->todo);
    b->look = SIMBA__SQLITE_NO_LOOK;
    b->db.reopened = false;
}
