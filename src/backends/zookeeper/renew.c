/* RENEW: is our child still there? The session is kept up for all of them at once, so nothing is prolonged. */
#include "backends/zookeeper/zookeeper.h"

static void still_there(zk_op *op)
{
    zk_node *node = op->node;
    if (!simba__zk_op_good(op))
        return;
    if (op->vanished || node->place == ZK_REVOKED) {
        simba__zk_node_drop(node);
        simba__zk_op_complete(op, SIMBA_REVOKED, NULL);
    } else {
        const simba_owner owner = simba__zk_node_owner(node);
        simba__zk_op_complete(op, SIMBA_MINE, &owner);
    }
}

static void look_after(zk_op *op)
{
    zk_node *node = op->node;
    if (!node->in_table || (node->place != ZK_LEADS && node->place != ZK_REVOKED)) {
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
        return;
    }
    simba__zk_op_step(op, still_there);
    if (node->place == ZK_LEADS)
        simba__zk_call_own(op, NULL);
    simba__zk_op_go(op);
}

void simba__zk_renew(zk_store *self, simba_request *request)
{
    zk_op *op = simba__zk_op_new(self, request, look_after);
    if (!op)
        return;
    op->node = simba__zk_node_find(self, request);
    if (!op->node || op->node->unwanted || (uint64_t)op->node->czxid != request->token) {
        op->node = NULL;
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
        return;
    }
    simba__zk_node_ref(op->node);
    simba__zk_op_start(op);
}
