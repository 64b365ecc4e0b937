/* The Redis store under the real client, and whichever thread it is called on: those who wait read for one another, and
 * connections that break while nobody but they would notice are made again. */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backends/test_redis.h"
#include "client/client.h"
#include "lib/referee.h"

enum { CROWD = 2000 };
#define LONG_MS ref_scaled_ms(15000)

static simba_client *client;

static simba_client *open_at_url(const char *url)
{
    simba_client *opened = NULL;
    simba_error err = {0};
    if (simba_client_open(url, NULL, &err, &opened) < 0)
        fail_msg("%s", err.text);
    return opened;
}

static void lock_and_unlock(simba_client *of, const char *mutex)
{
    simba_locker *locker;
    simba_error err = {0};
    assert_int_equal(simba_locker_new(of, mutex, NULL, &err, &locker), 0);
    assert_int_equal(simba_locker_acquire(locker, LONG_MS, &err), 0);
    assert_int_equal(simba_locker_release(locker, &err), 0);
    simba_locker_free(locker);
}

/* And connected: then whoever waits next reads. */
static int open_client(void **state)
{
    setup(state);
    ref_watchdog(100);
    client = open_at_url(redis_url);
    lock_and_unlock(client, "first");
    return 0;
}

static int close_client(void **state)
{
    assert_int_equal(simba_client_close(client), 0);
    assert_int_equal(ref_complaints(), 0);
    ref_watchdog(0);
    return 0;
}

static simba_stats stats(void)
{
    simba_stats now = SIMBA_STATS_INIT;
    simba_client_stats(client, &now);
    return now;
}

/* A thread that waits for a mutex which somebody else has. */
typedef struct waiter {
    pthread_t thread;
    simba_locker *locker;
    int rc;
    atomic_bool back;
} waiter;

static void *wait_for_it(void *arg)
{
    waiter *w = arg;
    simba_error err;
    w->rc = simba_locker_acquire(w->locker, LONG_MS, &err);
    atomic_store(&w->back, true);
    return NULL;
}

/* Somebody reads, and nothing is going to come. */
static bool is_quiet(void)
{
    const redis_store *store = client->store;
    simba__lock(client);
    const bool quiet = client->stats.pushes > 0 && simba__redis_node_idle(store->first);
    simba__unlock(client);
    return quiet;
}

static void begin_to_wait(waiter *w, const char *mutex)
{
    simba_error err = {0};
    const int queued = atoi(say("ZCARD simba:{%s}:contender", mutex));
    *w = (waiter){0};
    assert_int_equal(simba_locker_new(client, mutex, NULL, &err, &w->locker), 0);
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
    while (atoi(say("ZCARD simba:{%s}:contender", mutex)) == queued)
        usleep(1000);
    while (strstr(say("PUBSUB CHANNELS simba:{%s}:*", mutex), simba_locker_id(w->locker)) == NULL || !is_quiet())
        usleep(1000);
}

static void end_waiting(waiter *w, int expected)
{
    pthread_join(w->thread, NULL);
    assert_int_equal(w->rc, expected);
    simba_locker_free(w->locker);
}

/* The one that reads finds the subscriptions broken, or both connections. They are made again, and it gets
 * what it waits for. */
static void reader_finds_it_broken(void **state)
{
    waiter w;
    for (int i = 0; i < 6; i++) {
        open_store(&a); /* a grant of ours: at a JVM contender's the waiter would look by itself */
        assert_mine(acquire(&a, "orders", "other", (uint64_t)i + 1));
        testhost_close(&a);
        begin_to_wait(&w, "orders");
        /* Nobody hears of this: only the subscription that is made again finds out. So it comes first. If the client made its
         * subscription again before the mutex is free, it would wait for the end of the lease. */
        say("DEL simba:{orders}");
        say("CLIENT KILL TYPE pubsub");
        if (i % 2)
            say("CLIENT KILL SKIPME yes TYPE normal");
        end_waiting(&w, 0);
    }
}

