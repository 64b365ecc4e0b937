#include "backends/zookeeper/contend.h"

#include <string.h>

#include "backends/zookeeper/stray.h"
#include "util/mem.h"

/* A procedure about a node. */
struct contention {
    zk_op op; /* first */
    zk_nodes *nodes;
    zk_node *node; /* NULL: there is none yet */
    zk_attempt attempt;
    bool refused;      /* the parents could not be made */
    simba_owner owner; /* the leader, as far as somebody asked */
};

static const zk_procedure request_only, persistent;

static struct contention *of(zk_op *op)
{
    return (struct contention *)op;
}

static struct contention *begin(zk_nodes *nodes, zk_wish wish, simba_request *request, zk_node *node)
{
    const zk_procedure *procedure = request && wish != ZK_WISH_LEAVE ? &request_only : &persistent;
    struct contention *c = simba__zk_op_new(nodes->ops, procedure, sizeof *c, request);
    if (!c)
        return NULL;
    c->nodes = nodes;
    c->node = node;
    c->attempt.wish = wish;
    if (node)
        node->refs++;
    return c;
}

static void ended(zk_op *op)
{
    zk_node *node = of(op)->node;
    if (node && node->op == op)
        node->op = NULL;
}

static void fini(zk_op *op)
{
    simba__zk_attempt_forget(&of(op)->attempt);
    if (of(op)->node)
        simba__zk_node_unref(of(op)->node);
}

/* This procedure is now the one about its node; an older one has nothing to say any more. */
static void take_node(struct contention *c)
{
    zk_op *older = c->node->op;
    c->node->op = &c->op;
    if (older && older != &c->op && older->awaited == 0 && !older->request)
        simba__zk_op_end(older);
}

static bool is_superseded(const struct contention *c)
{
    return c->attempt.wish <= ZK_WISH_LEAVE && c->node->op != &c->op;
}

static void push(const zk_node *node, simba_push_kind kind)
{
    simba_host *host = node->nodes->ops->session->host;
    host->push_to(host, node->mutex, node->nonce, &(simba_push){.kind = kind});
}

/* The procedure could not find out who leads: have the contender ask. */
static void give_up_looking(const struct contention *c)
{
    if (!c->op.request && c->node->in_table)
        push(c->node, SIMBA_PUSH_CHANGED);
}

/* --- events ------------------------------------------------------------------------------------------------- */

/* Have a waiter look who leads, without being asked. */
static void begin_to_look(zk_node *node)
{
    if (node->op)
        return; /* the procedure under way will look */
    struct contention *c = begin(node->nodes, ZK_WISH_LOOK, NULL, node);
    if (!c) {
        push(node, SIMBA_PUSH_CHANGED);
        return;
    }
    take_node(c);
    simba__zk_op_start(&c->op);
}

static void alert(zk_node *node, zk_alert alert)
{
    switch (alert) {
    case ZK_ALERT_NONE:
        break;
    case ZK_ALERT_LOOK:
        begin_to_look(node);
        break;
    case ZK_ALERT_GUARD:
        simba__zk_node_later(node);
        break;
    case ZK_ALERT_REVOKED:
        simba__list_remove(&node->unattended);
        push(node, SIMBA_PUSH_CHANGED);
        break;
    }
}

static void before_fired(void *owner, int type)
{
    zk_node *node = owner;
    (void)type;
    alert(node, simba__zk_latch_before_fired(&node->latch));
}

static void guard_fired(void *owner, int type)
{
    zk_node *node = owner;
    alert(node, simba__zk_latch_guard_fired(&node->latch, type == ZOO_DELETED_EVENT));
}

/* --- answers ------------------------------------------------------------------------------------------------ */

static void parent_made(zk_op *op, const zk_result *result)
{
    if (result->rc == ZUNIMPLEMENTED)
        op->ops->no_containers = true;
    else if (result->rc == ZNOAUTH)
        of(op)->refused = true; /* the node may be there all the same */
    else if (result->rc != ZNODEEXISTS && result->rc != ZNONODE)
        simba__zk_op_note(op, result->rc);
}

/* The name of the child that the server has made: that of the call, and a number. NULL: it is another name. */
static const char *name_of_made(const zk_node *node, const char *path)
{
    const size_t length = strlen(node->queue->path);
    if (strncmp(path, node->queue->path, length) != 0 || path[length] != '/')
        return NULL;
    const char *name = path + length + 1;
    return strncmp(name, node->latch.prefix, strlen(node->latch.prefix)) == 0 && !strchr(name, '/') ? name : NULL;
}

