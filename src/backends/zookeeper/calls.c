/* The calls of the library that procedures are made of, each with what its answer tells; and watches. */
#include <stdio.h>
#include <string.h>

#include "backends/zookeeper/library.h"
#include "backends/zookeeper/zookeeper.h"
#include "util/mem.h"
#include "util/text.h"

/* --- watches ------------------------------------------------------------------------------------------------ */

zk_watch *simba__zk_watch_new(zk_store *self, void (*fired)(zk_watch *watch, int type))
{
    zk_watch *watch = simba__calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->store = self;
    watch->fired = fired;
    watch->next = self->watches;
    if (watch->next)
        watch->next->previous = watch;
    self->watches = watch;
    return watch;
}

void simba__zk_watch_free(zk_watch *watch)
{
    if (watch->previous)
        watch->previous->next = watch->next;
    else
        watch->store->watches = watch->next;
    if (watch->next)
        watch->next->previous = watch->previous;
    simba__free(watch);
}

void simba__zk_watches_drop(zk_store *self)
{
    for (zk_op *op = self->ops; op; op = op->next)
        op->watch = op->guard = NULL;
    while (self->watches)
        simba__zk_watch_free(self->watches);
}

static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)state, (void)path;
    zk_watch *watch = context;
    if (type == ZOO_SESSION_EVENT)
        return; /* every watch is told, and stays */
    watch->fired(watch, type);
    simba__zk_watch_free(watch);
}

/* The watch in this place, which was to be set with the call, if there was one: is it? */
static zk_watch *taken_from(zk_watch **place, bool set)
{
    zk_watch *watch = *place;
    *place = NULL;
    if (watch && !set) {
        simba__zk_watch_free(watch);
        watch = NULL;
    }
    return watch;
}

static zk_watch *taken(zk_op *op, bool set)
{
    return taken_from(&op->watch, set);
}

/* The call could not be made: neither is the watch set. */
static void watch_made(zk_op *op, unsigned calls_before)
{
    if (op->calls == calls_before)
        taken(op, false);
}

/* --- calls ---------------------------------------------------------------------------------------------- */

/* Made under the library's lock. `reply` is what the answer consists of. */
#define CALL(op, reply, call)                                                                                          \
    do {                                                                                                               \
        if (!about_to_call((op), (reply)))                                                                             \
            break;                                                                                                     \
        simba__zk_library_lock();                                                                                      \
        const int rc_ = (call);                                                                                        \
        simba__zk_library_unlock();                                                                                    \
        made((op), rc_);                                                                                               \
    } while (0)

static bool about_to_call(zk_op *op, zk_reply reply)
{
    const bool expected = simba__zk_wire_call(&op->store->session.wire, reply);
    op->no_memory |= !expected;
    return expected;
}

static zhandle_t *handle_of(const zk_op *op)
{
    return op->store->session.zh;
}

static bool is_loss(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONEXPIRED || rc == ZSESSIONMOVED ||
           rc == ZCLOSING || rc == ZINVALIDSTATE || rc == ZRUNTIMEINCONSISTENCY || rc == ZAUTHFAILED;
}

/* An answer that nobody is prepared for. */
static void note(zk_op *op, int rc)
{
    if (is_loss(rc))
        op->lost = true;
    else if (rc == ZMARSHALLINGERROR || rc == ZSYSTEMERROR)
        op->no_memory = true;
    else if (rc != ZOK && !op->error)
        op->error = rc;
}

static void made(zk_op *op, int rc)
{
    if (rc == ZOK) {
        op->calls++;
    } else {
        simba__zk_expect_not(&op->store->session.wire.expected);
        note(op, rc);
    }
}

static char *keep(zk_op *op, const char *text)
{
    char *copy = simba__strdup(text);
    op->no_memory |= !copy;
    return copy;
}

static char *child_path(zk_op *op, const char *path, const char *child)
{
    char *text = simba__zk_child_path(path, child);
    op->no_memory |= !text;
    return text;
}

static void on_synced(int rc, const char *value, const void *data)
{
    (void)value;
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    note(op, rc);
    simba__zk_op_go(op);
}

void simba__zk_call_sync(zk_op *op)
{
    CALL(op, ZK_REPLY_PATH, zoo_async(handle_of(op), "/", on_synced, op));
}

