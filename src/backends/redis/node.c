/* See node.h. */
#include "backends/redis/node.h"

#include "util/mem.h"

redis_node *simba__redis_node_new(redis_nodes *nodes, const simba__endpoint *at)
{
    redis_node *node = simba__calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->all = nodes;
    int rc = simba__redis_commands_init(&node->commands, &nodes->conns, nodes->errands, nodes->commands_events, node);
    if (rc == 0)
        rc = simba__redis_conn_init(&node->pushes, &nodes->conns, nodes->push_events, node);
    if (rc < 0) {
        simba__free(node);
        return NULL;
    }
    node->pushes.listens = true;
    node->commands.conn.link.at = node->pushes.link.at = *at;
    node->next = nodes->first;
    nodes->first = node;
    return node;
}

redis_node *simba__redis_node_serving(redis_node *first)
{
    while (first && !first->serves)
        first = first->next;
    return first;
}

redis_node *simba__redis_node_for(redis_nodes *nodes, const simba_request *request)
{
    redis_node *any = request->mutex ? NULL : simba__redis_node_serving(nodes->first);
    return any ? any : nodes->topology->route(nodes, request->mutex ? request->mutex : "");
}

redis_node *simba__redis_node_only(redis_nodes *nodes, const char *mutex)
{
    (void)mutex;
    return nodes->first;
}

void simba__redis_nodes_reroute(redis_nodes *nodes)
{
    simba__list all = {0};
    for (redis_node *node = nodes->first; node; node = node->next)
        for (redis_errand *errand; (errand = simba__redis_session_withdraw(&node->commands.session)) != NULL;)
            simba__list_append(&all, &errand->item);
    while (all.first) {
        redis_errand *errand = SIMBA__OF_ITEM(all.first, redis_errand, item);
        simba__list_remove(&errand->item);
        simba__redis_commands_submit(&simba__redis_node_for(nodes, errand->request)->commands, errand);
    }
}

void simba__redis_nodes_close(redis_nodes *nodes, const simba_error *why)
{
    for (redis_node *node = nodes->first; node; node = node->next) {
        simba__redis_commands_close(&node->commands, why);
        simba__redis_conn_close(&node->pushes);
    }
    if (nodes->topology->close)
        nodes->topology->close(nodes);
}

void simba__redis_nodes_fini(redis_nodes *nodes)
{
    if (nodes->topology && nodes->topology->fini)
        nodes->topology->fini(nodes);
    while (nodes->first) {
        redis_node *node = nodes->first;
        nodes->first = node->next;
        simba__redis_commands_fini(&node->commands);
        simba__redis_conn_fini(&node->pushes);
        simba__free(node);
    }
}
