/* See single.h. */
#include "backends/redis/single.h"

static int single_init(redis_nodes *nodes)
{
    redis_node *node = simba__redis_node_new(nodes, &nodes->conns.options->endpoints[0]);
    if (!node)
        return SIMBA_ENOMEM;
    node->serves = true;
    return 0;
}

const redis_topology simba__redis_single = {.init = single_init, .route = simba__redis_node_only};
