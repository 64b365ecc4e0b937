/* All mutexes, some at a time: each is a row, which may have others below it. */
#include "backends/zookeeper/list.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "backends/zookeeper/look.h"
#include "backends/zookeeper/names.h"
#include "util/mem.h"

enum {
    ROWS_AT_ONCE = 64,
    NAMES_MAX = ZK_FRAME_NAMES_MAX,
};

struct name {
    simba__list_item link;
    char text[];
};

struct list {
    zk_op op;                /* first */
    simba__list names;       /* of mutexes */
    simba__list_item *begun; /* the latest of them whose row was begun */
    bool busy;               /* rows are being begun */
};

struct row {
    zk_look look; /* first */
    struct list *list;
    bool listed;  /* what is below it was added to the list */
    size_t below; /* children that are no contenders */
};

static void drop_names(simba__list *names)
{
    while (names->first) {
        struct name *name = SIMBA__OF_ITEM(names->first, struct name, link);
        simba__list_remove(&name->link);
        simba__free(name);
    }
}

/* Keep PARENT/TEXT, or TEXT. False: there is no room for it, and the procedure was told. */
static bool add_name(zk_op *op, simba__list *names, const char *parent, const char *text)
{
    const size_t size = strlen(parent) + strlen(text) + 2;
    struct name *name = names->count < NAMES_MAX ? simba__calloc(1, sizeof *name + size) : NULL;
    if (!name) {
        simba__zk_op_note(op, names->count < NAMES_MAX ? ZK_NO_MEMORY : ZK_TOO_MANY);
        return false;
    }
    snprintf(name->text, size, "%s%s%s", parent, *parent ? "/" : "", text);
    simba__list_append(names, &name->link);
    return true;
}

/* --- rows --------------------------------------------------------------------------------------------------- */

static void list_on(struct list *list);

/* The mutex of a row: what comes after ROOT/. */
static const char *mutex_of(const struct row *row)
{
    return row->look.path + strlen(row->look.op.ops->session->options->root) + 1;
}

static bool is_listed(const struct list *list, const char *mutex)
{
    const simba_request *request = list->op.request;
    return request && (!request->mutex || fnmatch(request->mutex, mutex, 0) == 0);
}

/* Can this mutex be listed, or one whose name begins with it? It must agree with what the pattern says before its first
 * special character. */
static bool is_on_the_way(const struct list *list, const char *mutex)
{
    const char *pattern = list->op.request->mutex ? list->op.request->mutex : "";
    const size_t literal = strcspn(pattern, "*?[\\");
    const size_t length = strlen(mutex);
    return strncmp(pattern, mutex, literal < length ? literal : length) == 0;
}

/* A node that has no contenders, but children, is only a part of their names. */
static void show_row(const struct row *row)
{
    struct list *list = row->list;
    const zk_look *look = &row->look;
    const zk_session *session = look->op.ops->session;
    if (!is_listed(list, mutex_of(row)) || look->missing || (!look->leader && row->below > 0))
        return;
    const simba_listing listing = {.size = sizeof listing,
                                   .mutex = mutex_of(row),
                                   .owner = &look->owner,
                                   .now_ms = simba__zk_session_now_ms(session),
                                   .waiters = look->contenders > 0 ? (int64_t)look->contenders - 1 : 0};
    if (session->host->listed(session->host, list->op.request, &listing) < 0)
        simba__zk_op_note(&list->op, ZK_NO_MEMORY);
}

/* Have the nodes below it listed too, as far as their names can be those of mutexes. */
static void list_below(struct row *row, const zk_result *result)
{
    struct list *list = row->list;
    row->listed = true;
    for (size_t i = 0; i < result->count; i++) {
        const char *name = result->names[i];
        if (simba__zk_is_contender(name))
            continue;
        row->below++;
        if (strlen(mutex_of(row)) + 1 + strlen(name) <= SIMBA_MUTEX_BYTES &&
            !add_name(&list->op, &list->names, mutex_of(row), name))
            return;
    }
}

