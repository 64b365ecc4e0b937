/* ACQUIRE, RENEW and RELEASE: carries out what queue.c decides, and tells the client what came of it.
 *
 * A contender is in the table from its first ACQUIRE until its key is known to be gone, or the lease is over. It has one request at a
 * time: a newer one fails an older one, which the client has given up by then. A leader watches its key only when it has led for
 * 20 ms: a watch would cost a short critical section a request of its own. */
#include <stdlib.h>
#include <string.h>

#include "stores/etcd/etcd.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"

enum { LATER_MS = 20, RETRY_MS = 100 };

#define OF_NODE(node_) SIMBA__OF_NODE(node_, etcd_contender, node)

static void carry_out(etcd_contender *c, etcd_move move);
static void look_after(etcd_op *op);

/* --- the table ---------------------------------------------------------------------------------------------- */

static bool is_of(const simba__node *node, const void *key)
{
    const etcd_contender *c = OF_NODE(node);
    const simba_request *request = key;
    return c->nonce == request->nonce && strcmp(c->id, request->id) == 0 && strcmp(c->mutex, request->mutex) == 0;
}

etcd_contender *simba__etcd_contender_find(etcd_store *store, const simba_request *request)
{
    simba__node *node = simba__table_find(&store->contenders, request->nonce, is_of, request);
    return node ? OF_NODE(node) : NULL;
}

bool simba__etcd_holds(const etcd_contender *c, const simba_request *request)
{
    return c && c->queue.place == ETCD_LEADS && !c->queue.leaving && c->queue.revision == request->token;
}

static bool has_key(const simba__node *node, const void *key)
{
    return strcmp(OF_NODE(node)->names.own, key) == 0;
}

bool simba__etcd_is_ours(const etcd_store *store, const char *key)
{
    const char *nonce = strrchr(key, '-');
    return nonce && simba__table_find(&store->contenders, strtoull(nonce + 1, NULL, 16), has_key, key);
}

static void fini(etcd_op *op)
{
    etcd_contender *c = (etcd_contender *)op;
    simba__etcd_watch_clear(op->store, &c->before);
    simba__etcd_watch_clear(op->store, &c->own);
    simba__list_remove(&c->waiting);
    simba__table_remove(&op->store->contenders, &c->node);
    simba__free(c->mutex);
    simba__free(c->id);
}

/* Its key is gone. */
static void drop(etcd_contender *c)
{
    simba__etcd_op_end(&c->op);
}

void simba__etcd_contenders_drop(etcd_store *store)
{
    for (simba__node *node; (node = simba__table_first(&store->contenders)) != NULL;) {
        etcd_contender *c = OF_NODE(node);
        simba__etcd_fail(&c->op, SIMBA_EUNAVAILABLE, "the lease has ended");
        drop(c);
    }
}

static void push(const etcd_contender *c, simba_push_kind kind)
{
    simba_host *host = c->op.store->host;
    host->push_to(host, c->mutex, c->nonce, &(simba_push){.kind = kind});
}

/* --- watches ------------------------------------------------------------------------------------------------ */

static void watch_own(etcd_contender *c)
{
    if (!c->own.item.list && !simba__etcd_watch_set(c->op.store, &c->own, c->names.own, c->revision + 1))
        simba__etcd_op_later(&c->op, RETRY_MS);
}

static void before_fired(etcd_watch *watch, bool missed)
{
    etcd_contender *c = SIMBA__OF_ITEM(watch, etcd_contender, before);
    (void)missed;
    simba__etcd_watch_clear(c->op.store, watch);
    carry_out(c, simba__etcd_queue_news(&c->queue));
}

static void own_fired(etcd_watch *watch, bool missed)
{
    etcd_contender *c = SIMBA__OF_ITEM(watch, etcd_contender, own);
    (void)missed;
    carry_out(c, simba__etcd_queue_news(&c->queue));
}

static etcd_contender *contender_new(etcd_store *store, simba_request *request)
{
    if (!simba__table_reserve(&store->contenders)) {
        store->host->fail(store->host, request, SIMBA_ENOMEM, "etcd: out of memory");
        return NULL;
    }
    etcd_contender *c = simba__etcd_op_new(store, sizeof *c, request);
    if (!c)
        return NULL;
    simba__table_add(&store->contenders, &c->node, request->nonce);
    c->op.fini = fini;
    c->op.woken = look_after;
    c->op.stays = true;
    c->nonce = request->nonce;
    c->mutex = simba__strdup(request->mutex);
    c->id = simba__strdup(request->id);
    c->before.fired = before_fired;
    c->own.fired = own_fired;
    simba__etcd_session_want(store);
    simba__etcd_names(store->options.prefix, request->mutex, &c->names);
    if (c->mutex && c->id)
        return c;
    simba__etcd_fail(&c->op, SIMBA_ENOMEM, "out of memory");
    drop(c);
    return NULL;
}

