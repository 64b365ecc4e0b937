/* See batch.h. */
#include "backends/mysql/batch.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/random.h"

enum { DEADLOCKS_MAX = 5, KEEP_ITEMS = 1024 };

/* --- items -------------------------------------------------------------------------------------------- */

void simba__my_batch_init(simba__my_batch *batch, simba_host *host, const simba__my_options *options)
{
    simba__my_conn_init(&batch->conn, host, options);
    batch->seed = host->random(host);
}

static void free_memory(simba__my_batch *batch)
{
    simba__free(batch->items);
    simba__free(batch->texts);
    simba__free(batch->order);
    simba__free(batch->rows);
    simba__free(batch->firsts);
    batch->items = NULL;
    batch->texts = NULL;
    batch->order = NULL;
    batch->rows = NULL;
    batch->firsts = NULL;
    batch->capacity = batch->texts_capacity = batch->scratch_capacity = 0;
}

void simba__my_batch_fini(simba__my_batch *batch)
{
    simba__my_batch_clear(batch);
    free_memory(batch);
    simba__my_conn_fini(&batch->conn);
}

static bool grow(void *array, size_t size, size_t count)
{
    void **pointer = array;
    void *grown = simba__realloc(*pointer, size * count);
    if (grown)
        *pointer = grown;
    return grown != NULL;
}

bool simba__my_batch_reserve(simba__my_batch *batch, size_t count, size_t bytes)
{
    if (count > batch->capacity) {
        if (!grow(&batch->items, sizeof *batch->items, count) || !grow(&batch->order, sizeof(void *), count) ||
            !grow(&batch->rows, sizeof *batch->rows, count) || !grow(&batch->firsts, sizeof *batch->firsts, count + 1))
            return false;
        batch->capacity = count;
    }
    if (bytes > batch->texts_capacity) {
        if (!grow(&batch->texts, 1, bytes))
            return false;
        batch->texts_capacity = bytes;
    }
    return true;
}

static const char *copy(simba__my_batch *batch, const char *text)
{
    if (!text)
        return NULL;
    char *at = batch->texts + batch->texts_size;
    batch->texts_size += strlen(text) + 1;
    return strcpy(at, text);
}

simba__my_item *simba__my_batch_add(simba__my_batch *batch, const simba_request *request)
{
    simba__my_item *item = &batch->items[batch->count++];
    memset(item, 0, sizeof *item);
    item->ask = *request;
    item->ask.mutex = copy(batch, request->mutex);
    item->ask.id = copy(batch, request->id);
    return item;
}

static void free_found(simba__my_item *item)
{
    while (item->found) {
        simba__my_found *next = item->found->next;
        simba__free(item->found);
        item->found = next;
    }
}

void simba__my_batch_clear(simba__my_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        simba__free(batch->items[i].error);
        free_found(&batch->items[i]);
    }
    batch->count = 0;
    batch->texts_size = 0;
    if (batch->capacity > KEEP_ITEMS)
        free_memory(batch);
}

/* The text is there for the item alone, since others may fail with another. */
static void fail_item(simba__my_item *item, const simba_error *why)
{
    static const simba_error no_memory = {SIMBA_ENOMEM, "mysql: out of memory"};
    if (!item->error)
        item->error = simba__malloc(sizeof *item->error);
    if (item->error)
        *item->error = *why;
    else
        item->ask.reply.status = no_memory.code;
}

static void forget_failure(simba__my_item *item)
{
    simba__free(item->error);
    item->error = NULL;
}

static int by_name(const void *left, const void *right)
{
    const simba__my_item *const a = *(simba__my_item *const *)left;
    const simba__my_item *const b = *(simba__my_item *const *)right;
    const int order = strcmp(a->ask.mutex, b->ask.mutex);
    return order != 0 ? order : (a > b) - (a < b); /* they are in one array */
}

/* One row for each name among the items that have one. */
static void arrange(simba__my_batch *batch)
{
    size_t n = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const simba_op op = batch->items[i].ask.op;
        if (op != SIMBA_OP_LIST && op != SIMBA_OP_EXAMINE && op != SIMBA_OP_PREPARE)
            batch->order[n++] = &batch->items[i];
    }
    qsort(batch->order, n, sizeof(void *), by_name);
    batch->row_count = 0;
    for (size_t i = 0; i < n; i++) {
        const char *mutex = batch->order[i]->ask.mutex;
        if (i > 0 && strcmp(batch->order[i - 1]->ask.mutex, mutex) == 0)
            continue;
        batch->firsts[batch->row_count] = i;
        batch->rows[batch->row_count++] = (simba__my_row){.mutex = mutex};
    }
    batch->firsts[batch->row_count] = n;
}

