/* Timers keep time whatever the application's threads do: a renewal that is late may be too late. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"
#include "support.h"
#include "util/clock.h"

enum { THREADS = 64, SAMPLES = 300 };

/* A timer that goes off every millisecond, and how late it was each time. */
struct ticker {
    simba_timer timer;
    simba_client *client;
    int64_t lags_ns[SAMPLES];
    unsigned count;
};

static void tick(simba_timer *timer, simba_local now)
{
    struct ticker *ticker = (struct ticker *)(void *)timer;
    if (ticker->count == SAMPLES)
        return;
    ticker->lags_ns[ticker->count] = simba__clock_boot().ns - timer->at.ns;
    board_lock();
    ticker->count++;
    board_unlock();
    simba__timers_set(&ticker->client->timers, timer, simba__local_add(now, SIMBA__NS_PER_MS));
}

static void ticker_start(struct ticker *ticker)
{
    ticker->client = client_open(NULL);
    ticker->timer.fire = tick;
    simba__lock(ticker->client);
    assert_int_equal(0, simba__timers_reserve(&ticker->client->timers, 1));
    simba__timers_set(&ticker->client->timers, &ticker->timer, simba__local_add(ticker->client->now, SIMBA__NS_PER_MS));
    simba__unlock(ticker->client);
}

static int by_size(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* Nine in ten were not later. */
static int64_t ticker_lag_ms(struct ticker *ticker)
{
    qsort(ticker->lags_ns, SAMPLES, sizeof ticker->lags_ns[0], by_size);
    return ticker->lags_ns[SAMPLES * 9 / 10] / SIMBA__NS_PER_MS;
}

static atomic_bool over;

static void lock_and_unlock(void *arg)
{
    simba_locker *locker = arg;
    while (!over) {
        EXPECT(simba_locker_acquire(locker, -1, NULL) == 0);
        EXPECT(simba_locker_release(locker, NULL) == 0);
    }
}

/* The kernel gives a lock to the thread that runs before it wakes the one that waits for it, and the polling thread would wait
 * for hundreds of milliseconds. A second client without such threads shows how late timers are on this machine now. */
static void many_threads_do_not_delay_the_timers(void **state)
{
    static struct ticker busy, idle;
    static struct runner runners[THREADS];
    simba_locker *lockers[THREADS];
    ticker_start(&busy);
    ticker_start(&idle);
    for (unsigned i = 0; i < THREADS; i++) {
        char mutex[16];
        snprintf(mutex, sizeof mutex, "m%u", i);
        assert_rc(0, simba_locker_new(busy.client, mutex, NULL, NULL, &lockers[i]));
        runner_start(&runners[i], lock_and_unlock, lockers[i]);
    }
    AWAIT(busy.count == SAMPLES && idle.count == SAMPLES);
    over = true;
    for (unsigned i = 0; i < THREADS; i++) {
        runner_join(&runners[i]);
        simba_locker_free(lockers[i]);
    }
    client_close(busy.client);
    client_close(idle.client);
    const int64_t busy_ms = ticker_lag_ms(&busy);
    const int64_t idle_ms = ticker_lag_ms(&idle);
    printf("# timers are up to %lld ms late, without the threads %lld ms\n", (long long)busy_ms, (long long)idle_ms);
    assert_true(busy_ms < 2 * idle_ms + 20); /* without a door for the poller it is hundreds of milliseconds */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_threads_do_not_delay_the_timers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
