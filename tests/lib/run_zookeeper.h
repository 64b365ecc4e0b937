/* How a test program with a ZooKeeper of its own begins and ends. */
#ifndef TESTS_LIB_RUN_ZOOKEEPER_H
#define TESTS_LIB_RUN_ZOOKEEPER_H

#include <stdio.h>

#include "lib/cm.h"
#include "lib/server.h"

/* Run `tests` with the server, or servers, that `start` starts. Skip them if the program is missing. */
#define RUN_ZOOKEEPER_TESTS(tests, zookeeper, start)                                                                   \
    ({                                                                                                                 \
        int failed_ = 0;                                                                                               \
        if (!server_has_zookeeper()) {                                                                                 \
            puts("1..0 # SKIP ZooKeeper and java are not installed");                                                  \
        } else {                                                                                                       \
            server_init(zookeeper);                                                                                    \
            failed_ = start(zookeeper) ? cmocka_run_group_tests(tests, NULL, NULL)                                     \
                                       : (puts("Bail out! ZooKeeper does not start"), 1);                              \
            server_fini(zookeeper);                                                                                    \
        }                                                                                                              \
        failed_;                                                                                                       \
    })

#endif
