/* SIMBA_DISPATCH_FD: the loop of the application drives the client. No thread is started, nothing is missed, nothing spins, and
 * a loop that stands still loses its leaderships in time. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define WHOLE_MS 200 /* for watching that something does not happen */

static int loop; /* an epoll of the application, which the client's descriptor is in */

static simba_client *loop_open(const char *url)
{
    simba_client *client = NULL;
    simba_error err = {0};
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.dispatch = SIMBA_DISPATCH_FD;
    if (simba_client_open(url, &options, &err, &client) != 0)
        fail_msg("cannot open %s: %s", url, err.text);
    struct epoll_event event = {.events = EPOLLIN};
    loop = epoll_create1(EPOLL_CLOEXEC);
    assert_true(loop >= 0);
    assert_int_equal(0, epoll_ctl(loop, EPOLL_CTL_ADD, simba_client_fd(client), &event));
    return client;
}

static void loop_close(simba_client *client)
{
    client_close(client);
    close(loop);
}

static bool is_due(int timeout_ms)
{
    struct epoll_event event;
    return epoll_wait(loop, &event, 1, timeout_ms) == 1;
}

static unsigned dispatched;

/* An iteration of the loop. False: there was nothing to do for so long. */
static bool run_iteration(simba_client *client, int timeout_ms)
{
    if (!is_due(timeout_ms))
        return false;
    assert_true(simba_client_dispatch(client) >= 0);
    dispatched++;
    return true;
}

