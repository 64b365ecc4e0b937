/* LIST. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_LIST_H
#define SIMBA_BACKENDS_ZOOKEEPER_LIST_H

#include "backends/zookeeper/ops.h"

void simba__zk_list(zk_ops *ops, simba_request *request);

#endif
