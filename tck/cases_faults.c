/* Cases about single requests and replies that get lost or are late: the contender finds out whether the store carried
 * them out, and gives back a grant that came after it left. */
#include <string.h>

#include "probe.h"

/* A probe on a fault client and one on a connected client, both of one mutex. */
struct pair {
    tck_client *client;
    tck_probe *probe;
    tck_client *other_client;
    tck_probe *other;
};

static void make_pair(tck *t, tck_client *client, simba_timing timing, struct pair *ret_pair)
{
    tck_client *other_client = tck_client_new(t);
    tck_arena *arena = tck_arena_new(t, NULL);
    *ret_pair = (struct pair){
        .client = client,
        .probe = tck_probe_new(arena, client),
        .other_client = other_client,
        .other = tck_probe_new(arena, other_client),
    };
    ret_pair->probe->timing = ret_pair->other->timing = timing;
}

/* The other probe gets the mutex long before the long lease of the first one could have ended. */
static void require_free(tck *t, tck_probe *other)
{
    tck_probe_start(other);
    TCK_AWAIT(t, other->acquired == 1);
    TCK_REQUIRE(t, tck_probe_last(other, TCK_ACQUIRED).at_ns < t->began_ns + other->timing.ttl_ms * TCK_NS_PER_MS);
}

/* The reply to an acquire that won is lost: the contender leads all the same, and is told once, within a fraction of
 * the lease. */
static void acquire_reply_lost(tck *t)
{
    tck_client *client = tck_client_faulty(t, 0);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    p->timing = tck_timing_long(t);
    tck_fault_lose_reply_nth(client->fault, SIMBA_OP_ACQUIRE, 1);
    const int64_t before = tck_now_ns();
    tck_probe_start(p);
    TCK_AWAIT(t, p->acquired == 1);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_ACQUIRED).at_ns < before + p->timing.ttl_ms / 4 * TCK_NS_PER_MS);
    TCK_REQUIRE(t, tck_client_count(client, SIMBA_OP_ACQUIRE, TCK_FAILED) >= 1);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(p));
    TCK_REQUIRE_NOW(t, p->acquired == 1 && p->released == 1);
}

/* One renewal goes wrong, because its request or its reply is lost: leadership goes on. */
static void renew_goes_wrong(tck *t, void (*go_wrong)(tck_fault *fault, int op, unsigned nth))
{
    struct pair pair;
    make_pair(t, tck_client_faulty(t, 2 * t->ttl_ms), tck_timing_steady(t), &pair);
    tck_probe_start(pair.probe);
    TCK_AWAIT(t, pair.probe->acquired == 1);
    tck_probe_start(pair.other);
    const uint64_t token = tck_probe_last(pair.probe, TCK_ACQUIRED).token;
    go_wrong(pair.client->fault, SIMBA_OP_RENEW, 1);
    TCK_AWAIT(t, tck_client_count(pair.client, SIMBA_OP_RENEW, TCK_FAILED) >= 1);
    TCK_REQUIRE(t, tck_outlive(pair.client, 2));
    TCK_REQUIRE_NOW(t, pair.probe->acquired == 1 && pair.probe->released == 0 && pair.other->acquired == 0);
    TCK_REQUIRE(t, simba_contender_token(pair.probe->contender) == token);
}

static void renew_reply_lost(tck *t)
{
    renew_goes_wrong(t, tck_fault_lose_reply_nth);
}

static void renew_fails(tck *t)
{
    renew_goes_wrong(t, tck_fault_fail_nth);
}

/* The reply to a release is lost: the mutex is free. */
static void release_reply_lost(tck *t)
{
    struct pair pair;
    make_pair(t, tck_client_faulty(t, 0), tck_timing_long(t), &pair);
    tck_probe_start(pair.probe);
    TCK_AWAIT(t, pair.probe->acquired == 1);
    tck_fault_lose_reply_nth(pair.client->fault, SIMBA_OP_RELEASE, 1);
    const int rc = tck_probe_stop(pair.probe);
    TCK_REQUIRE(t, rc == 0 || rc == SIMBA_ETIMEDOUT || rc == SIMBA_EUNAVAILABLE);
    require_free(t, pair.other);
}

/* Whichever request of a short life fails, or has its reply lost, the next contender gets its turn. */
static void nth_request_fails(tck *t)
{
    enum { MOST = 3 };
    tck_client *other_client = tck_client_new(t);
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *other = tck_probe_new(arena, other_client);
    for (unsigned i = 0; i < 2 * MOST; i++) {
        tck_client *client = tck_client_faulty(t, 0);
        (i % 2 ? tck_fault_lose_reply_nth : tck_fault_fail_nth)(client->fault, TCK_ANY_OP, i / 2 + 1);
        tck_probe *p = tck_probe_new(arena, client);
        tck_probe_start(p);
        TCK_AWAIT(t, p->acquired == 1);
        tck_probe_stop(p);
        TCK_REQUIRE_NOW(t, p->acquired == 1 && p->released == 1);
        tck_probe_start(other);
        TCK_AWAIT(t, other->acquired == i + 1);
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(other));
    }
}