/* Whether they are there is shown by what comes after. */
static void on_parent(int rc, const char *value, const void *data)
{
    (void)value;
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    if (rc == ZUNIMPLEMENTED)
        op->store->no_containers = true;
    else if (rc == ZNOAUTH)
        op->refused = true; /* it may be there all the same */
    else if (rc != ZNODEEXISTS && rc != ZNONODE)
        note(op, rc);
    simba__zk_op_go(op);
}

void simba__zk_call_make_parents(zk_op *op, const char *path)
{
    const int mode = op->store->no_containers ? ZOO_PERSISTENT : ZOO_CONTAINER;
    char *part = keep(op, path);
    if (!part)
        return;
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        CALL(op, ZK_REPLY_PATH,
             zoo_acreate(handle_of(op), part, "", 0, simba__zk_acl(&op->store->options), mode, on_parent, op));
        if (!slash)
            break;
        *slash = '/';
    }
    simba__free(part);
}

/* The path of the child that the server has made: that of the call, and a number. NULL: it is something else. */
static const char *name_of_made(const zk_node *node, const char *path)
{
    const size_t length = strlen(node->queue->path);
    if (!path || strncmp(path, node->queue->path, length) != 0 || path[length] != '/')
        return NULL;
    const char *name = path + length + 1;
    return strncmp(name, node->prefix, strlen(node->prefix)) == 0 && !strchr(name, '/') ? name : NULL;
}

static void entered(zk_op *op, zk_node *node, const char *path, const struct Stat *stat)
{
    const char *name = name_of_made(node, path);
    if (!name || !stat || stat->czxid <= 0) {
        node->place = ZK_UNSURE;
        note(op, ZK_MALFORMED);
        return;
    }
    simba__free(node->name);
    node->name = keep(op, name);
    node->place = node->name ? ZK_HERE : ZK_UNSURE;
    node->czxid = stat->czxid;
    node->ctime_ms = stat->ctime;
    simba__zk_session_clock(&op->store->session, stat->ctime);
}

static void on_entered(int rc, const char *value, const struct Stat *stat, const void *data)
{
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    zk_node *node = op->node;
    if (rc == ZOK && node->in_table) {
        entered(op, node, value, stat);
    } else {
        node->place = is_loss(rc) ? ZK_UNSURE : ZK_ABSENT;
        op->missing |= rc == ZNONODE;
        if (rc != ZNONODE)
            note(op, rc);
    }
    simba__zk_op_go(op);
}

void simba__zk_call_enter(zk_op *op)
{
    zk_node *node = op->node;
    char *path = child_path(op, node->queue->path, node->prefix);
    if (!path)
        return;
    node->place = ZK_ENTERING;
    const unsigned before = op->calls;
    CALL(op, ZK_REPLY_PATH_STAT,
         zoo_acreate2(handle_of(op), path, node->id, (int)strlen(node->id), simba__zk_acl(&op->store->options),
                      ZOO_EPHEMERAL_SEQUENTIAL, on_entered, op));
    if (op->calls == before)
        node->place = ZK_ABSENT;
    simba__free(path);
}

/* Is this child ours? Its whole name is known, or else the uuid in it tells. */
static bool is_ours(const zk_node *node, const char *child)
{
    return node->name && (node->place == ZK_HERE || node->place == ZK_LEADS)
               ? strcmp(child, node->name) == 0
               : strncmp(child, node->prefix, strlen(node->prefix)) == 0;
}

static const char *first_of_ours(const zk_node *node, const struct String_vector *children)
{
    const char *ours = NULL;
    for (int32_t i = 0; node && i < children->count; i++)
        if (is_ours(node, children->data[i]) && (!ours || simba__zk_order(children->data[i], ours) < 0))
            ours = children->data[i];
    return ours;
}

/* What a server says that nobody has checked before: names of nodes, each not empty and without a slash. */
static bool are_names(zk_op *op, const struct String_vector *strings)
{
    bool good = strings && strings->count >= 0 && (strings->count == 0 || strings->data);
    for (int32_t i = 0; good && i < strings->count; i++)
        good = strings->data[i] && strings->data[i][0] && !strchr(strings->data[i], '/');
    if (!good)
        note(op, ZK_MALFORMED);
    return good;
}

