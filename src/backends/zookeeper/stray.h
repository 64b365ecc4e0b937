/* Children that our session has and that none of our contenders knows of.
 *
 * There are none as long as the ensemble keeps what it has acknowledged: a place stays in the table of nodes.h until its child is
 * known to be gone. An ensemble that loses the removal of a child brings the child back, though, as ZooKeeper 3.8.0 did in a
 * test. The session lives on, so the child would stay, lead the queue, and nobody would ever lead again. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_STRAY_H
#define SIMBA_BACKENDS_ZOOKEEPER_STRAY_H

#include "backends/zookeeper/calls.h"
#include "backends/zookeeper/nodes.h"

/* This child of a mutex's node was read: remove it if it is such a one. */
void simba__zk_stray_check(zk_nodes *nodes, const char *path, const char *child, const zk_result *result);

#endif
