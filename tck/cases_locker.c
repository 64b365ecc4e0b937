/* Cases about the blocking lock: what each call answers in each state, and that the lock excludes others. */
#include <sched.h>
#include <string.h>

#include "probe.h"

/* An acquire in a thread of its own. Its results are under the lock of the kit. */
struct attempt {
    tck *kit;
    simba_locker *locker;
    bool done;
    int rc;
    int64_t done_ns;
};

static void acquire_in_thread(void *arg)
{
    struct attempt *self = arg;
    const int rc = simba_locker_acquire(self->locker, self->kit->timeout_ms, NULL);
    tck_lock(self->kit);
    self->rc = rc;
    self->done = true;
    self->done_ns = tck_now_ns();
    tck_notify(self->kit);
    tck_unlock(self->kit);
}

static struct attempt *try_in_thread(tck *t, simba_locker *locker)
{
    struct attempt *self = tck_alloc(t, sizeof *self);
    self->kit = t;
    self->locker = locker;
    tck_thread_run(t, acquire_in_thread, self);
    return self;
}

/* Acquire, release, and again; and every call that is refused in between. */
static void lock_unlock(tck *t)
{
    tck_client *client = tck_client_new(t);
    simba_locker *locker = tck_locker_new(t, client, tck_mutex(t, NULL), tck_timing(t));
    uint64_t last_token = 0;
    for (int i = 0; i < 3; i++) {
        TCK_REQUIRE_RC(t, SIMBA_ESTATE, simba_locker_release(locker, NULL));
        TCK_REQUIRE(t, simba_locker_held_for_ms(locker) == 0 && simba_locker_token(locker) == 0);
        TCK_REQUIRE_RC(t, 0, simba_locker_acquire(locker, -1, NULL));
        TCK_REQUIRE(t, simba_locker_held_for_ms(locker) > 0 && simba_locker_token(locker) > last_token);
        last_token = simba_locker_token(locker);
        TCK_REQUIRE_RC(t, SIMBA_ESTATE, simba_locker_acquire(locker, 0, NULL));
        TCK_REQUIRE_RC(t, SIMBA_ESTATE, simba_locker_acquire(locker, -1, NULL));
        TCK_REQUIRE_RC(t, 0, simba_locker_release(locker, NULL));
    }
}

/* Trying once fails and names the owner; later it succeeds. Freeing a locker that holds the mutex releases it. */
static void try_once(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    const char *mutex = tck_mutex(t, NULL);
    simba_locker *second = tck_locker_new(t, clients[1], mutex, tck_timing_long(t));
    SIMBA_LOCKER_SCOPED simba_locker *first = NULL;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    options.timing = tck_timing_option(t, tck_timing_long(t));
    options.id = "the-one-who-has-it";
    TCK_REQUIRE_RC(t, 0, simba_locker_new(clients[0]->handle, mutex, &options, NULL, &first));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(first, 0, NULL));

    simba_error err = {0};
    TCK_REQUIRE_RC(t, SIMBA_ETIMEDOUT, simba_locker_acquire(second, 0, &err));
    TCK_REQUIRE(t, err.code == SIMBA_ETIMEDOUT && strstr(err.text, "the-one-who-has-it"));
    simba_locker_free(first);
    first = NULL;
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(second, 0, NULL));
}

/* A wait with a limit ends at the limit, not before, and leaves nothing behind that would swallow the next release. */
static void timeout(tck *t)
{
    tck_client *clients[3] = {tck_client_new(t), tck_client_new(t), tck_client_new(t)};
    simba_locker *lockers[3];
    const char *mutex = tck_mutex(t, NULL);
    for (int i = 0; i < 3; i++) {
        lockers[i] = tck_locker_new(t, clients[i], mutex, tck_timing_long(t));
    }
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(lockers[0], -1, NULL));
    /* The case wants "taken" and not "no answer". So it gives the try more time until the store answers within it. */
    int rc = SIMBA_EUNAVAILABLE;
    for (int64_t ms = t->ttl_ms; rc == SIMBA_EUNAVAILABLE && ms < t->timeout_ms; ms *= 2) {
        const int64_t before = tck_now_ns();
        rc = simba_locker_acquire(lockers[1], ms, NULL);
        TCK_REQUIRE(t, tck_now_ns() >= before + ms * TCK_NS_PER_MS);
    }
    TCK_REQUIRE_RC(t, SIMBA_ETIMEDOUT, rc);

    TCK_REQUIRE_RC(t, 0, simba_locker_release(lockers[0], NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(lockers[2], 0, NULL));
}

