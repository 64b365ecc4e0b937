#include "backends/zookeeper/nodes.h"

#include <string.h>

#include "util/clock.h"
#include "util/mem.h"

/* A node that leads or waits for less than this is not worth a call of its own. */
#define LATER_NS (20 * SIMBA__NS_PER_MS)

#define NODE_OF(node_) SIMBA__OF_NODE(node_, zk_node, node)

int simba__zk_nodes_init(zk_nodes *nodes, zk_ops *ops, void (*chores)(simba_timer *timer, simba_local now))
{
    *nodes = (zk_nodes){.ops = ops, .queues.ops = ops, .chores.fire = chores};
    return ops->session->host->timer_add(ops->session->host, &nodes->chores);
}

static bool is_of(const simba__node *entry, const void *key)
{
    const zk_node *node = NODE_OF(entry);
    const simba_request *request = key;
    return node->nonce == request->nonce && strcmp(node->id, request->id) == 0 &&
           strcmp(node->mutex, request->mutex) == 0;
}

zk_node *simba__zk_node_find(zk_nodes *nodes, const simba_request *request)
{
    simba__node *entry = simba__table_find(&nodes->table, request->nonce, is_of, request);
    return entry ? NODE_OF(entry) : NULL;
}

static bool has_prefix_of(const simba__node *entry, const void *child)
{
    const char *prefix = NODE_OF(entry)->latch.prefix;
    return strncmp(child, prefix, strlen(prefix)) == 0;
}

bool simba__zk_nodes_miss(zk_nodes *nodes, const char *child)
{
    uint64_t nonce;
    return simba__zk_nonce_of(child, nodes->ops->session->over, &nonce) &&
           !simba__table_find(&nodes->table, nonce, has_prefix_of, child);
}

static void node_free(zk_node *node)
{
    simba__zk_watch_drop(&node->before);
    simba__zk_watch_drop(&node->guard);
    simba__free(node->mutex);
    simba__free(node->id);
    if (node->queue)
        simba__zk_queue_put(node->queue);
    simba__zk_latch_fini(&node->latch);
    simba__free(node->leader);
    simba__free(node);
}

zk_node *simba__zk_node_new(zk_nodes *nodes, const simba_request *request)
{
    zk_node *node = simba__table_reserve(&nodes->table) ? simba__calloc(1, sizeof *node) : NULL;
    if (!node)
        return NULL;
    node->nodes = nodes;
    node->nonce = request->nonce;
    node->mutex = simba__strdup(request->mutex);
    node->id = simba__strdup(request->id);
    node->queue = simba__zk_queue_get(&nodes->queues, request->mutex);
    if (!node->mutex || !node->id || !node->queue) {
        node_free(node);
        return NULL;
    }
    simba__zk_latch_init(&node->latch, node->nonce, node->id, nodes->ops->session->over);
    node->refs = 1;
    node->in_table = true;
    simba__table_add(&nodes->table, &node->node, node->nonce);
    return node;
}

void simba__zk_node_unref(zk_node *node)
{
    if (--node->refs == 0)
        node_free(node);
}

void simba__zk_node_drop(zk_node *node)
{
    if (!node->in_table)
        return;
    node->in_table = false;
    simba__table_remove(&node->nodes->table, &node->node);
    simba__list_remove(&node->unattended);
    simba__zk_watch_drop(&node->before);
    simba__zk_watch_drop(&node->guard);
    simba__zk_node_unref(node);
}

void simba__zk_nodes_drop(zk_nodes *nodes)
{
    for (simba__node *node; (node = simba__table_first(&nodes->table));)
        simba__zk_node_drop(NODE_OF(node));
}

void simba__zk_nodes_fini(zk_nodes *nodes)
{
    simba__zk_nodes_drop(nodes);
    simba__table_fini(&nodes->table);
    simba__zk_queues_fini(&nodes->queues);
}

void simba__zk_node_later(zk_node *node)
{
    zk_nodes *nodes = node->nodes;
    simba_host *host = nodes->ops->session->host;
    node->since = host->now(host);
    simba__list_append(&nodes->unattended, &node->unattended);
    if (nodes->chores.index == 0)
        host->timer_set(host, &nodes->chores, (simba_local){node->since.ns + LATER_NS});
}

zk_node *simba__zk_nodes_due(zk_nodes *nodes, simba_local now)
{
    simba_host *host = nodes->ops->session->host;
    if (!nodes->unattended.first)
        return NULL;
    zk_node *node = SIMBA__OF_ITEM(nodes->unattended.first, zk_node, unattended);
    const simba_local due = {node->since.ns + LATER_NS};
    if (due.ns > now.ns) {
        host->timer_set(host, &nodes->chores, due);
        return NULL;
    }
    simba__list_remove(&node->unattended);
    return node;
}
