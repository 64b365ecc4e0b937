/* Contenders of one mutex, each with a client of its own as if it were a process, on a real server that a test maltreats;
 * and the referee, who must have nothing to complain about. */
#ifndef TESTS_FAULTS_ARENA_H
#define TESTS_FAULTS_ARENA_H

#include <simba.h>
#include <stdio.h>

#include "lib/cm.h"
#include "lib/referee.h"

#define ARENA_LONG_MS (ref_scaled_ms(30000)) /* for what must happen at some time */

enum { N = 3, ARENA_WATCHDOG_S = 200 };

static simba_client *clients[N];
static ref_arena arena;

/* Each by a way of its own, with this timing; the first one leads. */
static inline void open_arena_by(const char *const urls[N], simba_timing timing)
{
    ref_arena_init(&arena);
    ref_watchdog(ARENA_WATCHDOG_S);
    for (unsigned i = 0; i < N; i++) {
        simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
        simba_error err = {0};
        options.timing = timing;
        if (simba_client_open(urls[i], &options, &err, &clients[i]) < 0)
            fail_msg("%s", err.text);
        const simba_contender_options contender = ref_options(&arena, i);
        assert_int_equal(simba_contender_new(clients[i], "orders", &contender, &err, &arena.contenders[i].handle), 0);
        assert_int_equal(ref_start(&arena.contenders[i]), 0);
        if (i == 0)
            assert_true(REF_WITHIN(ARENA_LONG_MS, arena.inside == &arena.contenders[0]));
    }
}

/* All of them by the same. */
static inline void open_arena(const char *url, simba_timing timing)
{
    open_arena_by((const char *const[N]){url, url, url}, timing);
}

static inline simba_timing arena_timing(int64_t ttl_ms, int64_t transition_ms)
{
    simba_timing timing = SIMBA_TIMING_INHERIT;
    timing.ttl_ms = ttl_ms;
    timing.transition_ms = transition_ms;
    return timing;
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

/* The first contender leads, and nothing was granted since there were this many grants. */
static inline void assert_kept(unsigned grants)
{
    ref_lock();
    const bool kept = arena.grants == grants && arena.inside == &arena.contenders[0];
    ref_unlock();
    assert_true(kept);
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
    assert_int_equal(ref_start(leader), 0);
}

#endif
