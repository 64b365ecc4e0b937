/* Tells a leader that listens when somebody gets in line behind it (SIMBA_PUSH_WANTED). For each such leader there is a
 * watch on the children of the mutex's node, until the leader has been told or leads no more. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_BEHIND_H
#define SIMBA_BACKENDS_ZOOKEEPER_BEHIND_H

#include "backends/zookeeper/nodes.h"

/* This node leads now. If there is no memory for the watch, the leader is told at once, perhaps in vain. */
void simba__zk_behind_begin(zk_node *node);

#endif
