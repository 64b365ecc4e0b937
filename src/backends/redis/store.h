/* The store: turns a request into commands, and an answer into news for the others that wait, watch or list. */
#ifndef SIMBA_BACKENDS_REDIS_STORE_H
#define SIMBA_BACKENDS_REDIS_STORE_H

#include "backends/redis/list.h"
#include "backends/redis/node.h"
#include "backends/redis/subs.h"

typedef struct redis_store {
    redis_options options;
    redis_nodes nodes;
    redis_lists lists;
    redis_subs subs;
    bool acquires;         /* a mutex was asked for, so it matters whether servers forget */
    bool asked_durability; /* one of them was asked whether it does */
    bool closing, closed;
} redis_store;

/* The options are set. SIMBA_ENOMEM. */
int simba__redis_store_init(redis_store *self, simba_host *host, simba__tls_context *tls,
                            const redis_topology *topology);

/* The functions of the back end's table; `instance` is a redis_store. */
void simba__redis_store_submit(void *instance, simba_request *request);
void simba__redis_store_expire(void *instance, simba_request *request);
void simba__redis_store_flush(void *instance);
int simba__redis_store_watch(void *instance, simba_topic *topic);
void simba__redis_store_unwatch(void *instance, simba_topic *topic);
void simba__redis_store_woken(void *instance);
void simba__redis_store_close(void *instance);
void simba__redis_store_fini(void *instance); /* also after a failed init */

#endif