/* --- outcomes ----------------------------------------------------------------------------------------------- */

static simba_owner own_of(const etcd_contender *c)
{
    simba_owner owner = {.ttl_at_ms = INT64_MAX, .transition_at_ms = INT64_MAX, .token = c->queue.revision};
    strcpy(owner.id, c->id);
    return owner;
}

/* The holder's key is gone. Whether it was removed, or has ended with the lease, only the lease can tell. */
static void say_why(etcd_contender *c)
{
    if (c->op.request) {
        simba__list_append(&c->op.store->removed, &c->waiting);
        simba__etcd_session_ask(c->op.store);
    } else {
        push(c, SIMBA_PUSH_CHANGED);
    }
}

void simba__etcd_contenders_removed(etcd_store *store)
{
    while (store->removed.first) {
        etcd_contender *c = SIMBA__OF_ITEM(store->removed.first, etcd_contender, waiting);
        simba__etcd_complete(&c->op, SIMBA_REVOKED, NULL);
        drop(c);
    }
}

/* A step has failed. Whoever asks is told. The contender tries again by itself if nobody asks, and also if its watches may have told it
 * of something that nobody else will look for. */
static void fail(etcd_contender *c, int code, const char *text)
{
    const bool by_itself = !c->op.request || c->queue.leaving || c->queue.place == ETCD_LEADS ||
                           (c->queue.place == ETCD_WAITS && c->queue.again);
    simba__etcd_fail(&c->op, code, "%s", text);
    c->queue.asked = false;
    if (c->queue.place == ETCD_NONE)
        drop(c);
    else if (by_itself)
        simba__etcd_op_later(&c->op, RETRY_MS);
}

static void tell(etcd_contender *c, etcd_tell what)
{
    etcd_op *op = &c->op;
    const simba_owner own = own_of(c);
    switch (what) {
    case ETCD_TELL_NOTHING:
        break;
    case ETCD_TELL_LEADS:
        simba__etcd_watch_clear(op->store, &c->before);
        if (!c->own.item.list)
            simba__etcd_op_later(&c->op, LATER_MS);
        if (op->request)
            simba__etcd_complete(op, SIMBA_MINE, &own);
        else
            push(c, SIMBA_PUSH_RELEASED);
        break;
    case ETCD_TELL_WAITS:
        watch_own(c);
        if (!simba__etcd_watch_set(op->store, &c->before, c->before_key, c->revision + 1))
            simba__etcd_op_later(&c->op, RETRY_MS);
        simba__etcd_complete(op, SIMBA_NOT_MINE, &c->owner);
        break;
    case ETCD_TELL_FREED:
        simba__etcd_complete(op, SIMBA_MINE, NULL);
        drop(c);
        break;
    case ETCD_TELL_OUT:
        simba__etcd_complete(op, SIMBA_NOT_MINE, c->queue.leaving ? NULL : &c->owner);
        drop(c);
        break;
    case ETCD_TELL_REVOKED:
        if (op->request && op->request->op == SIMBA_OP_ACQUIRE) /* nobody has heard of that grant */
            carry_out(c, simba__etcd_queue_acquire(&c->queue, op->request->queue));
        else
            say_why(c);
        break;
    case ETCD_TELL_REFUSED:
        fail(c, SIMBA_ESTORE, "the key of the contender goes each time that it is put");
        break;
    }
}

/* --- steps -------------------------------------------------------------------------------------------------- */

static void on_answer(etcd_op *op, const etcd_answer *answer)
{
    etcd_contender *c = (etcd_contender *)op;
    etcd_store *store = op->store;
    const etcd_step step = c->queue.step;
    etcd_sight sight;
    if (step == ETCD_ENTER && answer->unsure)
        simba__etcd_session_doubt(store); /* an earlier attempt may come late, and put the key again */
    if (answer->code) {
        if (step == ETCD_ENTER && answer->fault.code == ETCD_NOT_FOUND) {
            simba__etcd_session_end(store); /* there is no such lease */
            return;
        }
        simba__etcd_queue_lose(&c->queue, answer->unsure);
        fail(c, answer->code, answer->fault.text);
        return;
    }
    if (step == ETCD_LEAVE) {
        /* After an attempt without an answer: if the key is gone, this release has deleted it. */
        carry_out(c, simba__etcd_queue_left(
                         &c->queue, answer->unsure || simba__json_bool(simba__json_get(answer->json, "succeeded"))));
        return;
    }
    if (!(step == ETCD_ENTER ? simba__etcd_read_enter : simba__etcd_read_look)(answer->json, &c->names, &sight)) {
        if (step == ETCD_ENTER)
            simba__etcd_session_doubt(store);
        simba__etcd_queue_lose(&c->queue, true);
        fail(c, SIMBA_ESTORE, "the server's answer makes no sense; is it an etcd?");
        return;
    }
    c->revision = sight.revision;
    if (sight.before > 0)
        strcpy(c->before_key, sight.before_key);
    if (sight.has_first)
        c->owner = simba__etcd_owner(&sight.first);
    carry_out(c, simba__etcd_queue_saw(&c->queue, &sight));
}

