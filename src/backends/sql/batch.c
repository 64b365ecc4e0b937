/* See batch.h. */
#include "backends/sql/batch.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/assert.h"
#include "util/clock.h"
#include "util/mem.h"
#include "util/random.h"
#include "util/text.h"

enum { KEEP_ITEMS = 1024 };

/* --- items ---------------------------------------------------------------------------------------------- */

void simba__sql_item_fail(simba__sql_item *item, const simba_error *why)
{
    if (!item->error)
        item->error = simba__malloc(sizeof *item->error);
    if (item->error)
        *item->error = *why;
    else
        item->ask.reply.status = SIMBA_ENOMEM;
}

bool simba__sql_item_has_row(const simba__sql_item *item)
{
    return item->ask.op != SIMBA_OP_LIST && item->ask.op != SIMBA_OP_EXAMINE && item->ask.op != SIMBA_OP_PREPARE &&
           item->ask.op != SIMBA_OP_READ_NOTE;
}

static simba__sql_found *add_found(simba__sql_item *item, const char *text, const simba_stored_note *note)
{
    const size_t text_size = strlen(text) + 1;
    simba__sql_found *found = simba__calloc(1, sizeof *found + text_size + (note ? note->size : 0));
    if (!found)
        return NULL;
    memcpy(found->text, text, text_size);
    if (note) {
        found->note = *note;
        found->note.bytes = memcpy(found->text + text_size, note->bytes, note->size);
    }
    *(item->found ? item->found_end : &item->found) = found;
    item->found_end = &found->next;
    return found;
}

/* For the log: the beginning of a name that may have anything in it. */
static void show_name(const char *mutex, char *out, size_t size)
{
    size_t n = 0;
    for (; *mutex && n + sizeof "\\xFF…" <= size; mutex++) {
        const unsigned char byte = (unsigned char)*mutex;
        n += (size_t)snprintf(out + n, size - n, byte < 0x20 || byte >= 0x7F ? "\\x%02x" : "%c", byte);
    }
    snprintf(out + n, size - n, *mutex ? "…" : "");
}

static simba__sql_found *add_flawed(simba__sql_item *item, const char *mutex, const char *flaw)
{
    char name[80], text[400];
    show_name(mutex, name, sizeof name);
    snprintf(text, sizeof text, "%s: %s", name, flaw);
    simba__sql_found *found = add_found(item, text, NULL);
    if (found)
        found->is_flawed = true;
    return found;
}

int simba__sql_item_list(simba__sql_item *item, const simba__sql_row *row, const simba__sql_columns *columns)
{
    simba_error why = {0};
    simba_stored_note note;
    const bool has_note = simba__sql_columns_note(columns, &note);
    if (row->is_forgotten)
        return 0;
    if (item->ask.mutex && fnmatch(item->ask.mutex, row->mutex, 0) != 0)
        return 0;
    if (row->flaw || simba__check_mutex(row->mutex, &why) < 0)
        return add_flawed(item, row->mutex, row->flaw ? row->flaw : why.text) ? 0 : SIMBA_ENOMEM;
    if (has_note && !note.bytes)
        return add_flawed(item, row->mutex, "its note is too long") ? 0 : SIMBA_ENOMEM;
    simba__sql_found *found = add_found(item, row->mutex, has_note ? &note : NULL);
    if (!found)
        return SIMBA_ENOMEM;
    const simba_reply reply = simba__sql_row_read(row);
    found->owner = reply.owner;
    found->now_ms = reply.now_ms;
    return 0;
}

int simba__sql_item_note(simba__sql_item *item, simba__sql_columns *columns)
{
    simba_stored_note note;
    if (strcmp(simba__sql_columns_mutex(columns), item->ask.mutex) != 0)
        return 0;
    item->ask.reply.now_ms = columns->now_ms;
    if (!simba__sql_columns_note(columns, &note))
        return 0;
    if (!note.bytes) {
        item->ask.reply.status = SIMBA_ECORRUPT;
        return 0;
    }
    return add_found(item, item->ask.mutex, &note) ? 0 : SIMBA_ENOMEM;
}

