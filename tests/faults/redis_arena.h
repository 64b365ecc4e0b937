/* What the fault tests of the Redis store share: an arena with the leases that they reckon with, and a look into the queue. */
#ifndef TESTS_FAULTS_REDIS_ARENA_H
#define TESTS_FAULTS_REDIS_ARENA_H

#include <string.h>
#include <unistd.h>

#include "faults/arena.h"
#include "lib/server.h"

#define ARENA_TTL_MS (ref_scaled_ms(400))
#define ARENA_TRANSITION_MS (ref_scaled_ms(800))

static inline void open_redis_arena(const char *url)
{
    open_arena(url, arena_timing(ARENA_TTL_MS, ARENA_TRANSITION_MS));
}

/* Until the others are in the queue on this server, and so listen. */
static inline void await_queue(const server *s)
{
    char queued[16];
    snprintf(queued, sizeof queued, ":%d\r\n", N - 1);
    for (int i = 0; i < 6000; i++) {
        if (strcmp(server_tell_redis(s, "ZCARD simba:{orders}:contender"), queued) == 0)
            return;
        usleep(5000);
    }
    fail_msg("the others do not queue up");
}

#endif
