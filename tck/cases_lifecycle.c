/* Cases about one contender's life: start, lead, stop, start again, and the end of its client at any of these. */
#include <fcntl.h>

#include "probe.h"

/* A contender gains a free mutex, knows that it leads, and gives the mutex back. */
static void start_stop(tck *t)
{
    tck_client *client = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    tck_probe_start(p);
    TCK_AWAIT(t, p->acquired == 1);

    const uint64_t token = tck_probe_last(p, TCK_ACQUIRED).token;
    simba_owner owner;
    TCK_REQUIRE(t, simba_contender_status(p->contender) == SIMBA_STATUS_RUNNING);
    TCK_REQUIRE(t, simba_contender_is_owner(p->contender));
    TCK_REQUIRE(t, simba_contender_in_ttl(p->contender));
    TCK_REQUIRE(t, token != 0 && simba_contender_token(p->contender) == token);
    TCK_REQUIRE_RC(t, 0, simba_contender_owner(p->contender, &owner));
    TCK_REQUIRE(t, simba_owner_is(&owner, simba_contender_id(p->contender)) && owner.token == token);
    if (!(t->caps & SIMBA_CAP_SESSION))
        TCK_REQUIRE(t, simba_contender_held_for_ms(p->contender) <= tck_lease_ms(t));
    TCK_REQUIRE_RC(t, SIMBA_ESTATE, simba_contender_start(p->contender));

    TCK_REQUIRE_RC(t, 0, tck_probe_stop(p));
    TCK_REQUIRE_NOW(t, p->acquired == 1 && p->released == 1);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_RELEASED).reason == SIMBA_REASON_STOPPED);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_RELEASED).token == token);
    TCK_REQUIRE(t, simba_contender_status(p->contender) == SIMBA_STATUS_INITIAL);
    TCK_REQUIRE(t, !simba_contender_is_owner(p->contender) && simba_contender_held_for_ms(p->contender) == 0);
    TCK_REQUIRE(t, simba_contender_token(p->contender) == 0);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(p));
}

/* A handle that was never started can be stopped and freed, and destructors take NULL. */
static void never_started(tck *t)
{
    tck_client *client = tck_client_new(t);
    simba_contender *contender;
    TCK_REQUIRE_RC(t, 0, simba_contender_new(client->handle, tck_mutex(t, NULL), NULL, NULL, &contender));
    const simba_status status = simba_contender_status(contender);
    const int rc = simba_contender_stop(contender);
    simba_contender_free(contender);
    TCK_REQUIRE(t, status == SIMBA_STATUS_INITIAL);
    TCK_REQUIRE_RC(t, 0, rc);
    simba_contender_free(NULL);
    simba_locker_free(NULL);
    simba_scheduler_free(NULL);
    simba_observer_free(NULL);
}

/* A contender that has stopped starts again, as a new incarnation with a new token. */
static void restart(tck *t)
{
    enum { TIMES = 5 };
    tck_client *client = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    for (unsigned i = 1; i <= TIMES; i++) {
        tck_probe_start(p);
        TCK_AWAIT(t, p->acquired == i);
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(p));
        TCK_REQUIRE_NOW(t, p->released == i);
    }
}

/* The leader keeps its mutex over several ttls, under the same token, against a rival. */
static void guard(tck *t)
{
    tck_client *leader_client = tck_client_faulty(t, 0);
    tck_client *rival_client = tck_client_new(t);
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, leader_client);
    tck_probe *rival = tck_probe_new(arena, rival_client);
    leader->timing = rival->timing = tck_timing_steady(t);
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    tck_probe_start(rival);

    TCK_REQUIRE(t, tck_outlive(leader_client, 3));
    TCK_REQUIRE(t, simba_contender_is_owner(leader->contender));
    TCK_REQUIRE(t, simba_contender_token(leader->contender) == tck_probe_last(leader, TCK_ACQUIRED).token);
    TCK_REQUIRE_NOW(t, leader->acquired == 1 && leader->released == 0 && rival->acquired == 0);
}

/* The contender waits for the initial delay, and a stop ends that wait. */
static void initial_delay(tck *t)
{
    tck_client *client = tck_client_new(t);
    tck_probe *p = tck_probe_new(tck_arena_new(t, NULL), client);
    p->timing.initial_delay_ms = t->ttl_ms;
    const int64_t before = tck_now_ns();
    tck_probe_start(p);
    TCK_REQUIRE(t, simba_contender_status(p->contender) == SIMBA_STATUS_STARTING);
    TCK_AWAIT(t, p->acquired == 1);
    TCK_REQUIRE(t, tck_probe_last(p, TCK_ACQUIRED).at_ns >= before + t->ttl_ms * TCK_NS_PER_MS);

    tck_probe *sleeper = tck_probe_new(tck_arena_new(t, "sleeper"), client);
    sleeper->timing.initial_delay_ms = SIMBA_LEASE_MAX_MS;
    tck_probe_start(sleeper);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(sleeper));
    TCK_REQUIRE_NOW(t, sleeper->acquired == 0);
}

