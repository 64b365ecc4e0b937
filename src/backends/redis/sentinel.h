/* redis+sentinel://: one master, and sentinels that know which server that is. */
#ifndef SIMBA_BACKENDS_REDIS_SENTINEL_H
#define SIMBA_BACKENDS_REDIS_SENTINEL_H

#include "backends/redis/node.h"

extern const redis_topology simba__redis_sentinel;

#endif
