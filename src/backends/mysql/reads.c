/* What a job does with requests that only read, and with those about the table itself. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "backends/mysql/batch.h"
#include "util/mem.h"
#include "util/text.h"

typedef struct found_arg {
    simba__sql_item *item;
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

static int complain_of(found_arg *arg, const char *mutex, const char *flaw)
{
    char name[80], text[400];
    show_name(mutex, name, sizeof name);
    snprintf(text, sizeof text, "%s: %s", name, flaw);
    simba__my_found *found = add_found(arg, text);
    if (!found)
        return SIMBA_ENOMEM;
    found->is_flawed = true;
    return 0;
}

static int list_one(void *user, const simba__my_row *row)
{
    found_arg *arg = user;
    simba_error why = {0};
    if (arg->item->ask.mutex && fnmatch(arg->item->ask.mutex, row->mutex, 0) != 0)
        return 0;
    if (row->flaw || simba__check_mutex(row->mutex, &why) < 0)
        return complain_of(arg, row->mutex, row->flaw ? row->flaw : why.text);
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

static int look_around(simba__my_session *session, simba__sql_item *item, simba__sql_failure *why)
{
    simba__my_item_forget_found(item);
    found_arg arg = {item, &item->found};
    int rc = 0;
    item->ask.reply = (simba_reply){0};
    switch (item->ask.op) {
    case SIMBA_OP_LIST:
        rc = simba__my_session_ready(session, false, why);
        return rc < 0 ? rc : simba__my_list_rows(session, list_one, &arg, why);
    case SIMBA_OP_PREPARE:
        rc = simba__my_schema_prepare(&session->conn, &session->schema, why);
        if (rc == 0)
            rc = simba__my_schema_check(&session->schema, session->conn.options, why);
        if (rc == 0)
            rc = simba__my_schema_check_rights(&session->conn, why);
        simba__my_session_end(session); /* statements that were prepared for the table as it was */
        return rc;
    default:
        rc = simba__my_schema_look(&session->conn, &session->schema, why);
        if (rc == 0 && simba__my_schema_examine(&session->conn, &session->schema, examine_one, &arg) < 0)
            rc = simba__my_out_of_memory(why);
        return rc;
    }
}

static void read_row(const simba__my_batch *batch, simba__my_row *row, simba__sql_item *item)
{
    if (row->flaw) {
        simba__sql_failure why;
        simba__my_row_fail(&batch->session, row, &why);
        simba__my_item_fail(item, &why.error);
        return;
    }
    simba__my_apply(row, &item->ask, 0);
    item->version = row->version;
}

static int read_rows(simba__my_batch *batch, simba__sql_failure *why)
{
    int rc = simba__my_session_ready(&batch->session, false, why);
    if (rc == 0)
        rc = simba__my_get_rows(&batch->session, batch->rows, batch->row_count, SIMBA__MY_GET, why);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < batch->row_count; i++)
        for (size_t k = batch->firsts[i]; k < batch->firsts[i + 1]; k++)
            read_row(batch, &batch->rows[i], batch->order[k]);
    return 0;
}

static void settle_rows(simba__my_batch *batch)
{
    simba__sql_failure why;
    if (batch->row_count == 0 || read_rows(batch, &why) == 0)
        return;
    const bool again = simba__my_batch_may_put_off(batch, &why);
    simba__my_batch_undo(batch, &why);
    for (size_t i = 0; i < batch->firsts[batch->row_count]; i++) {
        batch->order[i]->put_off = again;
        if (!again)
            simba__my_item_fail(batch->order[i], &why.error);
    }
}

static void settle_item(simba__my_batch *batch, simba__sql_item *item)
{
    simba__sql_failure why;
    if (!batch->session.conn.mysql) {
        item->put_off = true; /* the rows have lost it */
    } else if (look_around(&batch->session, item, &why) < 0) {
        item->put_off = simba__my_batch_may_put_off(batch, &why);
        simba__my_batch_undo(batch, &why);
        if (!item->put_off)
            simba__my_item_fail(item, &why.error);
    }
}

void simba__my_batch_read(simba__my_batch *batch)
{
    simba__sql_failure why;
    simba__my_batch_arrange(batch);
    if (simba__my_session_ready(&batch->session, true, &why) < 0) {
        for (size_t i = 0; i < batch->count; i++)
            simba__my_item_fail(&batch->items[i], &why.error);
        return;
    }
    settle_rows(batch);
    for (size_t i = 0; i < batch->count; i++)
        if (!simba__my_item_is_about_row(&batch->items[i]))
            settle_item(batch, &batch->items[i]);
    batch->session.reused = batch->session.conn.mysql != NULL;
}
