/* See batch.h. */
#include "backends/mysql/batch.h"

#include <stdlib.h>
#include <string.h>

#include "util/mem.h"

enum { KEEP_ITEMS = 1024 };

/* --- items -------------------------------------------------------------------------------------------- */

void simba__my_batch_init(simba__my_batch *batch, simba_host *host, const simba__my_options *options)
{
    simba__my_session_init(&batch->session, host, options);
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
    batch->capacity = batch->texts_capacity = 0;
}

void simba__my_batch_fini(simba__my_batch *batch)
{
    simba__my_batch_clear(batch);
    free_memory(batch);
    simba__my_session_fini(&batch->session);
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

simba__sql_item *simba__my_batch_add(simba__my_batch *batch, const simba_request *request)
{
    simba__sql_item *item = &batch->items[batch->count++];
    memset(item, 0, sizeof *item);
    item->ask = *request;
    item->ask.mutex = copy(batch, request->mutex);
    item->ask.id = copy(batch, request->id);
    return item;
}

void simba__my_item_forget_found(simba__sql_item *item)
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
        simba__my_item_forget_found(&batch->items[i]);
    }
    batch->count = 0;
    batch->texts_size = 0;
    if (batch->capacity > KEEP_ITEMS)
        free_memory(batch);
}

void simba__my_item_fail(simba__sql_item *item, const simba_error *why)
{
    if (!item->error)
        item->error = simba__malloc(sizeof *item->error);
    if (item->error)
        *item->error = *why;
    else
        item->ask.reply.status = SIMBA_ENOMEM;
}

bool simba__my_item_is_about_row(const simba__sql_item *item)
{
    return item->ask.op != SIMBA_OP_LIST && item->ask.op != SIMBA_OP_EXAMINE && item->ask.op != SIMBA_OP_PREPARE;
}

static int by_name(const void *left, const void *right)
{
    const simba__sql_item *const a = *(simba__sql_item *const *)left;
    const simba__sql_item *const b = *(simba__sql_item *const *)right;
    const int order = strcmp(a->ask.mutex, b->ask.mutex);
    return order != 0 ? order : (a > b) - (a < b); /* they are in one array */
}

void simba__my_batch_arrange(simba__my_batch *batch)
{
    size_t n = 0;
    for (size_t i = 0; i < batch->count; i++)
        if (simba__my_item_is_about_row(&batch->items[i]))
            batch->order[n++] = &batch->items[i];
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

/* --- the connection ------------------------------------------------------------------------------------- */

void simba__my_batch_undo(simba__my_batch *batch, const simba__sql_failure *why)
{
    simba__my_conn *conn = &batch->session.conn;
    simba__sql_failure ignored;
    if (!conn->mysql)
        return;
    const bool is_open = (conn->mysql->server_status & SERVER_STATUS_IN_TRANS) != 0;
    if (why->remedy == SIMBA__SQL_RECONNECT || why->remedy == SIMBA__SQL_LOST || why->remedy == SIMBA__SQL_SHRINK ||
        (is_open && simba__my_conn_say(conn, "rollback", &ignored) < 0))
        simba__my_session_end(&batch->session);
}

bool simba__my_batch_may_put_off(simba__my_batch *batch, const simba__sql_failure *why)
{
    if (why->remedy == SIMBA__SQL_SHRINK && batch->session.most_rows > 1) {
        batch->session.most_rows /= 2;
        return true;
    }
    return why->remedy == SIMBA__SQL_LOST && batch->session.reused;
}
