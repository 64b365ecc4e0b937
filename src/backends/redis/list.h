/* LIST, which takes many commands. */
#ifndef SIMBA_BACKENDS_REDIS_LIST_H
#define SIMBA_BACKENDS_REDIS_LIST_H

#include "backends/redis/node.h"

typedef struct redis_list redis_list;

typedef struct redis_lists {
    simba_host *host;
    redis_nodes *nodes;
    redis_list *first;
    simba_timer deadline;
} redis_lists;

int simba__redis_lists_init(redis_lists *self, redis_nodes *nodes);
void simba__redis_list_begin(redis_lists *self, simba_request *request);
/* The answer to a row's request; false: that is none. Or what went wrong with it. */
bool simba__redis_list_row(redis_lists *self, simba_request *request, const redisReply *reply);
void simba__redis_list_row_failed(redis_lists *self, simba_request *request, const simba_error *error);
/* A node can be asked now, or cannot be. */
void simba__redis_lists_up(redis_lists *self, redis_node *node);
void simba__redis_lists_down(redis_lists *self, redis_node *node, const simba_error *error);
/* The topology has changed. */
void simba__redis_lists_moved(redis_lists *self);
void simba__redis_lists_close(redis_lists *self);

#endif
