/* redis://, rediss:// and redis+unix://: one server for everything. */
#ifndef SIMBA_BACKENDS_REDIS_SINGLE_H
#define SIMBA_BACKENDS_REDIS_SINGLE_H

#include "backends/redis/node.h"

extern const redis_topology simba__redis_single;

#endif
