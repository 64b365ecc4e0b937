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

typedef simba__sqlite_batch batch;
typedef simba__sqlite_lock lock;

/* --- rows of simba_waiter ----------------------------------------------------------------------------- */

/* CALL, PUT_BACK: of the contender of this nonce. */
static int mark(batch *b, simba__sqlite_statement which, uint64_t nonce, int64_t at_ns, simba_error *err)
{
    sqlite3_bind_int64(b->db.statements[which], 1, (int64_t)nonce);
    sqlite3_bind_int64(b->db.statements[which], 2, at_ns);
    return simba__sqlite_db_run(&b->db, which, err);
}

static int leave(batch *b, uint64_t nonce, simba_error *err)
{
    sqlite3_bind_int64(b->db.statements[SIMBA__SQLITE_LEAVE], 1, (int64_t)nonce);
    return simba__sqlite_db_run(&b->db, SIMBA__SQLITE_LEAVE, err);
}

/* The process of this socket has ended. */
static int bury(batch *b, const char *socket, simba_error *err)
{
    sqlite3_bind_text(b->db.statements[SIMBA__SQLITE_BURY], 1, socket, -1, SQLITE_STATIC);
    const int rc = simba__sqlite_db_run(&b->db, SIMBA__SQLITE_BURY, err);
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
 * the mutex for it. *ret_any: there were rows. */
static int call_queue(batch *b, const char *mutex, lock *freed, bool *ret_any, simba_error *err)
{
    sqlite3_stmt *queue = b->db.statements[SIMBA__SQLITE_QUEUE];
    char socket[SIMBA__SQLITE_NAME_SIZE];
    bool observed = false;
    int code = 0;
    int rc;
    if (freed) {
        freed->next_nonce = 0;
        freed->next_until_ns = 0;
    }
    *ret_any = false;
    sqlite3_bind_text(queue, 1, mutex, -1, SQLITE_STATIC);
    while (code == 0 && (rc = sqlite3_step(queue)) == SQLITE_ROW) {
        const char *what = (const char *)sqlite3_column_text(queue, 0);
        const uint64_t nonce = (uint64_t)sqlite3_column_int64(queue, 1);
        read_name(queue, 2, socket);
        *ret_any = true;
        if (what && *what == 'o') {
            observed = true;
            notify_later(b, socket);
            continue;
        }
        if (!freed)
            break;
        const simba__sqlite_life life = simba__sqlite_wake_probe(&b->wake, socket);
        if (sqlite3_column_int64(queue, 3) <= b->now.ns) {
            code = leave(b, nonce, err);
        } else if (life == SIMBA__SQLITE_DEAD) {
            code = bury(b, socket, err);
        } else if (life == SIMBA__SQLITE_ALIVE && what && *what == 'w') {
            freed->next_nonce = nonce;
            freed->next_until_ns = b->now.ns + RESERVE_NS;
            notify_later(b, socket);
            code = mark(b, SIMBA__SQLITE_CALL, nonce, b->now.ns, err);
            break;
        }
    }
    if (code == 0 && rc != SQLITE_ROW && rc != SQLITE_DONE)
        code = simba__sqlite_db_fail(&b->db, rc, err);
    sqlite3_reset(queue);
    if (code < 0 || !observed)
        return code;
    sqlite3_bind_text(b->db.statements[SIMBA__SQLITE_CALL_OBSERVERS], 1, mutex, -1, SQLITE_STATIC);
    sqlite3_bind_int64(b->db.statements[SIMBA__SQLITE_CALL_OBSERVERS], 2, b->now.ns);
    return simba__sqlite_db_run(&b->db, SIMBA__SQLITE_CALL_OBSERVERS, err);
}

typedef struct waiter {
    const char *what;
    const char *mutex, *id, *socket;
    uint64_t nonce;
    int64_t since_ns, until_ns, called_ns;
} waiter;

static int enter(batch *b, const waiter *w, simba_error *err)
{
    sqlite3_stmt *statement = b->db.statements[SIMBA__SQLITE_ENTER];
    sqlite3_bind_int64(statement, 1, (int64_t)w->nonce);
    sqlite3_bind_text(statement, 2, w->mutex, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 3, w->what, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 4, w->since_ns);
    sqlite3_bind_text(statement, 5, w->id, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 6, w->socket, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 7, w->until_ns);
    sqlite3_bind_int64(statement, 8, w->called_ns);
    return simba__sqlite_db_run(&b->db, SIMBA__SQLITE_ENTER, err);
}

/* BEFORE, PLACE: ask about the place of a contender. False: there is no row, or *ret_code says what is wrong. */
static bool ask_queue(batch *b, simba__sqlite_statement which, const simba_request *request, int *ret_code,
                      simba_error *err)
{
    sqlite3_bind_text(b->db.statements[which], 1, request->mutex, -1, SQLITE_STATIC);
    sqlite3_bind_int64(b->db.statements[which], 2, (int64_t)request->nonce);
    const int rc = sqlite3_step(b->db.statements[which]);
    *ret_code = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : simba__sqlite_db_fail(&b->db, rc, err);
    return rc == SQLITE_ROW;
}

/* The contender waits. It keeps the place that it has. Nobody whose process has ended stays right before it: so a waiter never
 * waits for the dead, except for those that die later. */
static int wait_in_line(batch *b, simba_request *request, const lock *l, size_t index, simba_error *err)
{
    const int64_t told_ns = simba__row_is_free(&l->row, b->now) ? b->now.ns : l->row.until_ns;
    const waiter self = {.what = "w",
                         .mutex = request->mutex,
                         .id = request->id,
                         .socket = b->wake.name,
                         .nonce = request->nonce,
                         .since_ns = b->now.ns + (int64_t)index,
                         .until_ns = simba__sat_add(told_ns, ORPHAN_NS)};
    int code = enter(b, &self, err);
    b->entered = true;
    for (bool dead = true; dead && code == 0;) {
        char socket[SIMBA__SQLITE_NAME_SIZE] = "";
        if (ask_queue(b, SIMBA__SQLITE_BEFORE, request, &code, err))
            read_name(b->db.statements[SIMBA__SQLITE_BEFORE], 0, socket);
        sqlite3_reset(b->db.statements[SIMBA__SQLITE_BEFORE]);
        dead = code == 0 && simba__sqlite_wake_probe(&b->wake, socket) == SIMBA__SQLITE_DEAD;
        if (dead)
            code = bury(b, socket, err);
    }
    if (code == 0 && ask_queue(b, SIMBA__SQLITE_PLACE, request, &code, err))
        request->reply.place = sqlite3_column_int64(b->db.statements[SIMBA__SQLITE_PLACE], 0);
    sqlite3_reset(b->db.statements[SIMBA__SQLITE_PLACE]);
    return code;
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
    const bool is_free = simba__row_is_free(&l->row, b->now);
    bool mine = false;
    if (is_free && is_reserved(b, l, request->nonce))
        request->reply.now_ms = b->now.epoch_us / 1000; /* nobody's: the contender asks again soon */
    else
        mine = simba__row_apply(&l->row, b->now, request);
    if (request->reply.status < 0) {
        b->db.row_failed = true;
        return simba__fail(err, request->reply.status, "sqlite: %s: no greater token is left for it", b->db.path);
    }
    if (!mine)
        return request->queue ? wait_in_line(b, request, l, index, err) : 0;
    int code = 0;
    memcpy(l->socket, b->wake.name, sizeof l->socket);
    if (l->row.token != token) {
        bool any = false;
        if (l->next_nonce != 0 && l->next_nonce != request->nonce) /* it did not come */
            code = mark(b, SIMBA__SQLITE_PUT_BACK, l->next_nonce, b->now.ns, err);
        l->next_nonce = 0;
        l->next_until_ns = 0;
        if (code == 0)
            code = call_queue(b, request->mutex, NULL, &any, err);
        if (code == 0 && any)
            code = leave(b, request->nonce, err);
    }
    return code < 0 ? code : simba__sqlite_lock_store(&b->db, request->mutex, l, err);
}

/* By the owner, or by a contender that waits no more, who may have been called. */
static int release(batch *b, simba_request *request, lock *l, simba_error *err)
{
    bool any;
    bool freed = simba__row_apply(&l->row, b->now, request);
    int code = 0;
    if (!freed) {
        code = leave(b, request->nonce, err);
        freed = l->exists && l->next_nonce == request->nonce && simba__row_is_free(&l->row, b->now);
    }
    if (code == 0 && freed)
        code = call_queue(b, request->mutex, l, &any, err);
    return code < 0 || !freed ? code : simba__sqlite_lock_store(&b->db, request->mutex, l, err);
}

/* The owner hears of it by a row of its own. */
static int force(batch *b, simba_request *request, lock *l, simba_error *err)
{
    bool any;
    const simba__row before = l->row;
    char socket[SIMBA__SQLITE_NAME_SIZE];
    memcpy(socket, l->socket, sizeof socket);
    if (!simba__row_apply(&l->row, b->now, request))
        return 0;
    int code = call_queue(b, request->mutex, l, &any, err);
    if (code == 0 && simba__sqlite_wake_probe(&b->wake, socket) == SIMBA__SQLITE_ALIVE) {
        const waiter owner = {.what = "r",
                              .mutex = request->mutex,
                              .id = before.owner.id,
                              .socket = socket,
                              .nonce = before.nonce,
                              .since_ns = b->now.ns,
                              .until_ns = simba__sat_add(before.until_ns, ORPHAN_NS),
                              .called_ns = b->now.ns};
        code = enter(b, &owner, err);
        notify_later(b, socket);
    }
    return code < 0 ? code : simba__sqlite_lock_store(&b->db, request->mutex, l, err);
}

static int renew(batch *b, simba_request *request, lock *l, simba_error *err)
{
    if (simba__row_apply(&l->row, b->now, request)) {
        memcpy(l->socket, b->wake.name, sizeof l->socket);
        return simba__sqlite_lock_store(&b->db, request->mutex, l, err);
    }
    return request->reply.outcome == SIMBA_REVOKED ? leave(b, request->nonce, err) : 0;
}

/* WRITE_NOTE and FORGET. */
static int change_note(batch *b, simba_request *request, lock *l, simba_error *err)
{
    bool any;
    int code = simba__sqlite_note_load(&b->db, request->mutex, &l->row, NULL, err);
    if (code < 0 || !simba__row_apply(&l->row, b->now, request))
        return code;
    code = call_queue(b, request->mutex, NULL, &any, err);
    if (code < 0)
        return code;
    return request->op == SIMBA_OP_FORGET ? simba__sqlite_note_forget(&b->db, request->mutex, l->row.token, err)
                                          : simba__sqlite_note_store(&b->db, request, &l->row, err);
}

static int carry_out(batch *b, simba__sqlite_item *item, simba_error *err)
{
    simba_request *request = &item->ask;
    lock l;
    if (request->op == SIMBA_OP_LIST)
        return simba__sqlite_list(&b->db, request->mutex, b->now, &item->listed, err);
    int code = simba__sqlite_lock_load(&b->db, request->mutex, &l, err);
    if (code == 0 && !l.exists && request->op == SIMBA_OP_ACQUIRE) {
        /* A mutex that was forgotten goes on with greater tokens, and with versions that nobody has seen. */
        code = simba__sqlite_note_floor(&b->db, &l.row.token, err);
        l.row.version = l.row.token;
    }
    if (code < 0)
        return code;
    switch (request->op) {
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
    case SIMBA_OP_READ_NOTE:
        code = simba__sqlite_note_load(&b->db, request->mutex, &l.row, &item->note, err);
        break;
    default:
        break;
    }
    (void)simba__row_apply(&l.row, b->now, request);
    return code;
}

/* --- what a client looks for --------------------------------------------------------------------------- */

/* LOOK, OVERDUE: what happened after `arg`, or is overdue then. */
static int look(batch *b, simba__sqlite_statement which, int64_t arg, simba_error *err)
{
    sqlite3_stmt *statement = b->db.statements[which];
    int64_t looked_ns = b->looked_ns;
    bool all = true;
    int rc;
    sqlite3_bind_text(statement, 1, b->wake.name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, arg);
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *what = (const char *)sqlite3_column_text(statement, 0);
        const char *mutex = (const char *)sqlite3_column_text(statement, 1);
        const int64_t called_ns = sqlite3_column_int64(statement, 3);
        const size_t size = mutex ? strlen(mutex) + 1 : 0;
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
        if (called_ns > looked_ns)
            looked_ns = called_ns;
    }
    sqlite3_reset(statement);
    if (all)
        b->looked_ns = looked_ns;
    return rc == SQLITE_DONE ? 0 : simba__sqlite_db_fail(&b->db, rc, err);
}