static void made(zk_op *op, const zk_result *result)
{
    zk_latch *latch = &of(op)->node->latch;
    const char *name = result->rc == ZOK ? name_of_made(of(op)->node, result->text) : NULL;
    if (name && result->stat->czxid > 0) {
        simba__zk_session_clock(op->ops->session, result->stat->ctime);
        if (!simba__zk_latch_made(latch, name, result->stat->czxid, result->stat->ctime))
            simba__zk_op_note(op, ZK_NO_MEMORY);
        return;
    }
    const int rc = result->rc == ZOK ? ZK_MALFORMED : result->rc;
    simba__zk_latch_not_made(latch, !simba__zk_is_loss(rc) && rc != ZK_MALFORMED);
    if (rc == ZNONODE)
        simba__zk_latch_mutex_missing(&of(op)->attempt);
    else
        simba__zk_op_note(op, rc);
}

static void listed(zk_op *op, const zk_result *result)
{
    struct contention *c = of(op);
    if (result->rc == ZNONODE)
        simba__zk_latch_mutex_missing(&c->attempt);
    else if (result->rc != ZOK)
        simba__zk_op_note(op, result->rc);
    else if (!simba__zk_latch_listed(&c->node->latch, &c->attempt, result->names, result->count))
        simba__zk_op_note(op, ZK_NO_MEMORY);
}

/* The node that was to be read or removed is gone, or something is wrong with it. */
static void not_there(zk_op *op, int rc, unsigned call)
{
    if (rc == ZNONODE)
        simba__zk_latch_vanished(&of(op)->attempt, call);
    else
        simba__zk_op_note(op, rc == ZOK ? ZK_MALFORMED : rc);
}

static void own_read(zk_op *op, const zk_result *result)
{
    const struct Stat *stat = result->stat;
    if (result->rc == ZOK && stat->czxid > 0)
        simba__zk_latch_own(&of(op)->node->latch, stat->czxid, stat->ctime, result->watched);
    else
        not_there(op, result->rc, ZK_CALL_OWN);
}

/* This is the child of somebody who is before this contender. */
static void other_read(zk_op *op, const char *child, const zk_result *result)
{
    const struct contention *c = of(op);
    simba__zk_stray_check(c->nodes, c->node->queue->path, child, result);
}

static void leader_read(zk_op *op, const zk_result *result)
{
    const char *leader = of(op)->attempt.leader;
    if (result->rc != ZOK) {
        not_there(op, result->rc, ZK_CALL_LEADER);
        return;
    }
    of(op)->owner = simba__zk_owner_of(leader, result);
    other_read(op, leader, result);
}

static void before_read(zk_op *op, const zk_result *result)
{
    const zk_attempt *attempt = &of(op)->attempt;
    if (result->rc != ZOK) {
        not_there(op, result->rc, ZK_CALL_BEFORE);
        return;
    }
    if (strcmp(attempt->leader, attempt->before) == 0)
        of(op)->owner = simba__zk_owner_of(attempt->leader, result);
    other_read(op, attempt->before, result);
}

static void removed(zk_op *op, const zk_result *result)
{
    if (result->rc != ZOK)
        not_there(op, result->rc, ZK_CALL_DELETE);
}

/* --- moves -------------------------------------------------------------------------------------------------- */

static void set_watch(struct contention *c, zk_watch **slot, const char *child, void (*fired)(void *owner, int type),
                      zk_answered *answered)
{
    zk_watch *watch = simba__zk_watch_new(&c->op, slot, c->node, fired);
    if (watch)
        simba__zk_call_get(&c->op, c->node->queue->path, child, watch, answered);
}

static void make_calls(struct contention *c, unsigned calls)
{
    zk_op *op = &c->op;
    zk_node *node = c->node;
    const char *path = node->queue->path;
    if (calls & ZK_CALL_SYNC)
        simba__zk_call_sync(op);
    if (calls & ZK_CALL_PARENTS)
        simba__zk_call_parents(op, path, parent_made);
    if (calls & ZK_CALL_CREATE && !simba__zk_call_create(op, path, node->latch.prefix, node->id, made))
        simba__zk_latch_not_made(&node->latch, true);
    if (calls & ZK_CALL_LIST)
        simba__zk_queue_list(node->queue, op, &node->latch, listed);
    if (calls & ZK_CALL_OWN)
        simba__zk_call_get(op, path, node->latch.name, NULL, own_read);
    if (calls & ZK_CALL_GUARD)
        set_watch(c, &node->guard, node->latch.name, guard_fired, own_read);
    if (calls & ZK_CALL_LEADER)
        simba__zk_call_get(op, path, c->attempt.leader, NULL, leader_read);
    if (calls & ZK_CALL_BEFORE)
        set_watch(c, &node->before, c->attempt.before, before_fired, before_read);
    if (calls & ZK_CALL_DELETE)
        simba__zk_call_delete(op, path, node->latch.name, removed);
    simba__zk_op_go(op);
}

