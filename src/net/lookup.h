/* Turns host names into addresses. Asking a name server may take long and cannot be interrupted, so a worker does
 * it. */
#ifndef SIMBA_NET_LOOKUP_H
#define SIMBA_NET_LOOKUP_H

#include <netdb.h>
#include <simba/backend.h>
#include <stdatomic.h>
#include <sys/socket.h>

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

/* In a turn. `over` follows in another one, whatever happens; then it is freed. NULL: out of memory. */
simba__lookup *simba__lookup_start(simba_host *host, const char *name, int port, void (*over)(simba__lookup *lookup),
                                   void *owner);
/* In a turn: nobody waits for it any more. If it has not begun yet, it finds nothing. */
void simba__lookup_give_up(simba__lookup *lookup);

#endif
