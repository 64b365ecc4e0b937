/* EXAMINE: how a server is set up. */
#ifndef SIMBA_BACKENDS_REDIS_EXAMINE_H
#define SIMBA_BACKENDS_REDIS_EXAMINE_H

#include "backends/redis/node.h"

/* The answer to INFO, a string. */
void simba__redis_examined(redis_node *self, redis_errand *errand, const redisReply *reply);

/* Ask a server whether it keeps anything when it restarts, and say so if it does not. A server that refuses the question is not
 * asked again. */
void simba__redis_ask_durability(redis_node *node);

#endif