/* If the wait takes longer, tell the contender who leads the queue. */
static void tell_leader_later(struct contention *c)
{
    simba__free(c->node->leader);
    c->node->leader = c->attempt.leader;
    c->attempt.leader = NULL;
    simba__zk_node_later(c->node);
}

/* A contender has waited for a while without knowing who leads: tell it. */
static void tell_leader(const struct contention *c)
{
    const zk_session *session = c->op.ops->session;
    if (!simba_owner_is_none(&c->owner))
        session->host->push_to(
            session->host, c->node->mutex, c->node->nonce,
            &(simba_push){.kind = SIMBA_PUSH_ACQUIRED, .owner = c->owner, .now_ms = simba__zk_session_now_ms(session)});
}

static void move(struct contention *c, zk_move move)
{
    zk_op *op = &c->op;
    zk_node *node = c->node;
    const simba_owner own = simba__zk_owner(node->id, node->latch.czxid, node->latch.ctime_ms);
    switch (move.outcome) {
    case ZK_GO:
        if (move.calls & ZK_CALL_LIST)
            c->owner = (simba_owner){0};
        make_calls(c, move.calls);
        break;
    case ZK_IDLE:
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
        break;
    case ZK_WON:
        simba__zk_node_later(node); /* set its guard in a while */
        if (!op->request)
            push(node, SIMBA_PUSH_RELEASED);
        simba__zk_op_complete(op, SIMBA_MINE, &own);
        break;
    case ZK_LEADS_STILL:
        simba__zk_op_complete(op, SIMBA_MINE, &own);
        break;
    case ZK_WAITS:
        if (c->attempt.wish == ZK_WISH_ASK)
            tell_leader(c);
        else if (op->request && simba_owner_is_none(&c->owner))
            tell_leader_later(c);
        simba__zk_op_complete(op, SIMBA_NOT_MINE, &c->owner);
        break;
    case ZK_LOST:
        simba__zk_node_drop(node);
        simba__zk_op_complete(op, SIMBA_NOT_MINE, &c->owner);
        break;
    case ZK_FREED:
    case ZK_NOTHING:
        simba__zk_node_drop(node);
        simba__zk_op_complete(op, move.outcome == ZK_FREED ? SIMBA_MINE : SIMBA_NOT_MINE, NULL);
        break;
    case ZK_TAKEN:
        if (op->request)
            simba__zk_node_drop(node); /* the contender that asks is told now */
        else
            alert(node, simba__zk_latch_taken(&node->latch));
        simba__zk_op_complete(op, SIMBA_REVOKED, NULL);
        break;
    case ZK_REFUSED:
        give_up_looking(c);
        simba__zk_op_fail(op, c->refused ? SIMBA_EPERM : SIMBA_ESTORE, "cannot make a node below %s: %s",
                          op->ops->session->options->root, c->refused ? "no permission" : "it goes again each time");
        break;
    case ZK_NO_NUMBERS:
        give_up_looking(c);
        simba__zk_node_drop(node);
        simba__zk_op_fail(op, SIMBA_ESTORE, "no numbers are left below %s, which has to be removed", node->queue->path);
        break;
    }
}

/* --- procedures --------------------------------------------------------------------------------------------- */

/* An ACQUIRE that has lost its node, or never had one, gets one. */
static bool have_node(struct contention *c)
{
    if (c->attempt.wish > ZK_WISH_TRY || (c->node && c->node->in_table))
        return true;
    zk_node *node = simba__zk_node_find(c->nodes, c->op.request);
    if (!node)
        node = simba__zk_node_new(c->nodes, c->op.request);
    if (!node)
        return false;
    if (c->node)
        simba__zk_node_unref(c->node);
    c->node = node;
    node->refs++;
    take_node(c);
    return true;
}

/* True if the procedure still has something to do. Otherwise it ends. */
static bool is_up_to_date(struct contention *c)
{
    if (is_superseded(c) || (!c->node->in_table && c->attempt.wish <= ZK_WISH_TRY))
        simba__zk_op_fail(&c->op, SIMBA_ETIMEDOUT, "asked again meanwhile");
    else if (!c->node->in_table)
        simba__zk_op_complete(&c->op, SIMBA_NOT_MINE, NULL);
    else
        return true;
    return false;
}