static void row_listed(zk_op *op, const zk_result *result)
{
    struct row *row = (struct row *)op;
    simba__zk_look_listed(op, result);
    if (!row->listed && result->rc == ZOK)
        list_below(row, result);
}

static void row_on(zk_op *op)
{
    struct row *row = (struct row *)op;
    zk_look *look = &row->look;
    if (look->vanished) {
        simba__zk_op_start(op);
        return;
    }
    if (!op->error && look->leader && !look->asked && is_listed(row->list, mutex_of(row))) {
        simba__zk_look_ask(look);
        simba__zk_op_go(op);
        return;
    }
    if (op->error)
        simba__zk_op_note(&row->list->op, op->error);
    else
        show_row(row);
    simba__zk_op_end(op);
}

static void read_row(zk_op *op)
{
    struct row *row = (struct row *)op;
    if (!row->list->op.request) {
        simba__zk_op_end(op);
        return;
    }
    simba__zk_look_forget(&row->look);
    simba__zk_call_children(op, row->look.path, NULL, row_listed);
    simba__zk_op_go(op);
}

static void row_ended(zk_op *op)
{
    struct list *list = ((struct row *)op)->list;
    list->op.awaited--;
    list_on(list);
}

static const zk_procedure of_row = {
    .run = read_row, .step = row_on, .ended = row_ended, .fini = simba__zk_look_fini, .persists = true};

static void begin_row(struct list *list, const char *mutex)
{
    struct row *row = simba__zk_look_new(list->op.ops, &of_row, sizeof *row, NULL, mutex);
    if (!row) {
        simba__zk_op_note(&list->op, ZK_NO_MEMORY);
        return;
    }
    row->list = list;
    list->op.awaited++;
    simba__zk_op_start(&row->look.op);
}

/* --- the list ------------------------------------------------------------------------------------------------- */

/* Some rows at a time, until there are none left. Rows may end while others are begun. */
static void list_on(struct list *list)
{
    zk_op *op = &list->op;
    if (list->busy)
        return;
    list->busy = true; /* so that a row that ends while it begins does not come here again */
    while (op->phase == ZK_OP_RUNS && op->request && !op->error && list->begun != list->names.last &&
           op->awaited < ROWS_AT_ONCE) {
        list->begun = list->begun ? list->begun->next : list->names.first;
        const char *mutex = SIMBA__OF_ITEM(list->begun, struct name, link)->text;
        if (is_on_the_way(list, mutex))
            begin_row(list, mutex);
    }
    list->busy = false;
    if (op->awaited > 0)
        return;
    if (op->phase != ZK_OP_RUNS)
        simba__zk_op_go(op);
    else if (simba__zk_op_good(op))
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
}

static void names_read(zk_op *op)
{
    list_on((struct list *)op);
}

static void names_listed(zk_op *op, const zk_result *result)
{
    for (size_t i = 0; i < result->count; i++)
        if (!add_name(op, &((struct list *)op)->names, "", result->names[i]))
            break;
    if (result->rc != ZNONODE)
        simba__zk_op_note(op, result->rc);
}

static void read_names(zk_op *op)
{
    struct list *list = (struct list *)op;
    drop_names(&list->names);
    list->begun = NULL;
    simba__zk_call_sync(op);
    simba__zk_call_children(op, op->ops->session->options->root, NULL, names_listed);
    simba__zk_op_go(op);
}

static void list_fini(zk_op *op)
{
    drop_names(&((struct list *)op)->names);
}

static const zk_procedure of_list = {.run = read_names, .step = names_read, .fini = list_fini};

void simba__zk_list(zk_ops *ops, simba_request *request)
{
    struct list *list = simba__zk_op_new(ops, &of_list, sizeof *list, request);
    if (list)
        simba__zk_op_start(&list->op);
}
