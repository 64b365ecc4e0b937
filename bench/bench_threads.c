/* Do several threads of one client get more done than one? Each locks and unlocks a mutex of its own, without a pause. Numbers of threads
 * take turns in short rounds, and the best round of each counts, since whatever disturbs the machine only slows rounds down. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { THREADS_MOST = 64, ROUNDS = 14, ROUND_MS = 150 };

static const size_t numbers[] = {1, 2, 4, 16, 64};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

typedef struct worker {
    simba_locker *locker;
    pthread_t thread;
    int64_t pairs;
} worker;

static worker workers[THREADS_MOST];
static atomic_bool over;
static int rounds = ROUNDS;

static void *work(void *arg)
{
    worker *self = arg;
    simba_error error;
    self->pairs = 0;
    while (!over) {
        bench_check(simba_locker_acquire(self->locker, -1, &error), "acquire", &error);
        bench_check(simba_locker_release(self->locker, &error), "release", &error);
        self->pairs++;
    }
    return NULL;
}

/* Pairs per second. */
static double play_round(size_t count)
{
    int64_t pairs = 0;
    over = false;
    const int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bench_fail("thread", "cannot be made");
    bench_sleep_ms(ROUND_MS);
    over = true;
    for (size_t i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        pairs += workers[i].pairs;
    }
    return (double)pairs * 1e9 / (double)(bench_now_ns() - start_ns);
}

static void measure(const char *url)
{
    char what[64];
    double best[NUMBERS] = {0};
    simba_client *client;
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    for (size_t i = 0; i < THREADS_MOST; i++) {
        char mutex[24];
        snprintf(mutex, sizeof mutex, "thread-%zu", i);
        bench_check(simba_locker_new(client, mutex, NULL, &error, &workers[i].locker), mutex, &error);
    }
    play_round(THREADS_MOST); /* every mutex is there now */
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < NUMBERS; i++) {
            const double rate = play_round(numbers[i]);
            best[i] = rate > best[i] ? rate : best[i];
        }
    for (size_t i = 0; i < THREADS_MOST; i++)
        simba_locker_free(workers[i].locker);
    simba_client_close(client);
    snprintf(what, sizeof what, "%.*s, one thread", (int)strcspn(url, ":"), url);
    bench_add(what, best[0], 0, "pairs/s", BENCH_NO_GOAL, 0);
    for (size_t i = 1; i < NUMBERS; i++) {
        snprintf(what, sizeof what, "%zu threads, compared with one", numbers[i]);
        bench_add(what, best[i] / best[0], 2, "", BENCH_AT_LEAST, 1);
    }
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 && strcmp(argv[argc - 1], "--quick") != 0 ? argv[--argc] : NULL;
    if (bench_wants_quick(argc, argv))
        rounds = 3;
    char sqlite[700];
    snprintf(sqlite, sizeof sqlite, "sqlite://%s/threads.db?sync=normal", bench_temp_dir());
    measure(url ? url : "memory://threads");
    if (!url)
        measure(sqlite);
    return bench_print("Threads of one client, each with a mutex of its own");
}
