/* A server, as we see it: a connection for requests and one for pushes, each made when it is first needed, and what is
 * under way on them. How many there are and which mutexes are on which is for the topology to say. */
#include "backends/redis/redis.h"
#include "util/mem.h"

redis_node *simba__redis_node_new(redis_store *self, const simba__endpoint *at)
{
    redis_node *node = simba__calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->store = self;
    node->host = self->host;
    node->options = &self->options;
    int rc = simba__redis_conn_init(&node->commands, self, &simba__redis_calls_events, node);
    if (rc == 0)
        rc = simba__redis_conn_init(&node->pushes, self, &simba__redis_subs_events, node);
    if (rc == 0)
        rc = simba__redis_calls_init(node);
    if (rc < 0) {
        simba__free(node);
        return NULL;
    }
    node->commands.at = node->pushes.at = *at;
    node->next = self->nodes;
    self->nodes = node;
    return node;
}

redis_node *simba__redis_node_serving(redis_node *first)
{
    while (first && !first->serves)
        first = first->next;
    return first;
}

redis_node *simba__redis_node_for(redis_store *self, const simba_request *request)
{
    redis_node *any = request->mutex ? NULL : simba__redis_node_serving(self->nodes);
    return any ? any : self->options.topology->route(self, request->mutex ? request->mutex : "");
}

void simba__redis_node_close(redis_node *node, const simba_error *why)
{
    simba__redis_calls_close(node, why);
    simba__redis_conn_close(&node->pushes);
}

void simba__redis_node_free(redis_node *node)
{
    simba__redis_calls_fini(node);
    simba__redis_conn_fini(&node->commands);
    simba__redis_conn_fini(&node->pushes);
    simba__free(node);
}
