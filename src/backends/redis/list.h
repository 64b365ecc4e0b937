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
/* Nobody wants the list any more: its errand can be forgotten, or failed. Returns which server it was at. */
const char *simba__redis_list_leave(redis_errand *errand);
/* The answer to a row's request, which simba__redis_parse has found to be one. */
void simba__redis_list_row(redis_errand *errand, const redisReply *reply);
/* A node can be asked now, or cannot be. */
void simba__redis_lists_up(redis_lists *self, redis_node *node);
void simba__redis_lists_down(redis_lists *self, redis_node *node, const simba_error *error);
/* The topology has changed. */
void simba__redis_lists_moved(redis_lists *self);

#endif
