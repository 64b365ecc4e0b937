/* Where callbacks run: the pool, the application's own loop, the application's executor. Whatever the form, they are
 * serial per contender, and a thread that stops, frees or closes never waits for itself. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"
#include "support.h"

enum { MANY = 8 };

static void dawdle(struct player *player)
{
    latch_await(player->user ? player->user : &player->latch);
}

/* --- the pool ----------------------------------------------------------------------------------- */

/* Different contenders are told in parallel: all of them can be inside at once, so the pool grows with them. */
static void pool_grows_while_callbacks_block(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct player *players[MANY];
    struct latch latch = {0};
    for (int i = 0; i < MANY; i++) {
        char mutex[16];
        snprintf(mutex, sizeof mutex, "m%d", i);
        players[i] = player_new(client, mutex, NULL, NULL);
        players[i]->in_acquired = dawdle;
        players[i]->user = &latch;
        assert_rc(0, simba_contender_start(players[i]->contender));
    }
    AWAIT(latch.waiting == MANY);
    assert_true(client_stats(client).callback_threads >= MANY);
    for (int i = 0; i < MANY; i++)
        for (int j = 0; j < i; j++)
            assert_false(pthread_equal(players[i]->thread, players[j]->thread));
    latch_open(&latch);
    for (int i = 0; i < MANY; i++)
        player_free(players[i]);
}

/* The pool does not grow past its limit, and whoever found no thread is told when one is free. */
static void pool_keeps_its_limit(void **state)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.max_callback_threads = 2;
    SCOPED simba_client *client = client_open(&options);
    struct player *players[MANY];
    struct latch latch = {0};
    for (int i = 0; i < MANY; i++) {
        char mutex[16];
        snprintf(mutex, sizeof mutex, "m%d", i);
        players[i] = player_new(client, mutex, NULL, NULL);
        players[i]->in_acquired = dawdle;
        players[i]->user = &latch;
        assert_rc(0, simba_contender_start(players[i]->contender));
    }
    AWAIT(latch.waiting == 2);
    assert_false(WITHIN(50, latch.waiting > 2));
    assert_int_equal(2, client_stats(client).callback_threads);
    latch_open(&latch);
    for (int i = 0; i < MANY; i++)
        AWAIT(players[i]->acquired == 1);
    for (int i = 0; i < MANY; i++)
        player_free(players[i]);
}

/* stop runs on_released on its own thread, when nothing of the contender runs elsewhere. */
static void stop_tells_on_its_own_thread(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct player *player = player_start(client, "m");
    AWAIT(player->acquired == 1 && !player->in_callback);
    assert_false(pthread_equal(player->thread, pthread_self()));
    /* The queue of callbacks may need a moment to come to rest after this one. */
    AWAIT(client_stats(client).callbacks >= 1);
    assert_rc(0, simba_contender_stop(player->contender));
    assert_int_equal(1, player->released);
    assert_true(pthread_equal(player->thread, pthread_self()));
    player_free(player);
}

/* --- the application's own loop ------------------------------------------------------------------- */

static bool readable(simba_client *client, int timeout_ms)
{
    struct pollfd fd = {.fd = simba_client_fd(client), .events = POLLIN};
    assert_true(fd.fd >= 0);
    return poll(&fd, 1, timeout_ms) == 1 && (fd.revents & POLLIN);
}

