/* A batch: requests that share a transaction of the writer. Lock the rows, decide by core/row.c, write what changed, commit. sql.h
 * explains both packets.
 *
 *   LOCKS -> [SEES] -> [MAKES -> LOCKS] -> WRITES, or answers and UNDOES
 *
 * A failure before WRITES has changed nothing. Rows that somebody else has locked never delay the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/sql/sql.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/mem.h"

enum { KEEP_ITEMS = 64 };

static void lock(simba__sql_store *store);
static void answered(simba__sql_connection *connection, const simba__sql_failure *why);

/* --- memory ------------------------------------------------------------------------------------------------ */

static bool reserve(simba__sql_batch *batch, size_t count)
{
    if (count <= batch->capacity)
        return true;
    simba__free(batch->rows);
    batch->capacity = 0;
    batch->rows = simba__malloc(
        count * (sizeof *batch->rows + sizeof *batch->items + 2 * sizeof *batch->names + sizeof *batch->texts));
    batch->items = NULL;
    if (!batch->rows)
        return false;
    batch->capacity = count;
    /* One block, in the order of alignment. */
    batch->items = (simba__sql_item *)(batch->rows + count);
    batch->names = (const char **)(batch->items + count);
    batch->waited = batch->names + count;
    batch->texts = (char(*)[SIMBA_MUTEX_BYTES + 1])(batch->waited + count);
    return true;
}

void simba__sql_batch_fini(simba__sql_batch *batch)
{
    simba__free(batch->rows);
    simba__free(batch->waiters);
    simba__free(batch->notices);
    *batch = (simba__sql_batch){0};
}

/* All of its requests are told. */
static void clear(simba__sql_batch *batch)
{
    if (batch->capacity > KEEP_ITEMS || batch->waiter_capacity > KEEP_ITEMS) {
        simba__sql_batch_fini(batch);
        return;
    }
    batch->count = batch->row_count = batch->waiter_count = batch->notice_count = 0;
    batch->phase = SIMBA__SQL_NO_BATCH;
}

/* --- items and rows ------------------------------------------------------------------------------------------ */

static size_t wanted(const simba__sql_batch *batch)
{
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++)
        count += batch->items[i].request && !batch->items[i].is_expired;
    return count;
}

static void fail_item(simba__sql_store *store, simba__sql_item *item, int code, const char *text)
{
    store->host->fail(store->host, item->request, code, "%s %s: %s", store->place.store, store->place.where, text);
    item->request = NULL;
}

static unsigned characters(const char *text, bool *ret_is_ascii)
{
    unsigned n = 0;
    *ret_is_ascii = true;
    for (; *text; text++) {
        n += ((unsigned char)*text & 0xC0) != 0x80;
        *ret_is_ascii &= (unsigned char)*text < 0x80;
    }
    return n;
}

/* A value that its column has no room for is not sent: it might come back as something else, or fail the whole statement. */
static bool is_refused(simba__sql_store *store, simba_request *request)
{
    const simba__sql_table *table = &store->writer.table;
    const char *texts[2] = {request->mutex, request->id ? request->id : ""};
    const unsigned room[2] = {table->mutex_chars, table->id_chars};
    const bool must_be_ascii[2] = {table->mutex_is_ascii, table->id_is_ascii};
    for (size_t i = 0; i < 2; i++) {
        bool is_ascii;
        const unsigned length = characters(texts[i], &is_ascii);
        const char *what = i == 0 ? "name" : "id", *column = i == 0 ? "mutex" : "owner_id";
        if (length > room[i])
            store->host->fail(store->host, request, SIMBA_EINVAL,
                              "%s: the %s \"%.40s\" has %u characters, and the column %s of %s takes %u",
                              store->place.store, what, texts[i], length, column, store->place.table, room[i]);
        else if (!is_ascii && must_be_ascii[i])
            store->host->fail(store->host, request, SIMBA_EINVAL,
                              "%s: the %s \"%.40s\" is not ASCII, and the column %s of %s is not utf8mb4",
                              store->place.store, what, texts[i], column, store->place.table);
        else
            continue;
        return true;
    }
    return false;
}

