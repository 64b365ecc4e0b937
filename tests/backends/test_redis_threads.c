/* The Redis store under the real client, and whichever thread it is called on: those who wait read for one another, and
 * connections that break while nobody but they would notice are made again. */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backends/test_redis.h"
#include "client/client.h"
#include "lib/referee.h"

enum { THREADS = 6, ROUNDS = 40, CROWD = 2000 };
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
    (void)state;
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

/* The one that reads is told by whoever ends its wait: cancelled from another thread, or by its own deadline. */
static void reader_is_woken(void **state)
{
    (void)state;
    waiter w;
    say("SET simba:{orders} foreign PX 100000");
    begin_to_wait(&w, "orders");
    const int64_t before_ms = ref_now_ms();
    assert_int_equal(simba_locker_cancel(w.locker), 0);
    end_waiting(&w, SIMBA_ECANCELED);
    assert_true(ref_now_ms() - before_ms < LONG_MS / 3);
    simba_locker *locker;
    simba_error err;
    assert_int_equal(simba_locker_new(client, "orders", NULL, &err, &locker), 0);
    /* A busy server may not have answered by then: with more time it has. */
    int rc = SIMBA_EUNAVAILABLE;
    for (int64_t ms = 50; rc == SIMBA_EUNAVAILABLE && ms < LONG_MS; ms *= 2)
        rc = simba_locker_acquire(locker, ms, &err);
    assert_int_equal(rc, SIMBA_ETIMEDOUT);
    simba_locker_free(locker);
}

/* The one that reads finds the subscriptions broken, or both connections. They are made again, and it gets
 * what it waits for. */
static void reader_finds_it_broken(void **state)
{
    (void)state;
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
    (void)state;
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

static atomic_int inside[2];
static atomic_int done;

static void *fight(void *arg)
{
    const int nth = *(const int *)arg;
    simba_locker *locker;
    simba_error err = {0};
    REF_EXPECT(simba_locker_new(client, nth % 2 ? "odd" : "even", NULL, &err, &locker) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        if (simba_locker_acquire(locker, LONG_MS, &err) < 0) {
            REF_COMPLAIN("thread %d, round %d: %s", nth, i, err.text);
            break;
        }
        REF_EXPECT(atomic_fetch_add(&inside[nth % 2], 1) == 0);
        atomic_fetch_sub(&inside[nth % 2], 1);
        REF_EXPECT(simba_locker_release(locker, &err) == 0);
    }
    simba_locker_free(locker);
    atomic_fetch_add(&done, 1);
    return NULL;
}

/* Threads that fight on one client read one another's answers and invitations. None is left behind. */
static void threads_read_for_one_another(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int nth[THREADS];
    atomic_store(&done, 0);
    const int64_t before_ms = ref_now_ms();
    for (int i = 0; i < THREADS; i++) {
        nth[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, fight, &nth[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&done), THREADS);
    /* An invitation that is not read costs a tenth of a second at least: not many were. */
    assert_true(ref_now_ms() - before_ms < ref_scaled_ms(4000));
}

/* More than the socket takes, sent by a thread of the application to a server that does not read: the rest is sent when it
 * does. A unix socket, because it takes little. */
static void more_than_the_socket_takes(void **state)
{
    (void)state;
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

/* A holder whose mutex is forced away is told at once: long before the next renewal, at which it would find out. */
static void holder_is_told(void **state)
{
    (void)state;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *holder;
    simba_error err = {0};
    options.timing.ttl_ms = 60000;
    assert_int_equal(simba_contender_new(client, "orders", &options, &err, &holder), 0);
    assert_int_equal(simba_contender_start(holder), 0);
    assert_true(REF_WITHIN(LONG_MS, simba_contender_held_for_ms(holder) > 0));
    assert_true(REF_WITHIN(LONG_MS, strcmp(say("PUBSUB NUMSUB simba:@@revoked"), "simba:@@revoked 1") == 0));
    simba_client *administrator = open_at_url(redis_url);
    assert_int_equal(simba_client_force_release(administrator, "orders", &err), 0);
    assert_true(REF_WITHIN(LONG_MS, stats().losses[SIMBA_REASON_REVOKED] == 1));
    simba_client_close(administrator);
    simba_contender_free(holder);
}

static atomic_uint refusals, repeated;

/* A busy machine may bring other causes in between, after which a refusal is news again. */
static void count_refusals(void *user, simba_log_level level, const char *text)
{
    static atomic_bool latest;
    (void)user;
    if (level != SIMBA_LOG_WARN)
        return;
    const bool is_refusal = strstr(text, "0 of 1 replicas confirmed it") != NULL;
    atomic_fetch_add(&refusals, is_refusal);
    atomic_fetch_add(&repeated, is_refusal && atomic_load(&latest));
    atomic_store(&latest, is_refusal);
}

/* A cause that lasts is said once, however often it is met. */
static void refusals_are_said_once(void **state)
{
    char url[160];
    (void)state;
    simba_client_options logged = SIMBA_CLIENT_OPTIONS_INIT;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_client *refused_one;
    simba_contender *seeker;
    simba_error err = {0};
    simba_stats now = SIMBA_STATS_INIT;
    logged.log = count_refusals;
    options.timing.ttl_ms = options.timing.transition_ms = ref_scaled_ms(2000);
    snprintf(url, sizeof url, "%s&replicas=1", redis_url);
    assert_int_equal(simba_client_open(url, &logged, &err, &refused_one), 0);
    assert_int_equal(simba_contender_new(refused_one, "orders", &options, &err, &seeker), 0);
    assert_int_equal(simba_contender_start(seeker), 0);
    assert_true(REF_WITHIN(LONG_MS, (simba_client_stats(refused_one, &now), now.errors >= 4)));
    simba_contender_free(seeker);
    simba_client_close(refused_one);
    assert_true(atomic_load(&refusals) >= 1);
    assert_int_equal(atomic_load(&repeated), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reader_is_woken, open_client, close_client),
        cmocka_unit_test_setup_teardown(reader_finds_it_broken, open_client, close_client),
        cmocka_unit_test_setup_teardown(no_thread_for_a_loop, open_client, close_client),
        cmocka_unit_test_setup_teardown(threads_read_for_one_another, open_client, close_client),
        cmocka_unit_test_setup_teardown(more_than_the_socket_takes, open_client, close_client),
        cmocka_unit_test_setup_teardown(holder_is_told, open_client, close_client),
        cmocka_unit_test_setup_teardown(refusals_are_said_once, open_client, close_client),
    };
    return RUN_REDIS_TESTS(tests);
}
