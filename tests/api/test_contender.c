/* The contender: what it promises about its states, its callbacks, its lease and the moment it stops. */
#include <stdlib.h>

#include "../tck/fault_wrapper.h"
#include "support.h"

static void stop_other(struct player *player)
{
    EXPECT(simba_contender_stop(player->other->contender) == 0);
}

static void free_other(struct player *player)
{
    player_free(player->other);
}

static void dawdle(struct player *player)
{
    latch_await(&player->latch);
}

/* --- states --------------------------------------------------------------------------------------- */

/* Initial, running as a waiter and as an owner, and initial again. */
static void status_follows_the_calls(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct player *owner = player_new(client, "m", NULL, NULL);
    struct player *waiter = player_new(client, "m", NULL, NULL);
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(owner->contender));
    assert_rc(0, simba_contender_stop(owner->contender)); /* it was not started */
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(owner->contender));
    assert_rc(0, simba_contender_start(owner->contender));
    AWAIT(owner->leads);
    assert_rc(0, simba_contender_start(waiter->contender));
    assert_int_equal(SIMBA_STATUS_RUNNING, simba_contender_status(owner->contender));
    assert_int_equal(SIMBA_STATUS_RUNNING, simba_contender_status(waiter->contender));
    assert_rc(SIMBA_ESTATE, simba_contender_start(owner->contender));
    assert_rc(SIMBA_ESTATE, simba_contender_start(waiter->contender));
    assert_rc(0, simba_contender_stop(waiter->contender));
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(waiter->contender));
    assert_int_equal(0, waiter->acquired);
    assert_rc(0, simba_contender_stop(owner->contender));
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(owner->contender));
    assert_rc(0, simba_contender_stop(owner->contender));
    player_free(owner);
    player_free(waiter);
}

static void stop_contender(void *arg)
{
    struct player *player = arg;
    EXPECT(simba_contender_stop(player->contender) == 0);
}

/* While on_released runs it is stopping: it cannot be started, and the mutex is not free. */
static void status_while_stopping(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct player *player = player_new(client, "m", NULL, NULL);
    player->in_released = dawdle;
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->leads);
    struct runner runner;
    runner_start(&runner, stop_contender, player);
    AWAIT(player->latch.waiting == 1);
    assert_int_equal(SIMBA_STATUS_STOPPING, simba_contender_status(player->contender));
    assert_rc(SIMBA_ESTATE, simba_contender_start(player->contender));
    assert_true(is_owned(client, "m"));
    assert_false(runner.done);
    latch_open(&player->latch);
    runner_join(&runner);
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(player->contender));
    assert_false(is_owned(client, "m"));
    player_free(player);
}

/* --- the lease ------------------------------------------------------------------------------------ */

/* What a contender says about itself while it owns, and that all of it is gone after stop. */
static void what_an_owner_says(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    const simba_timing timing = lease(5000, 3000);
    struct player *player = player_new(client, "m", "the-owner", &timing);
    simba_contender *contender = player->contender;
    simba_owner owner;
    assert_string_equal("m", simba_contender_mutex(contender));
    assert_string_equal("the-owner", simba_contender_id(contender));
    assert_false(simba_contender_is_owner(contender));
    assert_int_equal(0, simba_contender_token(contender));
    assert_rc(0, simba_contender_start(contender));
    AWAIT(player->leads);

    assert_true(player->held_for_ms > 0 && player->held_for_ms <= 8000);
    assert_true(simba_contender_is_owner(contender));
    assert_true(simba_contender_in_ttl(contender));
    assert_true(simba_contender_token(contender) > 0);
    assert_int_equal(simba_contender_token(contender), player->acquired_state.after.token);
    assert_int_equal(simba_contender_token(contender), player->token);
    assert_rc(0, simba_contender_owner(contender, &owner));
    assert_string_equal("the-owner", owner.id);
    assert_int_equal(owner.token, player->token);
    assert_int_equal(5000, owner.ttl_at_ms - owner.acquired_at_ms);
    assert_int_equal(3000, owner.transition_at_ms - owner.ttl_at_ms);
    assert_true(simba_owner_in_ttl(&owner, owner.acquired_at_ms));

    assert_rc(0, simba_contender_stop(contender));
    assert_int_equal(0, simba_contender_held_for_ms(contender));
    assert_false(simba_contender_is_owner(contender));
    assert_false(simba_contender_in_ttl(contender));
    assert_int_equal(0, simba_contender_token(contender));
    assert_rc(0, simba_contender_owner(contender, &owner));
    assert_true(simba_owner_is_none(&owner));
    player_free(player);
}

