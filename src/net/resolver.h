/* Finds the addresses of several hosts. A worker looks names up, one after the other; an address, or the folder of a
 * unix socket, stays as it is. For client libraries that would otherwise look names up in a turn, at any time. */
#ifndef SIMBA_NET_RESOLVER_H
#define SIMBA_NET_RESOLVER_H

#include "net/endpoint.h"
#include "net/lookup.h"

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