#define LOOP_UNTIL(client, condition)                                                                                  \
    do {                                                                                                               \
        while (!(condition))                                                                                           \
            if (!run_iteration(client, TIMEOUT_MS))                                                                    \
                fail_msg("polled in vain for: %s", #condition);                                                        \
    } while (0)

static struct player *player_with(simba_client *client, const char *mutex, int64_t ttl_ms, int64_t transition_ms)
{
    const simba_timing timing = lease(ttl_ms, transition_ms);
    struct player *player = player_new(client, mutex, NULL, &timing);
    assert_rc(0, simba_contender_start(player->contender));
    return player;
}

static unsigned threads(void)
{
    return entries_of("/proc/self/task");
}

static int64_t cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/* --- no thread ------------------------------------------------------------------------------------ */

static void do_nothing(void *arg)
{
}

/* Not by opening, contending, renewing, or asking; SQLite, whose library blocks, has the one that works for it. */
static void no_thread_is_started(void **state)
{
    char file[] = "/tmp/simba-loop-XXXXXX";
    char url[64];
    struct runner first; /* ThreadSanitizer starts one of its own with the first */
    runner_start(&first, do_nothing, NULL);
    runner_join(&first);
    assert_non_null(mkdtemp(file));
    snprintf(url, sizeof url, "sqlite://%s/db", file);
    const char *const urls[] = {store_url(), url};
    for (unsigned i = 0; i < 2; i++) {
        const unsigned before = threads();
        simba_client *client = loop_open(urls[i]);
        struct player *player = player_with(client, "m", 50, 5000);
        LOOP_UNTIL(client, player->acquired == 1);
        LOOP_UNTIL(client, client_stats(client).renewals >= 2);
        assert_true(is_owned(client, "m"));
        assert_int_equal(before + i, threads());
        player_free(player);
        loop_close(client);
    }
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", file);
    assert_int_equal(0, system(command)); // NOLINT(cert-env33-c,concurrency-mt-unsafe)
}

/* --- a loop that goes round ------------------------------------------------------------------------ */

/* Renewals come out of the loop, which has something to do then and at no other time. */
static void a_loop_keeps_its_lease(void **state)
{
    enum { RENEWALS = 5 };
    simba_client *client = loop_open(store_url());
    struct player *player = player_with(client, "m", 60, 5000);
    LOOP_UNTIL(client, player->acquired == 1);
    assert_false(is_due(0));
    dispatched = 0;
    LOOP_UNTIL(client, client_stats(client).renewals >= RENEWALS);
    assert_false(is_due(0));
    assert_true(dispatched < (unsigned)5 * RENEWALS);
    assert_true(simba_contender_held_for_ms(player->contender) > 0);
    assert_int_equal(0, player->released);
    player_free(player);
    loop_close(client);
}

/* What another process does to the lease is told by the loop, with the reason. */
static void a_loop_hears_of_a_loss(void **state)
{
    simba_client *client = loop_open(store_url());
    simba_client *other = client_open(NULL);
    struct player *player = player_with(client, "m", 60, 5000);
    LOOP_UNTIL(client, player->acquired == 1);
    assert_rc(0, simba_client_force_release(other, "m", NULL));
    LOOP_UNTIL(client, player->released == 1);
    assert_int_equal(SIMBA_REASON_REVOKED, player->reason);
    LOOP_UNTIL(client, player->acquired == 2);
    player_free(player);
    client_close(other);
    loop_close(client);
}

/* The leader of another client goes: the waiter is told so, asks, is granted and is told to lead, in one dispatch. */
static void a_handover_takes_one_dispatch(void **state)
{
    SCOPED simba_client *other = client_open(NULL);
    struct player *leader = player_start(other, "m");
    AWAIT(leader->leads);
    simba_client *client = loop_open(store_url());
    struct player *waiter = player_start(client, "m");
    while (run_iteration(client, 0))
        ;
    assert_rc(0, simba_contender_stop(leader->contender));
    assert_true(is_due(TIMEOUT_MS));
    simba_client_dispatch(client);
    assert_int_equal(1, waiter->acquired);
    assert_false(is_due(0));
    player_free(waiter);
    player_free(leader);
    loop_close(client);
}

/* --- a loop that stands still ---------------------------------------------------------------------- */

/* Its lease is not renewed, ends in time, and goes to another. It is told as soon as it goes round again. */
static void a_stalled_loop_loses(void **state)
{
    simba_client *client = loop_open(store_url());
    simba_client *other = client_open(NULL);
    struct player *stalled = player_with(client, "m", 60, 60);
    LOOP_UNTIL(client, stalled->acquired == 1);
    struct player *next = player_with(other, "m", 60, 5000);
    AWAIT(next->leads);
    assert_int_equal(0, simba_contender_held_for_ms(stalled->contender));
    assert_false(simba_contender_is_owner(stalled->contender));
    assert_int_equal(0, stalled->released);
    assert_true(is_due(0));
    assert_true(simba_client_dispatch(client) > 0);
    assert_int_equal(1, stalled->released);
    assert_int_equal(SIMBA_REASON_EXPIRED, stalled->reason);
    assert_true(next->leads);
    player_free(stalled);
    player_free(next);
    client_close(other);
    loop_close(client);
}

static void close_in_vain(struct player *player)
{
    EXPECT(simba_client_close(player->user) == SIMBA_ESTATE);
}

/* Closing is refused in a callback, and otherwise needs no loop to go round. */
static void a_loop_closes(void **state)
{
    simba_client *client = loop_open(store_url());
    struct player *player = player_new(client, "m", NULL, NULL);
    player->in_acquired = close_in_vain;
    player->user = client;
    assert_rc(0, simba_contender_start(player->contender));
    LOOP_UNTIL(client, player->acquired == 1);
    struct player *untold = player_start(client, "untold");
    loop_close(client);
    assert_int_equal(1, player->released);
    assert_int_equal(0, untold->acquired);
    player_free(player);
    player_free(untold);
}

/* A child that was forked off has the descriptors too. Whatever it does with them, the parent's loop goes on. */
static void a_loop_goes_on_after_a_fork(void **state)
{
    simba_client *client = loop_open(store_url());
    struct player *player = player_with(client, "m", 60, 5000);
    LOOP_UNTIL(client, player->acquired == 1);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(simba_client_dispatch(client) == SIMBA_EFORKED && simba_client_close(client) == SIMBA_EFORKED ? 0 : 1);
    int status = -1;
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_int_equal(0, status);
    const uint64_t before = client_stats(client).renewals;
    LOOP_UNTIL(client, client_stats(client).renewals >= before + 3);
    assert_int_equal(0, player->released);
    player_free(player);
    loop_close(client);
}

/* A run that sleeps does so on the thread of the loop, and the lease is kept all the same. */
static bool stopping;

static void sleep_for_long(simba_run *run, void *user)
{
    stopping = simba_run_sleep(run, 500);
}

static void a_sleeping_run_keeps_its_lease(void **state)
{
    simba_client *client = loop_open(store_url());
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_scheduler *scheduler = NULL;
    options.timing = lease(50, 250);
    options.work = sleep_for_long;
    options.period_ms = 100000;
    assert_rc(0, simba_scheduler_new(client, "m", &options, NULL, &scheduler));
    assert_rc(0, simba_scheduler_start(scheduler));
    stopping = true;
    LOOP_UNTIL(client, client_stats(client).callbacks >= 1);
    assert_false(stopping);
    assert_true(client_stats(client).renewals >= 4);
    simba_scheduler_free(scheduler);
    loop_close(client);
}

/* --- other threads ---------------------------------------------------------------------------------- */

struct waiter {
    struct runner runner;
    simba_locker *locker;
    int64_t timeout_ms;
    int rc;
};

static void acquire(void *arg)
{
    struct waiter *waiter = arg;
    waiter->rc = simba_locker_acquire(waiter->locker, waiter->timeout_ms, NULL);
}

static bool knows_owner(simba_locker *locker)
{
    simba_owner owner;
    return simba_locker_owner(locker, &owner) == 0 && !simba_owner_is_none(&owner);
}

static void waiter_start(struct waiter *waiter, simba_client *client, const char *mutex, int64_t timeout_ms)
{
    *waiter = (struct waiter){.timeout_ms = timeout_ms};
    assert_rc(0, simba_locker_new(client, mutex, NULL, NULL, &waiter->locker));
    runner_start(&waiter->runner, acquire, waiter);
    AWAIT(knows_owner(waiter->locker));
}

/* Threads that wait in calls need no loop: one of them leads, and when it has what it waited for, the next one does. */
static void threads_lead_one_after_another(void **state)
{
    SCOPED simba_client *other = client_open(NULL);
    struct player *holders[2] = {player_start(other, "a"), player_start(other, "b")};
    AWAIT(holders[0]->leads && holders[1]->leads);
    simba_client *client = loop_open(store_url());
    for (int first = 0; first < 2; first++) {
        struct waiter waiters[2];
        waiter_start(&waiters[0], client, "a", -1);
        waiter_start(&waiters[1], client, "b", -1);
        for (int i = 0; i < 2; i++) {
            const int at = (first + i) % 2;
            assert_rc(0, simba_contender_stop(holders[at]->contender));
            runner_join(&waiters[at].runner);
            assert_rc(0, waiters[at].rc);
        }
        for (int i = 0; i < 2; i++) {
            simba_locker_free(waiters[i].locker);
            assert_rc(0, simba_contender_start(holders[i]->contender));
        }
        AWAIT(holders[0]->leads && holders[1]->leads);
    }
    player_free(holders[0]);
    player_free(holders[1]);
    loop_close(client);
}

/* A thread that polls for all others hears at once that nobody waits for its own call any more. */
static void a_thread_that_polls_is_cancelled(void **state)
{
    SCOPED simba_client *other = client_open(NULL);
    struct player *holder = player_start(other, "a");
    AWAIT(holder->leads);
    simba_client *client = loop_open(store_url());
    struct waiter waiter;
    waiter_start(&waiter, client, "a", -1);
    const int64_t cancelled_ms = now_ms();
    assert_rc(0, simba_locker_cancel(waiter.locker));
    runner_join(&waiter.runner);
    assert_rc(SIMBA_ECANCELED, waiter.rc);
    assert_true(now_ms() - cancelled_ms < TIMEOUT_MS);
    simba_locker_free(waiter.locker);
    player_free(holder);
    loop_close(client);
}

/* Callbacks wait for a loop that is busy elsewhere. The thread that leads does not spin because of that. */
static void waiting_callbacks_keep_nobody_busy(void **state)
{
    SCOPED simba_client *other = client_open(NULL);
    struct player *holder = player_start(other, "a");
    AWAIT(holder->leads);
    simba_client *client = loop_open(store_url());
    struct waiter waiter;
    waiter_start(&waiter, client, "a", -1);
    struct player *player = player_start(client, "b");
    assert_true(is_due(TIMEOUT_MS));
    const int64_t before_ms = cpu_ms();
    poll(NULL, 0, WHOLE_MS);
    assert_true(cpu_ms() - before_ms < WHOLE_MS / 2);
    assert_true(is_due(0));
    LOOP_UNTIL(client, player->acquired == 1);
    assert_rc(0, simba_contender_stop(holder->contender));
    runner_join(&waiter.runner);
    assert_rc(0, waiter.rc);
    simba_locker_free(waiter.locker);
    player_free(player);
    player_free(holder);
    loop_close(client);
}

static void lock_again_and_again(void *arg)
{
    SIMBA_LOCKER_SCOPED simba_locker *locker = NULL;
    EXPECT(simba_locker_new(arg, "contended", NULL, NULL, &locker) == 0);
    for (int i = 0; i < 100; i++) {
        EXPECT(simba_locker_acquire(locker, TIMEOUT_MS, NULL) == 0);
        EXPECT(simba_locker_release(locker, NULL) == 0);
    }
}

/* A loop and many threads at once. Whoever reads what, all get on, and there is nothing left to do in the end. */
static void a_loop_beside_threads(void **state)
{
    enum { THREADS = 4 };
    simba_client *clients[2] = {loop_open(store_url()), client_open(NULL)};
    struct player *player = player_with(clients[0], "m", 60, 5000);
    struct runner runners[THREADS];
    for (int i = 0; i < THREADS; i++)
        runner_start(&runners[i], lock_again_and_again, clients[i == 3]);
    for (int i = 0; i < THREADS; i++) {
        while (!WITHIN(0, runners[i].done))
            run_iteration(clients[0], 10);
        runner_join(&runners[i]);
    }
    LOOP_UNTIL(clients[0], client_stats(clients[0]).renewals >= 3);
    assert_int_equal(1, player->acquired);
    assert_int_equal(0, player->released);
    while (run_iteration(clients[0], 0))
        ;
    player_free(player);
    loop_close(clients[0]);
    client_close(clients[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_thread_is_started),
        TEST(a_loop_keeps_its_lease),
        TEST(a_loop_hears_of_a_loss),
        TEST(a_handover_takes_one_dispatch),
        TEST(a_stalled_loop_loses),
        TEST(a_loop_closes),
        TEST(a_loop_goes_on_after_a_fork),
        TEST(a_sleeping_run_keeps_its_lease),
        TEST(threads_lead_one_after_another),
        TEST(a_thread_that_polls_is_cancelled),
        TEST(waiting_callbacks_keep_nobody_busy),
        TEST(a_loop_beside_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
