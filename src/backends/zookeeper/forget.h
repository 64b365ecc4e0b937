/* FORGET: removes a mutex that nobody owns, with its note. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_FORGET_H
#define SIMBA_BACKENDS_ZOOKEEPER_FORGET_H

#include "backends/zookeeper/ops.h"

void simba__zk_forget(zk_ops *ops, simba_request *request);

#endif