/* Renewals first. One that goes alone shares the batch with nobody. */
static void take_requests(simba__sql_store *store, size_t most)
{
    simba__sql_batch *batch = &store->batch;
    simba__sql_list *const lists[] = {&store->renewals, &store->writes};
    for (size_t i = 0; i < 2; i++)
        for (simba_request *r = simba__sql_list_take(lists[i]), *next; r; r = next) {
            next = r->next;
            const bool is_alone = (r->reply.status & SIMBA__SQL_GOES_ALONE) != 0;
            const bool fits = batch->count == 0 || (batch->count < most && !is_alone);
            if (!fits)
                simba__sql_list_append(lists[i], r);
            else if (!is_refused(store, r))
                batch->items[batch->count++] = (simba__sql_item){.request = r};
            if (fits && is_alone)
                most = 0;
        }
}

/* Sorts stably: `row` still says in which order they came. */
static int by_name(const void *left, const void *right)
{
    const simba__sql_item *a = left, *b = right;
    const int order = strcmp(a->request->mutex, b->request->mutex);
    return order != 0 ? order : (a->row > b->row) - (a->row < b->row);
}

static void arrange(simba__sql_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        batch->items[i].row = i;
    qsort(batch->items, batch->count, sizeof *batch->items, by_name);
    batch->row_count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        simba__sql_item *item = &batch->items[i];
        simba__sql_row *row = &batch->rows[batch->row_count];
        item->request->backend_data = item;
        if (i > 0 && strcmp(row[-1].mutex, item->request->mutex) == 0)
            row--;
        else
            *row = (simba__sql_row){.mutex = strcpy(batch->texts[batch->row_count], item->request->mutex), .first = i};
        row->last = i + 1;
        item->row = (size_t)(row - batch->rows);
        batch->row_count = item->row + 1;
    }
}

static int compare_name(const void *key, const void *row)
{
    return strcmp(key, ((const simba__sql_row *)row)->mutex);
}

simba__sql_row *simba__sql_batch_find(const simba__sql_batch *batch, const char *mutex)
{
    return bsearch(mutex, batch->rows, batch->row_count, sizeof *batch->rows, compare_name);
}

/* --- packet 1 ------------------------------------------------------------------------------------------------- */

/* A row, a waiter or the time. A name that only the column takes for one of these is not found. */
static void take_locked(simba__sql_connection *connection, unsigned result, const simba__sql_cell *cells,
                        unsigned count)
{
    simba__sql_batch *batch = &connection->store->batch;
    const unsigned of_waiters = batch->ask.waited_count > 0;
    if (result == 0 && count == SIMBA__SQL_LOCK_COLUMNS) {
        simba__sql_row *row = cells[0].text ? simba__sql_batch_find(batch, cells[0].text) : NULL;
        if (row) {
            simba__sql_row_decode(row, cells, connection->table.version_max);
            row->presence = SIMBA__SQL_LOCKED;
        }
    } else if (result == of_waiters && of_waiters) {
        simba__sql_waiting_learn(batch, cells, count);
    } else if (result == 1 + of_waiters && !simba__sql_clock(&cells[0], &batch->now_ms)) {
        batch->now_ms = -1;
    }
}

static void take_seen(simba__sql_connection *connection, unsigned result, const simba__sql_cell *cells, unsigned count)
{
    simba__sql_batch *batch = &connection->store->batch;
    simba__sql_row *row = result == 0 && count == SIMBA__SQL_READ_COLUMNS && cells[0].text
                              ? simba__sql_batch_find(batch, cells[0].text)
                              : NULL;
    if (row && row->presence == SIMBA__SQL_MISSING)
        simba__sql_row_decode(row, cells, connection->table.version_max);
}

static void ask(simba__sql_store *store, simba__sql_phase phase, simba__sql_ask what,
                void (*row)(simba__sql_connection *, unsigned, const simba__sql_cell *, unsigned))
{
    simba__sql_batch *batch = &store->batch;
    batch->phase = phase;
    batch->ask = what;
    simba__sql_connection_ask(&store->writer, &batch->ask, wanted(batch), row, answered);
}

