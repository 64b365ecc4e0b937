/* Cases about wake-ups: a release soon reaches a waiter, even if other waiters have died or left meanwhile; and pushes that
 * get lost or come twice do no harm. */
#include "probe.h"

/* A leader on a client of its own. */
static tck_probe *start_leader(tck_arena *arena, simba_timing timing)
{
    tck *t = arena->kit;
    tck_probe *leader = tck_probe_new(arena, tck_client_new(t));
    leader->timing = timing;
    tck_probe_start(leader);
    if (!TCK_WAIT_UNTIL(t, leader->acquired == 1, t->timeout_ms))
        tck_give_up(t, "the leader does not lead");
    return leader;
}

/* A waiter that the store knows of, on a fault client of its own. */
static tck_probe *start_waiter(tck_arena *arena, simba_timing timing)
{
    tck *t = arena->kit;
    tck_client *client = tck_client_nervous(t);
    tck_probe *waiter = tck_probe_new(arena, client);
    waiter->timing = timing;
    tck_probe_start(waiter);
    if (!TCK_WAIT_UNTIL(t, tck_client_count(client, SIMBA_OP_ACQUIRE, TCK_ANSWERED) >= 1, t->timeout_ms))
        tck_give_up(t, "the waiter's request is not answered");
    return waiter;
}

/* The wake-up came by push: leases are so long that no timer was due yet. */
static bool was_quick(tck_probe *probe)
{
    return tck_probe_last(probe, TCK_ACQUIRED).at_ns <
           probe->arena->kit->began_ns + probe->timing.ttl_ms * TCK_NS_PER_MS;
}

/* A release wakes the waiter. */
static void release_wakes(tck *t)
{
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = start_leader(arena, tck_timing_long(t));
    tck_probe *waiter = start_waiter(arena, tck_timing_long(t));
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    TCK_AWAIT(t, waiter->acquired == 1);
    TCK_REQUIRE(t, was_quick(waiter));
}

/* The first of three waiters is cut off: the wake-up reaches one of the others. */
static void dead_waiter(tck *t)
{
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = start_leader(arena, tck_timing_long(t));
    tck_probe *waiters[3];
    for (int i = 0; i < 3; i++) {
        waiters[i] = start_waiter(arena, tck_timing_long(t));
    }
    tck_fault_cut(waiters[0]->client->fault, TCK_CUT_SILENT);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    TCK_AWAIT(t, waiters[1]->acquired + waiters[2]->acquired == 1);
    TCK_REQUIRE(t, was_quick(waiters[1]->acquired ? waiters[1] : waiters[2]));
}

/* The first of two waiters has stopped waiting: the second one gets the wake-up. */
static void departed_waiter(tck *t)
{
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = start_leader(arena, tck_timing_long(t));
    tck_probe *departed = start_waiter(arena, tck_timing_long(t));
    tck_probe *waiter = start_waiter(arena, tck_timing_long(t));
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(departed));
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    TCK_AWAIT(t, waiter->acquired == 1);
    TCK_REQUIRE(t, was_quick(waiter) && departed->acquired == 0);
}

/* A contender of the same client that has started first but sits out its initial delay does not swallow the wake-up. */
static void sleeping_waiter(tck *t)
{
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = start_leader(arena, tck_timing_long(t));
    tck_client *client = tck_client_faulty(t, 0);
    tck_probe *sleeper = tck_probe_new(arena, client);
    tck_probe *waiter = tck_probe_new(arena, client);
    sleeper->timing = waiter->timing = tck_timing_long(t);
    sleeper->timing.initial_delay_ms = SIMBA_LEASE_MAX_MS;
    tck_probe_start(sleeper);
    tck_probe_start(waiter);
    TCK_AWAIT(t, tck_client_count(client, SIMBA_OP_ACQUIRE, TCK_ANSWERED) >= 1);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    TCK_AWAIT(t, waiter->acquired == 1);
    TCK_REQUIRE(t, was_quick(waiter));
}

/* The release comes while the reply that says "not yours" is on its way: whether its push overtakes the reply or the
 * watch begins only after it, the release is not missed. */