static void look_at_children(zk_op *op, const struct String_vector *children)
{
    zk_node *node = op->node;
    const char *ours = first_of_ours(node, children);
    const char *leader = NULL;
    const char *before = NULL;
    size_t contenders = 0;
    for (int32_t i = 0; i < children->count; i++) {
        const char *child = children->data[i];
        if (!simba__zk_is_contender(child))
            continue;
        contenders++;
        if (!leader || simba__zk_order(child, leader) < 0)
            leader = child;
        if (ours && simba__zk_order(child, ours) < 0 && (!before || simba__zk_order(child, before) > 0))
            before = child;
    }
    op->children = contenders;
    op->leader = leader ? keep(op, leader) : NULL;
    op->before = before ? keep(op, before) : NULL;
    op->found = ours != NULL;
    if (ours && node->place != ZK_HERE && node->place != ZK_LEADS) {
        /* The answer to its making was lost. */
        simba__free(node->name);
        node->name = keep(op, ours);
        node->place = node->name ? ZK_HERE : ZK_UNSURE;
        node->czxid = 0;
    }
}

static void on_children(int rc, const struct String_vector *strings, const void *data)
{
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    simba__zk_op_forget(op);
    taken(op, rc == ZOK);
    if (rc == ZNONODE)
        op->missing = true;
    else if (rc != ZOK)
        note(op, rc);
    else if (are_names(op, strings))
        look_at_children(op, strings);
    simba__zk_op_go(op);
}

void simba__zk_call_children(zk_op *op, const char *path)
{
    CALL(op, ZK_REPLY_NAMES, zoo_aget_children(handle_of(op), path, 0, on_children, op));
}

static void on_names(int rc, const struct String_vector *strings, const void *data)
{
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    const bool good = rc == ZOK && are_names(op, strings);
    for (int32_t i = 0; good && i < strings->count; i++)
        if (!simba__zk_op_add_name(op, NULL, strings->data[i]))
            break;
    if (rc != ZOK && rc != ZNONODE)
        note(op, rc);
    simba__zk_op_go(op);
}

void simba__zk_call_names(zk_op *op, const char *path)
{
    CALL(op, ZK_REPLY_NAMES, zoo_aget_children(handle_of(op), path, 0, on_names, op));
}

static void on_row(int rc, const struct String_vector *strings, const void *data)
{
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    simba__zk_op_forget(op);
    if (rc == ZNONODE)
        op->missing = true;
    else if (rc != ZOK)
        note(op, rc);
    else if (are_names(op, strings)) {
        look_at_children(op, strings);
        for (int32_t i = 0; i < strings->count; i++)
            if (!simba__zk_is_contender(strings->data[i]) && !simba__zk_op_add_name(op, NULL, strings->data[i]))
                break;
    }
    simba__zk_op_go(op);
}

void simba__zk_call_row(zk_op *op, const char *path)
{
    CALL(op, ZK_REPLY_NAMES, zoo_aget_children(handle_of(op), path, 0, on_row, op));
}

/* --- calls about one node --------------------------------------------------------------------------------- */

static void show_owner(zk_op *op, const char *child, const char *id, int length, const struct Stat *stat)
{
    op->owner = (simba_owner){.acquired_at_ms = stat->ctime,
                              .ttl_at_ms = INT64_MAX,
                              .transition_at_ms = INT64_MAX,
                              .token = (uint64_t)stat->czxid};
    char text[SIMBA_ID_MAX + 8] = "";
    if (id && length > 0)
        memcpy(text, id, (size_t)length < sizeof text - 1 ? (size_t)length : sizeof text - 1);
    /* A latch of Curator's need not have an id, and yet it leads. */
    const char *shown = text[0] ? text : child;
    memcpy(op->owner.id, shown, (size_t)simba__text_cut(shown, SIMBA_ID_MAX));
}

static void on_owner(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    if (rc == ZOK && op->leader && stat)
        show_owner(op, op->leader, value, length, stat);
    else if (rc == ZNONODE)
        op->vanished = true;
    else
        note(op, rc == ZOK ? ZK_MALFORMED : rc);
    simba__zk_op_go(op);
}