static int look_for_rows(batch *b, simba_error *err)
{
    sqlite3_stmt *statement = b->db.statements[SIMBA__SQLITE_ANY];
    sqlite3_bind_text(statement, 1, b->wake.name, -1, SQLITE_STATIC);
    const int rc = sqlite3_step(statement);
    b->waits = rc == SQLITE_ROW;
    sqlite3_reset(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : simba__sqlite_db_fail(&b->db, rc, err);
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
    simba__free(item->note);
    for (simba__sqlite_listing *row = item->listed, *next; row; row = next) {
        next = row->next;
        simba__free(row);
    }
    item->fault = NULL;
    item->note = NULL;
    item->listed = NULL;
}

/* A PREPARE. Opening has created everything that was missing, but an older database may have other tables, mode and group. */
static int prepare(batch *b, simba_error *err)
{
    int rc = b->db.outdated ? simba__sqlite_db_upgrade(&b->db, host_ns(b), err) : 0;
    b->db.row_failed = true; /* it concerns nothing else */
    return rc < 0 ? rc : simba__sqlite_share_apply(&b->db.share, b->db.path, err);
}

/* What fails alone does not concern the rest. */
static int carry_out_all(batch *b, simba__sqlite_part part)
{
    for (size_t i = 0; i < b->count; i++) {
        simba__sqlite_item *item = &b->items[i];
        simba_error error;
        if (item->done || simba__sqlite_part_of(item->ask.op) != part)
            continue;
        if (!item->begun && atomic_exchange(&item->taken, true))
            continue; /* it was given up, and its strings may be gone */
        item->begun = true;
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

static void finish(batch *b, simba__sqlite_part part)
{
    for (size_t i = 0; i < b->count; i++)
        b->items[i].done |= simba__sqlite_part_of(b->items[i].ask.op) == part;
}

/* A write transaction excludes all others from its beginning. SIMBA_ETIMEDOUT: another process was writing for longer than the
 * timeout. */
static int begin(batch *b, bool writes)
{
    const int rc =
        simba__sqlite_db_run(&b->db, writes ? SIMBA__SQLITE_BEGIN_WRITE : SIMBA__SQLITE_BEGIN_READ, &b->error);
    /* Not before: a lease may have ended while we waited for the lock. */
    b->now = (simba__row_now){.ns = host_ns(b), .epoch_us = b->host->epoch_us(b->host)};
    return rc;
}

static int read_all(batch *b)
{
    int rc = begin(b, false);
    if (rc == 0)
        rc = carry_out_all(b, SIMBA__SQLITE_READS);
    if (rc == 0 && b->look)
        rc = look(b, SIMBA__SQLITE_LOOK, b->looked_ns, &b->error);
    if (rc == 0 && b->overdue)
        rc = look(b, SIMBA__SQLITE_OVERDUE, b->now.ns, &b->error);
    if (rc == 0 && b->overdue)
        rc = look_for_rows(b, &b->error);
    if (rc == 0)
        rc = simba__sqlite_db_commit(&b->db, &b->error);
    if (rc == 0)
        finish(b, SIMBA__SQLITE_READS);
    return rc;
}

static void on_dead(void *user, const char *name)
{
    (void)bury(user, name, NULL); /* an error that matters shows at the next statement */
}

static int write_watches(batch *b)
{
    int rc = 0;
    for (const simba__sqlite_watch *w = b->unwatch; w && rc == 0; w = w->next)
        rc = leave(b, w->nonce, &b->error);
    for (const simba__sqlite_watch *w = b->watch; w && rc == 0; w = w->next) {
        const waiter self = {.what = "o",
                             .mutex = w->mutex,
                             .id = "",
                             .socket = b->wake.name,
                             .nonce = w->nonce,
                             .since_ns = b->now.ns,
                             .until_ns = INT64_MAX};
        rc = enter(b, &self, &b->error);
        b->entered = true;
    }
    return rc;
}

static int write_all(batch *b)
{
    b->notify_count = 0;
    int rc = begin(b, true);
    if (rc < 0)
        return rc;
    if (b->sweep)
        simba__sqlite_wake_sweep(&b->wake, on_dead, b);
    rc = write_watches(b);
    if (rc == 0)
        rc = carry_out_all(b, SIMBA__SQLITE_WRITES);
    if (rc == 0)
        rc = simba__sqlite_db_commit(&b->db, &b->error);
    if (rc < 0)
        return rc;
    finish(b, SIMBA__SQLITE_WRITES);
    b->watched = true;
    b->sweep = false;
    for (size_t i = 0; i < b->notify_count; i++) /* never before the commit: whoever is woken must find the change */
        simba__sqlite_wake_notify(&b->wake, b->notify[i]);
    return 0;
}

void simba__sqlite_batch_run(batch *b)
{
    const size_t *parts = b->parts;
    const bool reads = parts[SIMBA__SQLITE_READS] > 0 || b->look || b->overdue;
    const bool writes = parts[SIMBA__SQLITE_WRITES] > 0 || b->watch || b->unwatch;
    /* Make sure that the open file is the one at its path: a grant in a file that nobody else sees is worth nothing. Only a
     * release belongs in the file that has the grant. */
    bool gives_back = writes && !reads && !b->watch && simba__sqlite_db_is_sound(&b->db);
    for (size_t i = 0; i < b->count && gives_back; i++)
        gives_back = b->items[i].ask.op == SIMBA_OP_RELEASE;
    bool opened = false;
    int rc = gives_back ? 0 : simba__sqlite_db_refresh(&b->db, &opened, &b->error);
    b->opened |= opened;
    if (rc == 0 && parts[SIMBA__SQLITE_SET_UP] > 0) {
        rc = carry_out_all(b, SIMBA__SQLITE_SET_UP);
        finish(b, SIMBA__SQLITE_SET_UP);
    }
    if (rc == 0 && (reads || writes))
        rc = simba__sqlite_db_check_version(&b->db, &b->error);
    if (rc == 0 && reads)
        rc = read_all(b);
    if (rc == 0 && writes)
        rc = write_all(b);
    if (rc < 0)
        simba__sqlite_db_rollback(&b->db);
    b->error.code = rc;
}

int simba__sqlite_batch_leave(batch *b)
{
    if (!simba__sqlite_db_is_sound(&b->db))
        return SIMBA_EUNAVAILABLE;
    sqlite3_bind_text(b->db.statements[SIMBA__SQLITE_BURY], 1, b->wake.name, -1, SQLITE_STATIC);
    return simba__sqlite_db_run(&b->db, SIMBA__SQLITE_BURY, NULL);
}

void simba__sqlite_batch_clear(batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        drop_results(&b->items[i]);
    for (simba__sqlite_news *news = b->news, *next; news; news = next) {
        next = news->next;
        simba__free(news);
    }
    b->count = 0;
    b->news = NULL;
    b->watch = b->unwatch = NULL;
    memset(b->parts, 0, sizeof b->parts);
    b->look = b->overdue = b->opened = b->entered = b->waits = b->watched = false;
}
