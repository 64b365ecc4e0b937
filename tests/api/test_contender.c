/* The contender: what it promises about its states, its callbacks, its lease and the moment it stops. */
#include <stdio.h>
#include <stdlib.h>

#include "../tck/fault_wrapper.h"
#include "support.h"

static void stop_self(struct player *player)
{
    EXPECT(simba_contender_stop(player->contender) == 0);
    EXPECT(simba_contender_status(player->contender) == SIMBA_STATUS_STOPPING);
    EXPECT(simba_contender_start(player->contender) == SIMBA_ESTATE);
}

static void free_self(struct player *player)
{
    player_free(player);
}

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
    gate_pass(&player->gate);
}

/* --- states --------------------------------------------------------------------------------------- */

/* Initial, running as a waiter and as an owner, and initial again. */
static void status_follows_the_calls(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
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
    client_close(client);
}

static void stop_contender(void *arg)
{
    struct player *player = arg;
    EXPECT(simba_contender_stop(player->contender) == 0);
}

/* While on_released runs it is stopping: it cannot be started, and the mutex is not free. */
static void status_while_stopping(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    struct player *player = player_new(client, "m", NULL, NULL);
    player->in_released = dawdle;
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->leads);
    struct runner runner;
    runner_start(&runner, stop_contender, player);
    AWAIT(player->gate.waiting == 1);
    assert_int_equal(SIMBA_STATUS_STOPPING, simba_contender_status(player->contender));
    assert_rc(SIMBA_ESTATE, simba_contender_start(player->contender));
    assert_true(is_owned(client, "m"));
    assert_false(runner.done);
    gate_open(&player->gate);
    runner_join(&runner);
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(player->contender));
    assert_false(is_owned(client, "m"));
    player_free(player);
    client_close(client);
}

/* An initial delay is waited out before anything is asked of the store, and can be broken off. */
static void initial_delay(void **state)
{
    (void)state;
    enum { DELAY_MS = 60 };
    simba_client *client = client_open(NULL);
    simba_timing timing = SIMBA_TIMING_INHERIT;
    timing.initial_delay_ms = DELAY_MS;
    struct player *patient = player_new(client, "m", NULL, &timing);
    const int64_t before = now_ms();
    assert_rc(0, simba_contender_start(patient->contender));
    assert_int_equal(SIMBA_STATUS_STARTING, simba_contender_status(patient->contender));
    assert_rc(SIMBA_ESTATE, simba_contender_start(patient->contender));
    AWAIT(patient->acquired == 1);
    assert_true(patient->acquired_at - before >= DELAY_MS - 1);
    player_free(patient);

    timing.initial_delay_ms = 100000;
    struct player *impatient = player_new(client, "m", NULL, &timing);
    const uint64_t requests = client_stats(client).requests;
    assert_rc(0, simba_contender_start(impatient->contender));
    assert_rc(0, simba_contender_stop(impatient->contender));
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(impatient->contender));
    assert_int_equal(requests, client_stats(client).requests);
    player_free(impatient);
    client_close(client);
}

/* It may be started again, any number of times, and every grant has a greater token. */
static void restart(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    struct player *player = player_new(client, "m", NULL, NULL);
    for (unsigned i = 1; i <= 20; i++) {
        assert_rc(0, simba_contender_start(player->contender));
        AWAIT(player->acquired == i); /* the player checks the token */
        assert_rc(0, simba_contender_stop(player->contender));
        assert_int_equal(i, player->released);
        assert_int_equal(SIMBA_REASON_STOPPED, player->reason);
    }
    player_free(player);
    client_close(client);
}

/* --- the lease ------------------------------------------------------------------------------------ */

/* What a contender says about itself while it owns, and that all of it is gone after stop. */
static void what_an_owner_says(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
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
    client_close(client);
}

