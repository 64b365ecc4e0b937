/* Another client of a ZooKeeper server, which uses the plain library, for tests that do what simba never does. */
#ifndef TESTS_LIB_RAW_ZOOKEEPER_H
#define TESTS_LIB_RAW_ZOOKEEPER_H

#if SIMBA_WITH_ZOOKEEPER
#include <zookeeper/zookeeper.h>

/* Connect; abort if that takes more than ten seconds. `id`: a session to take over; NULL: a new one. */
zhandle_t *raw_zookeeper_open(int port, const clientid_t *id);
/* Each waits for the server's answer and returns it, ZOK or a negative code. */
int raw_zookeeper_delete(zhandle_t *zh, const char *path);
/* `mode` is one of the library's ZOO_PERSISTENT, ZOO_EPHEMERAL… */
int raw_zookeeper_create(zhandle_t *zh, const char *path, const char *data, int mode);
int raw_zookeeper_set(zhandle_t *zh, const char *path, const char *data);
/* Copy the name of the first child of `path`, in the order of strcmp, whose name contains `part`. */
int raw_zookeeper_child(zhandle_t *zh, const char *path, const char *part, size_t size, char *ret_name);
#endif

#endif
