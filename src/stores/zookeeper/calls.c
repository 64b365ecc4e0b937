/* Procedures of several calls, and watches.
 *
 * A procedure makes calls; when all are answered, its next step begins. The server answers in the order of the calls. When the
 * connection is lost, all calls in flight are forgotten, and every procedure that somebody still needs is parked: it begins again
 * on the next connection. So an answer never comes to a procedure that has begun again. One that could not go on, for want of memory
 * for instance, begins again in a while.
 *
 * A watch fires once, for the next change of a node. It is set when the answer has come that sets it at the server: what the server
 * reports before that is about an earlier one, and nobody needs it. Several owners may watch one path. The server forgets watches
 * with the connection, and so does the store. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stores/zookeeper/zookeeper.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/text.h"

enum { LATER_MS = 50 };

#define OP_OF(item_) SIMBA__OF_ITEM(item_, zk_op, item)
#define WAITING_OP(item_) SIMBA__OF_ITEM(item_, zk_op, waits)

/* --- procedures --------------------------------------------------------------------------------------------- */

void *simba__zk_op_new(zk_store *store, const zk_kind *kind, size_t size, simba_request *request)
{
    zk_op *op = simba__calloc(1, size);
    if (!op) {
        if (request)
            store->host->fail(store->host, request, SIMBA_ENOMEM, "zookeeper: out of memory");
        return NULL;
    }
    op->store = store;
    op->kind = kind;
    simba__list_append(&store->ops, &op->item);
    if (request)
        simba__zk_op_take(op, request);
    return op;
}

void simba__zk_op_take(zk_op *op, simba_request *request)
{
    simba_host *host = op->store->host;
    op->request = request;
    op->expired = false;
    op->begun = host->now(host);
    request->backend_data = op;
}

static void free_if_over(zk_op *op)
{
    if (!op->over || op->awaited > 0)
        return;
    simba__list_remove(&op->waits);
    simba__list_remove(&op->item);
    if (op->kind->fini)
        op->kind->fini(op);
    simba__free(op);
}

void simba__zk_op_end(zk_op *op)
{
    op->over = true;
    simba__list_remove(&op->waits);
    free_if_over(op);
}

void simba__zk_op_start(zk_op *op)
{
    if (simba__zk_is_connected(&op->store->session))
        op->kind->begin(op);
    else
        simba__zk_op_park(op);
}

void simba__zk_op_park(zk_op *op)
{
    simba__list_append(&op->store->parked, &op->waits);
    op->store->host->wake(op->store->host); /* open a session, but not inside this call */
}

void simba__zk_op_later(zk_op *op)
{
    zk_store *store = op->store;
    simba_host *host = store->host;
    if (!op->waits.list)
        simba__list_append(&store->later, &op->waits);
    if (store->timer.index == 0)
        host->timer_set(host, &store->timer, (simba_local){host->now(host).ns + LATER_MS * SIMBA__NS_PER_MS});
}

bool simba__zk_op_runs(const zk_op *op)
{
    return simba__zk_is_connected(&op->store->session) && op->waits.list != &op->store->parked;
}

void simba__zk_op_go(zk_op *op)
{
    if (op->awaited > 0)
        return;
    if (op->over) {
        free_if_over(op);
    } else if (op->kind->stays || (!op->expired && op->error == ZK_OK)) {
        op->kind->step(op);
    } else {
        if (op->expired)
            simba__zk_fail(op, SIMBA_ETIMEDOUT, "no answer in time");
        else
            simba__zk_fail_by(op, op->error);
        simba__zk_op_end(op);
    }
}

/* --- outcomes ----------------------------------------------------------------------------------------------- */

void simba__zk_complete(zk_op *op, simba_outcome outcome, const simba_owner *owner)
{
    simba_request *request = op->request;
    if (!request)
        return;
    op->request = NULL;
    request->reply = (simba_reply){.outcome = outcome, .now_ms = simba__zk_now_ms(op->store)};
    if (owner)
        request->reply.owner = *owner;
    op->store->host->complete(op->store->host, request);
}