void simba__sql_item_tell(simba__sql_item *item, bool is_fine, simba_verdict otherwise, const char *what,
                          const char *remedy, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    simba__sql_found *found = add_found(item, text, NULL);
    if (!found) {
        item->ask.reply.status = SIMBA_ENOMEM;
        return;
    }
    found->verdict = is_fine ? SIMBA_VERDICT_OK : otherwise;
    found->what = what;
    found->remedy = is_fine ? NULL : remedy;
}

static void forget_found(simba__sql_item *item)
{
    while (item->found) {
        simba__sql_found *next = item->found->next;
        simba__free(item->found);
        item->found = next;
    }
}

/* --- memory --------------------------------------------------------------------------------------------- */

void simba__sql_batch_init(simba__sql_batch *batch, simba__sql_place place, uint64_t seed)
{
    *batch = (simba__sql_batch){.place = place, .seed = seed, .rows_max = SIMBA__SQL_ROWS_MAX};
}

void simba__sql_batch_fini(simba__sql_batch *batch)
{
    simba__sql_batch_clear(batch);
    simba__free(batch->items);
}

bool simba__sql_batch_reserve(simba__sql_batch *batch, size_t count, size_t bytes)
{
    SIMBA__ASSERT(batch->count == 0);
    if (batch->items && count <= batch->capacity && bytes <= batch->names_capacity)
        return true;
    simba__free(batch->items);
    batch->items = simba__malloc(count * (sizeof *batch->items + sizeof *batch->rows + sizeof *batch->order) +
                                 (count + 1) * sizeof *batch->firsts + bytes);
    if (!batch->items)
        return false;
    batch->capacity = count;
    batch->names_capacity = bytes;
    /* One block, in the order of their alignment. */
    batch->rows = (simba__sql_row *)(batch->items + count);
    batch->order = (simba__sql_item **)(batch->rows + count);
    batch->firsts = (size_t *)(batch->order + count);
    batch->names = (char *)(batch->firsts + count + 1);
    return true;
}

static simba__sql_item *add(simba__sql_batch *batch)
{
    SIMBA__ASSERT(batch->count < batch->capacity);
    simba__sql_item *item = &batch->items[batch->count++];
    *item = (simba__sql_item){0};
    return item;
}

simba__sql_item *simba__sql_batch_add(simba__sql_batch *batch, simba_request *request)
{
    simba__sql_item *item = add(batch);
    item->ask = *request;
    item->ask.reply = (simba_reply){0};
    item->request = request;
    return item;
}

simba__sql_item *simba__sql_batch_add_poll(simba__sql_batch *batch, const char *mutex, simba_local deadline)
{
    simba__sql_item *item = add(batch);
    char *name = batch->names + batch->names_size;
    batch->names_size += strlen(mutex) + 1;
    SIMBA__ASSERT(batch->names_size <= batch->names_capacity);
    item->ask = (simba_request){.op = SIMBA_OP_READ, .mutex = strcpy(name, mutex), .deadline = deadline};
    return item;
}

void simba__sql_batch_clear(simba__sql_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        simba__free(batch->items[i].error);
        forget_found(&batch->items[i]);
    }
    batch->count = 0;
    batch->names_size = 0;
    if (batch->capacity > KEEP_ITEMS) {
        simba__free(batch->items);
        batch->items = NULL;
    }
}

/* --- steps ---------------------------------------------------------------------------------------------- */

static int by_name(const void *left, const void *right)
{
    const simba__sql_item *const a = *(simba__sql_item *const *)left;
    const simba__sql_item *const b = *(simba__sql_item *const *)right;
    const int order = strcmp(a->ask.mutex, b->ask.mutex);
    return order != 0 ? order : (a > b) - (a < b); /* they are in one array */
}

