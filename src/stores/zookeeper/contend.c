/* ACQUIRE, RENEW and RELEASE: the life of a contender, from its first ACQUIRE until its child is known to be gone.
 *
 *   look     no child: make one, and list the children behind that. It waits: list. It is unsure: sync and list, because another
 *            server may lag behind what was lost. It leads: nothing to do.
 *   listed   the own child is the first: it leads. Otherwise read and watch the child before it. If nobody is to wait, remove
 *            the child and read who leads. If the child is not there, look again.
 *   event    the child before has changed in any way: look. The own one is gone: the leader is told, and asks.
 *   leave    remove the child; if it is unsure, find it first. Until it is known to be gone, `leaving` is remembered.
 *
 * One look at a time: a reason for another one sets `again`. A connection that is lost ends the look; the next connection begins
 * another. A child that was being made or removed then is unsure: nobody makes another before a list has shown that there is none.
 *
 * The server numbers children as it makes them, so a later child never comes before an earlier one: a child that is the first stays
 * the first until it goes.
 *
 * A contender has one request at a time: a newer one fails an older one, which the client has given up by then. A leader watches its
 * child, and a waiter asks who leads, only when that has lasted for a while: it would cost a short critical section a request of its
 * own. */
#include <string.h>

#include "stores/zookeeper/zookeeper.h"
#include "util/assert.h"
#include "util/mem.h"

enum { ROUNDS_MOST = 5 }; /* how often to make the child, if it vanishes each time */

#define OF_NODE(node_) SIMBA__OF_NODE(node_, zk_contender, node)
#define TO(place) (1U << (place))

static zk_contender *of(zk_op *op)
{
    return (zk_contender *)op;
}

static bool has_child(const zk_contender *c)
{
    return c->place != ZK_NONE && c->place != ZK_REVOKED; /* or may have one */
}

/* A watch is about the place at which it was set. */
static void move_to(zk_contender *c, zk_place place)
{
    static const unsigned allowed[] = {
        [ZK_NONE] = TO(ZK_UNSURE),
        [ZK_UNSURE] = TO(ZK_NONE) | TO(ZK_WAITS),
        [ZK_WAITS] = TO(ZK_NONE) | TO(ZK_UNSURE) | TO(ZK_LEADS),
        [ZK_LEADS] = TO(ZK_UNSURE) | TO(ZK_REVOKED),
        [ZK_REVOKED] = TO(ZK_UNSURE),
    };
    SIMBA__ASSERT(allowed[c->place] & TO(place));
    SIMBA__ASSERT(place != ZK_LEADS || (c->is_first && c->czxid > 0));
    c->place = place;
    simba__zk_unwatch(c->op.store, &c->before);
    simba__zk_unwatch(c->op.store, &c->own);
}

/* --- the table ---------------------------------------------------------------------------------------------- */

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
    return c && c->place == ZK_LEADS && !c->leaving && (uint64_t)c->czxid == request->token;
}

bool simba__zk_was_revoked(const zk_contender *c, const simba_request *request)
{
    return c && c->place == ZK_REVOKED && !c->leaving && (uint64_t)c->czxid == request->token;
}

simba_owner simba__zk_self(const zk_contender *c)
{
    return simba__zk_owner(c->id, c->czxid, c->ctime_ms);
}

static void leave_table(zk_contender *c)
{
    zk_store *store = c->op.store;
    simba__zk_unwatch(store, &c->before);
    simba__zk_unwatch(store, &c->own);
    if (c->in_table)
        simba__table_remove(&store->contenders, &c->node);
    c->in_table = false;
}

/* Its child is gone. */
static void drop(zk_contender *c)
{
    leave_table(c);
    simba__zk_op_end(&c->op);
}

static void fini(zk_op *op)
{
    zk_contender *c = of(op);
    leave_table(c);
    simba__free(c->mutex);
    simba__free(c->path);
    simba__free(c->id);
}

void simba__zk_contenders_drop(zk_store *store)
{
    for (simba__node *node; (node = simba__table_first(&store->contenders)) != NULL;)
        drop(OF_NODE(node));
}

/* --- what came of it ---------------------------------------------------------------------------------------- */

static void push(const zk_contender *c, simba_push_kind kind)
{
    simba_host *host = c->op.store->host;
    host->push_to(host, c->mutex, c->nonce, &(simba_push){.kind = kind});
}

