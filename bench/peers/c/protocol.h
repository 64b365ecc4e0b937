/* The protocol of bench/peers for peers in C: reads a command per line and answers each with one line, see ../README.md.
 * A peer describes its lock by this table, and its main calls peer_serve. */
#ifndef SIMBA_PEERS_PROTOCOL_H
#define SIMBA_PEERS_PROTOCOL_H

#include <stdint.h>

typedef struct peer {
    /* A connection of its own, or what the library calls a client. */
    void *(*open)(const char *address);
    void (*close)(void *client);
    /* A lock of a client, for one thread. A lease, where there are leases, lasts so long. */
    void *(*lock_new)(void *client, const char *name, int64_t lease_ms);
    void (*lock_free)(void *lock);
    void (*acquire)(void *lock);
    void (*release)(void *lock);
} peer;

/* Never returns; the address is the first argument. */
void peer_serve(const peer *p, int argc, char **argv) __attribute__((noreturn));

/* Say what broke, as an answer, and exit. */
void peer_fail(const char *what, const char *why) __attribute__((noreturn));

void *peer_alloc(uint64_t size);

#endif
