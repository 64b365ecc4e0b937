/* The observer: the first call, every change after it, the truth at the end, and silence after stop. */
#include <stdlib.h>

#include "../tck/fault_wrapper.h"
#include "support.h"

enum { SEEN_MAX = 4096 };

/* An observer that keeps a record. Lives as long as the program, as players do. */
struct witness {
    simba_observer *observer;
    struct witness *next;
    struct latch latch;
    void (*in_changed)(struct witness *witness); /* may be NULL */

    /* On the board. */
    bool inside;
    unsigned calls;
    pthread_t thread;
    simba_state last;
    uint64_t tokens[SEEN_MAX]; /* of the new owner, 0 for nobody */
};

static struct witness *witnesses;

static void on_changed(simba_observer *observer, const simba_state *state, void *user)
{
    struct witness *witness = user;
    EXPECT(!witness->inside);
    board_lock();
    const unsigned i = witness->calls++;
    const simba_owner before = witness->last.after;
    witness->inside = true;
    witness->thread = pthread_self();
    witness->last = *state;
    if (i < SEEN_MAX)
        witness->tokens[i] = state->after.token;
    board_unlock();
    /* Each call goes on where the one before ended. */
    EXPECT(i == 0 || (state->before.token == before.token && strcmp(state->before.id, before.id) == 0));
    EXPECT(i == 0 || simba_state_changed(state));
    if (witness->in_changed)
        witness->in_changed(witness);
    board_lock();
    witness->inside = false;
    board_unlock();
}

static struct witness *witness_new(simba_client *client, const char *mutex)
{
    struct witness *witness = calloc(1, sizeof *witness);
    assert_non_null(witness);
    witness->next = witnesses;
    witnesses = witness;
    simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    options.on_changed = on_changed;
    options.user = witness;
    assert_rc(0, simba_observer_new(client, mutex, &options, NULL, &witness->observer));
    return witness;
}

static struct witness *witness_start(simba_client *client, const char *mutex)
{
    struct witness *witness = witness_new(client, mutex);
    assert_rc(0, simba_observer_start(witness->observer));
    return witness;
}

static void witness_free(struct witness *witness)
{
    simba_observer_free(witness->observer);
    witness->observer = NULL;
}

static void dawdle(struct witness *witness)
{
    latch_await(&witness->latch);
}

static simba_locker *locker_new(simba_client *client, const char *id)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    options.id = id;
    simba_locker *locker;
    assert_rc(0, simba_locker_new(client, "m", &options, NULL, &locker));
    return locker;
}

static void lock_and_release(simba_locker *locker, int times)
{
    for (int i = 0; i < times; i++) {
        assert_rc(0, simba_locker_acquire(locker, 0, NULL));
        assert_rc(0, simba_locker_release(locker, NULL));
    }
}

/* --- what it sees ---------------------------------------------------------------------------------- */

/* Other mutexes are none of its business, nor is a renewal a change. */
static void nothing_else(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct witness *witness = witness_start(client, "m");
    AWAIT(witness->calls == 1);
    const simba_timing timing = lease(60, 5000);
    struct player *here = player_new(client, "m", NULL, &timing);
    struct player *elsewhere = player_start(client, "elsewhere");
    assert_rc(0, simba_contender_start(here->contender));
    AWAIT(witness->calls == 2 && elsewhere->leads);
    AWAIT(client_stats(client).renewals >= 5);
    assert_int_equal(2, witness->calls);
    assert_true(simba_state_acquired(&witness->last, simba_contender_id(here->contender)));
    player_free(here);
    AWAIT(witness->calls == 3);
    player_free(elsewhere);
    witness_free(witness);
}

/* --- slow applications ------------------------------------------------------------------------------ */

/* What happens during a slow callback is told after it, all of it. */
static void slow_callback_misses_nothing(void **state)
{
    enum { TIMES = 50 };
    SCOPED simba_client *client = client_open(NULL);
    struct witness *witness = witness_new(client, "m");
    witness->in_changed = dawdle;
    assert_rc(0, simba_observer_start(witness->observer));
    AWAIT(witness->latch.waiting == 1);
    simba_locker *locker = locker_new(client, NULL);
    lock_and_release(locker, TIMES);
    assert_int_equal(1, witness->calls);
    latch_open(&witness->latch);
    AWAIT(witness->calls == 1 + 2 * TIMES);
    assert_true(simba_owner_is_none(&witness->last.after));
    simba_locker_free(locker);
    witness_free(witness);
}

static struct latch second_latch;

static void dawdle_twice(struct witness *witness)
{
    if (witness->calls == 1)
        latch_await(&witness->latch);
    if (witness->calls == 2)
        latch_await(&second_latch);
}

/* What is told as one is a change too: if the owner came and went unseen, there is nothing to tell. */
static void no_change_is_not_told(void **state)
{
    enum { TIMES = 1500 };
    SCOPED simba_client *client = client_open(NULL);
    struct witness *witness = witness_new(client, "m");
    witness->in_changed = dawdle_twice;
    assert_rc(0, simba_observer_start(witness->observer));
    AWAIT(witness->latch.waiting == 1);
    simba_locker *locker = locker_new(client, NULL);
    lock_and_release(locker, TIMES); /* far too much: the last of it is dropped */
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    latch_open(&witness->latch); /* makes room for one more */
    AWAIT(second_latch.waiting == 1);
    assert_rc(0, simba_locker_release(locker, NULL));
    latch_open(&second_latch); /* the witness checks that every call tells a change */
    AWAIT(witness->calls > 2 && !witness->inside);
    struct player *player = player_start(client, "m");
    AWAIT(witness->last.after.token == player->token && player->leads);
    player_free(player);
    simba_locker_free(locker);
    witness_free(witness);
}