/* If nobody asks, the client must. */
static void fail(zk_contender *c, int error)
{
    if (c->op.request)
        simba__zk_fail_by(&c->op, error);
    else if (!c->leaving)
        push(c, SIMBA_PUSH_CHANGED);
    if (!has_child(c))
        drop(c);
    else if (c->leaving)
        simba__zk_op_later(&c->op);
}

static void lead(zk_contender *c)
{
    const simba_owner self = simba__zk_self(c);
    move_to(c, ZK_LEADS);
    simba__zk_op_later(&c->op); /* it is watched then */
    if (c->op.request)
        simba__zk_complete(&c->op, SIMBA_MINE, &self);
    else
        push(c, SIMBA_PUSH_RELEASED);
}

/* If it does not know who leads, it asks when it has waited for a while, and the client is told then. */
static void stand_by(zk_contender *c)
{
    simba_host *host = c->op.store->host;
    if (!c->op.request && c->asks && !simba_owner_is_none(&c->owner))
        host->push_to(
            host, c->mutex, c->nonce,
            &(simba_push){.kind = SIMBA_PUSH_ACQUIRED, .owner = c->owner, .now_ms = simba__zk_now_ms(c->op.store)});
    if (c->op.request && !c->asks && simba_owner_is_none(&c->owner))
        simba__zk_op_later(&c->op);
    c->asks = false;
    simba__zk_complete(&c->op, SIMBA_NOT_MINE, &c->owner);
}

/* Somebody has removed the child of a leader. */
static void revoke(zk_contender *c)
{
    move_to(c, ZK_REVOKED);
    if (!c->op.request) {
        push(c, SIMBA_PUSH_CHANGED);
        return;
    }
    simba__zk_complete(&c->op, c->leaving ? SIMBA_NOT_MINE : SIMBA_REVOKED, NULL);
    drop(c);
}

/* --- the queue ---------------------------------------------------------------------------------------------- */

/* A child of this session that no contender has was removed before: an ensemble can lose writes when it is restarted, and the child is
 * there again. It would stay as long as the session. */
static void ignored(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)op, (void)call, (void)result; /* a contender that finds it again tries again */
}

static void check_orphan(zk_op *op, const zk_call *call, const zk_result *result)
{
    zk_store *store = op->store;
    if (result->stat.session != store->session.id)
        return;
    for (simba__node *node = simba__table_first(&store->contenders); node;
         node = simba__table_next(&store->contenders, node))
        if (strncmp(simba__zk_child_of(call), OF_NODE(node)->prefix, strlen(OF_NODE(node)->prefix)) == 0)
            return;
    store->host->log(store->host, SIMBA_LOG_WARN,
                     "zookeeper %s: %s is there again, although it was removed: the ensemble has lost writes",
                     store->options.where, call->path);
    simba__zk_call(op, ignored, ZK_DELETE, call->path, NULL, false);
}

/* The first child, if it is still there: a waiter need not know who leads. */
static void owner_read(zk_op *op, const zk_call *call, zk_result *result)
{
    if (result->error)
        return;
    of(op)->owner = simba__zk_owner_of(call, result);
    check_orphan(op, call, result);
}

/* The first child, when the own one goes because of it. */
static void winner_read(zk_op *op, const zk_call *call, zk_result *result)
{
    if (result->error == ZK_NO_NODE)
        of(op)->again = true;
    else
        simba__zk_op_note(op, result->error);
    owner_read(op, call, result);
}

/* The child before. */
static void before_read(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_contender *c = of(op);
    winner_read(op, call, result);
    if (!c->is_second)
        c->owner = (simba_owner){0};
    if (!result->error)
        simba__zk_watch(op, &c->before, call);
}

/* The child was found by its uuid, so its token is not known yet. */
static void own_read(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_contender *c = of(op);
    (void)call;
    if (result->error == ZK_NO_NODE)
        c->again = true;
    else
        simba__zk_op_note(op, !result->error && result->stat.czxid <= 0 ? ZK_MALFORMED : result->error);
    c->czxid = result->stat.czxid;
    c->ctime_ms = result->stat.ctime_ms;
}

