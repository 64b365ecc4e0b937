/* The spans of a lease at the store's present time. The times of an owner come from the store, where anybody may
 * have written them: this code turns them into spans that cannot overflow, or that say that they are unknown. */
#ifndef SIMBA_CLI_LEASE_H
#define SIMBA_CLI_LEASE_H

#include <simba.h>

#define LEASE_UNKNOWN INT64_C(-1)

typedef struct lease_view {
    bool owned; /* otherwise the rest is LEASE_UNKNOWN */
    int64_t held_ms;
    int64_t
        ttl_left_ms; /* at most as long as the whole lease; unknown where the lease is a session, which has no end of its own */
    int64_t left_ms;
} lease_view;

lease_view lease_look(const simba_owner *owner, int64_t now_ms);

#endif