static void run(zk_op *op)
{
    struct contention *c = of(op);
    if (!have_node(c))
        simba__zk_op_fail(op, SIMBA_ENOMEM, "out of memory");
    else if (is_up_to_date(c))
        move(c, simba__zk_latch_begin(&c->node->latch, &c->attempt));
}

/* If nobody asks for the outcome, try again in a while, when there may be memory; or have the contender ask. */
static void note_failure(struct contention *c)
{
    const zk_wish wish = c->attempt.wish;
    if (wish <= ZK_WISH_LOOK)
        give_up_looking(c);
    else if (c->op.error == ZK_NO_MEMORY && (wish == ZK_WISH_LEAVE || wish == ZK_WISH_GUARD))
        simba__zk_node_later(c->node);
    else if (c->op.error == ZK_NO_MEMORY && wish == ZK_WISH_ASK && !c->node->leader)
        tell_leader_later(c);
}

static void step(zk_op *op)
{
    struct contention *c = of(op);
    if (!is_up_to_date(c))
        return;
    if (op->error)
        note_failure(c);
    if (simba__zk_op_good(op))
        move(c, simba__zk_latch_step(&c->node->latch, &c->attempt));
}

static const zk_procedure request_only = {.run = run, .step = step, .ended = ended, .fini = fini};
/* A RELEASE goes on without its request, too, if that runs out of time: a node that this session has made must not
 * stay. */
static const zk_procedure persistent = {.run = run, .step = step, .ended = ended, .fini = fini, .persists = true};

void simba__zk_acquire(zk_nodes *nodes, simba_request *request)
{
    struct contention *c = begin(nodes, request->queue ? ZK_WISH_WAIT : ZK_WISH_TRY, request, NULL);
    if (c)
        simba__zk_op_start(&c->op);
}

/* The session is kept up for all mutexes at once, so a renewal prolongs nothing. It only asks whether the child is
 * still there. */
void simba__zk_renew(zk_nodes *nodes, simba_request *request)
{
    zk_node *node = simba__zk_node_find(nodes, request);
    const bool ours = node && !node->latch.unwanted && (uint64_t)node->latch.czxid == request->token;
    struct contention *c = begin(nodes, ZK_WISH_RENEW, request, node);
    if (c && ours)
        simba__zk_op_start(&c->op);
    else if (c)
        simba__zk_op_complete(&c->op, SIMBA_NOT_MINE, NULL);
}

static void remove_node(zk_node *node, simba_request *request)
{
    struct contention *c = begin(node->nodes, ZK_WISH_LEAVE, request, node);
    node->latch.unwanted = true;
    if (!c) {
        simba__zk_node_later(node);
        return;
    }
    take_node(c);
    if (node->latch.place == ZK_ABSENT || node->latch.place == ZK_REVOKED)
        run(&c->op); /* also if there is no connection */
    else
        simba__zk_op_start(&c->op);
}

void simba__zk_release(zk_nodes *nodes, simba_request *request)
{
    zk_node *node = simba__zk_node_find(nodes, request);
    const uint64_t token = node ? (uint64_t)node->latch.czxid : 0;
    if (node && !(request->token && token && token != request->token)) {
        remove_node(node, request);
        return;
    }
    struct contention *c = begin(nodes, ZK_WISH_LEAVE, request, NULL);
    if (c)
        simba__zk_op_complete(&c->op, SIMBA_NOT_MINE, NULL);
}

/* --- what has time ------------------------------------------------------------------------------------------ */

static void look_after(zk_node *node)
{
    if (node->latch.unwanted) {
        if (!node->op || of(node->op)->attempt.wish != ZK_WISH_LEAVE) /* otherwise it is about to go */
            remove_node(node, NULL);
        return;
    }
    struct contention *c = begin(node->nodes, node->latch.place == ZK_LEADS ? ZK_WISH_GUARD : ZK_WISH_ASK, NULL, node);
    if (!c) {
        simba__zk_node_later(node);
        return;
    }
    if (c->attempt.wish == ZK_WISH_ASK) {
        c->attempt.leader = node->leader;
        node->leader = NULL;
    }
    simba__zk_op_start(&c->op);
}

void simba__zk_chores(simba_timer *timer, simba_local now)
{
    zk_nodes *nodes = (zk_nodes *)(void *)((char *)timer - offsetof(zk_nodes, chores));
    for (zk_node *node; (node = simba__zk_nodes_due(nodes, now));)
        look_after(node);
    simba__zk_session_flush(nodes->ops->session);
}