static void removed(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    if (result->error == ZK_NO_NODE)
        of(op)->is_first = false; /* somebody else has removed it */
    else
        simba__zk_op_note(op, result->error);
}

/* `winner`, if it is not NULL, is the child to read in the same step. */
static void remove_child(zk_contender *c, const char *winner)
{
    move_to(c, ZK_UNSURE);
    c->stage = ZK_REMOVES;
    if (winner)
        simba__zk_call(&c->op, winner_read, ZK_GET, c->path, winner, false);
    simba__zk_call(&c->op, removed, ZK_DELETE, c->path, c->name, false);
}

/* The server counts children up to 2147483647. Those after that have the same number, or one below 0, depending on the server's
 * version: such a number does not say who was first. */
static bool has_number(const zk_contender *c)
{
    const char *number = c->name + strlen(c->prefix);
    return strlen(number) == 10 && strspn(number, "0123456789") == 10 && strcmp(number, "2147483647") < 0;
}

/* By its whole name if that is known, and otherwise by the uuid. */
static bool is_own(const zk_contender *c, const char *name)
{
    if (c->place == ZK_WAITS)
        return strcmp(name, c->name) == 0;
    return c->place == ZK_UNSURE && strncmp(name, c->prefix, strlen(c->prefix)) == 0 && strlen(name) < sizeof c->name;
}

/* The names lie in the answer: calls take copies. */
static void listed(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_contender *c = of(op);
    size_t own = 0;
    (void)call;
    if (result->error != ZK_NO_NODE)
        simba__zk_op_note(op, result->error);
    if (op->error)
        return;
    while (own < result->contenders && !is_own(c, result->names[own]))
        own++;
    if (own == result->contenders) { /* it was not made, or somebody has removed it */
        if (c->place != ZK_NONE)
            move_to(c, ZK_NONE);
        c->again = true;
        return;
    }
    if (c->place == ZK_UNSURE) {
        strcpy(c->name, result->names[own]);
        c->czxid = 0;
        move_to(c, ZK_WAITS);
    }
    simba__zk_unwatch(op->store, &c->before);
    c->is_first = own == 0;
    c->is_second = own == 1;
    c->owner = (simba_owner){0};
    if (c->leaving) {
        remove_child(c, NULL);
    } else if (!has_number(c)) {
        fail(c, ZK_NO_NUMBERS);
        c->leaving = true;
        remove_child(c, NULL);
    } else if (!c->is_first && !c->queue) {
        remove_child(c, result->names[0]);
    } else {
        c->stage = ZK_STANDS;
        if (c->czxid == 0)
            simba__zk_call(op, own_read, ZK_GET, c->path, c->name, false);
        if (own > 0)
            simba__zk_call(op, before_read, ZK_GET, c->path, result->names[own - 1], true);
        if (own > 1 && c->asks)
            simba__zk_call(op, owner_read, ZK_GET, c->path, result->names[0], false);
    }
}

/* --- making the child --------------------------------------------------------------------------------------- */

static void container_made(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    if (result->error == ZK_NO_AUTH)
        of(op)->refused = true; /* the node may be there anyway */
    else if (result->error != ZK_NODE_EXISTS && result->error != ZK_NO_NODE)
        simba__zk_op_note(op, result->error);
}

/* The server must make the child under the name that it was asked for, and number it. */
static bool is_named(const zk_contender *c, const char *path)
{
    const size_t length = strlen(c->path);
    const char *name = path + length + 1;
    return strncmp(path, c->path, length) == 0 && path[length] == '/' &&
           strncmp(name, c->prefix, strlen(c->prefix)) == 0 && !strchr(name, '/') && strlen(name) < sizeof c->name;
}

static void made(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_contender *c = of(op);
    (void)call;
    if (result->error) {
        move_to(c, ZK_NONE);
        if (result->error != ZK_NO_NODE) /* otherwise the mutex has no node yet */
            simba__zk_op_note(op, result->error);
        return;
    }
    if (!is_named(c, result->text) || result->stat.czxid <= 0) {
        simba__zk_session_malformed(&op->store->session);
        return;
    }
    strcpy(c->name, result->text + strlen(c->path) + 1);
    c->czxid = result->stat.czxid;
    c->ctime_ms = result->stat.ctime_ms;
    simba__zk_heed_clock(op->store, c->ctime_ms);
    move_to(c, ZK_WAITS);
}