static void release_before_reply(tck *t)
{
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = start_leader(arena, tck_timing_long(t));
    tck_client *client = tck_client_patient(t);
    tck_probe *waiter = tck_probe_new(arena, client);
    waiter->timing = tck_timing_long(t);
    tck_fault_hold(client->fault, SIMBA_OP_ACQUIRE);
    tck_probe_start(waiter);
    TCK_AWAIT(t, tck_client_count(client, SIMBA_OP_ACQUIRE, TCK_HELD) == 1);
    const uint64_t pushes = tck_client_stats(client).pushes;
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    (void)TCK_WAIT_UNTIL(t, tck_client_stats(client).pushes > pushes, t->ttl_ms / 4);
    tck_fault_let_go(client->fault, SIMBA_OP_ACQUIRE);
    TCK_AWAIT(t, waiter->acquired == 1);
    TCK_REQUIRE(t, was_quick(waiter));
}

/* One of two waiters of the same client stops at the very moment of the release: the other one gets the mutex, whether
 * the first one was woken, had already won and gives it back, or was not even asked. Many times, since it is a race. */
static void waiter_leaves_at_release(tck *t)
{
    enum { TIMES = 100 };
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = start_leader(arena, tck_timing_long(t));
    tck_client *client = tck_client_new(t);
    tck_probe *leaving = tck_probe_new(arena, client);
    tck_probe *staying = tck_probe_new(arena, client);
    leaving->timing = staying->timing = tck_timing_long(t);
    for (unsigned i = 1; i <= TIMES; i++) {
        const int64_t before = tck_now_ns();
        tck_probe_start(leaving);
        tck_probe_start(staying);
        tck_probe_stop_async(leaving);
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
        TCK_AWAIT(t, leaving->stop_done && staying->acquired == i);
        TCK_REQUIRE(t, tck_probe_last(staying, TCK_ACQUIRED).at_ns < before + staying->timing.ttl_ms * TCK_NS_PER_MS);
        tck_threads_join(t);
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(staying));
        tck_probe_start(leader);
        TCK_AWAIT(t, leader->acquired == i + 1);
    }
}

/* No push gets through: the waiter has the mutex when its timer fires. */
static void pushes_dropped(tck *t)
{
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = start_leader(arena, tck_timing(t));
    tck_probe *waiter = start_waiter(arena, tck_timing(t));
    tck_fault_pushes(waiter->client->fault, TCK_PUSHES_DROP);
    const int64_t before = tck_now_ns();
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    TCK_AWAIT(t, waiter->acquired == 1);
    const int64_t within_ms = tck_lease_ms(t) + waiter->timing.jitter_max_ms + t->timeout_ms / 10;
    TCK_REQUIRE(t, tck_probe_last(waiter, TCK_ACQUIRED).at_ns <= before + within_ms * TCK_NS_PER_MS);
}

/* Every push comes twice: each of three waiters leads exactly once. */
static void pushes_doubled(tck *t)
{
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = start_leader(arena, tck_timing(t));
    tck_probe *waiters[3];
    for (int i = 0; i < 3; i++) {
        waiters[i] = start_waiter(arena, tck_timing(t));
        tck_fault_pushes(waiters[i]->client->fault, TCK_PUSHES_TWICE);
    }
    for (int i = 0; i < 3; i++) {
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
        TCK_AWAIT(t, (leader = waiters[0]->inside   ? waiters[0]
                               : waiters[1]->inside ? waiters[1]
                               : waiters[2]->inside ? waiters[2]
                                                    : NULL) != NULL);
    }
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    for (int i = 0; i < 3; i++)
        TCK_REQUIRE_NOW(t, waiters[i]->acquired == 1 && waiters[i]->released == 1);
}

const tck_case tck_cases_pushes[] = {
    {"release-wakes", SIMBA_CAP_PUSH, 0, release_wakes},
    {"dead-waiter", SIMBA_CAP_PUSH, SIMBA_CAP_SESSION, dead_waiter},
    {"departed-waiter", SIMBA_CAP_PUSH, 0, departed_waiter},
    {"sleeping-waiter", SIMBA_CAP_PUSH, 0, sleeping_waiter},
    {"release-before-reply", SIMBA_CAP_PUSH, SIMBA_CAP_SESSION, release_before_reply},
    {"waiter-leaves-at-release", SIMBA_CAP_PUSH, 0, waiter_leaves_at_release},
    {"pushes-dropped", SIMBA_CAP_PUSH, SIMBA_CAP_SESSION, pushes_dropped},
    {"pushes-doubled", SIMBA_CAP_PUSH, 0, pushes_doubled},
    {0},
};