/* --- stopping -------------------------------------------------------------------------------------- */

static void stop_observer(void *arg)
{
    struct witness *witness = arg;
    EXPECT(simba_observer_stop(witness->observer) == 0);
}

/* stop waits for a callback in progress, and what has not been told then is not told any more. */
static void stop_waits_and_silences(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct witness *witness = witness_new(client, "m");
    witness->in_changed = dawdle;
    assert_rc(0, simba_observer_stop(witness->observer)); /* it was not started */
    assert_rc(0, simba_observer_start(witness->observer));
    assert_rc(SIMBA_ESTATE, simba_observer_start(witness->observer));
    AWAIT(witness->latch.waiting == 1);
    simba_locker *locker = locker_new(client, NULL);
    lock_and_release(locker, 3);
    struct runner runner;
    runner_start(&runner, stop_observer, witness);
    assert_false(WITHIN(20, runner.done));
    latch_open(&witness->latch);
    runner_join(&runner);
    assert_false(witness->inside);
    assert_int_equal(1, witness->calls);
    lock_and_release(locker, 3);
    assert_int_equal(1, witness->calls);

    /* It may be started again, and then begins anew. */
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    memset(&witness->last, 0, sizeof witness->last);
    assert_rc(0, simba_observer_start(witness->observer));
    AWAIT(witness->calls == 2);
    assert_int_equal(simba_locker_token(locker), witness->last.after.token);
    simba_locker_free(locker);
    witness_free(witness);
}

static void stop_inside(struct witness *witness)
{
    EXPECT(simba_observer_stop(witness->observer) == 0);
}

static void free_inside(struct witness *witness)
{
    witness_free(witness);
}

/* stop and free inside on_changed return at once, and it was the last call. */
static void stop_and_free_inside(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *locker = locker_new(client, NULL);
    struct witness *stops = witness_new(client, "m");
    struct witness *frees = witness_new(client, "m");
    stops->in_changed = stop_inside;
    frees->in_changed = free_inside;
    assert_rc(0, simba_observer_start(stops->observer));
    assert_rc(0, simba_observer_start(frees->observer));
    AWAIT(stops->calls == 1 && frees->calls == 1);
    AWAIT(!stops->inside && !frees->inside);
    lock_and_release(locker, 5);
    assert_rc(0, simba_observer_stop(stops->observer));
    assert_int_equal(1, stops->calls);
    assert_int_equal(1, frees->calls);
    witness_free(stops);
}

static void restart_inside(struct witness *witness)
{
    if (witness->calls > 1)
        return;
    latch_await(&witness->latch);
    EXPECT(simba_observer_stop(witness->observer) == 0);
    board_lock();
    memset(&witness->last, 0, sizeof witness->last);
    board_unlock();
    EXPECT(simba_observer_start(witness->observer) == 0);
}

/* Stopped and started again inside the callback, it begins with the owner of now, not with what it had left to tell. */
static void restart_inside_the_callback(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct witness *witness = witness_new(client, "m");
    witness->in_changed = restart_inside;
    assert_rc(0, simba_observer_start(witness->observer));
    AWAIT(witness->latch.waiting == 1);
    simba_locker *locker = locker_new(client, NULL);
    lock_and_release(locker, 3);
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    latch_open(&witness->latch);
    AWAIT(witness->calls >= 2);
    assert_int_equal(simba_locker_token(locker), witness->tokens[1]);
    assert_rc(0, simba_locker_release(locker, NULL));
    AWAIT(witness->calls == 3);
    simba_locker_free(locker);
    witness_free(witness);
}

/* After close it is silent, answers that the client is closed, and can be freed. */
static void closed_client(void **state)
{
    simba_client *client = client_open(NULL);
    SCOPED simba_client *other = client_open(NULL);
    struct witness *running = witness_start(client, "m");
    struct witness *idle = witness_new(client, "m");
    AWAIT(running->calls == 1);
    client_close(client);
    SIMBA_LOCKER_SCOPED simba_locker *locker = locker_new(other, NULL);
    lock_and_release(locker, 5);
    assert_int_equal(1, running->calls);
    struct witness *const both[] = {running, idle};
    for (size_t i = 0; i < COUNT_OF(both); i++) {
        simba_owner owner;
        assert_rc(SIMBA_ECLOSED, simba_observer_start(both[i]->observer));
        assert_rc(SIMBA_ECLOSED, simba_observer_stop(both[i]->observer));
        assert_rc(SIMBA_ECLOSED, simba_observer_owner(both[i]->observer, &owner));
        assert_string_equal("m", simba_observer_mutex(both[i]->observer));
        witness_free(both[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_else),          TEST(slow_callback_misses_nothing),
        TEST(no_change_is_not_told), TEST(stop_waits_and_silences),
        TEST(stop_and_free_inside),  TEST(restart_inside_the_callback),
        TEST(closed_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