static void lock(simba__sql_store *store)
{
    simba__sql_batch *batch = &store->batch;
    size_t waited_count = 0;
    batch->waiter_count = batch->notice_count = 0;
    batch->now_ms = -1;
    for (size_t i = 0; i < batch->row_count; i++) {
        bool waits = false;
        simba__sql_row_clear(&batch->rows[i], 0);
        batch->names[i] = batch->rows[i].mutex;
        for (size_t j = batch->rows[i].first; j < batch->rows[i].last; j++)
            waits |= batch->items[j].request && simba__sql_waits(store, batch->items[j].request);
        if (waits)
            batch->waited[waited_count++] = batch->rows[i].mutex;
    }
    ask(store, SIMBA__SQL_LOCKS,
        (simba__sql_ask){.kind = SIMBA__SQL_LOCK,
                         .names = batch->names,
                         .count = batch->row_count,
                         .waited = batch->waited,
                         .waited_count = waited_count},
        take_locked);
}

void simba__sql_batch_begin(simba__sql_store *store)
{
    simba__sql_batch *batch = &store->batch;
    SIMBA__ASSERT(batch->phase == SIMBA__SQL_NO_BATCH && batch->count == 0);
    size_t count = 0;
    for (const simba_request *r = store->renewals.first; r; r = r->next)
        count++;
    for (const simba_request *r = store->writes.first; r; r = r->next)
        count++;
    const size_t most = count < store->writer.table.rows_max ? count : store->writer.table.rows_max;
    if (!reserve(batch, most)) {
        simba__sql_failure why;
        (void)simba__sql_fail(&why, SIMBA__SQL_TELL, SIMBA_ENOMEM, "%s: out of memory", store->place.store);
        simba__sql_fail_writes(store, &why);
        return;
    }
    take_requests(store, most);
    if (batch->count == 0)
        return;
    arrange(batch);
    batch->has_made = batch->lacks_memory = false;
    batch->began = store->host->now(store->host);
    batch->began_tick = simba__sql_polling_begin(&store->polling);
    lock(store);
}

/* --- deciding ------------------------------------------------------------------------------------------------- */

/* Nobody owns it, as the row says, and yet a contender of this client holds it by its own clock. */
static bool is_held_here(const simba__sql_store *store, const simba__sql_row *row, const simba_request *request)
{
    return request->op == SIMBA_OP_ACQUIRE && !row->is_put && simba__sql_row_is_free(row) &&
           simba__sql_grants_is_held(&store->grants, row->mutex, request->nonce, store->batch.began);
}

static void decide_item(simba__sql_store *store, simba__sql_row *row, simba__sql_item *item)
{
    simba_request *request = item->request;
    const bool acquires = request->op == SIMBA_OP_ACQUIRE;
    char text[160];
    if (row->flaw) {
        snprintf(text, sizeof text, "the row of this mutex in %.64s cannot be right: %s", store->place.table,
                 row->flaw);
        fail_item(store, item, SIMBA_ECORRUPT, text);
    } else if (row->presence == SIMBA__SQL_MISSING && acquires && !store->writer.table.is_exact) {
        snprintf(text, sizeof text, "the column mutex of %.64s takes this name for another; %s", store->place.table,
                 store->writer.table.make_exact);
        fail_item(store, item, SIMBA_ECORRUPT, text);
    } else if (row->presence == SIMBA__SQL_MISSING && acquires) {
        snprintf(text, sizeof text, "the row of this mutex in %.64s was deleted just now", store->place.table);
        fail_item(store, item, SIMBA_EUNAVAILABLE, text);
    } else if (row->presence == SIMBA__SQL_SEEN) {
        /* Somebody else has it locked. Only an acquire that would lose in any case need not wait for that. */
        item->is_aside = !acquires || simba__sql_waits(store, request) || simba__sql_row_is_free(row) ||
                         strcmp(row->row.owner.id, request->id) == 0;
        if (!item->is_aside)
            (void)simba__sql_row_apply(row, request, 0);
    } else if (is_held_here(store, row, request)) {
        request->reply = simba__sql_row_read(row);
        item->is_kept_back = true;
    } else if (!simba__sql_row_apply(row, request, simba__sql_grants_floor(&store->grants, row->mutex))) {
        snprintf(text, sizeof text, "the version of this mutex in %.64s is used up: it is %llu", store->place.table,
                 (unsigned long long)row->version);
        fail_item(store, item, SIMBA_ECORRUPT, text);
    } else {
        simba__sql_waiting_decided(store, row, request);
    }
}

