/* Cases about several contenders of one mutex with a store that works: one leads, all get their turn, and a name does
 * not make two of them one. */
#include "probe.h"

/* Start `count` probes on as many clients as there are, one after the other. */
static void start_all(tck_probe **probes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        tck_probe_start(probes[i]);
}

/* The probe that leads and whose callback has returned; NULL: none. With the lock. */
static tck_probe *leader_of(tck_probe **probes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (probes[i]->inside && !probes[i]->in_callback)
            return probes[i];
    return NULL;
}

/* Ten contenders of three clients: one leads at a time, over many grants, while leaders stop and come back. */
static void ten_contenders(tck *t)
{
    enum { CLIENTS = 3, PROBES = 10, GRANTS = 30 };
    tck_client *clients[CLIENTS];
    tck_probe *probes[PROBES];
    tck_arena *arena = tck_arena_new(t, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = tck_client_new(t);
    }
    for (int i = 0; i < PROBES; i++)
        probes[i] = tck_probe_new(arena, clients[i % CLIENTS]);
    start_all(probes, PROBES);

    for (int i = 0; i < GRANTS; i++) {
        tck_probe *leader = NULL;
        TCK_AWAIT(t, (leader = leader_of(probes, PROBES)) != NULL);
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
        tck_probe_start(leader);
    }
}

/* A leader that stops hands over: every contender leads, each exactly once. */
static void hand_over(tck *t)
{
    enum { PROBES = 6 };
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    tck_probe *probes[PROBES];
    tck_arena *arena = tck_arena_new(t, NULL);
    for (int i = 0; i < PROBES; i++) {
        probes[i] = tck_probe_new(arena, clients[i % 2]);
        probes[i]->timing = tck_timing_steady(t);
    }
    start_all(probes, PROBES);

    for (int i = 0; i < PROBES; i++) {
        tck_probe *leader = NULL;
        TCK_AWAIT(t, (leader = leader_of(probes, PROBES)) != NULL);
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    }
    for (int i = 0; i < PROBES; i++)
        TCK_REQUIRE_NOW(t, probes[i]->acquired == 1 && probes[i]->released == 1);
}

/* Tokens grow over fifty grants to two clients in turn; the arena compares them. */
static void tokens_grow(tck *t)
{
    enum { GRANTS = 50 };
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *probes[2] = {tck_probe_new(arena, clients[0]), tck_probe_new(arena, clients[1])};
    probes[0]->timing = probes[1]->timing = tck_timing_steady(t);
    for (unsigned i = 0; i < GRANTS; i++) {
        tck_probe *p = probes[i % 2];
        const unsigned turn = i / 2 + 1;
        tck_probe_start(p);
        TCK_AWAIT(t, p->acquired == turn);
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(p));
    }
}

/* Three contenders with the same id, two of them on one client, still exclude each other, and one of them that stops
 * waiting does not release what another holds. */
static void same_id(tck *t)
{
    tck_client *first = tck_client_faulty(t, 0);
    tck_client *second = tck_client_faulty(t, 0);
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, first);
    tck_probe *twins[2] = {tck_probe_new(arena, first), tck_probe_new(arena, second)};
    leader->id = twins[0]->id = twins[1]->id = "twin";
    leader->timing = twins[0]->timing = twins[1]->timing = tck_timing_steady(t);
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    start_all(twins, 2);
    TCK_AWAIT(t, tck_client_count(second, SIMBA_OP_ACQUIRE, TCK_ANSWERED) >= 1);
    TCK_REQUIRE(t, tck_outlive(first, 2));
    TCK_REQUIRE_NOW(t, leader->released == 0 && twins[0]->acquired == 0 && twins[1]->acquired == 0);

    TCK_REQUIRE_RC(t, 0, tck_probe_stop(twins[1]));
    TCK_REQUIRE(t, tck_outlive(first, 1));
    TCK_REQUIRE_NOW(t, leader->released == 0 && twins[0]->acquired == 0);
    tck_probe_start(twins[1]);

    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    tck_probe *next = NULL;
    TCK_AWAIT(t, (next = leader_of(twins, 2)) != NULL);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(next));
    TCK_AWAIT(t, twins[0]->acquired == 1 && twins[1]->acquired == 1);
}

/* A hold limit ends leadership, not before its time. A waiter gets a turn, and then the first contender again. */
static void hold_limit(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *first = tck_probe_new(arena, clients[0]);
    tck_probe *second = tck_probe_new(arena, clients[1]);
    first->timing.hold_limit_ms = second->timing.hold_limit_ms = t->ttl_ms;
    const int64_t before = tck_now_ns();
    tck_probe_start(first);
    TCK_AWAIT(t, first->acquired == 1);
    tck_probe_start(second);
    TCK_AWAIT(t, first->released == 1);
    const tck_event released = tck_probe_event(first, TCK_RELEASED, 1);
    TCK_REQUIRE(t, released.reason == SIMBA_REASON_HOLD_LIMIT);
    TCK_REQUIRE(t, released.at_ns >= before + t->ttl_ms * TCK_NS_PER_MS);
    TCK_AWAIT(t, second->acquired >= 1);
    TCK_AWAIT(t, first->acquired >= 2);
}

/* A waiter knows the owner of its mutex, and hears when the owner changes. */
static void waiter_knows(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, clients[0]);
    tck_probe *waiter = tck_probe_new(arena, clients[1]);
    leader->id = "known-leader";
    leader->timing = waiter->timing = tck_timing_steady(t);
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    tck_probe_start(waiter);
    TCK_AWAIT(t, waiter->changed >= 1);
    simba_owner owner;
    TCK_REQUIRE_RC(t, 0, simba_contender_owner(waiter->contender, &owner));
    TCK_REQUIRE(t, simba_owner_is(&owner, "known-leader"));
    TCK_REQUIRE(t, owner.token == tck_probe_last(leader, TCK_ACQUIRED).token);
    TCK_REQUIRE(t, simba_contender_token(waiter->contender) == 0 && !simba_contender_is_owner(waiter->contender));

    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    TCK_AWAIT(t, waiter->acquired == 1 && waiter->changed >= 2);
    TCK_REQUIRE_RC(t, 0, simba_contender_owner(waiter->contender, &owner));
    TCK_REQUIRE(t, simba_owner_is(&owner, simba_contender_id(waiter->contender)));
}

const tck_case tck_cases_contention[] = {
    {"ten-contenders", 0, 0, ten_contenders},
    {"hand-over", 0, 0, hand_over},
    {"tokens-grow", 0, 0, tokens_grow},
    {"same-id", 0, 0, same_id},
    {"hold-limit", 0, 0, hold_limit},
    {"waiter-knows", 0, 0, waiter_knows},
    {0},
};
