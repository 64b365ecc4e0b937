/* ACQUIRE, RENEW and RELEASE: carries out what latch.c decides, and tells the client what came of it.
 *
 * A contender is in the table from its first ACQUIRE until its child is known to be gone, or the session is over. It has one request
 * at a time: a newer one fails an older one, which the client has given up by then.
 *
 * Contenders that need the children of a mutex in the same flush share one list, which is sent behind the creations of the flush. A
 * leader watches its child, and a waiter asks who leads, only when that has lasted for 20 ms: it would cost a short critical section
 * a request of its own. */
#include <string.h>

#include "stores/zookeeper/zookeeper.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"

enum { LATER_MS = 20, SOON_MS = 5, RETRY_MS = 500 };

#define OF_NODE(node_) SIMBA__OF_NODE(node_, zk_contender, node)

/* The node of a mutex, and those who wait for a list of its children. */
typedef struct zk_mutex {
    simba__node node;
    simba__list_item unlisted;
    simba__list members;
    unsigned refs;
    char path[];
} zk_mutex;

/* A list that is under way. */
typedef struct zk_view {
    zk_op op; /* first */
    zk_mutex *mutex;
    simba__list members;
} zk_view;

static const zk_kind contending;

static zk_contender *of(zk_op *op)
{
    return (zk_contender *)op;
}

/* --- the table ---------------------------------------------------------------------------------------------- */

static bool is_mutex(const simba__node *node, const void *path)
{
    return strcmp(SIMBA__OF_NODE(node, const zk_mutex, node)->path, path) == 0;
}

static zk_mutex *mutex_get(zk_store *store, const char *name)
{
    char *path = simba__zk_child_path(store->options.root, name);
    if (!path)
        return NULL;
    const uint64_t hash = simba__hash(path);
    simba__node *node = simba__table_find(&store->mutexes, hash, is_mutex, path);
    zk_mutex *mutex = node ? SIMBA__OF_NODE(node, zk_mutex, node) : NULL;
    if (!mutex && simba__table_reserve(&store->mutexes))
        mutex = simba__calloc(1, sizeof *mutex + strlen(path) + 1);
    if (mutex && !node) {
        strcpy(mutex->path, path);
        simba__table_add(&store->mutexes, &mutex->node, hash);
    }
    simba__free(path);
    if (mutex)
        mutex->refs++;
    return mutex;
}

static void mutex_put(zk_store *store, zk_mutex *mutex)
{
    if (--mutex->refs > 0)
        return;
    simba__list_remove(&mutex->unlisted);
    simba__table_remove(&store->mutexes, &mutex->node);
    simba__free(mutex);
}

static bool is_of(const simba__node *node, const void *key)
{
    const zk_contender *c = OF_NODE(node);
    const simba_request *request = key;
    return c->nonce == request->nonce && strcmp(c->id, request->id) == 0 && strcmp(c->mutex, request->mutex) == 0;
}

zk_contender *simba__zk_contender_find(zk_store *store, const simba_request *request)
{
    simba__node *node = simba__table_find(&store->contenders, request->nonce, is_of, request);
    return node ? OF_NODE(node) : NULL;
}

bool simba__zk_holds(const zk_contender *c, const simba_request *request)
{
    return c && c->latch.place == ZK_LEADS && !c->latch.leaving && (uint64_t)c->latch.czxid == request->token;
}

static void before_fired(zk_watch *watch, int kind);
static void own_fired(zk_watch *watch, int kind);

static zk_contender *contender_new(zk_store *store, simba_request *request)
{
    zk_contender *c = NULL;
    if (simba__table_reserve(&store->contenders))
        c = simba__zk_op_new(store, &contending, sizeof *c, NULL);
    if (c) {
        c->mutex = simba__strdup(request->mutex);
        c->id = simba__strdup(request->id);
        c->at = mutex_get(store, request->mutex);
    }
    if (!c || !c->mutex || !c->id || !c->at) {
        if (c)
            simba__zk_op_end(&c->op);
        store->host->fail(store->host, request, SIMBA_ENOMEM, "zookeeper: out of memory");
        return NULL;
    }
    c->nonce = request->nonce;
    c->before.fired = before_fired;
    c->own.fired = own_fired;
    c->in_table = true;
    simba__zk_latch_init(&c->latch, c->nonce, c->id, store->session.over);
    c->latch.connected = simba__zk_is_connected(&store->session);
    simba__table_add(&store->contenders, &c->node, c->nonce);
    if (!c->latch.connected)
        simba__list_append(&store->parked, &c->op.parked);
    return c;
}