/* A waiter is not the owner, but knows who is. */
static void what_a_waiter_says(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    struct player *leader = player_new(clients[0], "m", "leader", NULL);
    struct player *waiter = player_new(clients[1], "m", "waiter", NULL);
    assert_rc(0, simba_contender_start(leader->contender));
    AWAIT(leader->leads);
    assert_rc(0, simba_contender_start(waiter->contender));
    AWAIT(waiter->changed == 1);
    simba_owner owner;
    assert_rc(0, simba_contender_owner(waiter->contender, &owner));
    assert_string_equal("leader", owner.id);
    assert_int_equal(leader->token, owner.token);
    assert_false(simba_contender_is_owner(waiter->contender));
    assert_int_equal(0, simba_contender_held_for_ms(waiter->contender));
    assert_int_equal(0, simba_contender_token(waiter->contender));
    player_free(leader);
    player_free(waiter);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* Over several renewals the lease never exceeds ttl and transition, never lapses, and keeps its token. */
static void lease_is_renewed_and_bounded(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    const simba_timing timing = lease(100, 2000);
    struct player *player = player_new(client, "m", NULL, &timing);
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->leads);
    const int64_t deadline = now_ms() + TIMEOUT_MS;
    while (client_stats(client).renewals < 4) {
        const int64_t held_for_ms = simba_contender_held_for_ms(player->contender);
        assert_true(held_for_ms > 0);
        assert_true(held_for_ms <= 2100);
        assert_int_equal(player->token, simba_contender_token(player->contender));
        assert_true(now_ms() < deadline);
    }
    assert_int_equal(0, player->released);
    player_free(player);
    client_close(client);
}

/* The stop margin comes off what the contender says that it may still do. */
static void stop_margin_comes_off(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_timing timing = lease(5000, 3000);
    timing.stop_margin_ms = 1000;
    struct player *player = player_new(client, "m", NULL, &timing);
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->leads);
    assert_true(player->held_for_ms > 0);
    assert_true(player->held_for_ms <= 7000);
    assert_true(simba_contender_held_for_ms(player->contender) <= 7000);
    player_free(player);
    client_close(client);
}

