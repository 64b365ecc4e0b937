#include "backends/zookeeper/calls.h"

#include <string.h>

#include "backends/zookeeper/names.h"
#include "util/assert.h"
#include "util/hash.h"
#include "util/mem.h"

/* A call in flight. */
struct call {
    zk_op *op;
    zk_watch *watch; /* the watch that it sets; NULL: none, or the session is over */
    zk_answered *answered;
};

/* A transaction in flight. The library writes its results into this memory. */
struct pair {
    struct call call; /* first */
    zoo_op_result_t results[2];
    struct Stat stat;
};

/* Watches of the same kind on the same path. */
typedef struct spot {
    simba__node node; /* of zk_ops.spots */
    simba__list watches;
    bool of_children;
    char path[];
} spot;

struct zk_watch {
    simba__list_item link; /* of its spot */
    spot *spot;            /* NULL: its call is not made yet */
    zk_ops *ops;
    zk_watch **slot; /* NULL: nobody wants the watch any more */
    void *owner;
    void (*fired)(void *owner, int type);
    struct call *call; /* the call in flight that sets it */
};

/* --- watches -------------------------------------------------------------------------------------------- */

zk_watch *simba__zk_watch_new(zk_op *op, zk_watch **slot, void *owner, void (*fired)(void *owner, int type))
{
    zk_watch *watch = simba__calloc(1, sizeof *watch);
    simba__zk_watch_drop(slot);
    if (!watch) {
        simba__zk_op_note(op, ZK_NO_MEMORY);
        return NULL;
    }
    watch->ops = op->ops;
    watch->slot = slot;
    watch->owner = owner;
    watch->fired = fired;
    *slot = watch;
    return watch;
}

void simba__zk_watch_drop(zk_watch **slot)
{
    if (*slot)
        (*slot)->slot = NULL;
    *slot = NULL;
}

struct place {
    const char *path;
    bool of_children;
};

static bool is_at(const simba__node *node, const void *key)
{
    const spot *s = SIMBA__OF_NODE(node, const spot, node);
    const struct place *place = key;
    return s->of_children == place->of_children && strcmp(s->path, place->path) == 0;
}

static spot *find_spot(const zk_ops *ops, const char *path, bool of_children)
{
    const struct place place = {path, of_children};
    simba__node *node = ops->spots.count > 0 ? simba__table_find(&ops->spots, simba__hash(path), is_at, &place) : NULL;
    return node ? SIMBA__OF_NODE(node, spot, node) : NULL;
}

static spot *make_spot(zk_ops *ops, const char *path, bool of_children)
{
    spot *s = simba__table_reserve(&ops->spots) ? simba__calloc(1, sizeof *s + strlen(path) + 1) : NULL;
    if (!s)
        return NULL;
    s->of_children = of_children;
    strcpy(s->path, path);
    simba__table_add(&ops->spots, &s->node, simba__hash(path));
    return s;
}

static void watch_free(zk_watch *watch)
{
    spot *s = watch->spot;
    if (watch->slot)
        *watch->slot = NULL;
    if (watch->call)
        watch->call->watch = NULL;
    if (s) {
        simba__list_remove(&watch->link);
        if (!s->watches.first) {
            simba__table_remove(&watch->ops->spots, &s->node);
            simba__free(s);
        }
    }
    simba__free(watch);
}

/* The call that sets the watch is about to be made. False: out of memory; the procedure knows, and the watch is freed. */
static bool place_watch(zk_op *op, zk_watch *watch, const char *path, bool of_children)
{
    if (!watch)
        return true;
    spot *s = find_spot(op->ops, path, of_children);
    watch->spot = s ? s : make_spot(op->ops, path, of_children);
    if (watch->spot) {
        simba__list_append(&watch->spot->watches, &watch->link);
        return true;
    }
    simba__zk_op_note(op, ZK_NO_MEMORY);
    watch_free(watch);
    return false;
}

static void drop_spot(const spot *s)
{
    for (simba__list_item *item = s->watches.first, *next; item; item = next) {
        next = item->next;
        watch_free(SIMBA__OF_ITEM(item, zk_watch, link)); /* the last one takes the spot along */
    }
}

