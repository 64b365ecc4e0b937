/* ACQUIRE, RENEW and RELEASE: makes the calls that latch.h decides on. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_CONTEND_H
#define SIMBA_BACKENDS_ZOOKEEPER_CONTEND_H

#include "backends/zookeeper/nodes.h"

void simba__zk_acquire(zk_nodes *nodes, simba_request *request);
void simba__zk_renew(zk_nodes *nodes, simba_request *request);
void simba__zk_release(zk_nodes *nodes, simba_request *request);
/* Deferred work, including retries after ENOMEM: for simba__zk_nodes_init. */
void simba__zk_chores(simba_timer *timer, simba_local now);

#endif
