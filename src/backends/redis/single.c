/* One server for everything: redis://, rediss:// and redis+unix://. */
#include "backends/redis/redis.h"

static int single_init(redis_store *self)
{
    redis_node *node = simba__redis_node_new(self, &self->options.endpoints[0]);
    if (!node)
        return SIMBA_ENOMEM;
    node->serves = true;
    return 0;
}

redis_node *simba__redis_route_to_one(redis_store *self, const char *mutex)
{
    (void)mutex;
    return self->nodes;
}

static void nothing(redis_store *self)
{
    (void)self;
}

bool simba__redis_never_redirected(redis_node *node, simba_request *request, const char *error)
{
    (void)node;
    (void)request;
    (void)error;
    return false;
}

void simba__redis_lost_for_now(redis_node *node)
{
    (void)node; /* the connection comes back by itself */
}

const redis_topology simba__redis_single = {.init = single_init,
                                            .route = simba__redis_route_to_one,
                                            .redirected = simba__redis_never_redirected,
                                            .lost = simba__redis_lost_for_now,
                                            .close = nothing,
                                            .fini = nothing};