static void fini(zk_op *op)
{
    zk_contender *c = of(op);
    simba__zk_unwatch(&c->before);
    simba__zk_unwatch(&c->own);
    simba__list_remove(&c->listing);
    simba__list_remove(&c->later);
    if (c->in_table)
        simba__table_remove(&op->store->contenders, &c->node);
    if (c->at)
        mutex_put(op->store, c->at);
    simba__free(c->mutex);
    simba__free(c->id);
    simba__free(c->first);
}

/* Its child is gone. */
static void drop(zk_contender *c)
{
    if (c->in_table)
        simba__table_remove(&c->op.store->contenders, &c->node);
    c->in_table = false;
    simba__list_remove(&c->listing);
    simba__list_remove(&c->later);
    simba__zk_unwatch(&c->before);
    simba__zk_unwatch(&c->own);
    simba__zk_op_end(&c->op);
}

void simba__zk_contenders_drop(zk_store *store)
{
    for (simba__node *node; (node = simba__table_first(&store->contenders)) != NULL;)
        drop(OF_NODE(node));
}

static void push(const zk_contender *c, simba_push_kind kind)
{
    simba_host *host = c->op.store->host;
    host->push_to(host, c->mutex, c->nonce, &(simba_push){.kind = kind});
}

static void attend_in(zk_contender *c, int64_t ms)
{
    zk_store *store = c->op.store;
    simba_host *host = store->host;
    c->later_at = (simba_local){host->now(host).ns + ms * SIMBA__NS_PER_MS};
    simba__list_append(&store->later, &c->later);
    if (store->attend.index == 0 || c->later_at.ns < store->attend.at.ns)
        host->timer_set(host, &store->attend, c->later_at);
}

/* --- answers ------------------------------------------------------------------------------------------------ */

static void carry_out(zk_contender *c, zk_move move);

/* A child of this session with a name of ours that no contender has was removed before: an ensemble can lose writes when it is
 * restarted, and the child is there again. It would stay as long as the session. */
static bool has_prefix_of(const simba__node *node, const void *child)
{
    const char *prefix = OF_NODE(node)->latch.prefix;
    return strncmp(child, prefix, strlen(prefix)) == 0;
}

static void orphan_removed(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)op, (void)call, (void)result; /* a contender that finds it again tries again */
}

static void check_orphan(zk_op *op, const zk_call *call, const zk_result *result)
{
    zk_store *store = op->store;
    const char *child = simba__zk_child_of(call);
    uint64_t nonce;
    if (result->error || result->stat.session != store->session.id ||
        !simba__zk_nonce_of(child, store->session.over, &nonce) ||
        simba__table_find(&store->contenders, nonce, has_prefix_of, child))
        return;
    store->host->log(store->host, SIMBA_LOG_WARN,
                     "zookeeper %s: %s is there again, although it was removed: the ensemble has lost writes",
                     store->options.where, call->path);
    simba__zk_call(op, orphan_removed, ZK_DELETE, call->path, NULL, false);
}

static void container_made(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_latch *latch = &of(op)->latch;
    (void)call;
    if (result->error == ZK_NO_AUTH)
        latch->refused = true; /* the node may be there anyway */
    else if (result->error && result->error != ZK_NODE_EXISTS && result->error != ZK_NO_NODE && !latch->error)
        latch->error = result->error;
}

/* The server has made the child under another name than it was asked to. */
static bool is_named(const zk_contender *c, const char *path)
{
    const size_t length = strlen(c->at->path);
    const size_t prefix = strlen(c->latch.prefix);
    return strncmp(path, c->at->path, length) == 0 && path[length] == '/' &&
           strncmp(path + length + 1, c->latch.prefix, prefix) == 0 && !strchr(path + length + 1, '/') &&
           strlen(path + length + 1) < ZK_NAME_MAX;
}