/* One row for each name among the items. */
static void arrange(simba__sql_batch *batch)
{
    size_t n = 0;
    for (size_t i = 0; i < batch->count; i++)
        if (simba__sql_item_has_row(&batch->items[i]))
            batch->order[n++] = &batch->items[i];
    qsort(batch->order, n, sizeof(void *), by_name);
    batch->row_count = 0;
    for (size_t i = 0; i < n; i++) {
        const char *mutex = batch->order[i]->ask.mutex;
        if (i > 0 && strcmp(batch->order[i - 1]->ask.mutex, mutex) == 0)
            continue;
        batch->firsts[batch->row_count] = i;
        batch->rows[batch->row_count++] = (simba__sql_row){.mutex = mutex};
    }
    batch->firsts[batch->row_count] = n;
}

void simba__sql_batch_begin(simba__sql_batch *batch, simba__sql_decider decider)
{
    SIMBA__ASSERT(batch->count > 0 && !batch->in_transaction);
    arrange(batch);
    batch->decider = decider;
    batch->step = (simba__sql_step){.action = SIMBA__SQL_NOTHING};
    batch->from = batch->at = 0;
    batch->to = batch->row_count;
}

void simba__sql_step_clear_rows(const simba__sql_step *step, int64_t now_ms)
{
    for (size_t i = 0; i < step->count; i++)
        simba__sql_row_clear(step->rows[i], now_ms);
}

static int compare_name(const void *key, const void *element)
{
    return strcmp(key, (*(simba__sql_row *const *)element)->mutex);
}

simba__sql_row *simba__sql_step_find_row(const simba__sql_step *step, const char *mutex)
{
    simba__sql_row **row = bsearch(mutex, step->rows, step->count, sizeof(simba__sql_row *), compare_name);
    return row ? *row : NULL;
}

static void fit_rows(simba__sql_batch *batch)
{
    while (batch->rows_max > 1 && batch->rows_max > batch->table.rows_max)
        batch->rows_max /= 2;
}

/* Note the state of the connection after a step. */
static void take_outcome(simba__sql_batch *batch, bool failed)
{
    switch (batch->step.action) {
    case SIMBA__SQL_READY:
    case SIMBA__SQL_READY_BARE:
        if (failed)
            batch->link = SIMBA__SQL_DOWN;
        else if (batch->link == SIMBA__SQL_DOWN)
            batch->link = SIMBA__SQL_FRESH;
        fit_rows(batch);
        break;
    case SIMBA__SQL_CLOSE:
        batch->link = SIMBA__SQL_DOWN;
        batch->in_transaction = false;
        break;
    case SIMBA__SQL_BEGIN:
        batch->in_transaction = !failed;
        break;
    case SIMBA__SQL_COMMIT:
    case SIMBA__SQL_ROLLBACK:
        batch->in_transaction = failed;
        break;
    default:
        break;
    }
}

/* The rules for every step, whichever code decided on it. */
static void check_step(const simba__sql_batch *batch)
{
    const simba__sql_step *step = &batch->step;
    const bool connects = step->action == SIMBA__SQL_READY || step->action == SIMBA__SQL_READY_BARE;
    SIMBA__ASSERT(connects || step->action == SIMBA__SQL_PAUSE || batch->link != SIMBA__SQL_DOWN);
    switch (step->action) {
    case SIMBA__SQL_LOCK:
    case SIMBA__SQL_LOCK_FREE:
    case SIMBA__SQL_PUT:
        SIMBA__ASSERT(step->count > 0 && step->count <= batch->rows_max);
        SIMBA__ASSERT(batch->in_transaction);
        break;
    case SIMBA__SQL_COMMIT:
    case SIMBA__SQL_ROLLBACK:
        SIMBA__ASSERT(batch->in_transaction);
        break;
    case SIMBA__SQL_DECIDE:
        SIMBA__ASSERT(step->count > 0 && step->count <= batch->rows_max);
        SIMBA__ASSERT(!batch->in_transaction);
        break;
    case SIMBA__SQL_CLOSE:
        break;
    default:
        SIMBA__ASSERT(!batch->in_transaction);
    }
}

