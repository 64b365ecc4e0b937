/* The ZooKeeper store as a whole. Each of its modules has a header of its own, and uses those above it in this list only:
 *
 *   options    what the URL says                        names      mutexes and incarnations as names of nodes
 *   frames     which messages the library may see       liveness   what a connection proves, and for how long to try
 *   stored_note  a note, as it is stored
 *   latch      what a contender does next               wire       the library's socket
 *   session    the connection
 *   ops        procedures of several calls each, and the requests they are for
 *   calls      the calls, and watches
 *   queues     lists of children, which contenders share
 *   nodes      the client's own places in the queues    stray      children that no contender of the client knows
 *   contend    ACQUIRE, RENEW, RELEASE                  look       READ, FORCE_RELEASE
 *   notes      WRITE_NOTE, READ_NOTE                    forget     FORGET
 *   list       LIST                                     observe    observers
 *   backend    the table of functions
 *
 * frames, liveness, stored_note and latch are pure: events go in, actions come out.
 */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_H
#define SIMBA_BACKENDS_ZOOKEEPER_H

#include "backends/zookeeper/contend.h"
#include "backends/zookeeper/forget.h"
#include "backends/zookeeper/list.h"
#include "backends/zookeeper/look.h"
#include "backends/zookeeper/notes.h"
#include "backends/zookeeper/observe.h"

extern const simba_backend simba__backend_zookeeper;

typedef struct zk_store {
    zk_options options;
    zk_session session;
    zk_ops ops;
    zk_nodes nodes;
    zk_topics topics;
} zk_store;

#endif
