/* Cases about lockers that linger: taking a mutex again without the store, and letting others in. */
#include <string.h>

#include "probe.h"

static simba_locker *lingering(tck *t, tck_client *client, const char *mutex, int64_t linger_ms)
{
    simba_timing timing = tck_timing_long(t);
    timing.linger_ms = linger_ms;
    return tck_locker_new(t, client, mutex, timing);
}

/* How long a long linger is: others would have to wait for it if nobody told the lingering locker. */
static int64_t long_ms(const tck *t)
{
    return t->caps & SIMBA_CAP_WANTED ? 60000 : 200;
}

/* The next locker of the client has the mutex at once, under the same token; the client does not ask the store. */
static void same_token(tck *t)
{
    tck_client *client = tck_client_faulty(t, t->patience_ms);
    TCK_REQUIRE(t, client);
    const char *mutex = tck_mutex(t, NULL);
    simba_locker *lockers[2] = {lingering(t, client, mutex, 60000), lingering(t, client, mutex, 60000)};
    TCK_REQUIRE(t, lockers[0] && lockers[1]);
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(lockers[0], t->patience_ms, NULL));
    const uint64_t token = simba_locker_token(lockers[0]);
    const uint64_t acquires = tck_fault_count(client->fault, SIMBA_OP_ACQUIRE, TCK_SUBMITTED);
    for (int i = 0; i < 100; i++) {
        TCK_REQUIRE_RC(t, 0, simba_locker_release(lockers[i % 2], NULL));
        TCK_REQUIRE(t, simba_locker_token(lockers[i % 2]) == 0);
        TCK_REQUIRE_RC(t, 0, simba_locker_acquire(lockers[(i + 1) % 2], 0, NULL));
        TCK_REQUIRE(t, simba_locker_token(lockers[(i + 1) % 2]) == token);
    }
    TCK_REQUIRE(t, tck_fault_count(client->fault, SIMBA_OP_ACQUIRE, TCK_SUBMITTED) == acquires);
    TCK_REQUIRE(t, tck_fault_count(client->fault, SIMBA_OP_RELEASE, TCK_SUBMITTED) == 0);
}

/* Another client that wants the mutex gets it. If the store says that somebody waits, it gets it long before the linger
 * is over. */
static void others_ask(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    TCK_REQUIRE(t, clients[0] && clients[1]);
    const char *mutex = tck_mutex(t, NULL);
    uint64_t token = 0;
    for (int lingers = 0; lingers < 2; lingers++) { /* does the locker that asks linger, too? */
        simba_locker *here = lingering(t, clients[0], mutex, long_ms(t));
        simba_locker *there = lingering(t, clients[1], mutex, lingers ? long_ms(t) : 0);
        TCK_REQUIRE(t, here && there);
        for (int i = 0; i < 3; i++) {
            TCK_REQUIRE_RC(t, 0, simba_locker_acquire(here, t->patience_ms, NULL));
            TCK_REQUIRE(t, simba_locker_token(here) > token);
            TCK_REQUIRE_RC(t, 0, simba_locker_release(here, NULL));
            const uint64_t kept = simba_locker_token(here);
            TCK_REQUIRE(t, kept == 0);
            TCK_REQUIRE_RC(t, 0, simba_locker_acquire(there, t->patience_ms, NULL));
            token = simba_locker_token(there);
            TCK_REQUIRE_RC(t, 0, simba_locker_release(there, NULL));
        }
    }
}

struct turn {
    tck *kit;
    simba_locker *locker;
    int number;
    int *next; /* under the kit's lock: the number of the next turn */
    bool started;
};

static void take_turn(void *arg)
{
    struct turn *self = arg;
    tck *t = self->kit;
    const int rc = simba_locker_acquire(self->locker, t->patience_ms, NULL);
    tck_lock(t);
    if (rc != 0 || *self->next != self->number)
        tck_fail_locked(t, __FILE__, __LINE__, "acquire is %s as number %d, and it is the turn of %d", tck_code(rc),
                        self->number, *self->next);
    ++*self->next;
    tck_ring(t);
    tck_unlock(t);
    simba_locker_release(self->locker, NULL);
}