/* --- a stretch of rows ---------------------------------------------------------------------------------- */

typedef struct stretch {
    simba__my_batch *batch;
    size_t from, to; /* rows */
} stretch;

static simba__my_item **items_begin(const stretch *s)
{
    return s->batch->order + s->batch->firsts[s->from];
}

static simba__my_item **items_end(const stretch *s)
{
    return s->batch->order + s->batch->firsts[s->to];
}

static void fail_stretch(const stretch *s, const simba_error *why)
{
    for (simba__my_item **at = items_begin(s); at < items_end(s); at++)
        if (!(*at)->is_refused)
            fail_item(*at, why);
}

static unsigned characters(const char *text)
{
    unsigned n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* What the columns have no room for is not sent: it might come back as something else. */
static void refuse_oversized(const stretch *s)
{
    const simba__my_conn *conn = &s->batch->conn;
    for (simba__my_item **at = items_begin(s); at < items_end(s); at++) {
        simba__my_item *item = *at;
        simba_error why = {0};
        if (item->ask.id && characters(item->ask.id) > conn->schema.id_chars)
            simba__error_set(&why, SIMBA_EINVAL,
                             "mysql: the id \"%.40s\" has %u characters, and the column owner_id of %s takes %u",
                             item->ask.id, characters(item->ask.id), conn->options->table, conn->schema.id_chars);
        else if (characters(item->ask.mutex) > conn->schema.mutex_chars)
            simba__error_set(&why, SIMBA_EINVAL,
                             "mysql: the name has %u characters, and the column mutex of %s takes %u",
                             characters(item->ask.mutex), conn->options->table, conn->schema.mutex_chars);
        item->is_refused = why.code < 0;
        if (item->is_refused)
            fail_item(item, &why);
    }
}

/* --- one request by itself ------------------------------------------------------------------------------ */

static bool is_lone(const stretch *s)
{
    return s->to - s->from == 1 && items_end(s) - items_begin(s) == 1;
}

static int read_row(const stretch *s, simba_error *err)
{
    return simba__my_get_rows(&s->batch->conn, &s->batch->rows[s->from], 1, false, err);
}

/* It is ours by what the statement said; now what the row says: the times, or that it is gone already. */
static void answer_granted(const simba__my_row *row, simba__my_item *item, uint64_t token)
{
    simba_reply *reply = &item->ask.reply;
    simba__my_row seen = *row;
    simba_request look = {.op = SIMBA_OP_READ, .id = ""};
    simba__my_apply(&seen, &look, 0);
    *reply = look.reply;
    if (row->found && row->version == token && strcmp(row->row.owner.id, item->ask.id) == 0) {
        reply->outcome = SIMBA_MINE;
        reply->owner = row->row.owner;
    }
    item->version = row->version;
}

/* 1: answered; 0: that takes a transaction. */
static int acquire_alone(const stretch *s, simba__my_item *item, simba_error *err)
{
    simba__my_row *row = &s->batch->rows[s->from];
    uint64_t token = 0;
    int rc = simba__my_acquire(&s->batch->conn, &item->ask, item->floor, &token, err);
    if (rc < 0)
        return rc;
    const bool won = rc == 1;
    rc = read_row(s, err);
    if (rc < 0)
        return rc;
    if (won) {
        answer_granted(row, item, token);
        return 1;
    }
    simba__my_row tried = *row;
    if (!row->found || !simba__my_apply(&tried, &item->ask, item->floor) || tried.changed)
        return 0;
    item->version = row->version;
    return 1;
}

static int renew_alone(const stretch *s, simba__my_item *item, simba_error *err)
{
    int rc = simba__my_renew(&s->batch->conn, &item->ask, err);
    if (rc != 1)
        return rc;
    rc = read_row(s, err);
    if (rc == 0)
        answer_granted(&s->batch->rows[s->from], item, item->ask.token);
    return rc < 0 ? rc : 1;
}

static int release_alone(const stretch *s, simba__my_item *item, simba_error *err)
{
    int64_t now_ms = 0;
    const int rc = simba__my_release(&s->batch->conn, &item->ask, &now_ms, err);
    if (rc == 1) {
        item->ask.reply = (simba_reply){.outcome = SIMBA_MINE, .now_ms = now_ms};
        item->version = item->ask.token + 1;
    }
    return rc;
}

static int try_alone(const stretch *s, simba_error *err)
{
    simba__my_item *item = *items_begin(s);
    if (!is_lone(s) || item->guarded || !s->batch->conn.schema.is_exact)
        return 0;
    switch (item->ask.op) {
    case SIMBA_OP_ACQUIRE:
        return acquire_alone(s, item, err);
    case SIMBA_OP_RENEW:
        return renew_alone(s, item, err);
    case SIMBA_OP_RELEASE:
        return item->ask.token != 0 ? release_alone(s, item, err) : 0;
    default:
        return 0;
    }
}

/* --- the transaction ------------------------------------------------------------------------------------ */

static bool wants_row(const stretch *s, size_t row)
{
    const simba__my_batch *batch = s->batch;
    for (size_t i = batch->firsts[row]; i < batch->firsts[row + 1]; i++)
        if (batch->order[i]->ask.op == SIMBA_OP_ACQUIRE && !batch->order[i]->is_refused)
            return true;
    return false;
}

static bool lacks_rows(const stretch *s)
{
    for (size_t i = s->from; i < s->to; i++)
        if (!s->batch->rows[i].found && wants_row(s, i))
            return true;
    return false;
}

static int lock_rows(const stretch *s, simba_error *err)
{
    const int rc = simba__my_conn_say(&s->batch->conn, "begin", err);
    return rc < 0 ? rc : simba__my_get_rows(&s->batch->conn, &s->batch->rows[s->from], s->to - s->from, true, err);
}

/* Outside of the transaction: a lock on a row that is not there is a lock on the gap, and two who have that and insert are
 * a deadlock. */
static int make_rows(const stretch *s, simba_error *err)
{
    const int rc = simba__my_conn_say(&s->batch->conn, "rollback", err);
    if (rc < 0)
        return rc;
    for (size_t i = s->from; i < s->to; i++)
        s->batch->rows[i].found |= !wants_row(s, i);
    return simba__my_try_init_rows(&s->batch->conn, &s->batch->rows[s->from], s->to - s->from, err);
}

static void apply_item(const stretch *s, simba__my_row *row, simba__my_item *item)
{
    const simba__my_conn *conn = &s->batch->conn;
    simba_error why = {0};
    forget_failure(item);
    const simba__row_now now = {row->now_ms * SIMBA__NS_PER_MS, row->now_ms * 1000};
    if (!row->found && item->ask.op == SIMBA_OP_ACQUIRE) {
        simba__error_set(&why, conn->schema.is_exact ? SIMBA_EUNAVAILABLE : SIMBA_ECORRUPT,
                         conn->schema.is_exact
                             ? "mysql %s: the row of this mutex in %s was deleted just now"
                             : "mysql %s: the column mutex of %s takes this name for another; make it utf8mb4_bin",
                         conn->options->where, conn->options->table);
    } else if (item->guarded && !row->changed && simba__row_is_free(&row->row, now)) {
        item->ask.op = SIMBA_OP_READ;
        simba__my_apply(row, &item->ask, 0);
        item->ask.op = SIMBA_OP_ACQUIRE;
        item->kept_back = true;
    } else if (!simba__my_apply(row, &item->ask, item->floor)) {
        simba__error_set(&why, SIMBA_ECORRUPT, "mysql %s: the version of this mutex in %s is used up: it is %llu",
                         conn->options->where, conn->options->table, (unsigned long long)row->version);
    }
    item->version = row->version;
    if (why.code < 0)
        fail_item(item, &why);
}

static void apply_all(const stretch *s)
{
    for (size_t i = s->from; i < s->to; i++)
        for (size_t k = s->batch->firsts[i]; k < s->batch->firsts[i + 1]; k++)
            if (!s->batch->order[k]->is_refused)
                apply_item(s, &s->batch->rows[i], s->batch->order[k]);
}

static int transact(const stretch *s, simba_error *err)
{
    simba__my_conn *conn = &s->batch->conn;
    int rc = lock_rows(s, err);
    if (rc == 0 && lacks_rows(s)) {
        rc = make_rows(s, err);
        if (rc == 0)
            rc = lock_rows(s, err);
    }
    if (rc < 0)
        return rc;
    apply_all(s);
    rc = simba__my_put_rows(conn, &s->batch->rows[s->from], s->to - s->from, err);
    return rc < 0 ? rc : simba__my_conn_say(conn, "commit", err);
}

static int carry_out(const stretch *s, simba_error *err)
{
    int rc = simba__my_conn_ready(&s->batch->conn, false, err);
    if (rc < 0)
        return rc;
    refuse_oversized(s);
    if ((*items_begin(s))->is_refused && is_lone(s))
        return 0;
    rc = try_alone(s, err);
    return rc == 0 ? transact(s, err) : rc < 0 ? rc : 0;
}

/* --- and again -------------------------------------------------------------------------------------------- */

/* Is there somebody left who waits for it? */
static bool is_wanted(const stretch *s)
{
    const simba__my_conn *conn = &s->batch->conn;
    if (atomic_load(&conn->over))
        return false;
    const int64_t now_ns = conn->host->now(conn->host).ns;
    for (simba__my_item **at = items_begin(s); at < items_end(s); at++)
        if (now_ns < (*at)->ask.deadline.ns)
            return true;
    return false;
}

/* Leave the connection as it should be found, or not at all. */
static void undo(simba__my_conn *conn)
{
    if (!conn->mysql)
        return;
    simba_error ignored;
    const simba__my_remedy remedy = conn->remedy;
    const unsigned number = conn->number;
    const bool is_open = (conn->mysql->server_status & SERVER_STATUS_IN_TRANS) != 0;
    if (remedy == SIMBA__MY_RECONNECT || remedy == SIMBA__MY_SHRINK ||
        (is_open && simba__my_conn_say(conn, "rollback", &ignored) < 0))
        simba__my_conn_end(conn);
    conn->remedy = remedy;
    conn->number = number;
}

static void pause_briefly(simba__my_batch *batch, unsigned tries)
{
    const int64_t most_ns = (int64_t)(tries + 1) * 4 * SIMBA__NS_PER_MS;
    const struct timespec pause = {0, (long)simba__random_range(&batch->seed, SIMBA__NS_PER_MS / 2, most_ns)};
    nanosleep(&pause, NULL);
}

/* An idle connection ends now and then. Doing it again is safe where a grant whose answer was lost is known again. */
static bool may_reconnect(const simba__my_conn *conn, bool reused, unsigned tries)
{
    return tries == 0 && reused && simba__my_error_is_lost(conn->number) && conn->schema.has_nonce;
}

static bool again(stretch *s, unsigned tries, bool reused, int code)
{
    simba__my_conn *conn = &s->batch->conn;
    switch (conn->remedy) {
    case SIMBA__MY_RECONNECT:
        return may_reconnect(conn, reused, tries);
    case SIMBA__MY_RETRY:
        pause_briefly(s->batch, tries);
        return tries < DEADLOCKS_MAX;
    case SIMBA__MY_SPLIT:
        return s->to - s->from == 1 && code == SIMBA_ETIMEDOUT;
    case SIMBA__MY_SHRINK:
        conn->most_rows /= 2;
        return conn->most_rows > 0;
    case SIMBA__MY_TELL:
        break;
    }
    return false;
}

static void settle(stretch s)
{
    simba__my_conn *conn = &s.batch->conn;
    simba_error why = {0};
    for (unsigned tries = 0;; tries++) {
        const bool reused = conn->reused;
        if (!is_wanted(&s)) {
            if (why.code == 0)
                simba__error_set(&why, SIMBA_ETIMEDOUT, "mysql %s: no answer in time", conn->options->where);
            break;
        }
        conn->remedy = SIMBA__MY_TELL;
        const int code = carry_out(&s, &why);
        conn->reused = true;
        if (code == 0)
            return;
        undo(conn);
        if (again(&s, tries, reused, code))
            continue;
        const bool splits = conn->remedy == SIMBA__MY_SPLIT || conn->remedy == SIMBA__MY_RETRY;
        if (splits && s.to - s.from > 1) {
            for (size_t i = s.from; i < s.to; i++)
                settle((stretch){s.batch, i, i + 1});
            return;
        }
        break;
    }
    if (conn->most_rows == 0)
        conn->most_rows = 1;
    fail_stretch(&s, &why);
}

void simba__my_batch_write(simba__my_batch *batch)
{
    arrange(batch);
    settle((stretch){batch, 0, batch->row_count});
}

/* --- reading ------------------------------------------------------------------------------------------------ */

typedef struct found_arg {
    simba__my_item *item;
    simba__my_found **end;
} found_arg;

static simba__my_found *add_found(found_arg *arg, const char *text)
{
    simba__my_found *found = simba__calloc(1, sizeof *found + strlen(text) + 1);
    if (!found)
        return NULL;
    strcpy(found->text, text);
    *arg->end = found;
    arg->end = &found->next;
    return found;
}

static int list_one(void *user, const simba__my_row *row)
{
    found_arg *arg = user;
    if (arg->item->ask.mutex && fnmatch(arg->item->ask.mutex, row->mutex, 0) != 0)
        return 0;
    simba__my_found *found = add_found(arg, row->mutex);
    if (!found)
        return SIMBA_ENOMEM;
    simba__my_row seen = *row;
    simba_request look = {.op = SIMBA_OP_READ, .id = ""};
    simba__my_apply(&seen, &look, 0);
    found->owner = look.reply.owner;
    found->now_ms = look.reply.now_ms;
    return 0;
}

static int examine_one(void *user, const simba_finding *finding)
{
    simba__my_found *found = add_found(user, finding->text);
    if (!found)
        return SIMBA_ENOMEM;
    found->verdict = finding->verdict;
    found->what = finding->what; /* both are constants */
    found->remedy = finding->remedy;
    return 0;
}

static int look_around(simba__my_conn *conn, simba__my_item *item, simba_error *err)
{
    free_found(item);
    found_arg arg = {item, &item->found};
    int rc = simba__my_conn_ready(conn, item->ask.op != SIMBA_OP_LIST, err);
    if (rc < 0)
        return rc;
    item->ask.reply = (simba_reply){0};
    switch (item->ask.op) {
    case SIMBA_OP_LIST:
        return simba__my_list_rows(conn, list_one, &arg, err);
    case SIMBA_OP_PREPARE:
        rc = simba__my_schema_prepare(conn, err);
        simba__my_conn_end(conn); /* statements that were prepared for the table as it was */
        return rc;
    default:
        rc = simba__my_schema_look(conn, &conn->schema, err);
        if (rc == 0 && simba__my_schema_examine(conn, examine_one, &arg) < 0)
            rc = simba__fail(err, SIMBA_ENOMEM, "mysql: out of memory");
        return rc;
    }
}

static int read_rows(simba__my_batch *batch, simba_error *err)
{
    int rc = simba__my_conn_ready(&batch->conn, false, err);
    if (rc == 0)
        rc = simba__my_get_rows(&batch->conn, batch->rows, batch->row_count, false, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < batch->row_count; i++)
        for (size_t k = batch->firsts[i]; k < batch->firsts[i + 1]; k++) {
            simba__my_apply(&batch->rows[i], &batch->order[k]->ask, 0);
            batch->order[k]->version = batch->rows[i].version;
        }
    return 0;
}

/* `work` once, and once more if it was only that an idle connection had ended. */
static int read_patiently(simba__my_batch *batch, simba__my_item *item, simba_error *err)
{
    simba__my_conn *conn = &batch->conn;
    for (unsigned tries = 0;; tries++) {
        const bool reused = conn->reused;
        conn->remedy = SIMBA__MY_TELL;
        const int rc = item ? look_around(conn, item, err) : read_rows(batch, err);
        conn->reused = conn->mysql != NULL;
        if (rc == 0)
            return 0;
        undo(conn);
        const bool lost = conn->remedy == SIMBA__MY_RECONNECT && simba__my_error_is_lost(conn->number);
        const bool shrinks = conn->remedy == SIMBA__MY_SHRINK && conn->most_rows > 1;
        if (shrinks)
            conn->most_rows /= 2;
        if (!shrinks && (!lost || !reused || tries > 0 || atomic_load(&conn->over)))
            return rc;
    }
}

void simba__my_batch_read(simba__my_batch *batch)
{
    arrange(batch);
    simba_error why = {0};
    const stretch all = {batch, 0, batch->row_count};
    if (batch->row_count > 0 && read_patiently(batch, NULL, &why) < 0)
        fail_stretch(&all, &why);
    for (size_t i = 0; i < batch->count; i++) {
        simba__my_item *item = &batch->items[i];
        const simba_op op = item->ask.op;
        if ((op == SIMBA_OP_LIST || op == SIMBA_OP_EXAMINE || op == SIMBA_OP_PREPARE) &&
            read_patiently(batch, item, &why) < 0)
            fail_item(item, &why);
    }
}
