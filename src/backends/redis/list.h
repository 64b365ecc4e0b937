/* LIST, which takes many commands. */
#ifndef SIMBA_BACKENDS_REDIS_LIST_H
#define SIMBA_BACKENDS_REDIS_LIST_H

#include "backends/redis/node.h"

typedef struct redis_list redis_list;

typedef struct redis_lists {
    simba_host *host;
    redis_nodes *nodes;
    redis_list *first;
} redis_lists;

void simba__redis_lists_init(redis_lists *self, redis_nodes *nodes);
void simba__redis_list_begin(redis_lists *self, redis_errand *errand);
/* Its time is over: ask nothing more, and fail it once the servers have answered what they were asked. */
void simba__redis_list_expire(redis_errand *errand);
/* The answer to the request of a row; simba__redis_parse has accepted it. */
void simba__redis_list_row(redis_errand *errand, const redisReply *reply);
/* A node is ready for requests; it is so no longer. */
void simba__redis_lists_up(redis_lists *self, redis_node *node);
void simba__redis_lists_down(redis_lists *self, redis_node *node, const simba_error *error);
/* The topology has changed. */
void simba__redis_lists_moved(redis_lists *self);

#endif