/* --- changes -------------------------------------------------------------------------------------- */

/* Contenders that are not told of changes wait in the order in which they began to. A hand-over concerns two of them only; the others
 * know the new owner as soon as somebody asks them. */
static void those_who_wait_know_the_owner(void **state)
{
    enum { CROWD = 6 };
    SCOPED simba_client *client = client_open(NULL);
    simba_contender *crowd[CROWD];
    for (unsigned i = 0; i < CROWD; i++) {
        assert_rc(0, simba_contender_new(client, "m", NULL, NULL, &crowd[i]));
        assert_rc(0, simba_contender_start(crowd[i]));
    }
    for (unsigned first = 0; first < CROWD; first++) {
        AWAIT(simba_contender_is_owner(crowd[first]));
        for (unsigned i = first; i < CROWD; i++) {
            simba_owner owner;
            assert_rc(0, simba_contender_owner(crowd[i], &owner));
            assert_string_equal(owner.id, simba_contender_id(crowd[first]));
            assert_int_equal(owner.token, simba_contender_token(crowd[first]));
            assert_true(simba_contender_owner_left_ms(crowd[i]) > 0);
        }
        assert_rc(0, simba_contender_stop(crowd[first]));
        simba_contender_free(crowd[first]);
    }
}

/* --- faults of the store -------------------------------------------------------------------------- */

struct faulty {
    tck_fault *fault;
    simba_client *client;
};

static struct faulty open_faulty(int64_t op_timeout_ms)
{
    struct faulty faulty;
    assert_rc(0, tck_fault_new(store_url(), NULL, NULL, NULL, &faulty.fault));
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.op_timeout_ms = op_timeout_ms;
    assert_rc(0, simba_client_open(tck_fault_url(faulty.fault), &options, NULL, &faulty.client));
    return faulty;
}

static void close_faulty(struct faulty faulty)
{
    tck_fault_heal(faulty.fault);
    client_close(faulty.client);
    tck_fault_free(faulty.fault);
}

/* --- stopping and freeing ------------------------------------------------------------------------- */

/* discard does not wait, whatever its callbacks do: all that free promises happens later. */
static void discard_does_not_wait(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct player *player = player_new(client, "m", NULL, NULL);
    player->in_acquired = dawdle;
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->latch.waiting == 1);
    simba_contender_discard(player->contender); /* while its on_acquired waits for us */
    player->contender = NULL;
    assert_int_equal(0, player->released);
    assert_true(is_owned(client, "m"));
    latch_open(&player->latch);
    AWAIT(player->released == 1 && !player->in_callback);
    AWAIT(client_stats(client).contenders == 0);
    assert_int_equal(SIMBA_REASON_STOPPED, player->reason);
    assert_false(is_owned(client, "m"));
}

static void count_freed(void *user)
{
    board_lock();
    ++*(unsigned *)user;
    board_unlock();
}

/* Whichever way it goes, and whether or not it was ever started, on_freed comes once. */
static void on_freed_comes_once(void **state)
{
    static unsigned freed;
    void (*const ways[])(simba_contender *) = {simba_contender_free, simba_contender_discard};
    simba_client *client = client_open(NULL);
    for (unsigned i = 0; i < 4; i++) {
        simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
        simba_contender *contender = NULL;
        options.user = &freed;
        options.on_freed = count_freed;
        freed = 0;
        assert_rc(0, simba_contender_new(client, "m", &options, NULL, &contender));
        if (i % 2)
            assert_rc(0, simba_contender_start(contender));
        ways[i / 2](contender);
        AWAIT(freed == 1);
    }
    client_close(client);
    assert_int_equal(1, freed);
}

/* stop and free from another contender's callback wait as anywhere else. */
static void stop_and_free_from_another_callback(void **state)
{
    void (*const actions[])(struct player *) = {stop_other, free_other};
    for (size_t i = 0; i < COUNT_OF(actions); i++) {
        simba_client *client = client_open(NULL);
        struct player *victim = player_new(client, "victim", NULL, NULL);
        struct player *actor = player_new(client, "actor", NULL, NULL);
        victim->in_acquired = dawdle;
        actor->in_acquired = actions[i];
        actor->other = victim;
        assert_rc(0, simba_contender_start(victim->contender));
        AWAIT(victim->latch.waiting == 1);
        assert_rc(0, simba_contender_start(actor->contender));
        AWAIT(actor->in_callback);
        assert_int_equal(0, victim->released);
        latch_open(&victim->latch);
        AWAIT(victim->released == 1);
        AWAIT(!actor->in_callback && actor->acquired == 1);
        assert_false(is_owned(client, "victim"));
        player_free(actor);
        if (victim->contender)
            player_free(victim);
        client_close(client);
    }
}