/* Poll and dispatch until the condition holds. Whenever the descriptor is readable there is something to run. */
#define DISPATCH_UNTIL(client, condition)                                                                              \
    do {                                                                                                               \
        while (!(condition)) {                                                                                         \
            if (!readable(client, TIMEOUT_MS))                                                                         \
                fail_msg("polled in vain for: %s", #condition);                                                        \
            assert_true(simba_client_dispatch(client) > 0);                                                            \
        }                                                                                                              \
    } while (0)

static uint64_t lapsed_token;

static void expect_another_token(struct player *player)
{
    EXPECT(player->acquired_state.after.token != lapsed_token);
}

/* S2: a process that did not run for longer than its lease, here because nobody gets a turn, is not told to lead by whoever
 * is the first to go on: a timer that would find out may come second. */
static void nobody_is_told_of_a_lapsed_lease(void **state)
{
    SCOPED simba_client *client = client_open_form(SIMBA_DISPATCH_FD);
    const simba_timing timing = lease(60, 60);
    for (int i = 0; i < 5; i++) {
        struct player *player = player_new(client, "m", NULL, &timing);
        player->in_acquired = expect_another_token;
        assert_rc(0, simba_contender_start(player->contender));
        AWAIT(simba_contender_held_for_ms(player->contender) > 0);
        simba__lock(client);
        lapsed_token = simba_contender_token(player->contender);
        const int64_t over_ms = now_ms() + simba_contender_held_for_ms(player->contender) + 2;
        while (now_ms() < over_ms)
            ; /* this is how long the fault lasts */
        simba__unlock(client);
        simba_client_dispatch(client);
        player_free(player);
    }
}

/* The descriptor is readable while callbacks wait and not otherwise; nothing runs before it is asked to. */
static void fd_tells_when_callbacks_wait(void **state)
{
    SCOPED simba_client *client = client_open_form(SIMBA_DISPATCH_FD);
    assert_false(readable(client, 0));
    assert_int_equal(0, simba_client_dispatch(client));
    struct player *player = player_start(client, "m");
    assert_true(readable(client, TIMEOUT_MS));
    assert_true(readable(client, 0));
    assert_int_equal(0, player->acquired);
    assert_true(simba_client_dispatch(client) > 0);
    assert_int_equal(1, player->acquired);
    assert_true(pthread_equal(player->thread, pthread_self()));
    assert_false(readable(client, 0));
    assert_int_equal(0, simba_client_dispatch(client));

    assert_rc(0, simba_client_force_release(client, "m", NULL));
    DISPATCH_UNTIL(client, player->acquired == 2);
    assert_int_equal(SIMBA_REASON_REVOKED, player->reason);
    player_free(player);
}

static void start_other(struct player *player)
{
    EXPECT(simba_contender_start(player->other->contender) == 0);
}

/* What a callback makes ready is run or left to be polled for: the descriptor never cries wolf. */
static void fd_is_quiet_after_dispatch(void **state)
{
    SCOPED simba_client *client = client_open_form(SIMBA_DISPATCH_FD);
    struct player *first = player_new(client, "first", NULL, NULL);
    struct player *second = player_new(client, "second", NULL, NULL);
    first->in_acquired = start_other;
    first->other = second;
    assert_rc(0, simba_contender_start(first->contender));
    DISPATCH_UNTIL(client, second->acquired == 1);
    assert_false(readable(client, 0));
    player_free(first);
    player_free(second);
}

static void look_at_fd(struct player *player)
{
    *(bool *)player->user = readable(player->other->user, 0);
}

/* It is readable as long as somebody waits, also while another callback runs: another thread may poll it. */
static void fd_stays_readable_while_others_wait(void **state)
{
    SCOPED simba_client *client = client_open_form(SIMBA_DISPATCH_FD);
    struct player *first = player_new(client, "first", NULL, NULL);
    struct player *second = player_new(client, "second", NULL, NULL);
    bool was_readable = false;
    first->in_acquired = look_at_fd;
    first->user = &was_readable;
    first->other = second;
    second->user = client;
    assert_rc(0, simba_contender_start(first->contender));
    assert_rc(0, simba_contender_start(second->contender));
    DISPATCH_UNTIL(client, second->acquired == 1);
    assert_true(was_readable);
    player_free(first);
    player_free(second);
}

/* The thread that dispatches may stop and free without dispatching. What nobody was told of is not told any more. */
static void fd_stop_without_dispatching(void **state)
{
    SCOPED simba_client *client = client_open_form(SIMBA_DISPATCH_FD);
    struct player *told = player_start(client, "told");
    DISPATCH_UNTIL(client, told->acquired == 1);
    struct player *untold = player_start(client, "untold");
    assert_true(readable(client, TIMEOUT_MS));

    assert_rc(0, simba_contender_stop(told->contender));
    assert_int_equal(1, told->released);
    assert_int_equal(SIMBA_REASON_STOPPED, told->reason);
    assert_rc(0, simba_contender_stop(untold->contender));
    assert_int_equal(0, untold->acquired);
    assert_int_equal(0, untold->released);
    assert_false(is_owned(client, "told"));
    assert_false(is_owned(client, "untold"));
    assert_false(readable(client, 0));
    assert_int_equal(0, simba_client_dispatch(client));
    player_free(told);
    player_free(untold);
}

static void count_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    ++*(int *)user;
}

static void count_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    count_acquired(contender, state, user);
}

static void count_work(simba_run *run, void *user)
{
    ++*(int *)user;
}

/* Dispatch until that many callbacks ran, and see that it answers how many it ran. */
static void dispatch_counted(simba_client *client, const int *ran, int wanted)
{
    int answered = 0;
    const int before = *ran;
    while (*ran < before + wanted) {
        assert_true(readable(client, TIMEOUT_MS));
        answered += simba_client_dispatch(client);
    }
    assert_int_equal(answered, *ran - before);
}

