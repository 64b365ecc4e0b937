/* Cases about a client that is cut off from the store: short outages cost nothing, long ones cost leadership, and the loser
 * knows before the next leader does. */
#include "probe.h"

/* By when another client owns the mutex of a client that is cut off now: the longest time that its lease can still
 * last, then the jitter of a waiter, then a generous round trip. */
static int64_t take_over_by(const tck *t, int64_t cut_at_ns)
{
    const simba_timing timing = tck_timing(t);
    return cut_at_ns + (tck_lease_ms(t) + timing.jitter_max_ms + t->timeout_ms / 10) * TCK_NS_PER_MS;
}

static void take_over(tck *t, tck_cut how)
{
    tck_client *cut = tck_client_nervous(t);
    tck_client *connected = tck_client_faulty(t, 0);
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *old = tck_probe_new(arena, cut);
    tck_probe *new = tck_probe_new(arena, connected);
    tck_probe_start(old);
    TCK_AWAIT(t, old->acquired == 1);
    tck_probe_start(new);
    TCK_AWAIT(t, tck_client_count(connected, SIMBA_OP_ACQUIRE, TCK_ANSWERED) >= 1);

    tck_fault_cut(cut->fault, how);
    const int64_t cut_at = tck_now_ns();
    TCK_AWAIT(t, old->released == 1 && new->acquired == 1);
    const tck_event lost = tck_probe_last(old, TCK_RELEASED);
    const tck_event gained = tck_probe_last(new, TCK_ACQUIRED);
    TCK_REQUIRE(t, lost.reason == SIMBA_REASON_EXPIRED);
    TCK_REQUIRE(t, lost.at_ns < gained.at_ns);
    TCK_REQUIRE(t, gained.at_ns <= take_over_by(t, cut_at));

    /* Back again, the old one finds the mutex taken and waits like everybody else. */
    const uint64_t asked = tck_client_count(cut, SIMBA_OP_ACQUIRE, TCK_ANSWERED);
    tck_fault_heal(cut->fault);
    TCK_AWAIT(t, tck_client_count(cut, SIMBA_OP_ACQUIRE, TCK_ANSWERED) > asked);
    TCK_REQUIRE_NOW(t, old->acquired == 1 && new->released == 0);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(new));
    TCK_AWAIT(t, old->acquired == 2);
}

/* A leader that nothing reaches any more is told that its lease expired; after that, and soon, another one leads. */
static void take_over_silent(tck *t)
{
    take_over(t, TCK_CUT_SILENT);
}

/* The same when every request is refused at once. */
static void take_over_refused(tck *t)
{
    take_over(t, TCK_CUT_REFUSE);
}

/* A rival that never stops trying gets in when the leader's lease is over by the leader's own clock, not before. No
 * stop margin here: this is about the lease itself. */
static void eager_rival(tck *t)
{
    tck_client *cut = tck_client_nervous(t);
    tck_client *connected = tck_client_new(t);
    tck_probe *leader = tck_probe_new(tck_arena_new(t, NULL), cut);
    leader->timing.stop_margin_ms = 0;
    simba_locker *rival = tck_locker_new(t, connected, leader->arena->mutex, tck_timing_long(t));
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    tck_fault_cut(cut->fault, TCK_CUT_REFUSE);

    const int64_t give_up = tck_now_ns() + t->timeout_ms * TCK_NS_PER_MS;
    int rc = SIMBA_ETIMEDOUT;
    while ((rc == SIMBA_ETIMEDOUT || rc == SIMBA_EUNAVAILABLE) && tck_now_ns() < give_up) {
        TCK_NEVER(t, t->ending, 2);
        rc = simba_locker_acquire(rival, 0, NULL);
    }
    TCK_REQUIRE(t, !simba_contender_is_owner(leader->contender));
    TCK_REQUIRE_RC(t, 0, rc);
    TCK_AWAIT(t, leader->released == 1);
    TCK_REQUIRE(t, simba_locker_token(rival) > tck_probe_last(leader, TCK_ACQUIRED).token);
}

/* With nobody else around, a leader that was cut off for too long leads again, but as a new grant. */
static void expired_alone(tck *t)
{
    tck_client *client = tck_client_nervous(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    tck_probe_start(p);
    TCK_AWAIT(t, p->acquired == 1);
    tck_fault_cut(client->fault, TCK_CUT_SILENT);
    TCK_AWAIT(t, p->released == 1);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_RELEASED).reason == SIMBA_REASON_EXPIRED);
    TCK_REQUIRE(t, !simba_contender_is_owner(p->contender) && simba_contender_token(p->contender) == 0);
    tck_fault_heal(client->fault);
    TCK_AWAIT(t, p->acquired == 2);
    TCK_REQUIRE(t, tck_probe_event(p, TCK_ACQUIRED, 2).token > tck_probe_event(p, TCK_ACQUIRED, 1).token);
}

/* The contender was told early of its loss, and is back while the store still keeps the old grant: that grant is over
 * all the same. The next grant has a greater token, which the arena checks. */