/* A callback that stops another contender, whose on_released then runs inside it and stops the first: no deadlock. */
static void stop_each_other_on_one_thread(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct player *first = player_new(client, "first", NULL, NULL);
    struct player *second = player_new(client, "second", NULL, NULL);
    first->other = second;
    second->other = first;
    first->in_acquired = stop_other;
    second->in_released = stop_other;
    assert_rc(0, simba_contender_start(second->contender));
    AWAIT(second->leads && !second->in_callback);
    assert_rc(0, simba_contender_start(first->contender));
    AWAIT(first->released == 1 && second->released == 1);
    player_free(first);
    player_free(second);
}

struct restarts {
    struct player *player;
    bool over;
};

static void restart_often(void *arg)
{
    struct restarts *restarts = arg;
    for (int i = 0; i < 500; i++) {
        EXPECT(simba_contender_stop(restarts->player->contender) == 0);
        const int rc = simba_contender_start(restarts->player->contender);
        EXPECT(rc == 0 || rc == SIMBA_ESTATE);
    }
}

/* A stop ends with what it stopped, also if another thread starts the contender again before it has looked. */
static void stopped_while_another_thread_restarts(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct restarts restarts = {player_new(client, "m", NULL, NULL), false};
    struct runner runners[3];
    for (int i = 0; i < 3; i++)
        runner_start(&runners[i], restart_often, &restarts);
    for (int i = 0; i < 3; i++)
        runner_join(&runners[i]);
    player_free(restarts.player);
    assert_int_equal(restarts.player->acquired, restarts.player->released);
}

/* Two threads wait in stop while the store takes its time. The moment it is over a third starts the contender again:
 * what the two were waiting for has happened, and they return. */
static void stop_returns_although_it_was_started_again(void **state)
{
    struct faulty faulty = open_faulty(4000);
    struct player *player = player_new(faulty.client, "m", NULL, NULL);
    for (int i = 0; i < 20; i++) {
        const unsigned before = player->acquired;
        assert_rc(0, simba_contender_start(player->contender));
        AWAIT(player->acquired == before + 1 && !player->in_callback);
        tck_fault_hold(faulty.fault, SIMBA_OP_RELEASE);
        struct runner runners[2];
        runner_start(&runners[0], stop_contender, player);
        runner_start(&runners[1], stop_contender, player);
        AWAIT(tck_fault_count(faulty.fault, SIMBA_OP_RELEASE, TCK_HELD) == 1);
        tck_fault_let_go(faulty.fault, SIMBA_OP_RELEASE);
        int rc;
        while ((rc = simba_contender_start(player->contender)) == SIMBA_ESTATE) {
        }
        assert_rc(0, rc);
        runner_join(&runners[0]);
        runner_join(&runners[1]);
        assert_rc(0, simba_contender_stop(player->contender));
    }
    player_free(player);
    close_faulty(faulty);
}

/* Renewals are no news: whoever waits for a mutex that stays owned is left in peace. */
static void renewals_disturb_nobody(void **state)
{
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    const simba_timing timing = lease(30, 30000);
    struct player *holder = player_new(clients[0], "m", "holder", &timing);
    assert_rc(0, simba_contender_start(holder->contender));
    AWAIT(holder->acquired == 1);
    struct player *waiter = player_start(clients[1], "m");
    AWAIT(waiter->changed == 1);
    const simba_stats before = client_stats(clients[0]);
    const uint64_t pushes = client_stats(clients[1]).pushes;
    AWAIT(client_stats(clients[0]).renewals >= before.renewals + 5);
    assert_int_equal(client_stats(clients[1]).pushes, pushes);
    player_free(waiter);
    player_free(holder);
    client_close(clients[1]);
    client_close(clients[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(status_follows_the_calls),
        TEST(status_while_stopping),
        TEST(what_an_owner_says),
        TEST(discard_does_not_wait),
        TEST(on_freed_comes_once),
        TEST(stop_and_free_from_another_callback),
        TEST(stop_each_other_on_one_thread),
        TEST(stopped_while_another_thread_restarts),
        TEST(stop_returns_although_it_was_started_again),
        TEST(those_who_wait_know_the_owner),
        TEST(renewals_disturb_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
