/* One connection to a server. It finds the address, connects, by TLS if required, and hands incoming bytes to its
 * owner. When the connection breaks, it says so and tries again by itself. */
#ifndef SIMBA_NET_LINK_H
#define SIMBA_NET_LINK_H

#include <simba/backend.h>

#include "net/buffer.h"
#include "net/endpoint.h"
#include "net/resolver.h"
#include "net/tls.h"

typedef struct simba__link simba__link;
typedef struct simba__links simba__links;

/* What all links of a store share. */
struct simba__links {
    simba_host *host;
    const char *kind;        /* of server, for messages */
    simba__tls_context *tls; /* NULL: plain */
    const char *hello;       /* what a server of this kind answers at once if it speaks no TLS; with `tls` */
    unsigned lookups;        /* of names, under way */
    /* A lookup has ended. */
    void (*looked_up)(simba__links *all);
};

typedef enum simba__link_state {
    SIMBA__LINK_CLOSED,     /* not asked for yet, or the store closes */
    SIMBA__LINK_CONNECTING, /* names, socket, TLS */
    SIMBA__LINK_UP,
    SIMBA__LINK_WAITING, /* it failed; the timer tries again */
} simba__link_state;

/* How a link tells its owner what happens. */
typedef struct simba__link_events {
    /* The link wants to connect: set `at` if it is not right, and call …_found, now or later, or call …_fail. One of
     * the two must follow. */
    void (*find)(simba__link *link);
    void (*up)(simba__link *link);
    void (*bytes)(simba__link *link, const char *data, size_t length);
    /* The connection is gone, or could not be made. link->error says why. */
    void (*down)(simba__link *link);
    /* The timer fired while the link is up: check for silence, and set it again. */
    void (*tick)(simba__link *link, simba_local now);
} simba__link_events;

struct simba__link {
    simba_host *host;
    simba__links *all;
    const simba__link_events *events;
    simba__endpoint at;
    const char *tls_name;       /* whom the certificate must be for, if `at` is its address; NULL: at.host */
    int64_t connect_timeout_ns; /* names and TLS included */

    simba__link_state state;
    unsigned life;         /* how many sockets there have been */
    simba__lookup *lookup; /* at work */
    struct addrinfo *addresses, *next_address;
    int refused;          /* the system's error when it made no socket; the timer reports it */
    simba_io socket;      /* fd is -1: there is none */
    simba__tls *tls;      /* NULL: plain, or not connected */
    bool heard;           /* the server has said something since the link was connected */
    bool asks_plainly;    /* whether the server, which was silent by TLS, speaks without */
    simba__buffer wire;   /* on its way to the socket */
    unsigned failures;    /* in a row; the owner resets it when the server has answered properly */
    unsigned hurries;     /* attempts in a row that were cut short for another one; reset likewise */
    simba_local begun_at; /* the latest attempt */
    simba_error error;    /* why it is down */
    simba_timer timer;
    simba__buffer out; /* bytes that the owner wants to send */
};

int simba__link_init(simba__link *link, simba__links *all, const simba__link_events *events,
                     int64_t connect_timeout_ns);
void simba__link_open(simba__link *link);
void simba__link_found(simba__link *link);
/* A holder is about to lose its lease: try now, if the link pauses or its attempt may be stuck. */
void simba__link_hurry(simba__link *link);
/* Does the link wait for …_found? */
bool simba__link_seeks(const simba__link *link);
/* Send link->out, if the link is up. */
void simba__link_flush(simba__link *link);
/* Give the connection up, tell the owner, and try again later. */
void simba__link_fail(simba__link *link, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void simba__link_close(simba__link *link);
void simba__link_fini(simba__link *link);

#endif
