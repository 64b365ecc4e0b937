/* One server for everything: redis://, rediss:// and redis+unix://. */
#include "backends/redis/redis.h"

static int single_init(redis_store *self)
{
    return simba__redis_node_new(self, &self->options.endpoints[0]) ? 0 : SIMBA_ENOMEM;
}

static redis_node *single_route(redis_store *self, const char *mutex)
{
    (void)mutex;
    return self->nodes;
}

static void nothing(redis_store *self)
{
    (void)self;
}

const redis_topology simba__redis_single = {
    .init = single_init, .route = single_route, .close = nothing, .fini = nothing};