static void made(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_contender *c = of(op);
    (void)call;
    if (result->error) {
        simba__zk_latch_made(&c->latch, NULL, 0, 0, result->error);
    } else if (!is_named(c, result->text) || result->stat.czxid <= 0) {
        simba__zk_session_malformed(&op->store->session);
    } else {
        simba__zk_heed_clock(op->store, result->stat.ctime_ms);
        simba__zk_latch_made(&c->latch, result->text + strlen(c->at->path) + 1, result->stat.czxid,
                             result->stat.ctime_ms, ZK_OK);
    }
}

static void own_read(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    simba__zk_latch_own(&of(op)->latch, result->stat.czxid, result->stat.ctime_ms, result->error);
}

static void before_read(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_contender *c = of(op);
    if (result->error == ZK_OK && (!c->first || strcmp(c->first, simba__zk_child_of(call)) == 0))
        c->owner = simba__zk_owner_of(call, result);
    if (result->error == ZK_OK) {
        op->error = ZK_OK;
        simba__zk_watch(op, &c->before, call);
        result->error = op->error; /* there may be no memory for it */
    }
    simba__zk_latch_read(&c->latch, ZK_CALL_BEFORE, result->error);
    check_orphan(op, call, result);
}

static void first_read(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_contender *c = of(op);
    if (result->error == ZK_OK)
        c->owner = simba__zk_owner_of(call, result);
    simba__zk_latch_read(&c->latch, ZK_CALL_FIRST, result->error);
    check_orphan(op, call, result);
}

/* The child of a leader: it is watched from now on. A RENEW waits for this, too. */
static void own_watched(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_contender *c = of(op);
    const bool renews = op->request && op->request->op == SIMBA_OP_RENEW;
    if (c->latch.place != ZK_LEADS || strcmp(simba__zk_child_of(call), c->latch.name) != 0)
        return; /* it leads no more, or by another child */
    op->error = result->error;
    if (result->error == ZK_OK)
        simba__zk_watch(op, &c->own, call);
    c->latch.guarded = op->error == ZK_OK;
    if (result->error == ZK_NO_NODE) {
        carry_out(c, simba__zk_latch_taken(&c->latch));
    } else if (!c->latch.guarded) {
        attend_in(c, RETRY_MS);
        if (renews)
            simba__zk_fail_by(op, op->error);
    } else if (renews) {
        const simba_owner own = simba__zk_owner(c->id, c->latch.czxid, c->latch.ctime_ms);
        simba__zk_complete(op, SIMBA_MINE, &own);
    }
}

static void watch_own(zk_contender *c)
{
    if (simba__zk_call(&c->op, own_watched, ZK_GET, c->at->path, c->latch.name, true))
        return;
    attend_in(c, RETRY_MS);
    if (c->op.request && c->op.request->op == SIMBA_OP_RENEW)
        simba__zk_fail_by(&c->op, ZK_NO_MEMORY);
}

/* A contender has waited for a while without knowing who leads: tell it. */
static void first_shown(zk_op *op, const zk_call *call, zk_result *result)
{
    const zk_contender *c = of(op);
    simba_host *host = op->store->host;
    check_orphan(op, call, result);
    if (result->error == ZK_OK && c->latch.place == ZK_WAITS && !c->latch.leaving)
        host->push_to(host, c->mutex, c->nonce,
                      &(simba_push){.kind = SIMBA_PUSH_ACQUIRED,
                                    .owner = simba__zk_owner_of(call, result),
                                    .now_ms = simba__zk_now_ms(op->store)});
}

static void removed(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    simba__zk_latch_read(&of(op)->latch, ZK_CALL_DELETE, result->error);
}

/* The calls that were under way together are answered. A contender that waits for a list waits on, unless there was no memory for
 * that. */
static void step(zk_op *op)
{
    zk_contender *c = of(op);
    if (c->latch.stage > ZK_LISTS)
        carry_out(c, simba__zk_latch_go(&c->latch));
    else if (c->latch.stage == ZK_LISTS && !c->listing.list)
        carry_out(c, simba__zk_latch_listed(&c->latch, NULL, false, ZK_NO_MEMORY));
}

/* --- lists -------------------------------------------------------------------------------------------------- */

