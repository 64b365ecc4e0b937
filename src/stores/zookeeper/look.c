/* Looks at mutexes without contending: READ and FORCE_RELEASE, LIST, and observers.
 *
 * READ and FORCE_RELEASE begin with a sync, so that a server that lags behind does not answer with the past. LIST shows notes, and so
 * begins with a write that most servers agree on. An observer watches the children of a mutex and its note; a mutex without a
 * node has no children to watch, so the observer watches for the node to be made. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "stores/zookeeper/zookeeper.h"
#include "util/hash.h"
#include "util/mem.h"

/* --- READ and FORCE_RELEASE --------------------------------------------------------------------------------- */

typedef struct zk_look {
    zk_op op; /* first */
    char *path;
    bool found;    /* there is a first child, which is read now */
    bool vanished; /* it has gone meanwhile */
    simba_owner owner;
} zk_look;

static void look_fini(zk_op *op)
{
    simba__free(((zk_look *)op)->path);
}

static void first_removed(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    if (result->error == ZK_NO_NODE)
        ((zk_look *)op)->vanished = true;
    else
        simba__zk_op_note(op, result->error);
}

static void first_read(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_look *look = (zk_look *)op;
    first_removed(op, call, result);
    if (result->error)
        return;
    look->owner = simba__zk_owner_of(call, result);
    /* A LeaderLatch does not watch its own node, so it will not notice. */
    if (op->request && op->request->op == SIMBA_OP_FORCE_RELEASE &&
        !simba__zk_is_made_by_us(simba__zk_child_of(call), look->owner.id))
        op->store->host->log(
            op->store->host, SIMBA_LOG_WARN,
            "zookeeper: the owner of %s is not one of this library; a LeaderLatch, as Simba on the JVM "
            "uses it, does not notice that it was removed and goes on leading until it is stopped or "
            "loses its connection",
            op->request->mutex);
}

static void look_listed(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_look *look = (zk_look *)op;
    (void)call;
    if (result->error != ZK_NO_NODE)
        simba__zk_op_note(op, result->error);
    if (result->contenders == 0 || !op->request)
        return;
    look->found = true;
    simba__zk_call(op, first_read, ZK_GET, look->path, result->names[0], false);
    if (op->request->op == SIMBA_OP_FORCE_RELEASE)
        simba__zk_call(op, first_removed, ZK_DELETE, look->path, result->names[0], false);
}

static void look_begin(zk_op *op)
{
    zk_look *look = (zk_look *)op;
    look->found = look->vanished = false;
    simba__zk_call_sync(op);
    simba__zk_call(op, look_listed, ZK_CHILDREN, look->path, NULL, false);
    simba__zk_op_go(op);
}

static void look_step(zk_op *op)
{
    const zk_look *look = (const zk_look *)op;
    const bool forces = op->request->op == SIMBA_OP_FORCE_RELEASE;
    if (look->vanished)
        look_begin(op); /* it went by itself; who leads now? */
    else
        simba__zk_finish(op, look->found && forces ? SIMBA_MINE : SIMBA_NOT_MINE,
                         look->found && !forces ? &look->owner : NULL);
}

static const zk_kind looking = {.begin = look_begin, .step = look_step, .fini = look_fini};

void simba__zk_look(zk_store *store, simba_request *request)
{
    zk_look *look = simba__zk_op_new(store, &looking, sizeof *look, request);
    if (!look)
        return;
    look->path = simba__zk_child_path(store->options.root, request->mutex);
    if (look->path) {
        simba__zk_op_start(&look->op);
        return;
    }
    simba__zk_fail_by(&look->op, ZK_NO_MEMORY);
    simba__zk_op_end(&look->op);
}

/* --- LIST: rows --------------------------------------------------------------------------------------------- */

enum { ROWS_AT_ONCE = 64 };

/* A mutex to look at, or a folder of some. */
typedef struct zk_name {
    simba__list_item link;
    simba__node node;
    bool noted; /* it is in the folder of notes */
    char text[];
} zk_name;

/* All of them: each is a row, which may have others below it. A mutex that has a note is in the folder of notes even when its node has
 * vanished. */
typedef struct zk_list {
    zk_op op;                /* first */
    simba__list names;       /* of mutexes */
    simba__table known;      /* the same names: none is listed twice */
    simba__list_item *begun; /* the latest name whose row was begun */
} zk_list;

