#include "backends/zookeeper/behind.h"

#include "backends/zookeeper/names.h"

/* Looks once, and sets a watch. */
struct behind {
    zk_op op; /* first */
    zk_node *node;
    bool somebody;
};

static struct behind *of(zk_op *op)
{
    return (struct behind *)op;
}

/* Also while it is being removed: the next grant is to know that others came after this one. */
static bool leads(const zk_node *node)
{
    return node->in_table && node->latch.place == ZK_LEADS;
}

static void tell(const zk_node *node)
{
    simba_host *host = node->nodes->ops->session->host;
    host->push_to(host, node->mutex, node->nonce, &(simba_push){.kind = SIMBA_PUSH_WANTED});
}

/* When it looked, nobody was behind the leader, so nobody can have left: somebody has come, or the node of the mutex is
 * gone. */
static void fired(void *owner, int type)
{
    const zk_node *node = owner;
    (void)type;
    if (leads(node))
        tell(node);
}

static void listed(zk_op *op, const zk_result *result)
{
    struct behind *b = of(op);
    if (result->rc != ZOK) {
        simba__zk_op_note(op, result->rc);
        return;
    }
    for (size_t i = 0; i < result->count && leads(b->node); i++)
        b->somebody |=
            simba__zk_is_contender(result->names[i]) && simba__zk_order(result->names[i], b->node->latch.name) > 0;
}

static void run(zk_op *op)
{
    struct behind *b = of(op);
    if (!leads(b->node)) {
        simba__zk_op_end(op);
        return;
    }
    b->somebody = false;
    zk_watch *watch = simba__zk_watch_new(op, &b->node->behind, b->node, fired);
    if (watch)
        simba__zk_call_children(op, b->node->queue->path, watch, listed);
    simba__zk_op_go(op);
}

static void step(zk_op *op)
{
    const struct behind *b = of(op);
    if ((b->somebody || op->error) && leads(b->node)) {
        simba__zk_watch_drop(&b->node->behind);
        tell(b->node);
    }
    simba__zk_op_end(op);
}

static void fini(zk_op *op)
{
    simba__zk_node_unref(of(op)->node);
}

/* After a lost connection it begins anew: the new look sees what happened meanwhile. */
static const zk_procedure procedure = {.run = run, .step = step, .fini = fini, .persists = true};

void simba__zk_behind_begin(zk_node *node)
{
    if (!leads(node))
        return;
    struct behind *b = simba__zk_op_new(node->nodes->ops, &procedure, sizeof *b, NULL);
    if (!b) {
        tell(node);
        return;
    }
    b->node = node;
    node->refs++;
    simba__zk_op_start(&b->op);
}
