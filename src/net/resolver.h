/* The addresses of several hosts. A worker looks names up, one after the other; what is an address, or the folder of a unix
 * socket, stays as it is. For client libraries that would do it in a turn, and as often as they like. */
#ifndef SIMBA_NET_RESOLVER_H
#define SIMBA_NET_RESOLVER_H

#include "net/endpoint.h"
#include "net/resolve.h"

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

    simba__target targets[SIMBA__TARGETS_MAX]; /* those beyond are left out */
    size_t count;
    char cause[160];
    bool at_work, given_up;
    size_t next; /* host to be looked up */
    simba__lookup *lookup;
};

/* Look all of them up, unless that is being done; `resolved` may be called before this returns. */
void simba__resolver_start(simba__resolver *resolver);
/* It ends the sooner. */
void simba__resolver_give_up(simba__resolver *resolver);

#endif