void simba__zk_call_owner(zk_op *op, const char *path)
{
    char *child = child_path(op, path, op->leader);
    if (!child)
        return;
    CALL(op, ZK_REPLY_DATA_STAT, zoo_aget(handle_of(op), child, 0, on_owner, op));
    simba__free(child);
}

static void on_deleted(int rc, const void *data)
{
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    if (rc == ZNONODE)
        op->vanished = true;
    else
        note(op, rc);
    simba__zk_op_go(op);
}

void simba__zk_call_delete(zk_op *op, const char *path, const char *child)
{
    char *whole = child_path(op, path, child);
    if (!whole)
        return;
    CALL(op, ZK_REPLY_EMPTY, zoo_adelete(handle_of(op), whole, -1, on_deleted, op));
    simba__free(whole);
}

/* --- calls that set a watch --------------------------------------------------------------------------------- */

static void on_before(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    zk_watch *watch = taken(op, rc == ZOK);
    if (watch && watch->node)
        watch->node->before = watch;
    if (rc == ZOK && stat && op->leader && strcmp(op->leader, op->before) == 0)
        show_owner(op, op->leader, value, length, stat);
    else if (rc == ZNONODE)
        op->vanished = true;
    else if (rc != ZOK)
        note(op, rc);
    simba__zk_op_go(op);
}

void simba__zk_call_stand_behind(zk_op *op, zk_watch *watch)
{
    const unsigned calls = op->calls;
    char *path = child_path(op, op->node->queue->path, op->before);
    op->watch = watch;
    if (path)
        CALL(op, ZK_REPLY_DATA_STAT, zoo_awget(handle_of(op), path, on_watch, watch, on_before, op));
    watch_made(op, calls);
    simba__free(path);
}

static void on_own(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    (void)value, (void)length;
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    zk_watch *guard = taken_from(&op->guard, rc == ZOK);
    if (guard && guard->node)
        guard->node->guard = guard;
    if (rc == ZOK && stat && stat->czxid > 0) {
        op->node->czxid = stat->czxid;
        op->node->ctime_ms = stat->ctime;
    } else if (rc == ZNONODE) {
        op->vanished = true;
    } else {
        note(op, rc == ZOK ? ZK_MALFORMED : rc);
    }
    simba__zk_op_go(op);
}

void simba__zk_call_own(zk_op *op, zk_watch *guard)
{
    const unsigned calls = op->calls;
    char *path = child_path(op, op->node->queue->path, op->node->name);
    op->guard = guard;
    if (path)
        CALL(op, ZK_REPLY_DATA_STAT, zoo_awget(handle_of(op), path, guard ? on_watch : NULL, guard, on_own, op));
    if (op->calls == calls)
        taken_from(&op->guard, false);
    simba__free(path);
}

static void on_queue(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    (void)value, (void)length, (void)stat;
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    zk_watch *watch = taken(op, rc == ZOK);
    if (watch && watch->queue)
        watch->queue->watch = watch;
    note(op, rc);
    simba__zk_op_go(op);
}

void simba__zk_call_queue_watch(zk_op *op, zk_watch *watch)
{
    const unsigned calls = op->calls;
    op->watch = watch;
    CALL(op, ZK_REPLY_DATA_STAT, zoo_awget(handle_of(op), op->queue->path, on_watch, watch, on_queue, op));
    watch_made(op, calls);
}

void simba__zk_call_children_watch(zk_op *op, const char *path, zk_watch *watch)
{
    const unsigned calls = op->calls;
    op->watch = watch;
    CALL(op, ZK_REPLY_NAMES, zoo_awget_children(handle_of(op), path, on_watch, watch, on_children, op));
    watch_made(op, calls);
}

static void on_watched_exists(int rc, const struct Stat *stat, const void *data)
{
    (void)stat;
    zk_op *op = simba__zk_op_answered(data);
    if (!op)
        return;
    taken(op, rc == ZOK || rc == ZNONODE);
    op->missing = rc == ZNONODE;
    if (rc != ZNONODE)
        note(op, rc);
    simba__zk_op_go(op);
}

void simba__zk_call_exists_watch(zk_op *op, const char *path, zk_watch *watch)
{
    const unsigned calls = op->calls;
    op->watch = watch;
    CALL(op, ZK_REPLY_STAT, zoo_awexists(handle_of(op), path, on_watch, watch, on_watched_exists, op));
    watch_made(op, calls);
}