/* Two contenders that were given the same id exclude each other all the same, and neither gives back for the other. */
static void same_id_twice(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    struct player *first = player_new(clients[0], "m", "twin", NULL);
    struct player *second = player_new(clients[1], "m", "twin", NULL);
    assert_rc(0, simba_contender_start(first->contender));
    AWAIT(first->leads);
    assert_rc(0, simba_contender_start(second->contender));
    AWAIT(second->changed == 1);
    assert_false(simba_contender_is_owner(second->contender));
    assert_rc(0, simba_contender_stop(second->contender));
    assert_true(is_owned(clients[0], "m"));
    assert_rc(0, simba_contender_start(second->contender));
    assert_rc(0, simba_contender_stop(first->contender));
    AWAIT(second->leads);
    assert_true(second->token > first->token);
    player_free(first);
    player_free(second);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* --- changes -------------------------------------------------------------------------------------- */

/* on_changed tells of others and of oneself. */
static void changes_are_told(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    struct player *leader = player_new(clients[0], "m", "leader", NULL);
    struct player *waiter = player_new(clients[1], "m", "waiter", NULL);
    assert_rc(0, simba_contender_start(leader->contender));
    AWAIT(leader->changed == 1);
    assert_true(simba_state_acquired(&leader->changed_state, "leader"));
    assert_true(simba_owner_is_none(&leader->changed_state.before));
    assert_rc(0, simba_contender_start(waiter->contender));
    AWAIT(waiter->changed == 1);
    assert_true(simba_state_acquired(&waiter->changed_state, "leader"));
    assert_rc(0, simba_contender_stop(leader->contender));
    assert_true(simba_state_released(&leader->changed_state, "leader"));
    AWAIT(waiter->leads && simba_state_acquired(&waiter->changed_state, "waiter"));
    player_free(waiter);
    player_free(leader);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* Contenders that are not told of changes wait in the order in which they began to. A hand-over concerns two of them only; the others
 * know the new owner as soon as somebody asks them. */
static void those_who_wait_know_the_owner(void **state)
{
    (void)state;
    enum { CROWD = 6 };
    simba_client *client = client_open(NULL);
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
    client_close(client);
}

/* --- why it ends ---------------------------------------------------------------------------------- */

/* An administrator takes it away: revoked, and then everybody may try again. */
static void reason_revoked(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    struct player *player = player_start(clients[0], "m");
    AWAIT(player->leads);
    assert_rc(0, simba_client_force_release(clients[1], "m", NULL));
    AWAIT(player->released == 1 && player->acquired == 2);
    assert_int_equal(SIMBA_REASON_REVOKED, player->reason);
    assert_int_equal(1, client_stats(clients[0]).losses[SIMBA_REASON_REVOKED]);
    assert_rc(0, simba_client_force_release(clients[0], "m", NULL));
    AWAIT(player->released == 2 && player->acquired == 3);
    assert_int_equal(SIMBA_REASON_REVOKED, player->reason);
    player_free(player);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* After the hold limit it is given back, to whoever waits if anybody does, and otherwise comes around again. */
static void reason_hold_limit(void **state)
{
    (void)state;
    enum { LIMIT_MS = 60 };
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    simba_timing timing = lease(1000, 500);
    timing.hold_limit_ms = LIMIT_MS;
    struct player *limited = player_new(clients[0], "m", NULL, &timing);
    assert_rc(0, simba_contender_start(limited->contender));
    AWAIT(limited->acquired == 1);
    const int64_t since = limited->acquired_at;
    struct player *waiter = player_start(clients[1], "m");
    AWAIT(limited->released == 1);
    assert_int_equal(SIMBA_REASON_HOLD_LIMIT, limited->reason);
    assert_true(limited->released_at - since >= LIMIT_MS - 10);
    AWAIT(waiter->leads);
    assert_int_equal(1, limited->acquired);
    player_free(waiter);
    AWAIT(limited->acquired >= 2);
    AWAIT(limited->released >= 2 && limited->acquired >= 3);
    player_free(limited);
    client_close(clients[0]);
    client_close(clients[1]);
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

/* Cut off from the store, a holder is told when its lease ends by its own clock, not later, and not that it stopped. */
static void reason_expired(void **state)
{
    (void)state;
    struct faulty faulty = open_faulty(50);
    const simba_timing timing = lease(150, 150);
    struct player *player = player_new(faulty.client, "m", NULL, &timing);
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->leads);
    tck_fault_cut(faulty.fault, TCK_CUT_REFUSE);
    AWAIT(player->released == 1);
    assert_int_equal(SIMBA_REASON_EXPIRED, player->reason);
    assert_false(simba_contender_is_owner(player->contender));
    assert_int_equal(0, simba_contender_token(player->contender));
    tck_fault_heal(faulty.fault);
    AWAIT(player->acquired == 2);
    player_free(player);
    close_faulty(faulty);
}

/* If the store names another owner, the holder was superseded. */
static void reason_superseded(void **state)
{
    (void)state;
    struct faulty faulty = open_faulty(200);
    simba_client *other = client_open(NULL);
    const simba_timing timing = lease(400, 4000);
    struct player *player = player_new(faulty.client, "m", NULL, &timing);
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->leads);
    /* It hears nothing while its grant is taken away, and the next one too, so that the store has forgotten it. */
    tck_fault_cut(faulty.fault, TCK_CUT_REFUSE);
    tck_fault_pushes(faulty.fault, TCK_PUSHES_DROP);
    assert_rc(0, simba_client_force_release(other, "m", NULL));
    struct player *next = player_start(other, "m");
    AWAIT(next->leads);
    assert_rc(0, simba_client_force_release(other, "m", NULL));
    AWAIT(next->acquired == 2);
    assert_int_equal(0, player->released);
    tck_fault_heal(faulty.fault);
    AWAIT(player->released == 1);
    assert_int_equal(SIMBA_REASON_SUPERSEDED, player->reason);
    assert_string_equal(simba_contender_id(next->contender), player->released_state.after.id);
    player_free(player);
    player_free(next);
    client_close(other);
    close_faulty(faulty);
}

/* It stops all the same when the store cannot be told, and says so. */
static void stop_without_a_store(void **state)
{
    (void)state;
    static const struct {
        tck_cut cut;
        int code;
    } cuts[] = {{TCK_CUT_REFUSE, SIMBA_EUNAVAILABLE}, {TCK_CUT_SILENT, SIMBA_ETIMEDOUT}};
    for (size_t i = 0; i < COUNT_OF(cuts); i++) {
        struct faulty faulty = open_faulty(20);
        struct player *player = player_start(faulty.client, "m");
        AWAIT(player->leads);
        tck_fault_cut(faulty.fault, cuts[i].cut);
        assert_rc(cuts[i].code, simba_contender_stop(player->contender));
        assert_int_equal(1, player->released);
        assert_int_equal(SIMBA_REASON_STOPPED, player->reason);
        assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(player->contender));
        assert_int_equal(0, simba_contender_held_for_ms(player->contender));
        assert_rc(0, simba_contender_stop(player->contender));
        tck_fault_heal(faulty.fault);
        simba_client_force_release(faulty.client, "m", NULL);
        player_free(player);
        close_faulty(faulty);
    }
}

/* A grant that comes back after stop was asked for is given back, and nobody is told of it. */
static void late_win_is_given_back(void **state)
{
    (void)state;
    struct faulty faulty = open_faulty(4000);
    struct player *player = player_new(faulty.client, "m", NULL, NULL);
    tck_fault_hold(faulty.fault, SIMBA_OP_ACQUIRE);
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(tck_fault_count(faulty.fault, SIMBA_OP_ACQUIRE, TCK_HELD) == 1);
    assert_true(is_owned(faulty.client, "m"));
    struct runner runner;
    runner_start(&runner, stop_contender, player);
    AWAIT(simba_contender_status(player->contender) == SIMBA_STATUS_STOPPING);
    assert_rc(SIMBA_ESTATE, simba_contender_start(player->contender));
    tck_fault_let_go(faulty.fault, SIMBA_OP_ACQUIRE);
    runner_join(&runner);
    assert_false(is_owned(faulty.client, "m"));
    assert_int_equal(0, player->acquired);
    assert_int_equal(0, player->released);
    assert_int_equal(1, client_stats(faulty.client).late_wins);
    player_free(player);
    close_faulty(faulty);
}

/* --- stopping and freeing ------------------------------------------------------------------------- */

/* Give back only after on_released has returned, and renew until then, however short the lease. */
static void given_back_after_tidying_up(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    const simba_timing timing = lease(60, 5000);
    struct player *leader = player_new(clients[0], "m", NULL, &timing);
    struct player *waiter = player_new(clients[1], "m", NULL, &timing);
    leader->in_released = dawdle;
    assert_rc(0, simba_contender_start(leader->contender));
    AWAIT(leader->leads);
    assert_rc(0, simba_contender_start(waiter->contender));
    struct runner runner;
    runner_start(&runner, stop_contender, leader);
    AWAIT(leader->gate.waiting == 1);
    const uint64_t renewals = client_stats(clients[0]).renewals;
    AWAIT(client_stats(clients[0]).renewals >= renewals + 4);
    assert_true(simba_contender_is_owner(leader->contender));
    assert_true(simba_contender_token(leader->contender) > 0);
    assert_int_equal(0, waiter->acquired);
    gate_open(&leader->gate);
    runner_join(&runner);
    AWAIT(waiter->acquired == 1);
    player_free(leader);
    player_free(waiter);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* stop in each callback returns at once, on_released still comes, and then the mutex is free for others. */
static void stop_inside_own_callback(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    for (int i = 0; i < 3; i++) {
        struct player *player = player_new(clients[0], "m", NULL, NULL);
        player->in_acquired = i == 0 ? stop_self : NULL;
        player->in_changed = i == 1 ? stop_self : NULL;
        player->in_released = i == 2 ? stop_self : NULL;
        assert_rc(0, simba_contender_start(player->contender));
        if (i == 2) {
            AWAIT(player->leads);
            assert_rc(0, simba_client_force_release(clients[1], "m", NULL));
        }
        AWAIT(player->released == 1);
        struct player *next = player_start(clients[1], "m");
        AWAIT(next->acquired == 1);
        /* From outside, stop waits for what the callback began. */
        assert_rc(0, simba_contender_stop(player->contender));
        assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(player->contender));
        assert_int_equal(1, player->acquired);
        assert_int_equal(1, player->released);
        assert_int_equal(i == 2 ? SIMBA_REASON_REVOKED : SIMBA_REASON_STOPPED, player->reason);
        player_free(next);
        player->in_acquired = player->in_changed = player->in_released = NULL;
        assert_rc(0, simba_contender_start(player->contender));
        AWAIT(player->acquired == 2);
        player_free(player);
    }
    client_close(clients[0]);
    client_close(clients[1]);
}

/* free in each callback: the callback goes on safely, on_released comes, the mutex is free, the memory too. */
static void free_inside_own_callback(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    for (int i = 0; i < 3; i++) {
        struct player *player = player_new(clients[0], "m", NULL, NULL);
        player->in_acquired = i == 0 ? free_self : NULL;
        player->in_changed = i == 1 ? free_self : NULL;
        player->in_released = i == 2 ? free_self : NULL;
        assert_rc(0, simba_contender_start(player->contender));
        if (i == 2) {
            AWAIT(player->leads);
            assert_rc(0, simba_client_force_release(clients[1], "m", NULL));
        }
        AWAIT(player->released == 1 && !player->in_callback);
        AWAIT(client_stats(clients[0]).contenders == 0);
        assert_int_equal(1, player->acquired);
        struct player *next = player_start(clients[1], "m");
        AWAIT(next->acquired == 1);
        player_free(next);
    }
    client_close(clients[0]);
    client_close(clients[1]);
}

/* discard does not wait, whatever its callbacks do: all that free promises happens later. */
static void discard_does_not_wait(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    struct player *player = player_new(client, "m", NULL, NULL);
    player->in_acquired = dawdle;
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->gate.waiting == 1);
    simba_contender_discard(player->contender); /* while its on_acquired waits for us */
    player->contender = NULL;
    assert_int_equal(0, player->released);
    assert_true(is_owned(client, "m"));
    gate_open(&player->gate);
    AWAIT(player->released == 1 && !player->in_callback);
    AWAIT(client_stats(client).contenders == 0);
    assert_int_equal(SIMBA_REASON_STOPPED, player->reason);
    assert_false(is_owned(client, "m"));
    client_close(client);
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
    (void)state;
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
    (void)state;
    void (*const actions[])(struct player *) = {stop_other, free_other};
    for (size_t i = 0; i < COUNT_OF(actions); i++) {
        simba_client *client = client_open(NULL);
        struct player *victim = player_new(client, "victim", NULL, NULL);
        struct player *actor = player_new(client, "actor", NULL, NULL);
        victim->in_acquired = dawdle;
        actor->in_acquired = actions[i];
        actor->other = victim;
        assert_rc(0, simba_contender_start(victim->contender));
        AWAIT(victim->gate.waiting == 1);
        assert_rc(0, simba_contender_start(actor->contender));
        AWAIT(actor->in_callback);
        assert_int_equal(0, victim->released);
        gate_open(&victim->gate);
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
    (void)state;
    simba_client *client = client_open(NULL);
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
    client_close(client);
}

/* Two threads stop the same contender at once: both return, and it was told once. */
static void stopped_by_two_threads(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    struct player *player = player_new(client, "m", NULL, NULL);
    for (unsigned i = 1; i <= 50; i++) {
        assert_rc(0, simba_contender_start(player->contender));
        if (i % 2)
            AWAIT(player->leads);
        struct runner runners[2];
        runner_start(&runners[0], stop_contender, player);
        runner_start(&runners[1], stop_contender, player);
        runner_join(&runners[0]);
        runner_join(&runners[1]);
        assert_int_equal(player->acquired, player->released);
        assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(player->contender));
    }
    player_free(player);
    client_close(client);
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
    (void)state;
    simba_client *client = client_open(NULL);
    struct restarts restarts = {player_new(client, "m", NULL, NULL), false};
    struct runner runners[3];
    for (int i = 0; i < 3; i++)
        runner_start(&runners[i], restart_often, &restarts);
    for (int i = 0; i < 3; i++)
        runner_join(&runners[i]);
    player_free(restarts.player);
    assert_int_equal(restarts.player->acquired, restarts.player->released);
    client_close(client);
}