/* True: something changed. */
static bool decide(simba__sql_store *store)
{
    simba__sql_batch *batch = &store->batch;
    bool waiters_change = false;
    batch->writes = false;
    for (size_t i = 0; i < batch->row_count; i++) {
        simba__sql_row *row = &batch->rows[i];
        row->now_ms = batch->now_ms;
        for (size_t j = row->first; j < row->last; j++)
            if (batch->items[j].request)
                decide_item(store, row, &batch->items[j]);
        if (row->presence != SIMBA__SQL_LOCKED)
            continue;
        simba__sql_waiting_settle(store, row);
        batch->writes |= row->is_put || row->note || row->is_forgotten_now;
    }
    for (size_t i = 0; i < batch->waiter_count; i++)
        waiters_change |= batch->waiters[i].is_changed || batch->waiters[i].is_gone;
    return batch->writes || waiters_change || batch->notice_count > 0;
}

/* --- answers -------------------------------------------------------------------------------------------------- */

/* The mutex is free, and one of this client still believes that it holds it: let that one ask. */
static void ask_holder(simba__sql_store *store, const simba__sql_row *row)
{
    const simba_push push = {.kind = SIMBA_PUSH_FREED,
                             .owner = {.token = simba__sql_grants_floor(&store->grants, row->mutex)},
                             .now_ms = row->now_ms};
    store->host->push_to(store->host, row->mutex, simba__sql_grants_holder(&store->grants, row->mutex), &push);
}

/* First what this client remembers and who watches, then the requests. */
static void answer(simba__sql_store *store)
{
    simba__sql_batch *batch = &store->batch;
    const simba_local now = store->host->now(store->host);
    for (size_t i = 0; i < batch->row_count; i++) {
        simba__sql_row *row = &batch->rows[i];
        if (row->flaw || row->presence == SIMBA__SQL_MISSING)
            continue;
        const simba_reply shown = simba__sql_row_read(row);
        simba__sql_saw(store, row, &shown, batch->began_tick, now);
        for (size_t j = row->first; j < row->last; j++) {
            const simba__sql_item *item = &batch->items[j];
            if (!item->request || item->is_aside || item->request->op == SIMBA_OP_WRITE_NOTE ||
                item->request->op == SIMBA_OP_FORGET)
                continue;
            if (!item->is_expired)
                simba__sql_grants_answered(&store->grants, item->request, batch->began);
            if (item->is_kept_back)
                ask_holder(store, row);
        }
    }
    for (size_t i = 0; i < batch->count; i++) {
        simba__sql_item *item = &batch->items[i];
        simba_request *request = item->request;
        item->request = NULL;
        if (!request)
            continue;
        if (!item->is_aside)
            store->host->complete(store->host, request);
        else if (item->is_expired)
            store->host->fail(store->host, request, SIMBA_ETIMEDOUT, "%s %s: no answer in time", store->place.store,
                              store->place.where);
        else
            simba__sql_stand_aside(store, request);
    }
}

/* --- failures --------------------------------------------------------------------------------------------------- */

static void tell_all(simba__sql_store *store, const simba__sql_failure *why)
{
    for (size_t i = 0; i < store->batch.count; i++) {
        simba__sql_item *item = &store->batch.items[i];
        simba_request *request = item->request;
        item->request = NULL;
        if (request && item->is_expired)
            store->host->fail(store->host, request, SIMBA_ETIMEDOUT, "%s %s: no answer in time", store->place.store,
                              store->place.where);
        else if (request)
            simba__sql_tell(store, request, why);
    }
}

void simba__sql_batch_end(simba__sql_store *store, const simba__sql_failure *why)
{
    tell_all(store, why);
    clear(&store->batch);
}

/* All that can come again do so: aside, or in the next batch, each with this mark unless it has it already. */
static void repeat_all(simba__sql_store *store, bool aside, int mark, const simba__sql_failure *why)
{
    for (size_t i = 0; i < store->batch.count; i++) {
        simba__sql_item *item = &store->batch.items[i];
        simba_request *request = item->request;
        if (!request || item->is_expired || (request->reply.status & mark))
            continue;
        item->request = NULL;
        if (aside) {
            request->reply = (simba_reply){0};
            simba__sql_stand_aside(store, request);
        } else {
            request->reply = (simba_reply){.status = mark};
            simba__sql_repeat(store, request);
        }
    }
    tell_all(store, why);
}

static void undo(simba__sql_store *store)
{
    ask(store, SIMBA__SQL_UNDOES, (simba__sql_ask){.kind = SIMBA__SQL_ROLLBACK}, NULL);
}

