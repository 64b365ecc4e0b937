/* Turns host names into addresses. Asking a name server may take long and cannot be interrupted, so a worker does it. */
#ifndef SIMBA_NET_RESOLVER_H
#define SIMBA_NET_RESOLVER_H

#include <netdb.h>
#include <simba/backend.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "net/endpoint.h"

/* --- one name ------------------------------------------------------------------------------------- */

typedef struct simba__address {
    struct sockaddr_storage at;
    socklen_t length;
} simba__address;

/* Is it already an address? Then there is nothing to look up. */
bool simba__address_parse(const char *name, int port, simba__address *ret_address);

typedef struct simba__lookup simba__lookup;
struct simba__lookup {
    simba_job job; /* first */
    simba_host *host;
    void *owner;
    void (*over)(simba__lookup *lookup);
    struct addrinfo *found; /* NULL: `why` has the reason. May be taken */
    char why[96];
    atomic_bool given_up;
    char port[8];
    char name[];
};

/* In a critical section of the client. `over` follows in another one, whatever happens; then it is freed. NULL: out of
 * memory. */
simba__lookup *simba__lookup_start(simba_host *host, const char *name, int port, void (*over)(simba__lookup *lookup),
                                   void *owner);
/* In a critical section of the client: nobody waits for it any more. If it has not begun yet, it finds nothing. */
void simba__lookup_give_up(simba__lookup *lookup);

/* --- several hosts, one after the other, for client libraries that would otherwise look names up in a critical section ---
 *
 * An address, or the folder of a unix socket, stays as it is. */

enum { SIMBA__TARGETS_MAX = 32 };

typedef struct simba__target {
    const simba__endpoint *host;
    char address[64]; /* "": the host is a folder */
} simba__target;

typedef struct simba__resolver simba__resolver;
struct simba__resolver {
    /* Set by the owner. */
    simba_host *host;
    const simba__endpoint *hosts;
    size_t host_count;
    void (*resolved)(simba__resolver *resolver); /* the targets are there; if there are none, `cause` says why */

    simba__target targets[SIMBA__TARGETS_MAX]; /* further ones are left out */
    size_t count;
    char cause[160];
    bool at_work, given_up;
    size_t next; /* the host to look up next */
    simba__lookup *lookup;
};

/* Look all of them up, unless that is under way; `resolved` may be called before this returns. */
void simba__resolver_start(simba__resolver *resolver);
/* Ends it sooner. */
void simba__resolver_give_up(simba__resolver *resolver);

#endif