void simba__zk_fail(zk_op *op, int code, const char *format, ...)
{
    const char *where = op->store->options.where;
    simba_request *request = op->request;
    char text[200];
    va_list args;
    if (!request)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    op->request = NULL;
    op->store->host->fail(op->store->host, request, code, "zookeeper %.*s: %s", simba__text_cut(where, 60), where,
                          text);
}

void simba__zk_fail_by(zk_op *op, int error)
{
    static const struct {
        int error, code;
        const char *text;
    } known[] = {
        {ZK_NO_MEMORY, SIMBA_ENOMEM, "out of memory"},
        {ZK_MALFORMED, SIMBA_ESTORE, "the server's answer makes no sense; is it a ZooKeeper?"},
        {ZK_NO_NUMBERS, SIMBA_ESTORE, "no numbers are left below the node of the mutex, which must be removed"},
        {ZK_VANISHES, SIMBA_ESTORE, "a node goes again each time that it is made"},
        {ZK_REFUSED, SIMBA_EPERM, "no permission to make the folder of the node, which is missing"},
        {ZK_TOO_MANY, SIMBA_ESTORE, "there are more than 1000000 nodes to list"},
        {ZK_UNIMPLEMENTED, SIMBA_ENOTSUP, "simba needs ZooKeeper 3.5.1 or later"},
        {ZK_NO_AUTH, SIMBA_EPERM, "not authenticated, or no permission"},
        {ZK_INVALID_ACL, SIMBA_EPERM, "the server does not take the user of the URL"},
        {ZK_AUTH_FAILED, SIMBA_EPERM, "authentication failed"},
        {ZK_THROTTLED, SIMBA_ETIMEDOUT, "the server has too much to do"},
        {ZK_NO_NODE, SIMBA_ESTORE, "a node has vanished"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].error == error) {
            simba__zk_fail(op, known[i].code, "%s", known[i].text);
            return;
        }
    simba__zk_fail(op, SIMBA_ESTORE, "the server answers with error %d", error);
}

void simba__zk_finish(zk_op *op, simba_outcome outcome, const simba_owner *owner)
{
    simba__zk_complete(op, outcome, owner);
    simba__zk_op_end(op);
}

void simba__zk_op_note(zk_op *op, int error)
{
    if (error != ZK_OK && (op->error == ZK_OK || error > op->error))
        op->error = error;
}

/* --- calls -------------------------------------------------------------------------------------------------- */

bool simba__zk_ask(zk_op *op, zk_answered *answered, const zk_request *request)
{
    zk_call *call = simba__calloc(1, sizeof *call + strlen(request->path) + 1);
    if (call) {
        call->op = op;
        call->answered = answered;
        call->type = request->type;
        call->last = request->parts ? request->parts[1].type : request->type;
        strcpy(call->path, request->path);
    }
    if (!call || !simba__zk_session_send(&op->store->session, call, request)) {
        simba__free(call);
        simba__zk_op_note(op, ZK_NO_MEMORY);
        return false;
    }
    op->awaited++;
    return true;
}

bool simba__zk_call(zk_op *op, zk_answered *answered, zk_type type, const char *path, const char *child, bool watch)
{
    char *whole = child ? simba__zk_child_path(path, child) : NULL;
    if (child && !whole) {
        simba__zk_op_note(op, ZK_NO_MEMORY);
        return false;
    }
    const zk_request request = {.type = type, .path = child ? whole : path, .version = -1, .watch = watch};
    const bool asked = simba__zk_ask(op, answered, &request);
    simba__free(whole);
    return asked;
}

void simba__zk_call_parents(zk_op *op, zk_answered *answered, zk_type type, const char *path)
{
    char *part = simba__strdup(path);
    if (!part) {
        simba__zk_op_note(op, ZK_NO_MEMORY);
        return;
    }
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        simba__zk_ask(op, answered,
                      &(zk_request){.type = type, .path = part, .data = "", .acl = op->store->options.acl});
        if (!slash)
            break;
        *slash = '/';
    }
    simba__free(part);
}