/* Two threads wait in stop while the store takes its time. The moment it is over a third starts the contender again:
 * what the two were waiting for has happened, and they return. */
static void stop_returns_although_it_was_started_again(void **state)
{
    (void)state;
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

/* A handed-over mutex is taken at once by a waiter of another client, long before any lease ends. */
static void graceful_stop_hands_over(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    struct player *players[4];
    for (int i = 0; i < 4; i++)
        players[i] = player_start(clients[i % 2], "m");
    const int64_t before = now_ms();
    for (int round = 0; round < 4; round++) {
        AWAIT(players[0]->leads + players[1]->leads + players[2]->leads + players[3]->leads == 1);
        for (int i = 0; i < 4; i++)
            if (players[i]->leads) {
                assert_rc(0, simba_contender_stop(players[i]->contender));
                break;
            }
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(1, players[i]->released);
    assert_true(now_ms() - before < 9000);
    for (int i = 0; i < 4; i++)
        player_free(players[i]);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* Callbacks may be left out, all of them. */
static void without_callbacks(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_contender *contender;
    assert_rc(0, simba_contender_new(client, "m", NULL, NULL, &contender));
    assert_true(strlen(simba_contender_id(contender)) > 0);
    assert_rc(0, simba_contender_start(contender));
    AWAIT(simba_contender_is_owner(contender));
    assert_rc(0, simba_client_force_release(client, "m", NULL));
    AWAIT(client_stats(client).grants == 2);
    assert_rc(0, simba_contender_stop(contender));
    assert_false(is_owned(client, "m"));
    assert_int_equal(0, client_stats(client).callbacks);
    simba_contender_free(contender);
    client_close(client);
}

/* Renewals are no news: whoever waits for a mutex that stays owned is left in peace. */
static void renewals_disturb_nobody(void **state)
{
    (void)state;
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
        TEST(initial_delay),
        TEST(restart),
        TEST(what_an_owner_says),
        TEST(what_a_waiter_says),
        TEST(lease_is_renewed_and_bounded),
        TEST(stop_margin_comes_off),
        TEST(same_id_twice),
        TEST(changes_are_told),
        TEST(reason_revoked),
        TEST(reason_hold_limit),
        TEST(reason_expired),
        TEST(reason_superseded),
        TEST(stop_without_a_store),
        TEST(late_win_is_given_back),
        TEST(given_back_after_tidying_up),
        TEST(stop_inside_own_callback),
        TEST(free_inside_own_callback),
        TEST(discard_does_not_wait),
        TEST(on_freed_comes_once),
        TEST(stop_and_free_from_another_callback),
        TEST(stop_each_other_on_one_thread),
        TEST(stopped_by_two_threads),
        TEST(stopped_while_another_thread_restarts),
        TEST(stop_returns_although_it_was_started_again),
        TEST(graceful_stop_hands_over),
        TEST(those_who_wait_know_the_owner),
        TEST(without_callbacks),
        TEST(renewals_disturb_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