static void recover(simba__sql_store *store, const simba__sql_failure *why)
{
    simba__sql_batch *batch = &store->batch;
    const simba__sql_phase phase = batch->phase;
    const bool is_over = why->effect == SIMBA__SQL_LOST || why->effect == SIMBA__SQL_AWAY;
    if (phase == SIMBA__SQL_UNDOES) {
        if (!is_over)
            simba__sql_connection_close(&store->writer);
    } else if (why->effect == SIMBA__SQL_LOST && phase != SIMBA__SQL_WRITES) {
        repeat_all(store, false, SIMBA__SQL_WAS_REPEATED, why);
    } else if (why->effect == SIMBA__SQL_AGAIN) {
        repeat_all(store, true, 0, why);
    } else if (why->effect == SIMBA__SQL_ALONE && batch->count > 1) {
        repeat_all(store, false, SIMBA__SQL_GOES_ALONE, why);
    } else {
        tell_all(store, why);
    }
    if (is_over || phase == SIMBA__SQL_UNDOES)
        clear(batch);
    else
        undo(store);
}

/* --- one packet after another ------------------------------------------------------------------------------------- */

static void finish(simba__sql_store *store)
{
    simba__sql_failure why;
    const bool changes = decide(store);
    if (store->batch.lacks_memory) {
        (void)simba__sql_fail(&why, SIMBA__SQL_TELL, SIMBA_ENOMEM, "%s: out of memory", store->place.store);
        tell_all(store, &why);
        undo(store);
    } else if (changes) {
        ask(store, SIMBA__SQL_WRITES, (simba__sql_ask){.kind = SIMBA__SQL_WRITE, .batch = &store->batch}, NULL);
    } else {
        answer(store);
        undo(store);
    }
}

/* Rows that did not come back: look whether they are there. */
static bool see_missing(simba__sql_store *store)
{
    simba__sql_batch *batch = &store->batch;
    size_t count = 0;
    for (size_t i = 0; i < batch->row_count; i++)
        if (batch->rows[i].presence == SIMBA__SQL_MISSING)
            batch->names[count++] = batch->rows[i].mutex;
    if (count > 0)
        ask(store, SIMBA__SQL_SEES, (simba__sql_ask){.kind = SIMBA__SQL_SEE, .names = batch->names, .count = count},
            take_seen);
    return count > 0;
}

/* They are not, and somebody wants to acquire them. Never insert under the own gap lock: two of those are a deadlock. */
static bool make_missing(simba__sql_store *store)
{
    simba__sql_batch *batch = &store->batch;
    size_t count = 0;
    for (size_t i = 0; i < batch->row_count && !batch->has_made; i++) {
        bool is_wanted = false;
        for (size_t j = batch->rows[i].first; j < batch->rows[i].last; j++)
            is_wanted |= batch->items[j].request->op == SIMBA_OP_ACQUIRE;
        if (is_wanted && batch->rows[i].presence == SIMBA__SQL_MISSING)
            batch->names[count++] = batch->rows[i].mutex;
    }
    if (count > 0)
        ask(store, SIMBA__SQL_MAKES, (simba__sql_ask){.kind = SIMBA__SQL_MAKE, .names = batch->names, .count = count},
            NULL);
    return count > 0;
}

static void answered(simba__sql_connection *connection, const simba__sql_failure *why)
{
    simba__sql_store *store = connection->store;
    simba__sql_batch *batch = &store->batch;
    simba__sql_failure wrong_clock;
    if (why) {
        recover(store, why);
        return;
    }
    switch (batch->phase) {
    case SIMBA__SQL_LOCKS:
        if (batch->now_ms < 0) {
            (void)simba__sql_fail(&wrong_clock, SIMBA__SQL_TELL, SIMBA_ECORRUPT,
                                  "%s %s: the server's clock is out of range", store->place.store, store->place.where);
            recover(store, &wrong_clock);
        } else if (!see_missing(store)) {
            finish(store);
        }
        break;
    case SIMBA__SQL_SEES:
        if (!make_missing(store))
            finish(store);
        break;
    case SIMBA__SQL_MAKES:
        batch->has_made = true;
        lock(store);
        break;
    case SIMBA__SQL_WRITES:
        answer(store);
        clear(batch);
        break;
    default:
        clear(batch);
    }
}