static void tell_member(zk_contender *c, const zk_result *result)
{
    const char *const *names = (const char *const *)result->names;
    const size_t mine = simba__zk_latch_find(&c->latch, names, result->count);
    size_t first = 0;
    size_t before = mine;
    while (first < result->count && !simba__zk_is_contender(names[first]))
        first++;
    while (before > first && before < result->count && !simba__zk_is_contender(names[--before]))
        continue;
    simba__free(c->first);
    c->first = NULL;
    c->owner = (simba_owner){0};
    if (c->op.error) { /* the sync before it has failed */
        carry_out(c, simba__zk_latch_listed(&c->latch, NULL, false, c->op.error));
        return;
    }
    if (mine >= result->count) {
        carry_out(c, simba__zk_latch_listed(&c->latch, NULL, false, result->error));
        return;
    }
    /* The names lie in the message: the calls take copies. */
    const zk_move move = simba__zk_latch_listed(&c->latch, names[mine], mine == first, ZK_OK);
    if (mine > first)
        c->first = simba__strdup(names[first]);
    if (mine > first && !c->first)
        simba__zk_latch_read(&c->latch, ZK_CALL_FIRST, ZK_NO_MEMORY);
    if (move.calls & ZK_CALL_BEFORE && !simba__zk_call(&c->op, before_read, ZK_GET, c->at->path, names[before], true)) {
        simba__zk_latch_read(&c->latch, ZK_CALL_BEFORE, ZK_NO_MEMORY);
        carry_out(c, simba__zk_latch_go(&c->latch));
        return;
    }
    carry_out(c, move);
}

static void listed(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_view *view = (zk_view *)op;
    (void)call;
    while (view->members.first) {
        zk_contender *c = SIMBA__OF_ITEM(view->members.first, zk_contender, listing);
        simba__list_remove(&c->listing);
        tell_member(c, result);
    }
}

static void view_fini(zk_op *op)
{
    zk_view *view = (zk_view *)op;
    while (view->members.first)
        simba__list_remove(view->members.first);
    if (view->mutex)
        mutex_put(op->store, view->mutex);
}

static const zk_kind viewing = {.step = simba__zk_op_end, .lost = simba__zk_op_end, .fini = view_fini, .stays = true};

void simba__zk_list_children(zk_store *store)
{
    while (store->unlisted.first) {
        zk_mutex *mutex = SIMBA__OF_ITEM(store->unlisted.first, zk_mutex, unlisted);
        zk_view *view = simba__zk_op_new(store, &viewing, sizeof *view, NULL);
        simba__list_remove(&mutex->unlisted);
        mutex->refs++;
        simba__list members = {0};
        while (mutex->members.first)
            simba__list_append(view ? &view->members : &members, mutex->members.first);
        if (view) {
            view->mutex = mutex;
            if (simba__zk_call(&view->op, listed, ZK_CHILDREN, mutex->path, NULL, false))
                continue;
            while (view->members.first)
                simba__list_append(&members, view->members.first);
            mutex->refs++;
            simba__zk_op_end(&view->op);
        }
        while (members.first) {
            zk_contender *c = SIMBA__OF_ITEM(members.first, zk_contender, listing);
            simba__list_remove(&c->listing);
            if (c->op.awaited == 0)
                step(&c->op);
        }
        mutex_put(store, mutex);
    }
}

/* --- carrying out ------------------------------------------------------------------------------------------- */

static void make_calls(zk_contender *c, unsigned calls)
{
    zk_op *op = &c->op;
    const char *path = c->at->path;
    bool made_all = true;
    op->error = ZK_OK;
    if (calls & ZK_CALL_SYNC)
        simba__zk_call_sync(op);
    if (calls & ZK_CALL_CONTAINERS)
        simba__zk_call_parents(op, container_made, ZK_CREATE_CONTAINER, path);
    if (calls & ZK_CALL_CREATE) {
        char *child = simba__zk_child_path(path, c->latch.prefix);
        const zk_request request = {
            .type = ZK_CREATE2, .path = child, .data = c->id, .length = strlen(c->id), .acl = op->store->options.acl};
        if (!child || !simba__zk_ask(op, made, &request))
            simba__zk_latch_made(&c->latch, NULL, 0, 0, ZK_NO_MEMORY);
        simba__free(child);
    }
    if (calls & ZK_CALL_LIST) {
        simba__list_append(&c->at->members, &c->listing);
        simba__list_append(&op->store->unlisted, &c->at->unlisted);
    }
    if (calls & ZK_CALL_OWN)
        made_all &= simba__zk_call(op, own_read, ZK_GET, path, c->latch.name, false);
    if (calls & ZK_CALL_FIRST)
        made_all &= c->first && simba__zk_call(op, first_read, ZK_GET, path, c->first, false);
    if (calls & ZK_CALL_DELETE)
        made_all &= simba__zk_call(op, removed, ZK_DELETE, path, c->latch.name, false);
    if (!made_all)
        simba__zk_latch_read(&c->latch, ZK_CALL_OWN, ZK_NO_MEMORY);
    if (!made_all && op->awaited == 0)
        carry_out(c, simba__zk_latch_go(&c->latch));
}