void simba__zk_watches_drop(zk_ops *ops)
{
    for (simba__node *node = simba__table_first(&ops->spots), *next; node; node = next) {
        next = simba__table_next(&ops->spots, node);
        drop_spot(SIMBA__OF_NODE(node, const spot, node));
    }
    simba__table_fini(&ops->spots);
    ops->spots = (simba__table){0};
}

/* A watch whose call has been answered. Others were set after what has happened now, and wait for the next event. */
static zk_watch *next_set(const zk_ops *ops, const char *path, bool of_children)
{
    const spot *s = find_spot(ops, path, of_children);
    simba__list_item *item = s ? s->watches.first : NULL;
    while (item && SIMBA__OF_ITEM(item, zk_watch, link)->call)
        item = item->next;
    return item ? SIMBA__OF_ITEM(item, zk_watch, link) : NULL;
}

static void fire_all(zk_ops *ops, const char *path, bool of_children, int type)
{
    for (zk_watch *watch; (watch = next_set(ops, path, of_children)) != NULL;) {
        const bool wanted = watch->slot != NULL;
        void *owner = watch->owner;
        void (*fired)(void *owner, int type) = watch->fired;
        watch_free(watch);
        if (wanted)
            fired(owner, type);
    }
}

/* All watches have the same context. When each had its own, a client with 50,000 waiters stood still inside the library for minutes
 * when its connection broke: the library tells every context of that, and seems to compare each with all others first. */
static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    zk_ops *ops = context;
    (void)state;
    if (type == ZOO_SESSION_EVENT || !path || zh != ops->session->zh)
        return;
    if (type != ZOO_CHILD_EVENT)
        fire_all(ops, path, false, type);
    if (type == ZOO_CHILD_EVENT || type == ZOO_DELETED_EVENT)
        fire_all(ops, path, true, type);
}

/* --- making them ------------------------------------------------------------------------------------------ */

/* `call_` has the struct call `data` for its answer, which consists of `reply`. */
#define CALL(op, reply, watch, answered, call_)                                                                        \
    do {                                                                                                               \
        struct call *data = about_to_call((op), sizeof(struct call), (reply), (watch), (answered));                    \
        if (!data)                                                                                                     \
            break;                                                                                                     \
        made(data, (call_));                                                                                           \
    } while (0)

static void *about_to_call(zk_op *op, size_t size, zk_reply reply, zk_watch *watch, zk_answered *answered)
{
    struct call *call = simba__calloc(1, size);
    if (!call || !simba__zk_wire_begin(&op->ops->session->wire, reply)) {
        simba__free(call);
        simba__zk_op_note(op, ZK_NO_MEMORY);
        if (watch)
            watch_free(watch);
        return NULL;
    }
    *call = (struct call){op, watch, answered};
    if (watch)
        watch->call = call;
    return call;
}

static void made(struct call *call, int rc)
{
    zk_op *op = call->op;
    simba__zk_wire_made(&op->ops->session->wire, rc);
    if (rc == ZOK) {
        op->awaited++;
        return;
    }
    simba__zk_op_note(op, rc);
    if (call->watch)
        watch_free(call->watch);
    simba__free(call);
}

static zhandle_t *handle_of(const zk_op *op)
{
    return op->ops->session->zh;
}

static char *path_of(zk_op *op, const char *path, const char *child)
{
    char *text = simba__zk_child_path(path, child);
    if (!text)
        simba__zk_op_note(op, ZK_NO_MEMORY);
    return text;
}

/* --- answers ------------------------------------------------------------------------------------------------ */

static struct Stat with_bounded_times(const struct Stat *told)
{
    struct Stat stat = *told;
    stat.ctime = simba__zk_time_ms(told->ctime);
    stat.mtime = simba__zk_time_ms(told->mtime);
    return stat;
}