/* Lockers of one client come in the order in which they asked. */
static void in_order(tck *t)
{
    enum { TURNS = 5 };
    tck_client *client = tck_client_new(t);
    TCK_REQUIRE(t, client);
    const char *mutex = tck_mutex(t, NULL);
    simba_locker *first = lingering(t, client, mutex, 60000);
    struct turn *turns = tck_alloc(t, TURNS * sizeof *turns);
    int *next = tck_alloc(t, sizeof *next);
    TCK_REQUIRE(t, first);
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(first, t->patience_ms, NULL));
    for (int i = 0; i < TURNS; i++) {
        turns[i] = (struct turn){.kit = t, .locker = lingering(t, client, mutex, 60000), .number = i, .next = next};
        TCK_REQUIRE(t, turns[i].locker);
        TCK_REQUIRE(t, tck_thread_run(t, take_turn, &turns[i]));
        TCK_AWAIT(t, simba_locker_acquire(turns[i].locker, 0, NULL) == SIMBA_ESTATE); /* it waits */
    }
    TCK_REQUIRE_RC(t, 0, simba_locker_release(first, NULL));
    TCK_AWAIT(t, *next == TURNS);
    tck_threads_join(t);
}

struct loop {
    tck *kit;
    simba_locker *locker;
    bool stop;
};

static void go_round(void *arg)
{
    struct loop *self = arg;
    tck *t = self->kit;
    for (bool stop = false; !stop;) {
        const int rc = simba_locker_acquire(self->locker, t->patience_ms, NULL);
        if (rc == 0)
            simba_locker_release(self->locker, NULL);
        tck_lock(t);
        if (rc != 0)
            tck_fail_locked(t, __FILE__, __LINE__, "acquire in a loop is %s", tck_code(rc));
        stop = self->stop || rc != 0 || t->failed;
        tck_unlock(t);
    }
}

/* Two threads that lock the mutex again and again do not keep others out. */
static void busy_lets_in(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    TCK_REQUIRE(t, clients[0] && clients[1]);
    const char *mutex = tck_mutex(t, NULL);
    struct loop *loops = tck_alloc(t, 2 * sizeof *loops);
    for (int i = 0; i < 2; i++) {
        loops[i] = (struct loop){.kit = t, .locker = lingering(t, clients[0], mutex, 60000)};
        TCK_REQUIRE(t, loops[i].locker);
        TCK_REQUIRE(t, tck_thread_run(t, go_round, &loops[i]));
    }
    simba_locker *other = lingering(t, clients[1], mutex, 0);
    TCK_REQUIRE(t, other);
    for (int i = 0; i < 3; i++) {
        TCK_REQUIRE_RC(t, 0, simba_locker_acquire(other, t->patience_ms, NULL));
        TCK_REQUIRE_RC(t, 0, simba_locker_release(other, NULL));
    }
    tck_lock(t);
    loops[0].stop = loops[1].stop = true;
    tck_unlock(t);
    tck_threads_join(t);
}

/* The mutex is free when its linger is over, and when the client closes. */
static void ends(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    TCK_REQUIRE(t, clients[0] && clients[1]);
    const char *mutex = tck_mutex(t, NULL);
    simba_locker *other = lingering(t, clients[1], mutex, 0);
    simba_locker *brief = lingering(t, clients[0], mutex, 20);
    TCK_REQUIRE(t, other && brief);
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(brief, t->patience_ms, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_release(brief, NULL));
    TCK_AWAIT(t, simba_locker_acquire(other, 0, NULL) == 0);
    TCK_REQUIRE_RC(t, 0, simba_locker_release(other, NULL));
    simba_locker *lasting = lingering(t, clients[0], mutex, 60000);
    TCK_REQUIRE(t, lasting);
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(lasting, t->patience_ms, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_release(lasting, NULL));
    TCK_REQUIRE_RC(t, 0, tck_client_close(clients[0]));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(other, 0, NULL));
}

const tck_case tck_cases_linger[] = {
    {"linger-same-token", 0, 0, same_token},
    {"linger-others-ask", 0, 0, others_ask},
    {"linger-in-order", 0, 0, in_order},
    {"linger-busy-lets-in", SIMBA_CAP_WANTED, 0, busy_lets_in},
    {"linger-ends", 0, 0, ends},
    {0},
};
