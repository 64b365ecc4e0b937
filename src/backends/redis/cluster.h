/* redis+cluster://: many masters, each with some of the slots. */
#ifndef SIMBA_BACKENDS_REDIS_CLUSTER_H
#define SIMBA_BACKENDS_REDIS_CLUSTER_H

#include "backends/redis/node.h"

extern const redis_topology simba__redis_cluster;

#endif