/* cancel ends the wait of another thread and nothing else. */
static void cancel(tck *t)
{
    tck_client *holding = tck_client_new(t);
    tck_client *waiting = tck_client_faulty(t, 0);
    const char *mutex = tck_mutex(t, NULL);
    simba_locker *holder = tck_locker_new(t, holding, mutex, tck_timing_long(t));
    simba_locker *waiter = tck_locker_new(t, waiting, mutex, tck_timing_long(t));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(holder, 0, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_cancel(holder));
    TCK_REQUIRE(t, simba_locker_held_for_ms(holder) > 0);

    struct attempt *attempt = try_in_thread(t, waiter);
    TCK_AWAIT(t, tck_client_count(waiting, SIMBA_OP_ACQUIRE, TCK_ANSWERED) >= 1);
    TCK_REQUIRE_RC(t, SIMBA_ESTATE, simba_locker_acquire(waiter, 0, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_cancel(waiter));
    TCK_AWAIT(t, attempt->done);
    TCK_REQUIRE_RC(t, SIMBA_ECANCELED, attempt->rc);

    TCK_REQUIRE_RC(t, 0, simba_locker_cancel(waiter));
    TCK_REQUIRE_RC(t, 0, simba_locker_release(holder, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(waiter, t->timeout_ms, NULL));
}

/* The client renews a held lock in the background; a release lets the waiter in. */
static void held(tck *t)
{
    tck_client *holding = tck_client_faulty(t, 0);
    tck_client *waiting = tck_client_new(t);
    const char *mutex = tck_mutex(t, NULL);
    simba_locker *holder = tck_locker_new(t, holding, mutex, tck_timing_steady(t));
    simba_locker *waiter = tck_locker_new(t, waiting, mutex, tck_timing_steady(t));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(holder, t->timeout_ms, NULL));
    const uint64_t token = simba_locker_token(holder);
    struct attempt *attempt = try_in_thread(t, waiter);
    TCK_REQUIRE(t, tck_outlive(holding, 2));
    TCK_REQUIRE_NOW(t, !attempt->done);
    TCK_REQUIRE(t, simba_locker_token(holder) == token && simba_locker_held_for_ms(holder) > 0);
    const int64_t before = tck_now_ns();
    TCK_REQUIRE_RC(t, 0, simba_locker_release(holder, NULL));
    TCK_AWAIT(t, attempt->done);
    TCK_REQUIRE_RC(t, 0, attempt->rc);
    TCK_REQUIRE(t, attempt->done_ns >= before && simba_locker_token(waiter) > token);
}

/* A locker that was cut off for too long holds nothing any more. Its release says so, and it can lock again. */
static void lost(tck *t)
{
    tck_client *cut = tck_client_nervous(t);
    tck_client *connected = tck_client_new(t);
    tck_probe *next = tck_probe_new(tck_arena_new(t, NULL), connected);
    simba_locker *locker = tck_locker_new(t, cut, next->arena->mutex, tck_timing(t));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(locker, t->timeout_ms, NULL));
    tck_probe_start(next);
    tck_fault_cut(cut->fault, TCK_CUT_REFUSE);
    TCK_AWAIT(t, next->acquired == 1);
    TCK_REQUIRE(t, simba_locker_held_for_ms(locker) == 0);

    tck_fault_heal(cut->fault);
    simba_error err = {0};
    TCK_REQUIRE_RC(t, SIMBA_ELOST, simba_locker_release(locker, &err));
    TCK_REQUIRE(t, strstr(err.text, simba_reason_name(SIMBA_REASON_EXPIRED)));
    TCK_REQUIRE_RC(t, SIMBA_ESTATE, simba_locker_release(locker, NULL));
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(next));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(locker, t->timeout_ms, NULL));
    TCK_REQUIRE(t, simba_locker_token(locker) > tck_probe_last(next, TCK_ACQUIRED).token);
}

/* Without a store, a try says so, and it works again when the store is back. */
static void unreachable(tck *t)
{
    tck_client *client = tck_client_nervous(t);
    simba_locker *locker = tck_locker_new(t, client, tck_mutex(t, NULL), tck_timing(t));
    tck_fault_cut(client->fault, TCK_CUT_REFUSE);
    simba_error err = {0};
    TCK_REQUIRE_RC(t, SIMBA_EUNAVAILABLE, simba_locker_acquire(locker, 0, &err));
    TCK_REQUIRE(t, err.text[0] != '\0');
    TCK_REQUIRE_RC(t, SIMBA_EUNAVAILABLE, simba_locker_acquire(locker, t->ttl_ms / 4, NULL));
    tck_fault_heal(client->fault);
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(locker, t->timeout_ms, NULL));
}

/* A try that has won without learning so gives the win back. */
static void try_reply_lost(tck *t)
{
    tck_client *clients[2] = {tck_client_faulty(t, 0), tck_client_new(t)};
    const char *mutex = tck_mutex(t, NULL);
    simba_locker *first = tck_locker_new(t, clients[0], mutex, tck_timing_long(t));
    simba_locker *second = tck_locker_new(t, clients[1], mutex, tck_timing_long(t));
    tck_fault_lose_reply_nth(clients[0]->fault, SIMBA_OP_ACQUIRE, 1);
    const int rc = simba_locker_acquire(first, 0, NULL);
    TCK_REQUIRE(t, rc == SIMBA_ETIMEDOUT || rc == SIMBA_EUNAVAILABLE);
    TCK_REQUIRE(t, simba_locker_held_for_ms(first) == 0);
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(second, 0, NULL));
}

