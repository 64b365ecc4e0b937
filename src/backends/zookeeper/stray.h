/* Children that belong to our session, but to none of our contenders.
 *
 * There are none as long as the ensemble keeps what it has acknowledged: a place stays in the table of nodes.h until
 * its child is known to be gone. But an ensemble that loses the removal of a child brings the child back, as ZooKeeper
 * 3.8.0 did in a test. The session lives on, so the child would stay and lead the queue, and nobody would ever lead
 * again. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_STRAY_H
#define SIMBA_BACKENDS_ZOOKEEPER_STRAY_H

#include "backends/zookeeper/calls.h"
#include "backends/zookeeper/nodes.h"

/* A contender has read this child of a mutex's node: remove it if it is a stray. */
void simba__zk_stray_check(zk_nodes *nodes, const char *path, const char *child, const zk_result *result);

#endif