/* `set`: the answer sets a watch. */
static void answer(const void *data, const zk_result *told, bool set)
{
    struct call *call = (struct call *)(uintptr_t)data;
    zk_op *op = call->op;
    zk_watch *watch = call->watch;
    zk_answered *answered = call->answered;
    zk_result result = *told;
    struct Stat stat;
    simba__free(call);
    if (told->rc == ZOK && told->stat) {
        stat = with_bounded_times(told->stat);
        result.stat = &stat;
    }
    op->awaited--;
    if (op->phase != ZK_OP_CLOSED) {
        simba__zk_expected_answered(&op->ops->session->wire.expected);
        if (watch)
            watch->call = NULL;
        if (watch && !set)
            watch_free(watch);
        result.watched = watch && set && watch->slot;
        answered(op, &result);
    }
    simba__zk_op_go(op);
}

static void on_deleted(int rc, const void *data)
{
    answer(data, &(zk_result){.rc = rc}, false);
}

static void on_path(int rc, const char *value, const void *data)
{
    answer(data, &(zk_result){.rc = rc, .text = value}, false);
}

static void on_created(int rc, const char *value, const struct Stat *stat, const void *data)
{
    answer(data, &(zk_result){.rc = rc == ZOK && !(value && stat) ? ZK_MALFORMED : rc, .text = value, .stat = stat},
           false);
}

static void on_pair(int rc, const void *data)
{
    const struct pair *pair = data;
    const size_t failed = pair->results[0].err != ZOK ? 0 : 1;
    const bool good = pair->results[0].err == ZOK && pair->results[1].err == ZOK;
    const struct Stat stat = pair->stat;
    answer(data, &(zk_result){.rc = rc == ZOK && !good ? ZK_MALFORMED : rc, .stat = &stat, .failed = failed}, false);
}

static void on_exists(int rc, const struct Stat *stat, const void *data)
{
    answer(data, &(zk_result){.rc = rc, .stat = stat}, rc == ZOK || rc == ZNONODE);
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    answer(data,
           &(zk_result){.rc = rc == ZOK && !stat ? ZK_MALFORMED : rc, .text = value, .length = length, .stat = stat},
           rc == ZOK);
}

/* Check the names of nodes that a server sends: none is empty or has a slash. */
static bool are_names(const struct String_vector *strings)
{
    bool good = strings && strings->count >= 0 && (strings->count == 0 || strings->data);
    for (int32_t i = 0; good && i < strings->count; i++)
        good = strings->data[i] && strings->data[i][0] && !strchr(strings->data[i], '/');
    return good;
}

static void on_names(int rc, const struct String_vector *strings, const void *data)
{
    const bool good = rc == ZOK && are_names(strings);
    answer(data,
           &(zk_result){.rc = rc == ZOK && !good ? ZK_MALFORMED : rc,
                        .names = good ? strings->data : NULL,
                        .count = good ? (size_t)strings->count : 0},
           rc == ZOK);
}

/* --- calls -------------------------------------------------------------------------------------------------- */

static void synced(zk_op *op, const zk_result *result)
{
    simba__zk_op_note(op, result->rc);
}

void simba__zk_call_sync(zk_op *op)
{
    CALL(op, ZK_REPLY_PATH, NULL, synced, zoo_async(handle_of(op), "/", on_path, data));
}

static void agreed(zk_op *op, const zk_result *result)
{
    if (result->rc != ZBADVERSION && result->rc != ZNOAUTH) /* most servers have agreed on these two errors */
        simba__zk_op_note(op, result->rc == ZOK ? ZK_MALFORMED : result->rc);
}

void simba__zk_call_agree(zk_op *op)
{
    CALL(op, ZK_REPLY_STAT, NULL, agreed, zoo_aset(handle_of(op), "/", "", 0, ZK_NO_SUCH_VERSION, on_exists, data));
}

void simba__zk_call_parents(zk_op *op, const char *path, zk_answered *answered)
{
    const struct ACL_vector *acl = simba__zk_acl(op->ops->session->options);
    const int mode = op->ops->no_containers ? ZOO_PERSISTENT : ZOO_CONTAINER;
    char *part = simba__strdup(path);
    if (!part) {
        simba__zk_op_note(op, ZK_NO_MEMORY);
        return;
    }
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        CALL(op, ZK_REPLY_PATH, NULL, answered, zoo_acreate(handle_of(op), part, "", 0, acl, mode, on_path, data));
        if (!slash)
            break;
        *slash = '/';
    }
    simba__free(part);
}

