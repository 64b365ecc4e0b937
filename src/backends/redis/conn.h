/* A connection to a Redis server: logs in, and hands whole replies to its owner. */
#ifndef SIMBA_BACKENDS_REDIS_CONN_H
#define SIMBA_BACKENDS_REDIS_CONN_H

#include <hiredis/hiredis.h>

#include "backends/redis/options.h"
#include "backends/redis/reader.h"
#include "net/link.h"

typedef struct redis_conn redis_conn;

/* The data that all connections of a store share. */
typedef struct redis_conns {
    simba__links links;
    const redis_options *options;
} redis_conns;

/* How a connection tells its owner what happens; see net/link.h. After `up` the owner may write to it, even before the
 * server has answered the greeting. */
typedef struct redis_conn_events {
    void (*up)(redis_conn *conn);
    void (*answer)(redis_conn *conn, const redisReply *reply);
    void (*down)(redis_conn *conn);
    void (*tick)(redis_conn *conn, simba_local now);
} redis_conn_events;

struct redis_conn {
    simba__link link;
    const redis_options *options;
    const redis_login *login;
    const redis_conn_events *events;
    void *owner;
    void (*find)(redis_conn *conn); /* find where to connect. NULL: link.at is right */
    bool listens;                   /* the server speaks unasked; after a long silence we ping it. There is no tick */
    bool pinged;                    /* we have sent that ping */
    redis_reader *reader;           /* from the time that the connection is up */
    unsigned greeting;              /* answers to the greeting that are still to come */
};

int simba__redis_conn_init(redis_conn *conn, redis_conns *all, const redis_conn_events *events, void *owner);
/* The server answered with this error: give the connection up. */
void simba__redis_conn_refused(redis_conn *conn, const char *text);
void simba__redis_conn_close(redis_conn *conn);
void simba__redis_conn_fini(redis_conn *conn);

#endif