/* stop while the answer to an acquire that has won is on its way: the contender gives the mutex back. */
static void stop_during_acquire(tck *t)
{
    struct pair pair;
    make_pair(t, tck_client_patient(t), tck_timing_long(t), &pair);
    tck_fault_hold(pair.client->fault, SIMBA_OP_ACQUIRE);
    tck_probe_start(pair.probe);
    TCK_AWAIT(t, tck_client_count(pair.client, SIMBA_OP_ACQUIRE, TCK_HELD) == 1);
    tck_probe_stop_async(pair.probe);
    TCK_AWAIT(t, tck_probe_is_stopping(pair.probe));
    tck_fault_let_go(pair.client->fault, SIMBA_OP_ACQUIRE);
    TCK_AWAIT(t, pair.probe->stop_done);
    TCK_REQUIRE_RC(t, 0, pair.probe->stop_rc);
    TCK_REQUIRE_NOW(t, pair.probe->acquired == 0 && pair.probe->released == 0);
    TCK_REQUIRE(t, tck_client_stats(pair.client).late_wins == 1);
    require_free(t, pair.other);
}

/* stop while the answer to an acquire is lost for good: nobody knows that it has won, and the contender gives the mutex
 * back. */
static void stop_after_lost_acquire(tck *t)
{
    struct pair pair;
    make_pair(t, tck_client_nervous(t), tck_timing_long(t), &pair);
    tck_fault_hold(pair.client->fault, SIMBA_OP_ACQUIRE);
    tck_probe_start(pair.probe);
    TCK_AWAIT(t, tck_client_count(pair.client, SIMBA_OP_ACQUIRE, TCK_HELD) == 1);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(pair.probe));
    TCK_REQUIRE_NOW(t, pair.probe->acquired == 0 && pair.probe->released == 0);
    require_free(t, pair.other);
}

/* A waiter under the leader's own id does not know whether it has won. It gives back only a grant of its own, and there is
 * none. */
static void waiter_gives_nothing_back(tck *t)
{
    struct pair pair;
    make_pair(t, tck_client_nervous(t), tck_timing_long(t), &pair);
    tck_probe *leader = pair.other;
    tck_probe *waiter = pair.probe;
    leader->id = waiter->id = "twin";
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    tck_fault_hold(pair.client->fault, SIMBA_OP_ACQUIRE);
    tck_probe_start(waiter);
    TCK_AWAIT(t, tck_client_count(pair.client, SIMBA_OP_ACQUIRE, TCK_HELD) == 1);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(waiter));
    TCK_REQUIRE(t, tck_client_count(pair.client, SIMBA_OP_RELEASE, TCK_WON) == 0);

    SIMBA_LOCKER_SCOPED simba_locker *third = NULL;
    TCK_REQUIRE_RC(t, 0, simba_locker_new(pair.other_client->handle, leader->arena->mutex, NULL, NULL, &third));
    TCK_REQUIRE_RC(t, SIMBA_ETIMEDOUT, simba_locker_acquire(third, 0, NULL));
    TCK_REQUIRE_NOW(t, leader->released == 0);
}

/* stop while a renewal is on its way, or lost: released once, and then the mutex is free at once. */
static void stop_in_renewal(tck *t, bool lost)
{
    tck_client *client = lost ? tck_client_nervous(t) : tck_client_patient(t);
    struct pair pair;
    make_pair(t, client, tck_timing_steady(t), &pair);
    tck_probe_start(pair.probe);
    TCK_AWAIT(t, pair.probe->acquired == 1);
    tck_fault_hold(client->fault, SIMBA_OP_RENEW);
    TCK_AWAIT(t, tck_client_count(client, SIMBA_OP_RENEW, TCK_HELD) == 1);
    tck_probe_stop_async(pair.probe);
    TCK_AWAIT(t, tck_probe_is_stopping(pair.probe));
    if (!lost)
        tck_fault_let_go(client->fault, SIMBA_OP_RENEW);
    TCK_AWAIT(t, pair.probe->stop_done);
    TCK_REQUIRE_RC(t, 0, pair.probe->stop_rc);
    TCK_REQUIRE_NOW(t, pair.probe->acquired == 1 && pair.probe->released == 1);
    TCK_REQUIRE(t, tck_probe_last(pair.probe, TCK_RELEASED).reason == SIMBA_REASON_STOPPED);
    TCK_REQUIRE(t, tck_client_count(client, SIMBA_OP_RELEASE, TCK_WON) == 1);
    tck_probe_start(pair.other);
    TCK_AWAIT(t, pair.other->acquired == 1);
}