bool simba__zk_call_create(zk_op *op, const char *path, const char *prefix, const char *id, zk_answered *answered)
{
    const struct ACL_vector *acl = simba__zk_acl(op->ops->session->options);
    const unsigned before = op->awaited;
    char *child = path_of(op, path, prefix);
    if (child)
        CALL(op, ZK_REPLY_PATH_STAT, NULL, answered,
             zoo_acreate2(handle_of(op), child, id, (int)strlen(id), acl, ZOO_EPHEMERAL_SEQUENTIAL, on_created, data));
    simba__free(child);
    return op->awaited > before;
}

void simba__zk_call_children(zk_op *op, const char *path, zk_watch *watch, zk_answered *answered)
{
    if (place_watch(op, watch, path, true))
        CALL(op, ZK_REPLY_NAMES, watch, answered,
             zoo_awget_children(handle_of(op), path, watch ? on_watch : NULL, op->ops, on_names, data));
}

void simba__zk_call_exists(zk_op *op, const char *path, zk_watch *watch, zk_answered *answered)
{
    if (place_watch(op, watch, path, false))
        CALL(op, ZK_REPLY_STAT, watch, answered,
             zoo_awexists(handle_of(op), path, watch ? on_watch : NULL, op->ops, on_exists, data));
}

void simba__zk_call_get(zk_op *op, const char *path, const char *child, zk_watch *watch, zk_answered *answered)
{
    char *whole = child ? path_of(op, path, child) : NULL;
    const char *full = child ? whole : path;
    if (!full && watch)
        watch_free(watch);
    else if (full && place_watch(op, watch, full, false))
        CALL(op, ZK_REPLY_DATA_STAT, watch, answered,
             zoo_awget(handle_of(op), full, watch ? on_watch : NULL, op->ops, on_data, data));
    simba__free(whole);
}

void simba__zk_call_delete(zk_op *op, const char *path, const char *child, zk_answered *answered)
{
    char *whole = path_of(op, path, child);
    if (whole)
        CALL(op, ZK_REPLY_EMPTY, NULL, answered, zoo_adelete(handle_of(op), whole, -1, on_deleted, data));
    simba__free(whole);
}

void simba__zk_call_keep(zk_op *op, const char *path, const char *data_, size_t length, zk_answered *answered)
{
    const struct ACL_vector *acl = simba__zk_acl(op->ops->session->options);
    CALL(op, ZK_REPLY_PATH, NULL, answered,
         zoo_acreate(handle_of(op), path, data_, (int)length, acl, ZOO_PERSISTENT, on_path, data));
}

void simba__zk_call_both(zk_op *op, const zk_change changes[2], zk_answered *answered)
{
    const zk_reply reply = changes[1].kind == ZK_SET ? ZK_REPLY_PAIR_STAT : ZK_REPLY_PAIR;
    zoo_op_t ops[2];
    SIMBA__ASSERT(changes[0].kind != ZK_SET);
    struct pair *pair = about_to_call(op, sizeof *pair, reply, NULL, answered);
    if (!pair)
        return;
    for (size_t i = 0; i < 2; i++) {
        const zk_change *change = &changes[i];
        if (change->kind == ZK_CHECK)
            zoo_check_op_init(&ops[i], change->path, change->version);
        else if (change->kind == ZK_SET)
            zoo_set_op_init(&ops[i], change->path, change->data, (int)change->length, change->version, &pair->stat);
        else
            zoo_delete_op_init(&ops[i], change->path, change->version);
    }
    made(&pair->call, zoo_amulti(handle_of(op), 2, ops, pair->results, on_pair, pair));
}

simba_owner simba__zk_owner_of(const char *child, const zk_result *result)
{
    char text[SIMBA_ID_MAX + 8] = "";
    if (result->text && result->length > 0)
        memcpy(text, result->text, (size_t)result->length < sizeof text - 1 ? (size_t)result->length : sizeof text - 1);
    /* A LeaderLatch of Curator may have no id; it leads all the same. */
    return simba__zk_owner(text[0] ? text : child, result->stat->czxid, result->stat->ctime);
}
