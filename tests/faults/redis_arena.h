/* What the fault tests of the Redis store share: three clients with a contender each, that fight for one mutex under the eyes
 * of the referee, of which the first leads and the others wait. */
#ifndef TESTS_FAULTS_REDIS_ARENA_H
#define TESTS_FAULTS_REDIS_ARENA_H

#include <simba.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/referee.h"
#include "lib/server.h"

#define ARENA_LONG_MS (ref_scaled_ms(15000))
#define ARENA_TTL_MS (ref_scaled_ms(400))
#define ARENA_TRANSITION_MS (ref_scaled_ms(800))

enum { N = 3, ARENA_WATCHDOG_S = 100 };

static simba_client *clients[N];
static ref_arena arena;

static inline void open_arena(const char *url)
{
    ref_arena_init(&arena);
    ref_watchdog(ARENA_WATCHDOG_S);
    for (unsigned i = 0; i < N; i++) {
        simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
        simba_error err = {0};
        options.timing.ttl_ms = ARENA_TTL_MS;
        options.timing.transition_ms = ARENA_TRANSITION_MS;
        if (simba_client_open(url, &options, &err, &clients[i]) < 0)
            fail_msg("%s", err.text);
        const simba_contender_options contender = ref_options(&arena, i);
        assert_int_equal(simba_contender_new(clients[i], "orders", &contender, &err, &arena.contenders[i].handle), 0);
        assert_int_equal(ref_start(&arena.contenders[i]), 0);
        if (i == 0)
            assert_true(REF_WITHIN(ARENA_LONG_MS, arena.inside == &arena.contenders[0]));
    }
}

/* Until the others are in the queue on this server, and so listen. */
static inline void await_queue(const server *s)
{
    char queued[16];
    snprintf(queued, sizeof queued, ":%d\r\n", N - 1);
    for (int i = 0; i < 1000; i++) {
        if (strcmp(server_tell_redis(s, "ZCARD simba:{orders}:contender"), queued) == 0)
            return;
        usleep(5000);
    }
    fail_msg("the others do not queue up");
}

static inline void close_arena(void)
{
    for (unsigned i = 0; i < N; i++) {
        ref_stop(&arena.contenders[i]);
        ref_free(&arena.contenders[i]);
        simba_client_close(clients[i]);
    }
    ref_arena_check_end(&arena);
    ref_watchdog(0);
}

static inline bool someone_leads(void)
{
    return REF_WITHIN(ARENA_LONG_MS, arena.inside != NULL);
}

static inline unsigned grants_now(void)
{
    ref_lock();
    const unsigned grants = arena.grants;
    ref_unlock();
    return grants;
}

/* Let the leader of now go, and see another one follow. */
static inline void assert_hands_over(void)
{
    assert_true(someone_leads());
    ref_lock();
    ref_contender *leader = NULL;
    for (unsigned i = 0; i < N; i++)
        if (arena.inside == &arena.contenders[i])
            leader = &arena.contenders[i];
    const unsigned grants = arena.grants;
    ref_unlock();
    assert_non_null(leader);
    ref_stop(leader);
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.grants > grants && arena.inside != NULL));
    ref_start(leader);
}

#endif
