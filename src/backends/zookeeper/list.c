/* Lists all mutexes, some at a time. Each is a row, which may have others below it. A mutex that has a note is in the
 * folder of notes even when its node has vanished. */
#include "backends/zookeeper/list.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "backends/zookeeper/look.h"
#include "backends/zookeeper/names.h"
#include "backends/zookeeper/notes.h"
#include "backends/zookeeper/stored_note.h"
#include "util/hash.h"
#include "util/mem.h"

enum {
    ROWS_AT_ONCE = 64,
    NAMES_MAX = ZK_FRAME_NAMES_MAX,
};

struct name {
    simba__list_item link;
    simba__node node;
    bool noted; /* it is in the folder of notes */
    char text[];
};

struct list {
    zk_op op;                /* first */
    simba__list names;       /* of mutexes */
    simba__table known;      /* the same names: none is listed twice */
    simba__list_item *begun; /* the latest name whose row was begun */
    bool busy;               /* list_on is beginning rows */
};

struct row {
    zk_look look; /* first */
    struct list *list;
    bool noted;       /* it has a note, or had one */
    bool listed;      /* the nodes below it were added to the list */
    size_t below;     /* children that are no contenders */
    char *second;     /* the contender behind the leader; NULL: there is none */
    simba_owner next; /* the same with its id; nobody: not known */
    zk_stored_note note;
    int64_t note_written_at_ms;
    char note_bytes[SIMBA_NOTE_MAX];
};

static void drop_names(struct list *list)
{
    while (list->names.first) {
        struct name *name = SIMBA__OF_ITEM(list->names.first, struct name, link);
        simba__list_remove(&name->link);
        simba__table_remove(&list->known, &name->node);
        simba__free(name);
    }
}

static bool is_named(const simba__node *node, const void *text)
{
    return strcmp(SIMBA__OF_NODE(node, const struct name, node)->text, text) == 0;
}

/* Add PARENT/TEXT, or TEXT, unless the list has it. NULL: there is no room, and the procedure knows. */
static struct name *add_name(struct list *list, const char *parent, const char *text)
{
    const size_t size = strlen(parent) + strlen(text) + 2;
    const bool room = list->names.count < NAMES_MAX;
    struct name *name = room && simba__table_reserve(&list->known) ? simba__calloc(1, sizeof *name + size) : NULL;
    if (!name) {
        simba__zk_op_note(&list->op, room ? ZK_NO_MEMORY : ZK_TOO_MANY);
        return NULL;
    }
    snprintf(name->text, size, "%s%s%s", parent, *parent ? "/" : "", text);
    const uint64_t hash = simba__hash(name->text);
    simba__node *there = simba__table_find(&list->known, hash, is_named, name->text);
    if (there) {
        simba__free(name);
        return SIMBA__OF_NODE(there, struct name, node);
    }
    simba__list_append(&list->names, &name->link);
    simba__table_add(&list->known, &name->node, hash);
    return name;
}

/* --- rows --------------------------------------------------------------------------------------------------- */

static void list_on(struct list *list);

/* The mutex of a row: the part of the path after ROOT/. */
static const char *mutex_of(const struct row *row)
{
    return row->look.path + strlen(row->look.op.ops->session->options->root) + 1;
}

static bool is_listed(const struct list *list, const char *mutex)
{
    const simba_request *request = list->op.request;
    return simba__zk_op_is_wanted(&list->op) && (!request->mutex || fnmatch(request->mutex, mutex, 0) == 0);
}

/* Can the pattern match this mutex, or one whose name begins with it? The name has to agree with the text of the
 * pattern before its first special character. */
static bool is_on_the_way(const struct list *list, const char *mutex)
{
    const char *pattern = list->op.request->mutex ? list->op.request->mutex : "";
    const size_t literal = strcspn(pattern, "*?[\\");
    const size_t length = strlen(mutex);
    return strncmp(pattern, mutex, literal < length ? literal : length) == 0;
}

