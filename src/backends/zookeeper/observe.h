/* Observers: watches of the children of mutexes. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_OBSERVE_H
#define SIMBA_BACKENDS_ZOOKEEPER_OBSERVE_H

#include "backends/zookeeper/ops.h"

typedef struct zk_topics {
    zk_ops *ops;
    simba__list all;
    simba_timer later; /* for topics that wait for memory */
} zk_topics;

/* SIMBA_ENOMEM, or 0. */
int simba__zk_topics_init(zk_topics *topics, zk_ops *ops);
void simba__zk_topics_fini(zk_topics *topics);
int simba__zk_observe(zk_topics *topics, simba_topic *topic);
void simba__zk_unobserve(simba_topic *topic);
/* There is a new session: set the watches anew. */
void simba__zk_topics_anew(zk_topics *topics);

#endif