static void make_child(zk_contender *c)
{
    zk_op *op = &c->op;
    char *child = simba__zk_child_path(c->path, c->prefix);
    const zk_request request = {
        .type = ZK_CREATE2, .path = child, .data = c->id, .length = strlen(c->id), .acl = op->store->options.acl};
    if (c->rounds > 1) /* the mutex may have had no node */
        simba__zk_call_parents(op, container_made, ZK_CREATE_CONTAINER, c->path);
    if (!child)
        simba__zk_op_note(op, ZK_NO_MEMORY);
    else if (simba__zk_ask(op, made, &request))
        move_to(c, ZK_UNSURE);
    simba__free(child);
}

/* --- looking ------------------------------------------------------------------------------------------------ */

static void look(zk_contender *c)
{
    zk_op *op = &c->op;
    if (c->leaving && !has_child(c) && c->stage == ZK_RESTS) {
        simba__zk_complete(op, SIMBA_NOT_MINE, NULL);
        drop(c);
        return;
    }
    if (c->stage != ZK_RESTS)
        c->again = true;
    if (c->stage != ZK_RESTS || !simba__zk_op_runs(op))
        return;
    c->again = false;
    op->error = ZK_OK;
    if (c->place == ZK_LEADS && !c->leaving) {
        const simba_owner self = simba__zk_self(c);
        if (op->request && op->request->op == SIMBA_OP_ACQUIRE) /* the answer to an earlier one was lost */
            simba__zk_complete(op, SIMBA_MINE, &self);
        return;
    }
    if (!has_child(c) && c->rounds++ == ROUNDS_MOST) {
        fail(c, c->refused ? ZK_REFUSED : ZK_VANISHES);
        return;
    }
    c->stage = ZK_LISTS;
    if (!has_child(c))
        make_child(c);
    else if (c->place == ZK_UNSURE)
        simba__zk_call_sync(op);
    else if (c->leaving)
        remove_child(c, NULL);
    if (c->stage == ZK_LISTS && !op->error)
        simba__zk_call(op, listed, ZK_CHILDREN, c->path, NULL, false);
    simba__zk_op_go(op);
}

/* All calls of the stage are answered. */
static void step(zk_op *op)
{
    zk_contender *c = of(op);
    const zk_stage stage = c->stage;
    c->stage = ZK_RESTS;
    if (stage == ZK_RESTS)
        return;
    if (op->error) {
        fail(c, op->error);
        return;
    }
    if (stage == ZK_REMOVES) {
        move_to(c, ZK_NONE);
        if (c->leaving || (!c->queue && !c->again)) {
            const simba_owner *owner = c->leaving ? NULL : &c->owner;
            simba__zk_complete(op, c->leaving && c->is_first ? SIMBA_MINE : SIMBA_NOT_MINE, owner);
            drop(c);
            return;
        }
        c->again = true;
    }
    if (c->again || c->leaving) {
        look(c);
        return;
    }
    SIMBA__ASSERT(stage == ZK_STANDS);
    c->rounds = 0;
    if (c->is_first)
        lead(c);
    else
        stand_by(c);
}

static void before_fired(zk_watch *watch, int kind)
{
    (void)kind;
    look(SIMBA__OF_ITEM(watch, zk_contender, before));
}

/* --- the child of a leader ---------------------------------------------------------------------------------- */

/* The child was read, and is watched from now on if there is no error. A RENEW waits for this, too. */
static void watched(zk_contender *c, int error)
{
    const simba_owner self = simba__zk_self(c);
    const bool renews = c->op.request && c->op.request->op == SIMBA_OP_RENEW;
    if (error)
        simba__zk_op_later(&c->op);
    if (renews && error)
        simba__zk_fail_by(&c->op, error);
    else if (renews)
        simba__zk_complete(&c->op, SIMBA_MINE, &self);
}

static void own_watched(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_contender *c = of(op);
    if (c->place != ZK_LEADS || strcmp(simba__zk_child_of(call), c->name) != 0)
        return; /* it leads no more, or by another child */
    if (result->error == ZK_NO_NODE) {
        revoke(c);
        return;
    }
    op->error = result->error;
    if (!op->error)
        simba__zk_watch(op, &c->own, call);
    watched(c, op->error);
}

