/* One connection to a server: finds its address, connects, says who we are, hands whole replies to its owner, and when it
 * breaks says so and tries again by itself. */
#ifndef SIMBA_BACKENDS_REDIS_CONN_H
#define SIMBA_BACKENDS_REDIS_CONN_H

#include <hiredis/hiredis.h>
#include <simba/backend.h>

#include "backends/redis/buffer.h"
#include "backends/redis/options.h"
#include "backends/redis/reader.h"
#include "backends/redis/tls.h"
#include "net/endpoint.h"
#include "net/resolve.h"

typedef struct redis_conn redis_conn;
typedef struct redis_conns redis_conns;

/* What all connections of a store have in common. */
struct redis_conns {
    simba_host *host;
    const redis_options *options;
    redis_tls_context *tls; /* NULL: plain */
    unsigned lookups;       /* of names, under way */
    /* One of them has ended. */
    void (*looked_up)(redis_conns *all);
};

typedef enum redis_conn_state {
    REDIS_CLOSED,     /* nobody has asked for it yet, or the store closes */
    REDIS_CONNECTING, /* names, socket, TLS */
    REDIS_UP,         /* may be written to; the answers to the greeting may be still to come */
    REDIS_WAITING,    /* it failed; the timer tries again */
} redis_conn_state;

/* What the owner of a connection does at its turns of fate. */
typedef struct redis_conn_events {
    void (*up)(redis_conn *conn);
    void (*answer)(redis_conn *conn, const redisReply *reply);
    /* The connection is gone, or could not be made. conn->error says why. */
    void (*down)(redis_conn *conn);
    /* conn->timer went off while up: look for silence, and set it again. */
    void (*tick)(redis_conn *conn, simba_local now);
} redis_conn_events;

struct redis_conn {
    simba_host *host;
    redis_conns *all;
    const redis_options *options;
    const redis_login *login;
    const redis_conn_events *events;
    void *owner;
    simba__endpoint at;
    /* NULL: `at` is right. Otherwise called whenever it is to connect: set `at` and call …_found, now or later, or call
     * …_fail. It has to come to an end. */
    void (*find)(redis_conn *conn);
    int64_t connect_timeout_ns;

    redis_conn_state state;
    unsigned life;         /* how many sockets there have been */
    simba__lookup *lookup; /* at work */
    struct addrinfo *addresses, *next_address;
    int refused;          /* the system's error, for which there is no socket; the timer is about to tell */
    simba_watch socket;   /* fd is -1: there is none */
    redis_reader *reader; /* since it is connected */
    redis_tls *tls;       /* NULL: plain */
    redis_buffer wire;    /* on its way to the socket */
    unsigned greeting;    /* answers to the greeting that are still to come */
    unsigned failures;    /* in a row */
    unsigned hurries;     /* attempts in a row that were cut short for another one */
    simba_local begun_at; /* the latest attempt */
    simba_error error;    /* why it is down */
    simba_timer timer;
    redis_buffer out;
};

int simba__redis_conn_init(redis_conn *conn, redis_conns *all, const redis_conn_events *events, void *owner);
void simba__redis_conn_open(redis_conn *conn);
void simba__redis_conn_found(redis_conn *conn);
/* Somebody is about to lose a lease: try now, if it pauses or the attempt under way may be stuck. */
void simba__redis_conn_hurry(redis_conn *conn);
/* Does it wait for …_found? */
bool simba__redis_conn_seeks(const redis_conn *conn);
/* Send what is in conn->out, if it is up. */
void simba__redis_conn_flush(redis_conn *conn);
/* Give it up, tell the owner, and try again later. */
void simba__redis_conn_fail(redis_conn *conn, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void simba__redis_conn_close(redis_conn *conn);
void simba__redis_conn_fini(redis_conn *conn);

#endif