simba__sql_step *simba__sql_batch_next(simba__sql_batch *batch, const simba__sql_failure *why, simba_local now,
                                       bool is_over)
{
    take_outcome(batch, why != NULL);
    if (batch->decider(batch, why, now, is_over)) {
        check_step(batch);
        return &batch->step;
    }
    SIMBA__ASSERT(!batch->in_transaction);
    if (batch->link == SIMBA__SQL_FRESH)
        batch->link = SIMBA__SQL_IDLED;
    return NULL;
}

/* --- for the deciders ------------------------------------------------------------------------------------- */

bool simba__sql_batch_any_row(const simba__sql_batch *batch, size_t row)
{
    (void)batch;
    (void)row;
    return true;
}

bool simba__sql_batch_step_rows(simba__sql_batch *batch, simba__sql_action action,
                                bool (*wanted)(const simba__sql_batch *batch, size_t row))
{
    size_t n = 0;
    for (; batch->at < batch->to && n < batch->rows_max; batch->at++)
        if (wanted(batch, batch->at))
            batch->chunk[n++] = &batch->rows[batch->at];
    batch->step = (simba__sql_step){.action = action, .rows = batch->chunk, .count = n};
    return n > 0;
}

bool simba__sql_batch_step(simba__sql_batch *batch, simba__sql_action action, simba__sql_item *item)
{
    batch->step = (simba__sql_step){.action = action, .item = item};
    return true;
}

bool simba__sql_batch_pause(simba__sql_batch *batch)
{
    const int64_t most_ns = (int64_t)(++batch->tries) * 4 * SIMBA__NS_PER_MS;
    simba__sql_batch_step(batch, SIMBA__SQL_PAUSE, NULL);
    batch->step.pause_ns = simba__random_range(&batch->seed, SIMBA__NS_PER_MS / 2, most_ns);
    return true;
}

bool simba__sql_batch_is_cut(const simba__sql_failure *why)
{
    return why->remedy == SIMBA__SQL_RECONNECT || why->remedy == SIMBA__SQL_LOST || why->remedy == SIMBA__SQL_SHRINK;
}

bool simba__sql_batch_may_put_off(simba__sql_batch *batch, const simba__sql_failure *why)
{
    if (why->remedy == SIMBA__SQL_SHRINK && batch->rows_max > 1) {
        batch->rows_max /= 2;
        return true;
    }
    return why->remedy == SIMBA__SQL_LOST && batch->link == SIMBA__SQL_IDLED;
}

simba_error simba__sql_batch_without_notes(const simba__sql_batch *batch)
{
    simba_error why = {0};
    simba__error_set(&why, SIMBA_ENOTSUP, "%s %s: the table %s has no room for notes yet; `simba init` makes it",
                     batch->place.store, batch->place.where, batch->place.table);
    return why;
}

void simba__sql_batch_fail_used_up(const simba__sql_batch *batch, const simba__sql_row *row, simba__sql_item *item)
{
    simba_error why = {0};
    simba__error_set(&why, SIMBA_ECORRUPT, "%s %s: the version of this mutex in %s is used up: it is %llu",
                     batch->place.store, batch->place.where, batch->place.table, (unsigned long long)row->version);
    simba__sql_item_fail(item, &why);
}

void simba__sql_batch_fail_flawed(const simba__sql_batch *batch, const simba__sql_row *row, simba__sql_item *item)
{
    simba_error why = {0};
    simba__error_set(&why, SIMBA_ECORRUPT, "%s %s: the row of this mutex in %s cannot be right: %s", batch->place.store,
                     batch->place.where, batch->place.table, row->flaw);
    simba__sql_item_fail(item, &why);
}