typedef struct zk_row {
    zk_op op; /* first */
    zk_list *list;
    const zk_name *name;
    char *path;
    bool is_node, is_shown, vanished;
    size_t below, contenders;
    simba_owner owner, next;
    zk_stored_note note;
    int64_t note_written_at_ms;
    char note_bytes[SIMBA_NOTE_MAX];
} zk_row;

static bool is_named(const simba__node *node, const void *text)
{
    return strcmp(SIMBA__OF_NODE(node, const zk_name, node)->text, text) == 0;
}

/* Add ABOVE/CHILD, or CHILD, unless the list has it. NULL: there is no room, and the procedure knows. */
static zk_name *add_name(zk_list *list, const char *above, const char *child)
{
    const size_t size = strlen(above) + strlen(child) + 2;
    const bool room = list->names.count < ZK_NAMES_MOST;
    zk_name *name = room && simba__table_reserve(&list->known) ? simba__calloc(1, sizeof *name + size) : NULL;
    if (!name) {
        simba__zk_op_note(&list->op, room ? ZK_NO_MEMORY : ZK_TOO_MANY);
        return NULL;
    }
    snprintf(name->text, size, "%s%s%s", above, *above ? "/" : "", child);
    const uint64_t hash = simba__hash(name->text);
    simba__node *there = simba__table_find(&list->known, hash, is_named, name->text);
    if (there) {
        simba__free(name);
        return SIMBA__OF_NODE(there, zk_name, node);
    }
    simba__list_append(&list->names, &name->link);
    simba__table_add(&list->known, &name->node, hash);
    return name;
}

static bool is_wanted(const zk_list *list)
{
    return list->op.request && !list->op.expired && list->op.error == ZK_OK;
}

static bool is_listed(const zk_list *list, const char *mutex)
{
    return is_wanted(list) && (!list->op.request->mutex || fnmatch(list->op.request->mutex, mutex, 0) == 0);
}

/* Can the pattern match this mutex, or one whose name begins with it? The name must agree with the text of the pattern before
 * its first special character. */
static bool is_on_the_way(const zk_list *list, const char *mutex)
{
    const char *pattern = list->op.request->mutex ? list->op.request->mutex : "";
    const size_t literal = strcspn(pattern, "*?[\\");
    const size_t length = strlen(mutex);
    return strncmp(pattern, mutex, literal < length ? literal : length) == 0;
}

static void leader_read(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_row *row = (zk_row *)op;
    if (result->error == ZK_OK)
        row->owner = simba__zk_owner_of(call, result);
    else if (result->error == ZK_NO_NODE)
        row->vanished = true;
    else
        simba__zk_op_note(op, result->error);
}

/* If it has left meanwhile, or its id may not be read, it is not known. */
static void second_read(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_row *row = (zk_row *)op;
    if (result->error == ZK_OK)
        row->next = simba__zk_owner_of(call, result);
    else if (result->error != ZK_NO_NODE && result->error != ZK_NO_AUTH)
        simba__zk_op_note(op, result->error);
}

/* The nodes below it that are no contenders are listed too, if their names can be names of mutexes. */
static void row_listed(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_row *row = (zk_row *)op;
    const char *mutex = row->name->text;
    (void)call;
    row->is_node = result->error == ZK_OK;
    if (result->error != ZK_NO_NODE)
        simba__zk_op_note(op, result->error);
    row->contenders = result->contenders;
    row->below = result->count - result->contenders;
    for (size_t i = result->contenders; i < result->count; i++) {
        const bool fits = strlen(mutex) + 1 + strlen(result->names[i]) <= SIMBA_MUTEX_BYTES;
        if (fits && !add_name(row->list, mutex, result->names[i]))
            break;
    }
    if (row->is_shown && row->contenders > 0)
        simba__zk_call(op, leader_read, ZK_GET, row->path, result->names[0], false);
    if (row->is_shown && row->contenders > 1)
        simba__zk_call(op, second_read, ZK_GET, row->path, result->names[1], false);
}

/* A note that cannot be read is left out; its mutex is shown anyway. */
static void row_noted(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_row *row = (zk_row *)op;
    zk_stored_note *note = &row->note;
    (void)call;
    *note = (zk_stored_note){0};
    if (result->error != ZK_OK || !simba__zk_stored_note_read(result->text, result->length, note)) {
        *note = (zk_stored_note){0};
        if (result->error && result->error != ZK_NO_NODE && result->error != ZK_NO_AUTH)
            simba__zk_op_note(op, result->error);
        return;
    }
    if (note->size > 0)
        memcpy(row->note_bytes, note->bytes, note->size);
    note->bytes = row->note_bytes;
    row->note_written_at_ms = note->size > 0 ? result->stat.mtime_ms : 0;
}

