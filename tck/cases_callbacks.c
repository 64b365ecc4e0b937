/* Cases about callbacks: they may stop, free and take their time, and the library makes no other callback of the same
 * handle meanwhile. */
#include "probe.h"

static void stop_self(tck_probe *probe)
{
    const int rc = tck_probe_stop(probe);
    if (rc != 0)
        tck_fail(probe->arena->kit, __FILE__, __LINE__, "stop inside a callback is %s, not 0", tck_code(rc));
}

/* Let somebody else on another client show that the mutex was given back, well before a lease ends. */
static void require_given_back(tck *t, tck_arena *arena)
{
    tck_client *client = tck_client_new(t);
    tck_probe *next = tck_probe_new(arena, client);
    next->timing = tck_timing_long(t);
    tck_probe_start(next);
    TCK_AWAIT(t, next->acquired == 1);
    TCK_REQUIRE(t, tck_probe_last(next, TCK_ACQUIRED).at_ns < t->began_ns + next->timing.ttl_ms * TCK_NS_PER_MS);
}

/* stop inside on_acquired returns at once; released follows, then the mutex is free. */
static void stop_in_acquired(tck *t)
{
    tck_client *client = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    p->timing = tck_timing_long(t);
    p->on_acquired = stop_self;
    tck_probe_start(p);
    TCK_AWAIT(t, p->released == 1 && simba_contender_status(p->contender) == SIMBA_STATUS_INITIAL);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_RELEASED).reason == SIMBA_REASON_STOPPED);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_RELEASED).at_ns >= tck_probe_last(p, TCK_ACQUIRED).end_ns);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_ACQUIRED).end_ns > 0);
    require_given_back(t, p->arena);
}

/* stop inside the on_released that another stop has caused. */
static void stop_in_released(tck *t)
{
    tck_client *client = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    p->timing = tck_timing_long(t);
    p->on_released = stop_self;
    tck_probe_start(p);
    TCK_AWAIT(t, p->acquired == 1);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(p));
    TCK_REQUIRE_NOW(t, p->released == 1 && simba_contender_status(p->contender) == SIMBA_STATUS_INITIAL);
    require_given_back(t, p->arena);
}

/* stop inside the on_released of a loss: the contender does not contend again. */
static void stop_in_loss(tck *t)
{
    tck_client *client = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    p->timing.hold_limit_ms = t->ttl_ms / 2;
    p->on_released = stop_self;
    tck_probe_start(p);
    TCK_AWAIT(t, p->released == 1 && simba_contender_status(p->contender) == SIMBA_STATUS_INITIAL);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_RELEASED).reason == SIMBA_REASON_HOLD_LIMIT);
    require_given_back(t, p->arena);
    TCK_REQUIRE_NOW(t, p->acquired == 1);
}

static void free_in(tck *t, bool on_released)
{
    tck_client *client = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    p->timing = tck_timing_long(t);
    *(on_released ? &p->on_released : &p->on_acquired) = tck_probe_free;
    if (on_released)
        p->timing.hold_limit_ms = t->ttl_ms / 2;
    tck_probe_start(p);
    TCK_AWAIT(t, p->released == 1 && !p->in_callback);
    TCK_AWAIT(t, tck_client_stats(client).contenders == 0);
    require_given_back(t, p->arena);
    TCK_REQUIRE_NOW(t, p->acquired == 1 && p->released == 1);
}

/* free inside on_acquired: released is still told, the mutex given back, the handle gone. */
static void free_in_acquired(tck *t)
{
    free_in(t, false);
}

/* free inside on_released. */
static void free_in_released(tck *t)
{
    free_in(t, true);
}

static void use_everything(tck_probe *probe)
{
    tck *t = probe->arena->kit;
    simba_client *client = probe->client->handle;
    simba_stats stats = SIMBA_STATS_INIT;
    TCK_REQUIRE_RC(t, SIMBA_ESTATE, simba_client_close(client));
    TCK_REQUIRE_RC(t, 0, simba_client_stats(client, &stats));

    SIMBA_LOCKER_SCOPED simba_locker *locker = NULL;
    TCK_REQUIRE_RC(t, 0, simba_locker_new(client, probe->user, NULL, NULL, &locker));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(locker, t->timeout_ms, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_release(locker, NULL));
}

/* Inside a callback the client refuses to close, and the other doors work. */
static void calls_in_callback(tck *t)
{
    tck_client *client = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    p->user = (void *)(uintptr_t)tck_mutex(t, "locked");
    p->on_acquired = p->on_released = use_everything;
    tck_probe_start(p);
    TCK_AWAIT(t, p->acquired == 1 && !p->in_callback);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(p));
}

