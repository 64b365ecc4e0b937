/* The library's socket: watches it by a descriptor of the store's own, corks it, and judges each message before the library
 * reads it. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_WIRE_H
#define SIMBA_BACKENDS_ZOOKEEPER_WIRE_H

#include <simba/backend.h>
#include <zookeeper/zookeeper.h>

#include "backends/zookeeper/frames.h"

typedef struct zk_wire {
    simba_host *host;
    const char *where;    /* for messages */
    simba_io socket;      /* fd -1: there is none */
    zk_expected expected; /* replies */
    bool stale;           /* the expected replies belong to a connection that is gone: this one has none */
    int least;            /* how many bytes the socket must have before it is reported */
    bool inside;          /* the library has read a part of a message */
    bool corked;          /* the kernel gathers the calls */
    bool gathered;        /* something may have gathered */
} zk_wire;

/* Around each call of the library that uses server addresses, which all handles of the process share. */
void simba__zk_addresses_lock(void);
void simba__zk_addresses_unlock(void);

/* Watch this socket of the library for ZOOKEEPER_READ, ZOOKEEPER_WRITE. False: not yet. */
bool simba__zk_wire_listen(zk_wire *wire, int fd, int interest);
/* The connection is over. */
void simba__zk_wire_drop(zk_wire *wire);
/* End a connection, and drop the bytes that have arrived on it. */
void simba__zk_dissolve(int fd);

/* Make a call of the library between `begin` and `made`; it goes out together with the calls that follow. `reply`
 * describes its answer, `rc` is the result of the library's function. False: out of memory; do not make the call. */
bool simba__zk_wire_begin(zk_wire *wire, zk_reply reply);
void simba__zk_wire_made(zk_wire *wire, int rc);
/* Send the calls that have gathered. */
void simba__zk_wire_push(zk_wire *wire);

/* Call zookeeper_process for one message, if the message is good. */
int simba__zk_wire_take(zk_wire *wire, zhandle_t *zh, int events);

#endif