enum { COUNT_THREADS = 8, COUNT_ROUNDS = 10 };

typedef struct counting {
    tck *kit;
    tck_arena *arena;
    unsigned counter;
} counting;

typedef struct counter_thread {
    counting *shared;
    simba_locker *locker;
} counter_thread;

static bool counter_holds(const void *who)
{
    const counter_thread *self = who;
    return simba_locker_held_for_ms(self->locker) > 0;
}

/* Reads and writes the counter in two steps. Between them everything but the mutex under test would let others in. */
static void count(void *arg)
{
    counter_thread *self = arg;
    tck *t = self->shared->kit;
    for (int i = 0; i < COUNT_ROUNDS; i++) {
        TCK_REQUIRE_RC(t, 0, simba_locker_acquire(self->locker, t->timeout_ms, NULL));
        tck_lock(t);
        tck_arena_enter(self->shared->arena, self, counter_holds, simba_locker_token(self->locker), false);
        const unsigned value = self->shared->counter;
        tck_unlock(t);
        sched_yield();
        tck_lock(t);
        self->shared->counter = value + 1;
        tck_arena_leave(self->shared->arena, self);
        tck_unlock(t);
        TCK_REQUIRE_RC(t, 0, simba_locker_release(self->locker, NULL));
    }
}

/* Eight threads of two clients count under the lock, and no count is lost. */
static void count_together(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    counting *shared = tck_alloc(t, sizeof *shared);
    shared->kit = t;
    shared->arena = tck_arena_new(t, NULL);
    counter_thread *threads = tck_alloc(t, COUNT_THREADS * sizeof *threads);
    for (int i = 0; i < COUNT_THREADS; i++) {
        threads[i].shared = shared;
        threads[i].locker = tck_locker_new(t, clients[i % 2], shared->arena->mutex, tck_timing_steady(t));
        TCK_REQUIRE(t, threads[i].locker);
        tck_thread_run(t, count, &threads[i]);
    }
    tck_threads_join(t);
    TCK_REQUIRE_NOW(t, shared->counter == COUNT_THREADS * COUNT_ROUNDS);
}

/* Two slots: the third waits for either, and the fourth behind it. Each token belongs to a mutex of the slot. */
static void slots(tck *t)
{
    enum { SLOTS = 2 };
    tck_client *clients[] = {tck_client_new(t), tck_client_new(t)};
    TCK_REQUIRE(t, clients[0] && clients[1]);
    const char *mutex = tck_mutex(t, NULL);
    simba_locker *lockers[2 * SLOTS];
    struct attempt *attempts[SLOTS];
    for (int i = 0; i < 2 * SLOTS; i++) {
        lockers[i] = tck_locker_slots(t, clients[i % 2], mutex, tck_timing_long(t), SLOTS);
        TCK_REQUIRE(t, lockers[i]);
    }
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(lockers[0], t->timeout_ms, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(lockers[1], t->timeout_ms, NULL));
    TCK_REQUIRE(t, simba_locker_slot(lockers[0]) + simba_locker_slot(lockers[1]) == 3);
    TCK_REQUIRE_RC(t, SIMBA_ETIMEDOUT, simba_locker_acquire(lockers[2], 0, NULL));
    for (int i = 0; i < SLOTS; i++) {
        attempts[i] = try_in_thread(t, lockers[SLOTS + i]);
        TCK_REQUIRE(t, attempts[i]);
    }
    for (int i = SLOTS; i-- > 0;) {
        const int free = simba_locker_slot(lockers[i]);
        const uint64_t token = simba_locker_token(lockers[i]);
        TCK_REQUIRE_RC(t, 0, simba_locker_release(lockers[i], NULL));
        TCK_AWAIT(t, attempts[0]->done + attempts[1]->done == SLOTS - i);
        const int which = simba_locker_slot(lockers[SLOTS]) == free ? 0 : 1;
        TCK_REQUIRE_RC(t, 0, attempts[which]->rc);
        TCK_REQUIRE(t, simba_locker_slot(lockers[SLOTS + which]) == free);
        TCK_REQUIRE(t, simba_locker_token(lockers[SLOTS + which]) > token);
    }
}

const tck_case tck_cases_locker[] = {
    {"locker-lock-unlock", 0, 0, lock_unlock},
    {"locker-try", 0, 0, try_once},
    {"locker-timeout", 0, 0, timeout},
    {"locker-cancel", 0, 0, cancel},
    {"locker-held", 0, 0, held},
    {"locker-lost", 0, SIMBA_CAP_SESSION, lost},
    {"locker-unreachable", 0, 0, unreachable},
    {"locker-try-reply-lost", 0, 0, try_reply_lost},
    {"locker-count-together", 0, 0, count_together},
    {"locker-slots", SIMBA_CAP_NOTE, 0, slots},
    {0},
};
