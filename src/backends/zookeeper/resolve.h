/* Names of hosts, looked up by a worker: the library would do it in a turn, and as often as it likes. It gets addresses. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_RESOLVE_H
#define SIMBA_BACKENDS_ZOOKEEPER_RESOLVE_H

#include "backends/zookeeper/options.h"
#include "net/resolve.h"

typedef struct zk_resolver zk_resolver;
struct zk_resolver {
    simba_host *host;
    const zk_options *options;
    void (*resolved)(zk_resolver *resolver); /* `servers` is valid until it returns */
    simba__lookup *lookup;                   /* at work */
    bool at_work, given_up;
    char *servers; /* as the library takes them; NULL: `cause` says why there are none */
    size_t length, count;
    size_t next; /* host to be looked up */
    char cause[160];
};

/* Look all of them up, unless that is being done; `resolved` may be called before this returns. */
void simba__zk_resolve(zk_resolver *resolver);
/* It ends the sooner. */
void simba__zk_resolve_give_up(zk_resolver *resolver);

#endif