/* dispatch answers how many callbacks it ran: those that are not there do not count, two that run together do. */
static void fd_counts_callbacks(void **state)
{
    SCOPED simba_client *client = client_open_form(SIMBA_DISPATCH_FD);
    int ran = 0;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.user = &ran;
    options.on_acquired = count_acquired;
    options.on_changed = count_acquired;
    simba_contender *contender;
    assert_rc(0, simba_contender_new(client, "m", &options, NULL, &contender));
    assert_rc(0, simba_contender_start(contender));
    dispatch_counted(client, &ran, 2);
    assert_int_equal(2, client_stats(client).callbacks);
    simba_contender_free(contender);

    options.on_changed = NULL;
    options.on_released = count_released;
    ran = 0;
    assert_rc(0, simba_contender_new(client, "m", &options, NULL, &contender));
    assert_rc(0, simba_contender_start(contender));
    dispatch_counted(client, &ran, 1);
    assert_rc(0, simba_client_force_release(client, "m", NULL));
    dispatch_counted(client, &ran, 2); /* released, and acquired again */
    simba_contender_free(contender);
    assert_int_equal(4, ran);

    ran = 0;
    simba_scheduler_options scheduling = SIMBA_SCHEDULER_OPTIONS_INIT;
    scheduling.work = count_work;
    scheduling.user = &ran;
    scheduling.period_ms = 100000;
    simba_scheduler *scheduler;
    assert_rc(0, simba_scheduler_new(client, "m", &scheduling, NULL, &scheduler));
    assert_rc(0, simba_scheduler_start(scheduler));
    dispatch_counted(client, &ran, 1);
    simba_scheduler_free(scheduler);
}

static void dispatch_inside(struct player *player)
{
    EXPECT(simba_client_dispatch(player->user) >= 0);
}

/* dispatch may be called inside a callback: others get on, and the one that is inside is not told anything new. */
static void fd_dispatch_inside_a_callback(void **state)
{
    SCOPED simba_client *client = client_open_form(SIMBA_DISPATCH_FD);
    struct player *outer = player_new(client, "outer", NULL, NULL);
    struct player *inner = player_new(client, "inner", NULL, NULL);
    outer->in_acquired = dispatch_inside;
    inner->in_acquired = dispatch_inside;
    outer->user = inner->user = client;
    assert_rc(0, simba_contender_start(outer->contender));
    assert_rc(0, simba_contender_start(inner->contender));
    DISPATCH_UNTIL(client, outer->acquired == 1 && inner->acquired == 1);
    player_free(outer);
    player_free(inner);
}

/* fd and dispatch belong to one form. */
static void fd_of_other_forms(void **state)
{
    simba_client *pool = client_open(NULL);
    assert_rc(SIMBA_ESTATE, simba_client_fd(pool));
    assert_rc(SIMBA_ESTATE, simba_client_dispatch(pool));
    client_close(pool);
    struct executor executor;
    SCOPED simba_client *client = client_open_executor(&executor);
    assert_rc(SIMBA_ESTATE, simba_client_fd(client));
    assert_rc(SIMBA_ESTATE, simba_client_dispatch(client));
}

/* --- the executor --------------------------------------------------------------------------------- */

/* Each run is called exactly once by three workers, and callbacks are still serial per contender. */
static void executor_with_many_threads(void **state)
{
    struct executor executor;
    simba_client *client = client_open_executor(&executor);
    simba_client *other = client_open(NULL);
    executor_start(&executor);
    struct player *players[4];
    for (int i = 0; i < 4; i++)
        players[i] = player_start(client, i % 2 ? "m" : "n");
    for (int i = 0; i < 50; i++) {
        AWAIT((players[0]->leads || players[2]->leads) && (players[1]->leads || players[3]->leads));
        const int rc = simba_client_force_release(i % 2 ? client : other, i % 3 ? "m" : "n", NULL);
        assert_true(rc == 0 || rc == SIMBA_ENOTFOUND);
    }
    for (int i = 0; i < 4; i++)
        player_free(players[i]);
    client_close(client);
    client_close(other);
    executor_end(&executor);
    assert_int_equal(executor.given, executor.taken);
    assert_true(executor.given >= 4);
}

/* A run that comes late, after the contender was stopped and freed, and even after close, finds nothing to do. */
static void executor_outlives_the_contender(void **state)
{
    struct executor executor;
    simba_client *client = client_open_executor(&executor);
    struct player *untold = player_start(client, "untold");
    AWAIT(executor.given == 1);
    player_free(untold);
    assert_int_equal(0, untold->acquired);
    assert_true(executor_run(&executor));
    assert_int_equal(0, untold->acquired);

    struct player *told = player_start(client, "told");
    AWAIT(executor.first);
    while (executor_run(&executor)) {
    }
    assert_int_equal(1, told->acquired);
    assert_rc(0, simba_client_force_release(client, "told", NULL));
    AWAIT(executor.first);
    player_free(told);
    assert_int_equal(told->acquired, told->released);
    assert_false(is_owned(client, "told"));

    struct player *late = player_start(client, "late");
    AWAIT(executor.given == executor.taken + 2);
    client_close(client);
    player_free(late);
    while (executor_run(&executor)) {
    }
    assert_int_equal(0, late->acquired);
    assert_int_equal(executor.given, executor.taken);
}