static void synced(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    simba__zk_op_note(op, result->error);
}

void simba__zk_call_sync(zk_op *op)
{
    simba__zk_call(op, synced, ZK_SYNC, "/", NULL, false);
}

static void agreed(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    if (result->error != ZK_BAD_VERSION &&
        result->error != ZK_NO_AUTH) /* most servers have agreed on these two errors */
        simba__zk_op_note(op, result->error ? result->error : ZK_MALFORMED);
}

/* No node ever has this version. */
void simba__zk_call_agree(zk_op *op)
{
    simba__zk_ask(op, agreed, &(zk_request){.type = ZK_SET, .path = "/", .data = "", .version = INT32_MIN});
}

const char *simba__zk_child_of(const zk_call *call)
{
    return strrchr(call->path, '/') + 1;
}

simba_owner simba__zk_owner_of(const zk_call *call, const zk_result *result)
{
    char text[SIMBA_ID_MAX + 8] = "";
    if (result->text)
        memcpy(text, result->text, result->length < sizeof text - 1 ? result->length : sizeof text - 1);
    return simba__zk_owner(text[0] ? text : simba__zk_child_of(call), result->stat.czxid, result->stat.ctime_ms);
}

/* --- watches ------------------------------------------------------------------------------------------------ */

static bool is_of_node(const simba__node *node, const void *path)
{
    const zk_watch *watch = SIMBA__OF_NODE(node, const zk_watch, node);
    return !watch->of_children && strcmp(watch->path, path) == 0;
}

static bool is_of_children(const simba__node *node, const void *path)
{
    const zk_watch *watch = SIMBA__OF_NODE(node, const zk_watch, node);
    return watch->of_children && strcmp(watch->path, path) == 0;
}

void simba__zk_watch(zk_op *op, zk_watch *watch, const zk_call *call)
{
    zk_store *store = op->store;
    simba__zk_unwatch(store, watch);
    watch->path = simba__table_reserve(&store->watches) ? simba__strdup(call->path) : NULL;
    watch->of_children = call->type == ZK_CHILDREN;
    if (watch->path)
        simba__table_add(&store->watches, &watch->node, simba__hash(watch->path));
    else
        simba__zk_op_note(op, ZK_NO_MEMORY);
}

void simba__zk_unwatch(zk_store *store, zk_watch *watch)
{
    if (!watch->path)
        return;
    simba__table_remove(&store->watches, &watch->node);
    simba__free(watch->path);
    watch->path = NULL;
}

/* Nobody sets a watch when one fires: that needs another answer. */
static void fire(zk_store *store, const char *path, simba__table_is is, int kind)
{
    for (simba__node *node; (node = simba__table_find(&store->watches, simba__hash(path), is, path)) != NULL;) {
        zk_watch *watch = SIMBA__OF_NODE(node, zk_watch, node);
        simba__zk_unwatch(store, watch);
        watch->fired(watch, kind);
    }
}

void simba__zk_fire(zk_store *store, const zk_event *event)
{
    if (event->kind == ZK_EVENT_CHILD || event->kind == ZK_EVENT_DELETED)
        fire(store, event->path, is_of_children, event->kind);
    if (event->kind >= ZK_EVENT_CREATED && event->kind <= ZK_EVENT_CHANGED)
        fire(store, event->path, is_of_node, event->kind);
}

/* --- the connection ----------------------------------------------------------------------------------------- */

/* The procedure must stay until it has heard. */
void simba__zk_answer(zk_call *call, zk_result *result)
{
    zk_op *op = call->op;
    if (!op->over)
        call->answered(op, call, result);
    simba__free(call);
    op->awaited--;
    simba__zk_op_go(op);
}