/* Closing a client stops its leader as stop would. From then on the handles answer that the client is closed. */
static void close_leader(tck *t)
{
    tck_client *leaving = tck_client_new(t);
    tck_client *staying = tck_client_new(t);
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, leaving);
    tck_probe *next = tck_probe_new(arena, staying);
    leader->timing = next->timing = tck_timing_long(t);
    const int64_t before = tck_now_ns();
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    TCK_REQUIRE_RC(t, 0, tck_client_close(leaving));
    TCK_REQUIRE_NOW(t, leader->released == 1);
    TCK_REQUIRE(t, tck_probe_last(leader, TCK_RELEASED).reason == SIMBA_REASON_STOPPED);
    TCK_REQUIRE_RC(t, SIMBA_ECLOSED, simba_contender_start(leader->contender));
    TCK_REQUIRE(t, !simba_contender_is_owner(leader->contender));

    tck_probe_start(next);
    TCK_AWAIT(t, next->acquired == 1);
    TCK_REQUIRE(t, tck_probe_last(next, TCK_ACQUIRED).at_ns < before + next->timing.ttl_ms * TCK_NS_PER_MS);
}

enum { DESCRIPTORS = 1024 };

static bool all_close_on_exec(const bool *before)
{
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        const int flags = before[fd] ? FD_CLOEXEC : fcntl(fd, F_GETFD);
        if (flags >= 0 && !(flags & FD_CLOEXEC))
            return false;
    }
    return true;
}

/* A program that is executed inherits no descriptor of a client that leads, waits and watches: it would keep connections open, and
 * with them what the store believes about their client. A file that is being read may be open for a moment. */
static void nothing_inherited(tck *t)
{
    bool *before = tck_alloc(t, DESCRIPTORS * sizeof *before);
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, tck_client_new(t));
    tck_probe *waiter = tck_probe_new(arena, tck_client_new(t));
    leader->timing = waiter->timing = tck_timing_long(t);
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    tck_probe_start(waiter);
    TCK_AWAIT(t, waiter->changed == 1);
    TCK_AWAIT(t, all_close_on_exec(before));
}

struct churn {
    tck_probe *probe;
    unsigned rounds;
    int rc;
};

/* Start and stop until somebody closes the client. */
static void churn(void *arg)
{
    struct churn *churn = arg;
    tck *t = churn->probe->arena->kit;
    int rc = 0;
    while (rc == 0) {
        rc = tck_probe_try_start(churn->probe);
        if (rc == 0)
            rc = tck_probe_stop(churn->probe);
        tck_lock(t);
        churn->rounds++;
        churn->rc = rc;
        if (t->ending && rc == 0)
            rc = SIMBA_ECANCELED;
        tck_notify(t);
        tck_unlock(t);
    }
}

/* Close a client whose contenders hold, wait, start and stop at that moment: all of them end, and others go on. */
static void close_busy(tck *t)
{
    enum { CHURNS = 3 };
    tck_client *leaving = tck_client_new(t);
    tck_client *staying = tck_client_new(t);
    tck_arena *first = tck_arena_new(t, "held");
    tck_arena *second = tck_arena_new(t, "waited-for");
    tck_probe *holder = tck_probe_new(first, leaving);
    tck_probe *waiter = tck_probe_new(second, leaving);
    tck_probe *next = tck_probe_new(first, staying);
    tck_probe *other = tck_probe_new(second, staying);
    /* A busy server has time to answer. */
    holder->timing = waiter->timing = next->timing = other->timing = tck_timing_long(t);
    tck_probe_start(holder);
    tck_probe_start(other);
    TCK_AWAIT(t, holder->acquired == 1 && other->acquired == 1);
    tck_probe_start(waiter);
    tck_probe_start(next);

    tck_arena *third = tck_arena_new(t, "churned");
    struct churn *churns = tck_alloc(t, CHURNS * sizeof *churns);
    for (int i = 0; i < CHURNS; i++) {
        churns[i].probe = tck_probe_new(third, leaving);
        churns[i].probe->timing = tck_timing_long(t);
        tck_probe_start(churns[i].probe);
        tck_probe_stop(churns[i].probe);
        tck_thread_run(t, churn, &churns[i]);
    }
    for (int i = 0; i < CHURNS; i++)
        TCK_AWAIT(t, churns[i].rounds >= 2);

    TCK_REQUIRE_RC(t, 0, tck_client_close(leaving));
    tck_threads_join(t);
    for (int i = 0; i < CHURNS; i++)
        TCK_REQUIRE_RC(t, SIMBA_ECLOSED, churns[i].rc);
    TCK_REQUIRE_NOW(t, holder->released == 1 && waiter->acquired == 0);
    TCK_AWAIT(t, next->acquired == 1);
    TCK_REQUIRE(t, simba_contender_is_owner(other->contender));
}

const tck_case tck_cases_lifecycle[] = {
    {"start-stop", 0, 0, start_stop},
    {"never-started", 0, 0, never_started},
    {"restart", 0, 0, restart},
    {"guard", 0, 0, guard},
    {"initial-delay", 0, 0, initial_delay},
    {"close-leader", 0, 0, close_leader},
    {"close-busy", 0, 0, close_busy},
    {"nothing-inherited", 0, 0, nothing_inherited},
    {0},
};