static void back_early(tck *t)
{
    tck_client *client = tck_client_nervous(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    p->timing.ttl_ms = t->ttl_ms / 4;
    p->timing.transition_ms = 2 * t->transition_ms;
    p->timing.stop_margin_ms = p->timing.transition_ms * 3 / 8;
    tck_probe_start(p);
    TCK_AWAIT(t, p->acquired == 1);
    tck_fault_cut(client->fault, TCK_CUT_REFUSE);
    TCK_AWAIT(t, p->released == 1 && tck_client_count(client, SIMBA_OP_ACQUIRE, TCK_FAILED) >= 1);
    tck_fault_heal(client->fault);
    TCK_AWAIT(t, p->acquired == 2);
}

/* An outage that ends within the transition, long enough for two renewals to fail. */
static void outage(tck *t, tck_cut how)
{
    tck_client *client = tck_client_faulty(t, t->transition_ms / 4);
    tck_client *other = tck_client_new(t);
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, client);
    tck_probe *rival = tck_probe_new(arena, other);
    leader->timing.transition_ms = rival->timing.transition_ms = t->timeout_ms;
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    tck_probe_start(rival);

    tck_fault_cut(client->fault, how);
    TCK_AWAIT(t, tck_client_count(client, SIMBA_OP_RENEW, TCK_FAILED) >= 2);
    tck_fault_heal(client->fault);
    TCK_REQUIRE(t, tck_outlive(client, 2));
    TCK_REQUIRE_NOW(t, leader->acquired == 1 && leader->released == 0 && rival->acquired == 0);
    TCK_REQUIRE(t, simba_contender_token(leader->contender) == tck_probe_last(leader, TCK_ACQUIRED).token);
}

/* A short outage in which nothing is answered costs nobody leadership. */
static void outage_silent(tck *t)
{
    outage(t, TCK_CUT_SILENT);
}

/* Nor does one in which everything is refused. */
static void outage_refused(tck *t)
{
    outage(t, TCK_CUT_REFUSE);
}

/* A waiter that sits out an outage gets the mutex afterwards. */
static void waiter_outage(tck *t)
{
    tck_client *client = tck_client_nervous(t);
    tck_client *other = tck_client_new(t);
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, other);
    tck_probe *waiter = tck_probe_new(arena, client);
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    tck_fault_cut(client->fault, TCK_CUT_REFUSE);
    tck_probe_start(waiter);
    TCK_AWAIT(t, tck_client_count(client, SIMBA_OP_ACQUIRE, TCK_FAILED) >= 3);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    tck_fault_heal(client->fault);
    TCK_AWAIT(t, waiter->acquired == 1);
}

/* A stop that cannot reach the store says so, ends here all the same, and the mutex is free when the lease is over. */
static void stop_while_cut(tck *t)
{
    tck_client *client = tck_client_nervous(t);
    tck_client *other = tck_client_new(t);
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, client);
    tck_probe *next = tck_probe_new(arena, other);
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    tck_probe_start(next);
    tck_fault_cut(client->fault, TCK_CUT_REFUSE);
    const int64_t cut_at = tck_now_ns();
    TCK_REQUIRE_RC(t, SIMBA_EUNAVAILABLE, tck_probe_stop(leader));
    TCK_REQUIRE_NOW(t, leader->released == 1);
    TCK_REQUIRE(t, tck_probe_last(leader, TCK_RELEASED).reason == SIMBA_REASON_STOPPED);
    TCK_AWAIT(t, next->acquired == 1);
    TCK_REQUIRE(t, tck_probe_last(next, TCK_ACQUIRED).at_ns <= take_over_by(t, cut_at));
}

/* A leader whose mutex an administrator took away is told so, and contends again for a new grant. */
static void revoked(tck *t)
{
    tck_client *client = tck_client_new(t);
    tck_client *administrator = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    simba_error err;
    TCK_REQUIRE_RC(t, SIMBA_ENOTFOUND, simba_client_force_release(administrator->handle, p->arena->mutex, &err));
    tck_probe_start(p);
    TCK_AWAIT(t, p->acquired == 1);
    TCK_REQUIRE_RC(t, 0, simba_client_force_release(administrator->handle, p->arena->mutex, &err));
    TCK_AWAIT(t, p->released == 1);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_RELEASED).reason == SIMBA_REASON_REVOKED);
    TCK_AWAIT(t, p->acquired == 2);
}

const tck_case tck_cases_takeover[] = {
    {"take-over-silent", 0, SIMBA_CAP_SESSION, take_over_silent},
    {"take-over-refused", 0, SIMBA_CAP_SESSION, take_over_refused},
    {"eager-rival", 0, SIMBA_CAP_SESSION, eager_rival},
    {"expired-alone", 0, SIMBA_CAP_SESSION, expired_alone},
    {"back-early", 0, SIMBA_CAP_SESSION, back_early},
    {"outage-silent", 0, SIMBA_CAP_SESSION, outage_silent},
    {"outage-refused", 0, SIMBA_CAP_SESSION, outage_refused},
    {"waiter-outage", 0, 0, waiter_outage},
    {"stop-while-cut", 0, SIMBA_CAP_SESSION, stop_while_cut},
    {"revoked", SIMBA_CAP_LIST, 0, revoked},
    {0},
};