/* If nobody asks, the contender must. */
static void fail(zk_contender *c, int code, const char *text)
{
    if (c->op.request && text)
        simba__zk_fail(&c->op, code, "cannot make a node below %s: %s", c->op.store->options.root, text);
    else if (c->op.request)
        simba__zk_fail_by(&c->op, code);
    else if (!c->latch.leaving)
        push(c, SIMBA_PUSH_CHANGED);
    if (c->latch.place == ZK_NONE || c->latch.place == ZK_REVOKED)
        drop(c);
    else if (c->latch.leaving)
        attend_in(c, RETRY_MS);
}

static void carry_out(zk_contender *c, zk_move move)
{
    zk_op *op = &c->op;
    const simba_owner own = simba__zk_owner(c->id, c->latch.czxid, c->latch.ctime_ms);
    if (move.calls)
        make_calls(c, move.calls);
    switch (move.tell) {
    case ZK_TELL_NOTHING:
        break;
    case ZK_TELL_LEADS:
        attend_in(c, LATER_MS);
        if (op->request)
            simba__zk_complete(op, SIMBA_MINE, &own);
        else
            push(c, SIMBA_PUSH_RELEASED);
        break;
    case ZK_TELL_WAITS:
        if (op->request && simba_owner_is_none(&c->owner))
            attend_in(c, LATER_MS);
        simba__zk_complete(op, SIMBA_NOT_MINE, &c->owner);
        break;
    case ZK_TELL_LOST:
        simba__zk_complete(op, SIMBA_NOT_MINE, &c->owner);
        drop(c);
        break;
    case ZK_TELL_FREED:
    case ZK_TELL_GONE:
        simba__zk_complete(op, move.tell == ZK_TELL_FREED ? SIMBA_MINE : SIMBA_NOT_MINE, NULL);
        drop(c);
        break;
    case ZK_TELL_REVOKED:
        simba__list_remove(&c->later);
        if (op->request) {
            simba__zk_complete(op, SIMBA_REVOKED, NULL);
            drop(c);
        } else {
            push(c, SIMBA_PUSH_CHANGED);
        }
        break;
    case ZK_TELL_REFUSED:
        fail(c, c->latch.refused ? SIMBA_EPERM : SIMBA_ESTORE,
             c->latch.refused ? "no permission" : "it goes again each time");
        break;
    case ZK_TELL_NO_NUMBERS:
        fail(c, SIMBA_ESTORE, "no numbers are left below the node of the mutex, which must be removed");
        break;
    case ZK_TELL_FAILED:
        fail(c, c->latch.error, NULL);
        break;
    }
}

static void begin(zk_op *op)
{
    zk_contender *c = of(op);
    c->latch.asked = op->request && op->request->op != SIMBA_OP_RENEW;
    if (c->latch.place == ZK_LEADS && !c->latch.leaving)
        attend_in(c, 0); /* its watch is lost */
    carry_out(c, simba__zk_latch_connect(&c->latch));
}

static void lost(zk_op *op)
{
    zk_contender *c = of(op);
    simba__list_remove(&c->listing);
    simba__zk_latch_lose(&c->latch);
}

static const zk_kind contending = {.begin = begin, .step = step, .lost = lost, .fini = fini, .stays = true};

static void before_fired(zk_watch *watch, int kind)
{
    zk_contender *c = SIMBA__OF_ITEM(watch, zk_contender, before);
    (void)kind;
    carry_out(c, simba__zk_latch_before(&c->latch));
}