/* A node without contenders that has children is only a part of their names. */
static bool is_mutex(const struct row *row)
{
    return row->note.size > 0 || (row->look.sight != ZK_SIGHT_MISSING && (row->look.leader || row->below == 0));
}

static void show_row(const struct row *row)
{
    struct list *list = row->list;
    const zk_look *look = &row->look;
    const zk_session *session = look->op.ops->session;
    if (!is_listed(list, mutex_of(row)) || !is_mutex(row))
        return;
    const simba_listing listing = {.size = sizeof listing,
                                   .mutex = mutex_of(row),
                                   .owner = &look->owner,
                                   .now_ms = simba__zk_session_now_ms(session),
                                   .waiters = look->contenders > 0 ? (int64_t)look->contenders - 1 : 0,
                                   .note = row->note.size > 0 ? row->note_bytes : NULL,
                                   .note_length = row->note.size,
                                   .note_token = row->note.token,
                                   .note_written_at_ms = row->note_written_at_ms,
                                   .next = row->next.id[0] ? row->next.id : NULL};
    if (session->host->listed(session->host, list->op.request, &listing) < 0)
        simba__zk_op_note(&list->op, ZK_NO_MEMORY);
}

static void forget_second(struct row *row)
{
    simba__free(row->second);
    row->second = NULL;
    row->next = (simba_owner){0};
}

/* List the nodes below it too, if their names can be names of mutexes. */
static void list_below(struct row *row, const zk_result *result)
{
    struct list *list = row->list;
    row->listed = true;
    for (size_t i = 0; i < result->count; i++) {
        const char *name = result->names[i];
        if (simba__zk_is_contender(name))
            continue;
        row->below++;
        if (strlen(mutex_of(row)) + 1 + strlen(name) <= SIMBA_MUTEX_BYTES && !add_name(list, mutex_of(row), name))
            return;
    }
}

static void row_listed(zk_op *op, const zk_result *result)
{
    struct row *row = (struct row *)op;
    simba__zk_look_listed(op, result);
    const char *second = row->look.leader ? simba__zk_after(result->names, result->count, row->look.leader) : NULL;
    row->second = second ? simba__strdup(second) : NULL;
    if (second && !row->second)
        simba__zk_op_note(op, ZK_NO_MEMORY);
    if (!row->listed && result->rc == ZOK)
        list_below(row, result);
}

/* If it has left meanwhile, or its id may not be read, it is not known. */
static void second_read(zk_op *op, const zk_result *result)
{
    struct row *row = (struct row *)op;
    if (result->rc == ZOK)
        row->next = simba__zk_owner_of(row->second, result);
    else if (result->rc != ZNONODE && result->rc != ZNOAUTH)
        simba__zk_op_note(op, result->rc);
}

/* A note that cannot be read is left out; its mutex is shown all the same. */
static void row_noted(zk_op *op, const zk_result *result)
{
    struct row *row = (struct row *)op;
    zk_stored_note *note = &row->note;
    *note = (zk_stored_note){0};
    if (result->rc != ZOK ||
        !simba__zk_stored_note_read(result->text, result->length > 0 ? (size_t)result->length : 0, note)) {
        if (result->rc != ZOK && result->rc != ZNONODE && result->rc != ZNOAUTH)
            simba__zk_op_note(op, result->rc);
        return;
    }
    memcpy(row->note_bytes, note->bytes, note->size);
    row->note_written_at_ms = note->size > 0 ? result->stat->mtime : 0;
}

static void read_note_of(struct row *row)
{
    char *path = simba__zk_note_path(row->look.op.ops, mutex_of(row));
    if (path)
        simba__zk_call_get(&row->look.op, path, NULL, NULL, row_noted);
    else
        simba__zk_op_note(&row->look.op, ZK_NO_MEMORY);
    simba__free(path);
}