static void row_begin(zk_op *op)
{
    zk_row *row = (zk_row *)op;
    row->vanished = false;
    row->owner = row->next = (simba_owner){0};
    row->is_shown = is_listed(row->list, row->name->text);
    simba__zk_call(op, row_listed, ZK_CHILDREN, row->path, NULL, false);
    if (row->name->noted && row->is_shown) {
        char *note = simba__zk_note_path(op->store, row->name->text);
        if (note)
            simba__zk_call(op, row_noted, ZK_GET, note, NULL, false);
        else
            simba__zk_op_note(op, ZK_NO_MEMORY);
        simba__free(note);
    }
    simba__zk_op_go(op);
}

/* A node without contenders that has children is only a part of their names. */
static void show_row(const zk_row *row)
{
    zk_list *list = row->list;
    simba_host *host = list->op.store->host;
    const bool is_mutex = row->note.size > 0 || (row->is_node && (row->contenders > 0 || row->below == 0));
    if (!row->is_shown || !is_mutex || !is_wanted(list))
        return;
    const simba_listing listing = {.size = sizeof listing,
                                   .mutex = row->name->text,
                                   .owner = &row->owner,
                                   .now_ms = simba__zk_now_ms(list->op.store),
                                   .waiters = row->contenders > 0 ? (int64_t)row->contenders - 1 : 0,
                                   .note = row->note.size > 0 ? row->note_bytes : NULL,
                                   .note_length = row->note.size,
                                   .note_token = row->note.token,
                                   .note_written_at_ms = row->note_written_at_ms,
                                   .next = row->next.id[0] ? row->next.id : NULL};
    if (host->listed(host, list->op.request, &listing) < 0)
        simba__zk_op_note(&list->op, ZK_NO_MEMORY);
}

static void row_step(zk_op *op)
{
    zk_row *row = (zk_row *)op;
    zk_list *list = row->list;
    if (row->vanished && !op->error && is_wanted(list)) {
        row_begin(op);
        return;
    }
    simba__zk_op_note(&list->op, op->error);
    if (!op->error)
        show_row(row);
    list->op.awaited--;
    simba__zk_op_end(op);
    simba__zk_op_go(&list->op);
}

static void row_fini(zk_op *op)
{
    simba__free(((zk_row *)op)->path);
}

static const zk_kind row_kind = {
    .begin = row_begin, .step = row_step, .lost = simba__zk_op_end, .fini = row_fini, .stays = true};

/* --- LIST: all rows ----------------------------------------------------------------------------------------- */

static void drop_names(zk_list *list)
{
    list->begun = NULL;
    while (list->names.first) {
        zk_name *name = SIMBA__OF_ITEM(list->names.first, zk_name, link);
        simba__list_remove(&name->link);
        simba__table_remove(&list->known, &name->node);
        simba__free(name);
    }
}

static void begin_row(zk_list *list, const zk_name *name)
{
    zk_row *row = simba__zk_op_new(list->op.store, &row_kind, sizeof *row, NULL);
    char *path = simba__zk_child_path(list->op.store->options.root, name->text);
    if (!row || !path) {
        simba__zk_op_note(&list->op, ZK_NO_MEMORY);
        simba__free(path);
        if (row)
            simba__zk_op_end(&row->op);
        return;
    }
    row->list = list;
    row->name = name;
    row->path = path;
    list->op.awaited++;
    row_begin(&row->op);
}

/* The names were read, or some rows are done: begin the next ones. */
static void list_step(zk_op *op)
{
    zk_list *list = (zk_list *)op;
    if (list->begun == list->names.last) {
        simba__zk_finish(op, SIMBA_NOT_MINE, NULL);
        return;
    }
    op->awaited++; /* a row that ends as it begins must not come here */
    while (is_wanted(list) && list->begun != list->names.last && op->awaited <= ROWS_AT_ONCE) {
        list->begun = list->begun ? list->begun->next : list->names.first;
        const zk_name *name = SIMBA__OF_ITEM(list->begun, zk_name, link);
        if (is_on_the_way(list, name->text))
            begin_row(list, name);
    }
    op->awaited--;
    simba__zk_op_go(op);
}

