/* ACQUIRE and RELEASE: standing in the queue of a mutex.
 *
 *   enter     make our child and list all, in flight together: for a free mutex that is all. Where nobody else has come since
 *             we last led, making it is enough (see zk_queue)
 *   wait      watch the child before ours, and look again when it goes
 *   leave     remove our child, whatever is known or not known about it
 *
 * Children are numbered as they are made, so nobody ever comes in before us: once ours is the first it stays so until it goes. */
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "util/clock.h"
#include "util/mem.h"

enum {
    ROUNDS_MAX = 5, /* how often to begin anew because what was just made is missing */
    LATER_MS = 20,  /* what leads or waits for less than this is not worth a call of its own */
};

static void enter(zk_op *op);

/* --- whose turn it is --------------------------------------------------------------------------------- */

/* This procedure is the one about its node; an older one has nothing to say any more. */
static void take_node(zk_op *op, zk_node *node)
{
    zk_op *older = node->op;
    simba__zk_node_ref(node);
    if (op->node)
        simba__zk_node_unref(op->node);
    op->node = node;
    node->op = op;
    if (older && older != op && older->calls == 0 && !older->request)
        simba__zk_op_end(older);
}

static bool is_superseded(const zk_op *op)
{
    return op->node->op != op;
}

/* What was to find out whose turn it is could not: have the contender ask. */
static void give_up_looking(const zk_op *op)
{
    const zk_node *node = op->node;
    simba_host *host = op->store->host;
    if (!op->request && node && node->in_table)
        host->push_to(host, node->mutex, node->nonce, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
}

static bool is_good(zk_op *op)
{
    if (op->no_memory || op->error)
        give_up_looking(op);
    return simba__zk_op_good(op);
}

void simba__zk_chores_later(zk_store *self)
{
    const simba_local now = self->host->now(self->host);
    if (self->chores.index == 0)
        self->host->timer_set(self->host, &self->chores, (simba_local){now.ns + LATER_MS * SIMBA__NS_PER_MS});
}

static void look_after_later(zk_node *node)
{
    simba__zk_node_attended(node);
    simba__zk_node_unattended(node);
    simba__zk_chores_later(node->store);
}

static void win(zk_op *op)
{
    zk_node *node = op->node;
    zk_store *self = op->store;
    const simba_owner owner = simba__zk_node_owner(node);
    if (node->place != ZK_LEADS) {
        node->place = ZK_LEADS;
        simba__zk_queue_led(node->queue, node->name);
        look_after_later(node);
    }
    if (!op->request)
        self->host->push_to(self->host, node->mutex, node->nonce, &(simba_push){.kind = SIMBA_PUSH_RELEASED});
    simba__zk_op_complete(op, SIMBA_MINE, &owner);
}

static void token_known(zk_op *op)
{
    if (is_superseded(op)) {
        simba__zk_op_fail(op, SIMBA_ETIMEDOUT, "asked again meanwhile");
        return;
    }
    if (!is_good(op))
        return;
    if (op->vanished) {
        op->node->place = ZK_ABSENT;
        enter(op);
    } else {
        win(op);
    }
}

static void win_or_ask_token(zk_op *op)
{
    if (op->node->czxid) {
        win(op);
        return;
    }
    simba__zk_op_step(op, token_known);
    simba__zk_call_own(op, NULL);
    simba__zk_op_go(op);
}

/* --- waiting ------------------------------------------------------------------------------------------ */

/* The one before us has gone, or our own child has. */
static void look_again(zk_op *op)
{
    zk_node *node = op->node;
    const bool waits = node->place == ZK_HERE || node->place == ZK_ABSENT;
    if (is_superseded(op) || !node->in_table || node->unwanted || !waits) {
        simba__zk_op_end(op);
    } else if (node->place == ZK_HERE && node->called && node->behind_lead && node->guard && node->czxid) {
        /* It was the first of all, so now we are: the guard would have told before that our child is gone. */
        node->called = false;
        win(op);
    } else {
        enter(op);
    }
}

/* Have a waiter look whose turn it is, without being asked. */
static void begin_to_look(zk_node *node)
{
    if (node->op || node->unwanted)
        return; /* it will look */
    zk_op *op = simba__zk_op_new(node->store, NULL, look_again);
    if (!op) {
        node->store->host->push_to(node->store->host, node->mutex, node->nonce,
                                   &(simba_push){.kind = SIMBA_PUSH_CHANGED});
        return;
    }
    op->persists = true;
    take_node(op, node);
    simba__zk_op_start(op);
}

static void before_gone(zk_watch *watch, int type)
{
    zk_node *node = watch->node;
    if (!node)
        return;
    node->before = NULL;
    node->called = true;
    if (type != ZOO_DELETED_EVENT)
        node->behind_lead = false; /* it is still there */
    begin_to_look(node);
}

static void stood_behind(zk_op *op)
{
    zk_node *node = op->node;
    if (is_superseded(op)) {
        simba__zk_op_fail(op, SIMBA_ETIMEDOUT, "asked again meanwhile");
        return;
    }
    if (!is_good(op))
        return;
    if (op->vanished || node->called) {
        enter(op);
        return;
    }
    if (op->request && simba_owner_is_none(&op->owner)) {
        /* Who leads the whole queue is told if this takes longer. */
        simba__free(node->leader);
        node->leader = op->leader;
        op->leader = NULL;
        look_after_later(node);
    }
    simba__zk_op_complete(op, SIMBA_NOT_MINE, &op->owner);
}

static void guard_fired(zk_watch *watch, int type);

/* Whoever is next to lead watches its own child too, so that it does not lead by one that somebody has removed. */
static void guard_next(zk_op *op)
{
    zk_watch *guard = simba__zk_watch_new(op->store, guard_fired);
    if (!guard) {
        op->no_memory = true;
        return;
    }
    guard->node = op->node;
    simba__zk_call_own(op, guard);
}

static void stand_behind(zk_op *op)
{
    zk_node *node = op->node;
    const bool behind_lead = strcmp(op->before, op->leader) == 0;
    simba__zk_op_step(op, stood_behind);
    node->called = false;
    node->behind_lead = behind_lead;
    if (node->before)
        node->before->node = NULL;
    node->before = NULL;
    if (behind_lead && !node->guard)
        guard_next(op);
    zk_watch *watch = simba__zk_watch_new(op->store, before_gone);
    if (watch) {
        watch->node = node;
        simba__zk_call_stand_behind(op, watch);
    } else {
        op->no_memory = true;
    }
    simba__zk_op_go(op);
}

/* Nobody is going to wait: ours goes again. */
static void tried(zk_op *op)
{
    if (is_superseded(op)) {
        simba__zk_op_fail(op, SIMBA_ETIMEDOUT, "asked again meanwhile");
        return;
    }
    if (!is_good(op))
        return;
    const bool look = simba_owner_is_none(&op->owner);
    simba__zk_node_drop(op->node);
    if (look)
        enter(op); /* whom it was lost to has gone */
    else
        simba__zk_op_complete(op, SIMBA_NOT_MINE, &op->owner);
}

static void try_and_leave(zk_op *op)
{
    simba__zk_op_step(op, tried);
    simba__zk_call_owner(op, op->node->queue->path);
    simba__zk_call_delete(op, op->node->queue->path, op->node->name);
    simba__zk_op_go(op);
}

/* --- when there are no numbers left --------------------------------------------------------------------- */

/* The server counts children up to 2147483647. What comes after that has the same number, or one below 0, depending on its
 * version, and says nothing about who was first. */
static bool is_numbered(const zk_node *node)
{
    const char *number = node->name + strlen(node->prefix);
    return strlen(number) == 10 && number[0] != '-' && strcmp(number, "2147483647") < 0;
}

static void left_unnumbered(zk_op *op)
{
    if (is_superseded(op)) {
        simba__zk_op_fail(op, SIMBA_ETIMEDOUT, "asked again meanwhile");
        return;
    }
    if (!is_good(op))
        return;
    simba__zk_node_drop(op->node);
    simba__zk_op_fail(op, SIMBA_ESTORE, "no numbers are left below %s, which has to be removed", op->node->queue->path);
}

static void leave_unnumbered(zk_op *op)
{
    simba__zk_op_step(op, left_unnumbered);
    simba__zk_call_delete(op, op->node->queue->path, op->node->name);
    simba__zk_op_go(op);
}

/* --- entering ------------------------------------------------------------------------------------------- */

/* What the procedure of a request needs that has lost its node, or never had one. */
static bool have_node(zk_op *op)
{
    if (op->node && op->node->in_table)
        return true;
    zk_node *node = simba__zk_node_find(op->store, op->request);
    if (!node)
        node = simba__zk_node_new(op->store, op->request);
    if (!node)
        return false;
    take_node(op, node);
    node->unwanted = false;
    return true;
}

static void entered(zk_op *op)
{
    zk_node *node = op->node;
    if (is_superseded(op) || !node->in_table) {
        simba__zk_op_fail(op, SIMBA_ETIMEDOUT, "asked again meanwhile");
    } else if (!is_good(op)) {
        return;
    } else if (op->request && node->place == ZK_HERE && !is_numbered(node)) {
        leave_unnumbered(op);
    } else if (op->unlisted && node->place == ZK_HERE) {
        op->unlisted = false;
        if (simba__zk_queue_is_first(node->queue, node->name))
            win(op);
        else
            enter(op); /* others have come meanwhile */
    } else if (op->found && !op->before) {
        win_or_ask_token(op);
    } else if (op->found && op->request && !op->request->queue) {
        try_and_leave(op);
    } else if (op->found) {
        stand_behind(op);
    } else {
        /* The mutex has no node yet, or somebody has removed ours. */
        node->place = ZK_ABSENT;
        op->make_parents = op->missing;
        enter(op);
    }
}

static void enter(zk_op *op)
{
    if (!op->request && (!op->node || !op->node->in_table)) {
        simba__zk_op_end(op);
        return;
    }
    if (op->request && !have_node(op)) {
        simba__zk_op_fail(op, SIMBA_ENOMEM, "out of memory");
        return;
    }
    zk_node *node = op->node;
    if (node->place == ZK_LEADS) {
        win_or_ask_token(op);
        return;
    }
    simba__zk_op_step(op, entered);
    op->found = false;
    if (node->place == ZK_ABSENT || node->place == ZK_REVOKED) {
        if (op->rounds++ >= ROUNDS_MAX) {
            give_up_looking(op);
            simba__zk_op_fail(op, op->refused ? SIMBA_EPERM : SIMBA_ESTORE, "cannot make a node below %s: %s",
                              op->store->options.root, op->refused ? "no permission" : "it goes again each time");
            return;
        }
        if (op->make_parents)
            simba__zk_call_make_parents(op, node->queue->path);
        simba__zk_call_enter(op);
        op->unlisted = !op->make_parents && simba__zk_queue_may_be_empty(node->queue);
        if (op->unlisted) {
            simba__zk_op_go(op);
            return;
        }
    } else if (node->place == ZK_UNSURE) {
        simba__zk_call_sync(op);
    }
    simba__zk_call_children(op, node->queue->path);
    simba__zk_op_go(op);
}

void simba__zk_acquire(zk_store *self, simba_request *request)
{
    zk_op *op = simba__zk_op_new(self, request, enter);
    if (!op)
        return;
    simba__zk_op_start(op);
}

/* --- being taken away ------------------------------------------------------------------------------------ */

static void taken_away(zk_node *node)
{
    zk_store *self = node->store;
    if (node->unwanted)
        return;
    if (node->place == ZK_HERE) {
        node->place = ZK_ABSENT; /* it has lost its place, and gets in line again */
        node->called = true;
        begin_to_look(node);
        return;
    }
    if (node->place != ZK_LEADS)
        return;
    node->place = ZK_REVOKED;
    simba__zk_node_attended(node);
    self->host->push_to(self->host, node->mutex, node->nonce, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
}

static void guard_fired(zk_watch *watch, int type)
{
    zk_node *node = watch->node;
    if (!node)
        return;
    node->guard = NULL;
    if (type == ZOO_DELETED_EVENT)
        taken_away(node);
    else if (node->place == ZK_LEADS)
        look_after_later(node); /* somebody has touched it */
}

static void guarded(zk_op *op)
{
    if (op->vanished)
        taken_away(op->node);
    else if (op->no_memory && op->node->place == ZK_LEADS)
        look_after_later(op->node);
    simba__zk_op_end(op);
}

static void guard(zk_op *op)
{
    zk_node *node = op->node;
    if (node->place != ZK_LEADS || node->guard) {
        simba__zk_op_end(op);
        return;
    }
    simba__zk_op_step(op, guarded);
    zk_watch *watch = simba__zk_watch_new(op->store, guard_fired);
    if (watch) {
        watch->node = node;
        simba__zk_call_own(op, watch);
    } else {
        op->no_memory = true;
    }
    simba__zk_op_go(op);
}

/* --- who waits for longer wants to know for whom ---------------------------------------------------------- */

static void leader_known(zk_op *op)
{
    zk_node *node = op->node;
    simba_host *host = op->store->host;
    if (!simba_owner_is_none(&op->owner) && node->place == ZK_HERE && !node->unwanted)
        host->push_to(host, node->mutex, node->nonce,
                      &(simba_push){SIMBA_PUSH_ACQUIRED, op->owner, simba__zk_session_now_ms(&op->store->session)});
    if (op->no_memory && node->place == ZK_HERE && !node->leader) {
        node->leader = op->leader;
        op->leader = NULL;
        look_after_later(node);
    }
    simba__zk_op_end(op);
}

static void ask_for_leader(zk_op *op)
{
    zk_node *node = op->node;
    if (node->place != ZK_HERE || !node->leader) {
        simba__zk_op_end(op);
        return;
    }
    op->leader = node->leader;
    node->leader = NULL;
    simba__zk_op_step(op, leader_known);
    simba__zk_call_owner(op, node->queue->path);
    simba__zk_op_go(op);
}

/* --- RELEASE ---------------------------------------------------------------------------------------------- */

static void leave(zk_op *op);

/* What is not wanted any more must go: where there is no memory for that, in a while. */
static bool is_good_or_later(zk_op *op)
{
    if (op->no_memory && op->node->in_table)
        look_after_later(op->node);
    return simba__zk_op_good(op);
}

static void left(zk_op *op)
{
    if (is_superseded(op)) {
        simba__zk_op_end(op);
        return;
    }
    if (!is_good_or_later(op))
        return;
    const bool led = op->led && !op->vanished; /* otherwise it may have been a child of an earlier node of the mutex */
    if (led)
        simba__zk_queue_left(op->node->queue, op->node->name);
    simba__zk_node_drop(op->node);
    simba__zk_op_complete(op, led ? SIMBA_MINE : SIMBA_NOT_MINE, NULL);
}

/* It is known by now whether there is a child of ours. */
static void looked_for(zk_op *op)
{
    if (is_superseded(op)) {
        simba__zk_op_end(op);
    } else if (!is_good_or_later(op)) {
        return;
    } else if (op->found) {
        op->led = !op->before;
        leave(op);
    } else {
        simba__zk_node_drop(op->node);
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
    }
}

static void leave(zk_op *op)
{
    zk_node *node = op->node;
    if (!node->in_table || node->place == ZK_ABSENT || node->place == ZK_REVOKED) {
        simba__zk_node_drop(node);
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
        return;
    }
    const bool known = node->place == ZK_HERE || node->place == ZK_LEADS;
    simba__zk_op_step(op, known ? left : looked_for);
    if (known) {
        op->vanished = false;
        simba__zk_call_delete(op, node->queue->path, node->name);
    } else {
        if (node->place == ZK_UNSURE)
            simba__zk_call_sync(op);
        simba__zk_call_children(op, node->queue->path); /* is answered after what is still being made */
    }
    simba__zk_op_go(op);
}

/* Goes on without its request, should that take too long: what this session has made must not stay. */
static void remove_node(zk_node *node, simba_request *request)
{
    zk_op *op = simba__zk_op_new(node->store, request, leave);
    node->unwanted = true;
    if (!op) {
        look_after_later(node);
        return;
    }
    op->persists = true;
    op->led = node->place == ZK_LEADS;
    take_node(op, node);
    if (node->place == ZK_ABSENT || node->place == ZK_REVOKED)
        leave(op); /* also without a connection */
    else
        simba__zk_op_start(op);
}

void simba__zk_release(zk_store *self, simba_request *request)
{
    zk_node *node = simba__zk_node_find(self, request);
    if (node && !(request->token && node->czxid && (uint64_t)node->czxid != request->token)) {
        remove_node(node, request);
        return;
    }
    zk_op *op = simba__zk_op_new(self, request, leave);
    if (op)
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
}

/* --- what has time ---------------------------------------------------------------------------------------- */

static void look_after_node(zk_node *node)
{
    if (node->unwanted) {
        if (!node->op || node->op->run != leave) /* otherwise it is about to go */
            remove_node(node, NULL);
        return;
    }
    zk_op *op = simba__zk_op_new(node->store, NULL, node->place == ZK_LEADS ? guard : ask_for_leader);
    if (!op) {
        look_after_later(node);
        return;
    }
    op->persists = true;
    op->node = node;
    simba__zk_node_ref(node);
    simba__zk_op_start(op);
}

void simba__zk_chores(simba_timer *timer, simba_local now)
{
    zk_store *self = (zk_store *)(void *)((char *)timer - offsetof(zk_store, chores));
    const int64_t wait_ns = LATER_MS * SIMBA__NS_PER_MS;
    while (self->unattended_first && self->unattended_first->since.ns + wait_ns <= now.ns) {
        zk_node *node = self->unattended_first;
        simba__zk_node_attended(node);
        look_after_node(node);
    }
    simba__zk_topics_chores(self);
    simba__zk_session_flush(&self->session);
    if (self->unattended_first)
        self->host->timer_set(self->host, timer, (simba_local){self->unattended_first->since.ns + wait_ns});
}