static void row_on(zk_op *op)
{
    struct row *row = (struct row *)op;
    zk_look *look = &row->look;
    if (look->sight == ZK_SIGHT_VANISHED) {
        simba__zk_op_start(op);
        return;
    }
    if (!op->error && look->sight == ZK_SIGHT_LED && is_listed(row->list, mutex_of(row))) {
        simba__zk_look_ask(look);
        if (row->second)
            simba__zk_call_get(op, look->path, row->second, NULL, second_read);
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
    if (!simba__zk_op_is_wanted(&row->list->op)) {
        simba__zk_op_end(op);
        return;
    }
    simba__zk_look_forget(&row->look);
    forget_second(row);
    simba__zk_call_children(op, row->look.path, NULL, row_listed);
    if (row->noted && is_listed(row->list, mutex_of(row)))
        read_note_of(row);
    simba__zk_op_go(op);
}

static void row_fini(zk_op *op)
{
    forget_second((struct row *)op);
    simba__zk_look_fini(op);
}

static void row_ended(zk_op *op)
{
    struct list *list = ((struct row *)op)->list;
    list->op.awaited--;
    list_on(list);
}

static const zk_procedure of_row = {
    .run = read_row, .step = row_on, .ended = row_ended, .fini = row_fini, .persists = true};

static void begin_row(struct list *list, const struct name *name)
{
    struct row *row = simba__zk_look_new(list->op.ops, &of_row, sizeof *row, NULL, name->text);
    if (!row) {
        simba__zk_op_note(&list->op, ZK_NO_MEMORY);
        return;
    }
    row->list = list;
    row->noted = name->noted;
    list->op.awaited++;
    simba__zk_op_start(&row->look.op);
}

/* --- the list ------------------------------------------------------------------------------------------------- */

/* Begin some rows at a time, until none is left. Rows may end while others are begun. */
static void list_on(struct list *list)
{
    zk_op *op = &list->op;
    if (list->busy)
        return;
    list->busy = true; /* a row that ends as it begins must not come here again */
    while (op->phase == ZK_OP_RUNS && simba__zk_op_is_wanted(op) && !op->error && list->begun != list->names.last &&
           op->awaited < ROWS_AT_ONCE) {
        list->begun = list->begun ? list->begun->next : list->names.first;
        const struct name *name = SIMBA__OF_ITEM(list->begun, struct name, link);
        if (is_on_the_way(list, name->text))
            begin_row(list, name);
    }
    list->busy = false;
    if (op->awaited > 0)
        return;
    if (op->phase != ZK_OP_RUNS || !simba__zk_op_is_wanted(op))
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
        if (!add_name((struct list *)op, "", result->names[i]))
            break;
    if (result->rc != ZNONODE)
        simba__zk_op_note(op, result->rc);
}

/* A client without the right to read notes sees the mutexes without them. */
static void notes_listed(zk_op *op, const zk_result *result)
{
    char mutex[SIMBA_MUTEX_BYTES + 1];
    for (size_t i = 0; i < result->count; i++) {
        if (!simba__zk_mutex_of_note(result->names[i], mutex))
            continue; /* no contender of this library has made it */
        struct name *name = add_name((struct list *)op, "", mutex);
        if (!name)
            return;
        name->noted = true;
    }
    if (result->rc != ZNONODE && result->rc != ZNOAUTH)
        simba__zk_op_note(op, result->rc);
}

static void read_names(zk_op *op)
{
    struct list *list = (struct list *)op;
    drop_names(list);
    list->begun = NULL;
    simba__zk_call_agree(op); /* notes are shown: see notes.c */
    simba__zk_call_children(op, op->ops->session->options->root, NULL, names_listed);
    simba__zk_call_children(op, op->ops->session->options->notes, NULL, notes_listed);
    simba__zk_op_go(op);
}

static void list_fini(zk_op *op)
{
    struct list *list = (struct list *)op;
    drop_names(list);
    simba__table_fini(&list->known);
}

static const zk_procedure of_list = {.run = read_names, .step = names_read, .fini = list_fini};

void simba__zk_list(zk_ops *ops, simba_request *request)
{
    struct list *list = simba__zk_op_new(ops, &of_list, sizeof *list, request);
    if (list)
        simba__zk_op_start(&list->op);
}