static void names_listed(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    for (size_t i = 0; i < result->count; i++)
        if (!add_name((zk_list *)op, "", result->names[i]))
            break;
    if (result->error != ZK_NO_NODE)
        simba__zk_op_note(op, result->error);
}

/* A client without the right to read notes sees the mutexes without them. */
static void notes_listed(zk_op *op, const zk_call *call, zk_result *result)
{
    char mutex[SIMBA_MUTEX_BYTES + 1];
    (void)call;
    for (size_t i = 0; i < result->count; i++) {
        if (!simba__zk_mutex_of_note(result->names[i], mutex))
            continue; /* no contender of this library has made it */
        zk_name *name = add_name((zk_list *)op, "", mutex);
        if (!name)
            return;
        name->noted = true;
    }
    if (result->error != ZK_NO_NODE && result->error != ZK_NO_AUTH)
        simba__zk_op_note(op, result->error);
}

static void list_begin(zk_op *op)
{
    drop_names((zk_list *)op);
    simba__zk_call_agree(op);
    simba__zk_call(op, names_listed, ZK_CHILDREN, op->store->options.root, NULL, false);
    simba__zk_call(op, notes_listed, ZK_CHILDREN, op->store->options.notes, NULL, false);
    simba__zk_op_go(op);
}

/* Its rows are lost with it. */
static void list_lost(zk_op *op)
{
    op->awaited = 0;
}

static void list_fini(zk_op *op)
{
    drop_names((zk_list *)op);
    simba__table_fini(&((zk_list *)op)->known);
}

static const zk_kind list_kind = {.begin = list_begin, .step = list_step, .lost = list_lost, .fini = list_fini};

void simba__zk_list(zk_store *store, simba_request *request)
{
    zk_list *list = simba__zk_op_new(store, &list_kind, sizeof *list, request);
    if (list)
        simba__zk_op_start(&list->op);
}

/* --- observers ---------------------------------------------------------------------------------------------- */

/* The watch of the children reports every change, also of those who wait; the observers hear only of another leader. */
typedef struct zk_observer {
    zk_op op; /* first */
    simba__list_item link;
    simba_watch *shown; /* NULL: nobody observes it any more */
    char *path, *note;
    zk_watch children, of_note;
    char *leader; /* as the observers were told last; NULL: nobody */
    char *first;  /* as the look under way has found */
    simba_owner owner;
    int64_t note_mzxid; /* of the latest write of the note; 0: none */
    bool known;         /* the observers were told something in this session */
    bool looks, again;  /* a look is under way; there is a reason for another */
    bool asked;         /* the first child was read */
} zk_observer;

static zk_observer *of(zk_op *op)
{
    return (zk_observer *)op;
}

/* Somebody has just made the node, or there is none: then its creation is watched for. */
static void node_found(zk_op *op, const zk_call *call, zk_result *result)
{
    if (result->error == ZK_OK)
        of(op)->again = true;
    else if (result->error == ZK_NO_NODE)
        simba__zk_watch(op, &of(op)->children, call);
    else
        simba__zk_op_note(op, result->error);
}

static void children_listed(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_observer *o = of(op);
    if (result->error == ZK_NO_NODE)
        simba__zk_call(op, node_found, ZK_EXISTS, o->path, NULL, true);
    else
        simba__zk_op_note(op, result->error);
    if (!result->error)
        simba__zk_watch(op, &o->children, call);
    if (result->contenders == 0)
        return;
    o->first = simba__strdup(result->names[0]);
    if (!o->first)
        simba__zk_op_note(op, ZK_NO_MEMORY);
}

/* The first push, CHANGED, covers the note too. */
static void note_found(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_observer *o = of(op);
    simba_host *host = op->store->host;
    if (result->error && result->error != ZK_NO_NODE) {
        if (result->error != ZK_NO_AUTH)
            simba__zk_op_note(op, result->error);
        return;
    }
    simba__zk_watch(op, &o->of_note, call);
    if (o->shown && o->known && result->stat.mzxid != o->note_mzxid)
        host->push(host, o->shown, &(simba_push){.kind = SIMBA_PUSH_NOTED});
    o->note_mzxid = result->stat.mzxid;
}

static void observed_read(zk_op *op, const zk_call *call, zk_result *result)
{
    of(op)->again |= result->error == ZK_NO_NODE;
    if (result->error == ZK_OK)
        of(op)->owner = simba__zk_owner_of(call, result);
}