static void watch_own(zk_contender *c)
{
    if (simba__zk_op_runs(&c->op) && !simba__zk_call(&c->op, own_watched, ZK_GET, c->path, c->name, true))
        watched(c, ZK_NO_MEMORY);
}

/* Somebody has removed it, or touched it. */
static void own_fired(zk_watch *watch, int kind)
{
    zk_contender *c = SIMBA__OF_ITEM(watch, zk_contender, own);
    if (kind == ZK_EVENT_DELETED)
        revoke(c);
    else
        watch_own(c);
}

/* --- requests ----------------------------------------------------------------------------------------------- */

/* On a new connection, or after a while. */
static void begin(zk_op *op)
{
    zk_contender *c = of(op);
    if (!has_child(c) && !op->request)
        return; /* nobody waits for one */
    if (c->place == ZK_LEADS && !c->leaving)
        watch_own(c);
    c->asks = c->place == ZK_WAITS;
    look(c);
}

/* A child that could not be made is looked for on the next connection, as nobody was told. */
static void lost(zk_op *op)
{
    zk_contender *c = of(op);
    if (c->stage != ZK_RESTS && c->place == ZK_NONE)
        move_to(c, ZK_UNSURE);
    c->stage = ZK_RESTS;
}

static const zk_kind contending = {.begin = begin, .step = step, .lost = lost, .fini = fini, .stays = true};

static zk_contender *contender_new(zk_store *store, simba_request *request)
{
    zk_contender *c = NULL;
    if (simba__table_reserve(&store->contenders))
        c = simba__zk_op_new(store, &contending, sizeof *c, NULL);
    if (c) {
        c->mutex = simba__strdup(request->mutex);
        c->path = simba__zk_child_path(store->options.root, request->mutex);
        c->id = simba__strdup(request->id);
    }
    if (!c || !c->mutex || !c->path || !c->id) {
        if (c)
            simba__zk_op_end(&c->op);
        store->host->fail(store->host, request, SIMBA_ENOMEM, "zookeeper: out of memory");
        return NULL;
    }
    c->nonce = request->nonce;
    c->before.fired = before_fired;
    c->own.fired = own_fired;
    simba__zk_prefix(simba__zk_salted(c->nonce, store->session.over), c->id, c->prefix);
    simba__table_add(&store->contenders, &c->node, c->nonce);
    c->in_table = true;
    return c;
}

/* The client has given an older request up, or else it would not ask again. */
static void take(zk_contender *c, simba_request *request)
{
    simba__zk_fail(&c->op, SIMBA_ETIMEDOUT, "asked again meanwhile");
    simba__zk_op_take(&c->op, request);
    if (!simba__zk_is_connected(&c->op.store->session))
        simba__zk_op_park(&c->op);
}

static void answer(zk_store *store, simba_request *request, simba_outcome outcome)
{
    request->reply = (simba_reply){.outcome = outcome, .now_ms = simba__zk_now_ms(store)};
    store->host->complete(store->host, request);
}

void simba__zk_acquire(zk_store *store, simba_request *request)
{
    zk_contender *c = simba__zk_contender_find(store, request);
    c = c ? c : contender_new(store, request);
    if (!c)
        return;
    take(c, request);
    c->queue = request->queue;
    c->leaving = c->refused = c->asks = false;
    c->rounds = 0;
    look(c);
}

void simba__zk_release(zk_store *store, simba_request *request)
{
    zk_contender *c = simba__zk_contender_find(store, request);
    const uint64_t token = c ? (uint64_t)c->czxid : 0;
    if (!c || (request->token && token && token != request->token)) {
        answer(store, request, SIMBA_NOT_MINE);
        return;
    }
    take(c, request);
    c->leaving = true;
    look(c);
}

/* The session is kept up for all mutexes at once, so a renewal prolongs nothing. It only asks whether the child is still there. */
void simba__zk_renew(zk_store *store, simba_request *request)
{
    zk_contender *c = simba__zk_contender_find(store, request);
    if (simba__zk_holds(c, request)) {
        take(c, request);
        watch_own(c);
    } else if (simba__zk_was_revoked(c, request)) {
        answer(store, request, SIMBA_REVOKED); /* the contender is told now */
        drop(c);
    } else {
        answer(store, request, SIMBA_NOT_MINE);
    }
}
