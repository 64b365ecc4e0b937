/* Tells a leader that listens when somebody gets in line behind it (SIMBA_PUSH_WANTED): it has a watch on the children of the
 * mutex's node, one for each such leader, until it has been told or leads no more. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_BEHIND_H
#define SIMBA_BACKENDS_ZOOKEEPER_BEHIND_H

#include "backends/zookeeper/nodes.h"

/* This node leads now. If there is no memory for it, the leader is told at once, in vain perhaps. */
void simba__zk_behind_begin(zk_node *node);

#endif
