/* EXAMINE: how a server is set up. */
#ifndef SIMBA_BACKENDS_REDIS_EXAMINE_H
#define SIMBA_BACKENDS_REDIS_EXAMINE_H

#include "backends/redis/node.h"

/* The answer to INFO, a string. */
void simba__redis_examined(redis_node *self, redis_errand *errand, const redisReply *reply);

#endif