/* A contender that was helped along while its run was still to come, and then needs a run again, gets one. */
static void executor_run_serves_a_later_time(void **state)
{
    struct executor executor;
    simba_client *client = client_open_executor(&executor);
    struct player *player = player_start(client, "m");
    AWAIT(executor.given == 1);
    assert_rc(0, simba_contender_stop(player->contender)); /* helps; the run is still to come */
    assert_rc(0, simba_contender_start(player->contender));
    assert_int_equal(0, player->acquired);
    while (executor_run(&executor)) {
    }
    assert_int_equal(1, player->acquired);
    player_free(player);
    client_close(client);
    while (executor_run(&executor)) {
    }
}

static void stop_other(struct player *player)
{
    EXPECT(simba_contender_stop(player->other->contender) == 0);
}

/* An executor on a single thread, which is also the one that starts, stops and closes, does not wait for itself. */
static void executor_on_a_single_thread(void **state)
{
    struct executor executor;
    simba_client *client = client_open_executor(&executor);
    struct player *first = player_start(client, "first");
    struct player *second = player_start(client, "second");
    AWAIT(executor.given == 2);
    while (executor_run(&executor)) {
    }
    assert_int_equal(1, first->acquired);
    assert_int_equal(1, second->acquired);
    /* There are runs to come for both, and the callback of one stops the other. */
    first->in_released = stop_other;
    first->other = second;
    assert_rc(0, simba_client_force_release(client, "first", NULL));
    assert_rc(0, simba_client_force_release(client, "second", NULL));
    AWAIT(executor.given == 4);
    assert_rc(0, simba_contender_stop(first->contender));
    assert_int_equal(1, first->released);
    assert_int_equal(1, second->released);
    assert_rc(0, simba_contender_start(first->contender));
    client_close(client);
    player_free(first);
    player_free(second);
    while (executor_run(&executor)) {
    }
    assert_int_equal(executor.given, executor.taken);
}

static void run_one(void *arg)
{
    EXPECT(executor_run(arg));
}

static void stop_self(struct player *player)
{
    EXPECT(simba_contender_stop(player->contender) == 0);
}

/* The executor may be slow to take a run. While one of its threads is still handing over what the callback before made
 * ready, the run is called, the client closed and everything freed. */
static void executor_that_blocks_while_the_client_closes(void **state)
{
    struct executor executor;
    struct latch latch = {0};
    simba_client *client = client_open_executor(&executor);
    struct player *leader = player_new(client, "m", NULL, NULL);
    leader->in_acquired = stop_self;
    int told = 0;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.on_acquired = count_acquired;
    options.user = &told;
    simba_contender *waiter;
    assert_rc(0, simba_contender_new(client, "m", &options, NULL, &waiter));
    assert_rc(0, simba_contender_start(leader->contender));
    AWAIT(executor.given == 1);
    assert_rc(0, simba_contender_start(waiter));
    assert_int_equal(1, executor.given);
    board_lock();
    executor.blocks = &latch;
    board_unlock();
    /* This thread tells the leader, which stops, which frees the mutex for the waiter, whose run it then hands over. */
    struct runner worker;
    runner_start(&worker, run_one, &executor);
    AWAIT(latch.waiting == 1);
    assert_true(executor_run(&executor));
    assert_int_equal(1, told);
    client_close(client);
    player_free(leader);
    simba_contender_free(waiter);
    while (executor_run(&executor)) {
    }
    latch_open(&latch);
    runner_join(&worker);
    while (executor_run(&executor)) {
    }
    assert_int_equal(1, leader->released);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pool_grows_while_callbacks_block),
        TEST(pool_keeps_its_limit),
        TEST(stop_tells_on_its_own_thread),
        TEST(nobody_is_told_of_a_lapsed_lease),
        TEST(fd_tells_when_callbacks_wait),
        TEST(fd_is_quiet_after_dispatch),
        TEST(fd_stays_readable_while_others_wait),
        TEST(fd_stop_without_dispatching),
        TEST(fd_counts_callbacks),
        TEST(fd_dispatch_inside_a_callback),
        TEST(fd_of_other_forms),
        TEST(executor_with_many_threads),
        TEST(executor_outlives_the_contender),
        TEST(executor_run_serves_a_later_time),
        TEST(executor_on_a_single_thread),
        TEST(executor_that_blocks_while_the_client_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
