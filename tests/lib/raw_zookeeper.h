/* Another client of a ZooKeeper server, by the plain library, for tests that do what nobody of ours would. */
#ifndef TESTS_LIB_RAW_ZOOKEEPER_H
#define TESTS_LIB_RAW_ZOOKEEPER_H

#if SIMBA_WITH_ZOOKEEPER
#include <zookeeper/zookeeper.h>

/* Connected; aborts when that takes more than ten seconds. `id`: of a session to take over; NULL: a new one. */
zhandle_t *raw_zookeeper_open(int port, const clientid_t *id);
/* Delete a node. What the server said. */
int raw_zookeeper_delete(zhandle_t *zh, const char *path);
#endif

#endif