/* Block in the callback until the case opens the latch: `user` is a bool. */
static void wait_for_latch(tck_probe *probe)
{
    tck *t = probe->arena->kit;
    const bool *latch = probe->user;
    TCK_AWAIT(t, *latch || t->ending);
}

static void open_latch(tck *t, bool *latch)
{
    tck_lock(t);
    *latch = true;
    tck_notify(t);
    tck_unlock(t);
}

/* stop waits for an on_acquired in progress, and the mutex stays ours for as long as it takes. */
static void stop_waits(tck *t)
{
    tck_client *client = tck_client_faulty(t, 0);
    tck_client *other = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    tck_probe *next = tck_probe_new(p->arena, other);
    p->timing = next->timing = tck_timing_steady(t);
    bool *latch = tck_alloc(t, sizeof *latch);
    p->user = latch;
    p->on_acquired = wait_for_latch;
    tck_probe_start(p);
    TCK_AWAIT(t, p->acquired == 1);
    tck_probe_start(next);
    tck_probe_stop_async(p);
    TCK_AWAIT(t, tck_probe_is_stopping(p));
    TCK_REQUIRE(t, tck_outlive(client, 2));
    TCK_REQUIRE_NOW(t, !p->stop_done && p->released == 0 && next->acquired == 0);
    open_latch(t, latch);
    TCK_AWAIT(t, p->stop_done && next->acquired == 1);
    TCK_REQUIRE_RC(t, 0, p->stop_rc);
    TCK_REQUIRE_NOW(t, p->released == 1);
    TCK_REQUIRE(t, tck_probe_last(next, TCK_ACQUIRED).at_ns >= tck_probe_last(p, TCK_RELEASED).end_ns);
}

static void outlive_three(tck_probe *probe)
{
    if (!tck_outlive(probe->client, 3))
        tck_fail(probe->arena->kit, __FILE__, __LINE__, "no renewals while on_released runs");
}

/* An on_released that takes longer than the lease: the client renews until it has returned, and nobody else gets in
 * before. */
static void slow_released(tck *t)
{
    tck_client *client = tck_client_faulty(t, 0);
    tck_client *other = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    tck_probe *next = tck_probe_new(p->arena, other);
    p->timing = next->timing = tck_timing_steady(t);
    p->on_released = outlive_three;
    tck_probe_start(p);
    TCK_AWAIT(t, p->acquired == 1);
    tck_probe_start(next);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(p));
    TCK_AWAIT(t, next->acquired == 1);
    TCK_REQUIRE(t, tck_probe_last(next, TCK_ACQUIRED).at_ns >= tck_probe_last(p, TCK_RELEASED).end_ns);
}

/* A callback that does not return delays no other mutex of the client and no renewal of its own. */
static void slow_callback(tck *t)
{
    tck_client *client = tck_client_faulty(t, 0);
    tck_probe *slow = tck_probe_new(tck_arena_new(t, "slow"), client);
    tck_probe *quick = tck_probe_new(tck_arena_new(t, "quick"), client);
    slow->timing = quick->timing = tck_timing_steady(t);
    bool *latch = tck_alloc(t, sizeof *latch);
    slow->user = latch;
    slow->on_acquired = wait_for_latch;
    tck_probe_start(slow);
    TCK_AWAIT(t, slow->acquired == 1);
    for (unsigned i = 1; i <= 5; i++) {
        tck_probe_start(quick);
        TCK_AWAIT(t, quick->acquired == i);
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(quick));
    }
    TCK_REQUIRE(t, tck_outlive(client, 2));
    TCK_REQUIRE_NOW(t, slow->in_callback && simba_contender_is_owner(slow->contender));
    open_latch(t, latch);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(slow));
}

const tck_case tck_cases_callbacks[] = {
    {"stop-in-acquired", 0, 0, stop_in_acquired},  {"stop-in-released", 0, 0, stop_in_released},
    {"stop-in-loss", 0, 0, stop_in_loss},          {"free-in-acquired", 0, 0, free_in_acquired},
    {"free-in-released", 0, 0, free_in_released},  {"calls-in-callback", 0, 0, calls_in_callback},
    {"stop-waits-for-callback", 0, 0, stop_waits}, {"slow-released", 0, 0, slow_released},
    {"slow-callback", 0, 0, slow_callback},        {0},
};