/* Somebody has removed it, or touched it. */
static void own_fired(zk_watch *watch, int kind)
{
    zk_contender *c = SIMBA__OF_ITEM(watch, zk_contender, own);
    c->latch.guarded = false;
    if (kind == ZK_EVENT_DELETED)
        carry_out(c, simba__zk_latch_taken(&c->latch));
    else if (c->latch.place == ZK_LEADS)
        attend_in(c, 0);
}

/* --- requests ----------------------------------------------------------------------------------------------- */

/* The client has given an older request up, or else it would not ask again. */
static void take(zk_contender *c, simba_request *request)
{
    simba__zk_fail(&c->op, SIMBA_ETIMEDOUT, "asked again meanwhile");
    simba__zk_op_take(&c->op, request);
    if (!simba__zk_is_connected(&c->op.store->session))
        c->op.store->host->wake(c->op.store->host); /* open a session, but not inside this call */
}

void simba__zk_acquire(zk_store *store, simba_request *request)
{
    zk_contender *c = simba__zk_contender_find(store, request);
    c = c ? c : contender_new(store, request);
    if (!c)
        return;
    take(c, request);
    carry_out(c, simba__zk_latch_acquire(&c->latch, request->queue));
}

void simba__zk_release(zk_store *store, simba_request *request)
{
    zk_contender *c = simba__zk_contender_find(store, request);
    const uint64_t token = c ? (uint64_t)c->latch.czxid : 0;
    if (c && !(request->token && token && token != request->token)) {
        take(c, request);
        carry_out(c, simba__zk_latch_release(&c->latch));
        return;
    }
    request->reply = (simba_reply){.outcome = SIMBA_NOT_MINE, .now_ms = simba__zk_now_ms(store)};
    store->host->complete(store->host, request);
}

/* The session is kept up for all mutexes at once, so a renewal prolongs nothing. It only asks whether the child is still there. */
void simba__zk_renew(zk_store *store, simba_request *request)
{
    zk_contender *c = simba__zk_contender_find(store, request);
    const bool ours = c && !c->latch.leaving && (uint64_t)c->latch.czxid == request->token;
    const bool revoked = ours && c->latch.place == ZK_REVOKED;
    if (ours && c->latch.place == ZK_LEADS) {
        take(c, request);
        if (c->latch.connected)
            watch_own(c);
        return;
    }
    if (revoked)
        drop(c); /* the contender is told now */
    request->reply =
        (simba_reply){.outcome = revoked ? SIMBA_REVOKED : SIMBA_NOT_MINE, .now_ms = simba__zk_now_ms(store)};
    store->host->complete(store->host, request);
}

/* --- what has time ------------------------------------------------------------------------------------------ */

static void look_after(zk_contender *c)
{
    if (c->latch.leaving)
        carry_out(c, simba__zk_latch_connect(&c->latch));
    else if (c->latch.place == ZK_LEADS && !c->latch.guarded)
        watch_own(c);
    else if (c->latch.place == ZK_WAITS && c->first &&
             !simba__zk_call(&c->op, first_shown, ZK_GET, c->at->path, c->first, false))
        attend_in(c, RETRY_MS);
}

void simba__zk_attend(simba_timer *timer, simba_local now)
{
    zk_store *store = (zk_store *)(void *)((char *)timer - offsetof(zk_store, attend));
    simba__list due = {0};
    for (simba__list_item *item = store->later.first, *next; item; item = next) {
        next = item->next;
        if (SIMBA__OF_ITEM(item, zk_contender, later)->later_at.ns <= now.ns)
            simba__list_append(&due, item);
    }
    while (due.first) {
        zk_contender *c = SIMBA__OF_ITEM(due.first, zk_contender, later);
        simba__list_remove(&c->later);
        if (store->session.calls.count >= ZK_CALLS_MOST)
            attend_in(c, SOON_MS);
        else if (c->latch.connected)
            look_after(c);
    }
    int64_t at = INT64_MAX;
    for (simba__list_item *item = store->later.first; item; item = item->next) {
        const int64_t ns = SIMBA__OF_ITEM(item, zk_contender, later)->later_at.ns;
        at = ns < at ? ns : at;
    }
    if (at != INT64_MAX && (timer->index == 0 || at < timer->at.ns))
        store->host->timer_set(store->host, timer, (simba_local){at});
    simba__zk_session_flush(&store->session);
}