static void observe(zk_observer *o)
{
    zk_op *op = &o->op;
    o->again = true;
    if (o->looks || !simba__zk_op_runs(op))
        return;
    op->error = ZK_OK;
    o->looks = true;
    o->again = o->asked = false;
    o->owner = (simba_owner){0};
    simba__free(o->first);
    o->first = NULL;
    simba__zk_call(op, children_listed, ZK_CHILDREN, o->path, NULL, true);
    simba__zk_call(op, note_found, ZK_EXISTS, o->note, NULL, true);
    simba__zk_op_go(op);
}

static void tell(zk_observer *o)
{
    simba_host *host = o->op.store->host;
    simba_push push = {.kind = SIMBA_PUSH_CHANGED};
    if (o->known && o->first && !simba_owner_is_none(&o->owner))
        push = (simba_push){.kind = SIMBA_PUSH_ACQUIRED, .owner = o->owner, .now_ms = simba__zk_now_ms(o->op.store)};
    else if (o->known && !o->first)
        push.kind = SIMBA_PUSH_FREED;
    o->known = true;
    simba__free(o->leader);
    o->leader = o->first;
    o->first = NULL;
    host->push(host, o->shown, &push);
}

static void observe_step(zk_op *op)
{
    zk_observer *o = of(op);
    const bool is_news = !o->known || !o->leader != !o->first || (o->first && strcmp(o->leader, o->first) != 0);
    if (!op->error && !o->again && is_news && o->known && o->first && !o->asked) {
        o->asked = true;
        simba__zk_call(op, observed_read, ZK_GET, o->path, o->first, false);
        simba__zk_op_go(op);
        return;
    }
    o->looks = false;
    if (op->error == ZK_NO_MEMORY || op->error == ZK_THROTTLED)
        simba__zk_op_later(op);
    else if (!op->error && o->again)
        observe(o);
    else if (!op->error && is_news)
        tell(o);
}

static void observe_begin(zk_op *op)
{
    observe(of(op));
}

static void observe_lost(zk_op *op)
{
    of(op)->looks = false;
}

static void observe_fini(zk_op *op)
{
    zk_observer *o = of(op);
    simba__list_remove(&o->link);
    simba__zk_unwatch(op->store, &o->children);
    simba__zk_unwatch(op->store, &o->of_note);
    simba__free(o->path);
    simba__free(o->note);
    simba__free(o->leader);
    simba__free(o->first);
}

static const zk_kind observing = {
    .begin = observe_begin, .step = observe_step, .lost = observe_lost, .fini = observe_fini, .stays = true};

static void children_fired(zk_watch *watch, int kind)
{
    (void)kind;
    observe(SIMBA__OF_ITEM(watch, zk_observer, children));
}

static void note_fired(zk_watch *watch, int kind)
{
    (void)kind;
    observe(SIMBA__OF_ITEM(watch, zk_observer, of_note));
}

int simba__zk_observe(void *instance, simba_watch *shown)
{
    zk_store *store = instance;
    zk_observer *o = simba__zk_op_new(store, &observing, sizeof *o, NULL);
    if (!o)
        return SIMBA_ENOMEM;
    o->path = simba__zk_child_path(store->options.root, shown->mutex);
    o->note = simba__zk_note_path(store, shown->mutex);
    if (!o->path || !o->note) {
        simba__zk_op_end(&o->op);
        return SIMBA_ENOMEM;
    }
    o->shown = shown;
    o->children.fired = children_fired;
    o->of_note.fired = note_fired;
    shown->backend_data = o;
    simba__list_append(&store->observers, &o->link);
    simba__zk_op_start(&o->op);
    store->host->wake(store->host); /* have the calls sent */
    return 0;
}

void simba__zk_unobserve(void *instance, simba_watch *shown)
{
    zk_store *store = instance;
    zk_observer *o = shown->backend_data;
    shown->backend_data = NULL;
    o->shown = NULL;
    simba__list_remove(&o->link);
    simba__zk_unwatch(store, &o->children);
    simba__zk_unwatch(store, &o->of_note);
    simba__zk_op_end(&o->op);
}

void simba__zk_observers_anew(zk_store *store)
{
    for (simba__list_item *link = store->observers.first; link; link = link->next)
        SIMBA__OF_ITEM(link, zk_observer, link)->known = false;
}