static void stop_during_renew(tck *t)
{
    stop_in_renewal(t, false);
}

static void stop_after_lost_renew(tck *t)
{
    stop_in_renewal(t, true);
}

/* A grant that comes back after its lease is over is not passed on to the application. */
static void stale_grant(tck *t)
{
    tck_client *client = tck_client_patient(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    tck_fault_hold(client->fault, SIMBA_OP_ACQUIRE);
    tck_probe_start(p);
    TCK_AWAIT(t, tck_client_count(client, SIMBA_OP_ACQUIRE, TCK_HELD) == 1);
    TCK_NEVER(t, p->acquired > 0, tck_lease_ms(t) + 1);
    tck_fault_let_go(client->fault, SIMBA_OP_ACQUIRE);
    TCK_AWAIT(t, p->acquired == 1);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_ACQUIRED).held_for_ms > 0);
}

/* The time of every request is over as soon as it has been sent, and nobody hears its answer. The next request finds the grant of
 * a request that had expired. */
static void expired_at_once(tck *t)
{
    struct pair pair;
    make_pair(t, tck_client_faulty(t, 0), tck_timing_long(t), &pair);
    tck_probe_start(pair.probe); /* so the store is connected */
    TCK_AWAIT(t, pair.probe->acquired == 1);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(pair.probe));
    tck_fault_expire(pair.client->fault, TCK_ANY_OP);
    tck_probe_start(pair.probe);
    /* A store that answers at once has nothing that could expire. */
    TCK_AWAIT(t, pair.probe->acquired == 2 || tck_client_count(pair.client, SIMBA_OP_ACQUIRE, TCK_EXPIRED) >= 3);
    tck_fault_heal(pair.client->fault);
    TCK_AWAIT(t, pair.probe->acquired == 2);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(pair.probe));
    TCK_REQUIRE_NOW(t, pair.probe->acquired == 2 && pair.probe->released == 2);
    require_free(t, pair.other);
}

/* A request that is not answered in time fails with a text, and the answer that comes later changes nothing. */
static void answer_too_late(tck *t)
{
    tck_client *client = tck_client_nervous(t);
    const char *mutex = tck_arena_new(t, NULL)->mutex;
    simba_error err = {0};
    tck_fault_hold(client->fault, SIMBA_OP_FORCE_RELEASE);
    const int64_t before = tck_now_ns();
    TCK_REQUIRE_RC(t, SIMBA_ETIMEDOUT, simba_client_force_release(client->handle, mutex, &err));
    TCK_REQUIRE(t, tck_now_ns() - before >= tck_lease_ms(t) / 4 * TCK_NS_PER_MS);
    TCK_REQUIRE(t, err.code == SIMBA_ETIMEDOUT && strstr(err.text, mutex));
    tck_fault_let_go(client->fault, SIMBA_OP_FORCE_RELEASE);
    TCK_REQUIRE_RC(t, SIMBA_ENOTFOUND, simba_client_force_release(client->handle, mutex, &err));
    TCK_REQUIRE(t, tck_client_count(client, SIMBA_OP_FORCE_RELEASE, TCK_FAILED) == 1);
    TCK_REQUIRE(t, tck_client_count(client, SIMBA_OP_FORCE_RELEASE, TCK_ANSWERED) == 1);
}

const tck_case tck_cases_faults[] = {
    {"acquire-reply-lost", 0, 0, acquire_reply_lost},
    {"renew-reply-lost", 0, SIMBA_CAP_SESSION, renew_reply_lost},
    {"renew-fails", 0, SIMBA_CAP_SESSION, renew_fails},
    {"release-reply-lost", 0, 0, release_reply_lost},
    {"nth-request-fails", 0, 0, nth_request_fails},
    {"stop-during-acquire", 0, 0, stop_during_acquire},
    {"stop-after-lost-acquire", 0, 0, stop_after_lost_acquire},
    {"waiter-gives-nothing-back", 0, 0, waiter_gives_nothing_back},
    {"stop-during-renew", 0, SIMBA_CAP_SESSION, stop_during_renew},
    {"stop-after-lost-renew", 0, SIMBA_CAP_SESSION, stop_after_lost_renew},
    {"stale-grant", 0, SIMBA_CAP_SESSION, stale_grant},
    {"expired-at-once", 0, 0, expired_at_once},
    {"answer-too-late", SIMBA_CAP_LIST, 0, answer_too_late},
    {0},
};