void simba__zk_begin_parked(zk_store *store)
{
    const zk_session *session = &store->session;
    const size_t most = session->calls.count > ZK_CALLS_MOST / 2 ? 1 : ZK_CALLS_MOST - session->calls.count;
    for (size_t i = 0; i < most && simba__zk_is_connected(session); i++) {
        simba__list_item *next = store->parked.first ? store->parked.first : store->due.first;
        if (!next)
            break;
        zk_op *op = WAITING_OP(next);
        simba__list_remove(&op->waits);
        op->kind->begin(op);
    }
}

void simba__zk_begin_later(simba_timer *timer, simba_local now)
{
    zk_store *store = (zk_store *)(void *)((char *)timer - offsetof(zk_store, timer));
    (void)now;
    while (store->later.first)
        simba__list_append(&store->due, store->later.first);
    simba__zk_begin_parked(store);
    simba__zk_session_flush(&store->session);
}

/* Fail a request that nobody waits for any more. The procedure may go on without it. */
static void fail_late(zk_op *op)
{
    const zk_session *session = &op->store->session;
    if (simba__zk_is_connected(session))
        simba__zk_fail(op, SIMBA_ETIMEDOUT, "no answer in time");
    else
        simba__zk_fail(op, SIMBA_EUNAVAILABLE, "not connected: %s", session->cause[0] ? session->cause : "no answer");
    if (!op->kind->stays)
        simba__zk_op_end(op);
}

static void drop_calls(zk_store *store)
{
    while (store->session.calls.first) {
        zk_call *call = SIMBA__OF_ITEM(store->session.calls.first, zk_call, item);
        simba__list_remove(&call->item);
        if (call->op)
            call->op->awaited--;
        simba__free(call);
    }
    for (simba__node *node; (node = simba__table_first(&store->watches)) != NULL;)
        simba__zk_unwatch(store, SIMBA__OF_NODE(node, zk_watch, node));
}

void simba__zk_disconnected(zk_store *store)
{
    drop_calls(store);
    /* Those that are lost may take others along, which come later in the list or have been parked. */
    simba__list all = {0};
    while (store->ops.first) {
        zk_op *op = OP_OF(store->ops.first);
        simba__list_append(&all, &op->item);
        op->error = ZK_OK;
        if (op->over)
            free_if_over(op);
        else if (op->kind->lost)
            op->kind->lost(op);
    }
    while (all.first) {
        zk_op *op = OP_OF(all.first);
        simba__list_append(&store->ops, &op->item);
        simba__list_append(&store->parked, &op->waits);
        if (op->expired)
            fail_late(op);
    }
}

/* A RELEASE is remembered by its latch, and an ACQUIRE of which nothing was sent is over: so no request outlives a session, and
 * none waits for a server that nobody can reach. */
void simba__zk_unavailable(zk_store *store, int code, const char *why)
{
    simba__list all = {0};
    while (store->parked.first)
        simba__list_append(&all, store->parked.first);
    while (all.first) {
        zk_op *op = WAITING_OP(all.first);
        simba__list_append(&store->parked, &op->waits);
        simba__zk_fail(op, code, "%s", why);
        if (!op->kind->stays)
            simba__zk_op_end(op);
    }
}

void simba__zk_over(zk_store *store)
{
    simba__zk_unavailable(store, SIMBA_EUNAVAILABLE, "the session has ended");
    simba__zk_contenders_drop(store);
    simba__zk_observers_anew(store);
}

void simba__zk_expire(void *instance, simba_request *request)
{
    zk_store *store = instance;
    zk_op *op = request->backend_data;
    SIMBA__ASSERT(op->request == request);
    op->expired = true;
    if (!simba__zk_op_runs(op))
        fail_late(op);
    else
        simba__zk_session_doubt(&store->session, op->begun);
}

void simba__zk_ops_close(zk_store *store)
{
    drop_calls(store);
    while (store->ops.first) {
        zk_op *op = OP_OF(store->ops.first);
        if (op->request)
            store->host->fail(store->host, op->request, SIMBA_ECLOSED, "zookeeper: the store closes");
        op->request = NULL;
        op->awaited = 0;
        simba__zk_op_end(op);
    }
}