static void take(etcd_contender *c, etcd_step step)
{
    etcd_op *op = &c->op;
    etcd_store *store = op->store;
    if (step == ETCD_ENTER && !store->session.leased) {
        simba__list_append(&store->unleased, &c->waiting);
        return;
    }
    op->body.length = 0;
    op->body.failed = false;
    if (step == ETCD_ENTER) {
        simba__etcd_name_own(&c->names, store->session.lease, c->nonce);
        simba__etcd_put_enter(&op->body, &c->names, store->session.lease, c->id);
    } else if (step == ETCD_LOOK) {
        simba__etcd_put_look(&op->body, &c->names, c->queue.below);
    } else {
        simba__etcd_put_delete(&op->body, c->names.own, "EQUAL", c->queue.revision);
    }
    simba__etcd_call(op, "/v3/kv/txn", on_answer);
}

/* What is told may end the contender; then there is no step. */
static void carry_out(etcd_contender *c, etcd_move move)
{
    tell(c, move.tell);
    if (move.step != ETCD_REST)
        take(c, move.step);
}

void simba__etcd_contenders_leased(etcd_store *store)
{
    while (store->unleased.first) {
        etcd_contender *c = SIMBA__OF_ITEM(store->unleased.first, etcd_contender, waiting);
        simba__list_remove(&c->waiting);
        take(c, c->queue.step);
    }
}

void simba__etcd_contenders_unavailable(etcd_store *store, int code, const char *why)
{
    simba__etcd_contenders_removed(store);
    while (store->unleased.first) {
        etcd_contender *c = SIMBA__OF_ITEM(store->unleased.first, etcd_contender, waiting);
        simba__list_remove(&c->waiting);
        simba__etcd_queue_lose(&c->queue, false);
        fail(c, code, why);
    }
}

/* --- requests ----------------------------------------------------------------------------------------------- */

/* The client has given an older request up, or else it would not ask again. */
static void take_request(etcd_contender *c, simba_request *request)
{
    simba__etcd_fail(&c->op, SIMBA_ETIMEDOUT, "asked again meanwhile");
    if (c->waiting.list == &c->op.store->removed)
        simba__list_remove(&c->waiting);
    simba__etcd_op_take(&c->op, request);
}

static void answer_at_once(etcd_store *store, simba_request *request, simba_outcome outcome)
{
    request->reply = (simba_reply){.outcome = outcome, .now_ms = simba__etcd_now_ms(store)};
    store->host->complete(store->host, request);
}

void simba__etcd_acquire(etcd_store *store, simba_request *request)
{
    etcd_contender *c = simba__etcd_contender_find(store, request);
    if (c)
        take_request(c, request);
    else
        c = contender_new(store, request);
    if (c)
        carry_out(c, simba__etcd_queue_acquire(&c->queue, request->queue));
}

void simba__etcd_release(etcd_store *store, simba_request *request)
{
    etcd_contender *c = simba__etcd_contender_find(store, request);
    if (!c || (request->token && c->queue.revision && c->queue.revision != request->token)) {
        answer_at_once(store, request, SIMBA_NOT_MINE);
        return;
    }
    const bool removed = c->queue.place == ETCD_GONE;
    take_request(c, request);
    if (removed)
        say_why(c);
    else
        carry_out(c, simba__etcd_queue_release(&c->queue));
}

/* The lease is kept alive for all mutexes at once, so a renewal prolongs nothing. It only asks whether the key is still there. */
void simba__etcd_renew(etcd_store *store, simba_request *request)
{
    etcd_contender *c = simba__etcd_contender_find(store, request);
    const bool ours = c && !c->queue.leaving && c->queue.revision == request->token;
    if (ours && c->queue.place == ETCD_LEADS) {
        take_request(c, request);
        carry_out(c, simba__etcd_queue_renew(&c->queue));
    } else if (ours && c->queue.place == ETCD_GONE) {
        take_request(c, request);
        say_why(c);
    } else {
        answer_at_once(store, request, SIMBA_NOT_MINE);
    }
}

/* --- what has time ------------------------------------------------------------------------------------------ */

static void look_after(etcd_op *op)
{
    etcd_contender *c = (etcd_contender *)op;
    if (c->queue.place == ETCD_LEADS && !c->queue.leaving && !c->own.item.list)
        watch_own(c);
    else if (c->queue.place == ETCD_LEADS && !c->queue.leaving)
        carry_out(c, simba__etcd_queue_news(&c->queue)); /* a look for its own key has failed */
    else if (c->queue.step == ETCD_REST)
        carry_out(c, simba__etcd_queue_go(&c->queue));
}