static unsigned threads_of_process(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks))
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* A client that the loop of the application drives connects, renews, and hears of a loss, all without a thread. */
static void no_thread_for_a_loop(void **state)
{
    const unsigned before = threads_of_process();
    simba_client *other = client;
    simba_client_options loops = SIMBA_CLIENT_OPTIONS_INIT;
    loops.dispatch = SIMBA_DISPATCH_FD;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.timing.ttl_ms = ref_scaled_ms(200);
    options.timing.transition_ms = ref_scaled_ms(2000);
    simba_contender *contender = NULL;
    simba_error err = {0};
    assert_int_equal(simba_client_open(redis_url, &loops, &err, &client), 0);
    assert_int_equal(simba_contender_new(client, "looped", &options, &err, &contender), 0);
    assert_int_equal(simba_contender_start(contender), 0);
    struct pollfd fd = {.fd = simba_client_fd(client), .events = POLLIN};
    unsigned rounds = 0;
    bool revoked = false;
    while (stats().renewals < 3 || stats().grants < 2) {
        assert_int_equal(poll(&fd, 1, (int)LONG_MS), 1);
        assert_true(simba_client_dispatch(client) >= 0);
        rounds++;
        if (stats().renewals >= 3 && !revoked) {
            assert_int_equal(simba_client_force_release(other, "looped", &err), 0);
            revoked = true;
        }
    }
    assert_int_equal(threads_of_process(), before);
    assert_int_equal(stats().losses[SIMBA_REASON_REVOKED], 1);
    assert_true(rounds < 100);
    simba_contender_free(contender);
    assert_int_equal(simba_client_close(client), 0);
    client = other;
}

/* More than the socket takes, sent by a thread of the application to a server that does not read: the rest is sent when it
 * does. A unix socket, because it takes little. */
static void more_than_the_socket_takes(void **state)
{
    static simba_contender *crowd[CROWD];
    const simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_error err = {0};
    char path[128];
    char url[160];
    char mutex[32];
    server other;
    server_init(&other);
    snprintf(path, sizeof path, "%s/socket", other.folder);
    snprintf(url, sizeof url, "redis+unix://%s?restart-wait=no", path);
    assert_true(
        server_start_redis(&other, (const char *const[]){"--unixsocket", path, "--unixsocketperm", "777", NULL}));
    simba_client *crowded = open_at_url(url);
    lock_and_unlock(crowded, "first"); /* now there is a connection */
    for (int i = 0; i < CROWD; i++) {
        snprintf(mutex, sizeof mutex, "crowd-%d", i);
        assert_int_equal(simba_contender_new(crowded, mutex, &options, &err, &crowd[i]), 0);
    }
    /* The first time the client finds out how much it may ask at once. */
    for (int round = 0; round < 2; round++) {
        server_signal(&other, SIGSTOP);
        for (int i = 0; i < CROWD; i++)
            assert_int_equal(simba_contender_start(crowd[i]), 0);
        server_signal(&other, SIGCONT);
        for (int i = 0; i < CROWD; i++)
            assert_true(REF_WITHIN(LONG_MS, simba_contender_held_for_ms(crowd[i]) > 0));
        for (int i = 0; i < CROWD && round == 0; i++)
            assert_int_equal(simba_contender_stop(crowd[i]), 0);
    }
    simba_stats now = SIMBA_STATS_INIT;
    simba_client_stats(crowded, &now);
    assert_int_equal(now.errors, 0);
    for (int i = 0; i < CROWD; i++)
        simba_contender_free(crowd[i]);
    simba_client_close(crowded);
    server_fini(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reader_finds_it_broken, open_client, close_client),
        cmocka_unit_test_setup_teardown(no_thread_for_a_loop, open_client, close_client),
        cmocka_unit_test_setup_teardown(more_than_the_socket_takes, open_client, close_client),
    };
    return RUN_REDIS_TESTS(tests);
}
