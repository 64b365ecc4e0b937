/* What does `linger` bring, and what does it cost others? bench_linger [--quick] [URL]; without a URL: memory and SQLite. For
 * stores with a server: tests/with_server redis bench/bench_linger 'redis://127.0.0.1:%PORT%'.
 *
 * Three questions: how many pairs of lock and unlock there are when nobody else wants the mutex; how much longer a hand-over to
 * another process takes if that process has to ask a lingering one, than if the mutex is released while it waits; and how evenly
 * four processes of four threads each, which all want one mutex all the time, are served (Jain's index: 1 is even). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { LINGER_MS = 1000, PROCESSES = 4, THREADS = 4, PATIENCE_MS = 30000 };

static bool quick;

static simba_locker *make_locker(simba_client *client, const char *mutex, int64_t linger_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    simba_error error;
    options.timing.linger_ms = linger_ms;
    bench_check(simba_locker_new(client, mutex, &options, &error, &locker), "locker", &error);
    return locker;
}

static simba_client *open_client(const char *url)
{
    simba_client *client = NULL;
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    return client;
}

static void acquire(simba_locker *locker)
{
    simba_error error;
    bench_check(simba_locker_acquire(locker, PATIENCE_MS, &error), "acquire", &error);
}

static void release(simba_locker *locker)
{
    simba_error error;
    bench_check(simba_locker_release(locker, &error), "release", &error);
}

/* --- nobody else ------------------------------------------------------------------------------------ */

static void measure_pairs(const char *url)
{
    simba_client *client = open_client(url);
    simba_locker *locker = make_locker(client, "alone", LINGER_MS);
    const int64_t start_ns = bench_now_ns();
    const int64_t until_ns = start_ns + (quick ? 200 : 2000) * INT64_C(1000000);
    uint64_t pairs = 0;
    while (bench_now_ns() < until_ns)
        for (int i = 0; i < 100; i++, pairs++) {
            acquire(locker);
            release(locker);
        }
    bench_add("pairs, undisturbed", (double)pairs * 1e9 / (double)(bench_now_ns() - start_ns), 0, "/s", BENCH_AT_LEAST,
              500000);
    simba_locker_free(locker);
    simba_client_close(client);
}

/* --- a hand-over ------------------------------------------------------------------------------------- */

static void say(int fd)
{
    if (write(fd, "", 1) != 1)
        bench_fail("pipe", "cannot be written");
}

static void hear(int fd)
{
    char byte;
    if (read(fd, &byte, 1) != 1)
        bench_fail("pipe", "the other process has gone");
}

/* The other process: for each byte it takes the mutex, says when it began and when it had it, and releases it at
 * once. */
static void take_on_demand(const char *url, int in, int out)
{
    simba_client *client = open_client(url);
    simba_locker *locker = make_locker(client, "ball", 0);
    acquire(locker); /* so that the connections are there */
    release(locker);
    say(out);
    char byte;
    while (read(in, &byte, 1) == 1) {
        int64_t times_ns[2] = {bench_now_ns()};
        say(out);
        acquire(locker);
        times_ns[1] = bench_now_ns();
        release(locker);
        if (write(out, times_ns, sizeof times_ns) != (ssize_t)sizeof times_ns)
            bench_fail("pipe", "cannot be written");
    }
    simba_locker_free(locker);
    simba_client_close(client);
}

/* Returns how long it took. `asked`: we linger, and the other process begins to wait; otherwise it waits, and we release. */
static int64_t hand_over(simba_locker *locker, bool asked, int in, int out)
{
    acquire(locker);
    if (asked) {
        release(locker);
        bench_sleep_ms(2); /* let the mutex idle */
    }
    say(out);
    hear(in);
    int64_t released_ns = 0;
    if (!asked) {
        bench_sleep_ms(5); /* let the other process wait */
        released_ns = bench_now_ns();
        release(locker);
    }
    int64_t times_ns[2];
    if (read(in, times_ns, sizeof times_ns) != (ssize_t)sizeof times_ns)
        bench_fail("pipe", "the other process has gone");
    return times_ns[1] - (asked ? times_ns[0] : released_ns);
}

static void measure_hand_over(const char *url)
{
    enum { ROUNDS = 300 };
    int there[2], back[2];
    if (pipe(there) != 0 || pipe(back) != 0)
        bench_fail("pipe", "cannot be made");
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        take_on_demand(url, there[0], back[1]);
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    hear(back[0]);
    simba_client *client = open_client(url);
    simba_locker *plain = make_locker(client, "ball", 0);
    simba_locker *lingers = make_locker(client, "ball", LINGER_MS);
    int64_t plain_ns[ROUNDS], asked_ns[ROUNDS];
    const size_t rounds = quick ? 20 : ROUNDS;
    for (size_t i = 0; i < rounds; i++) {
        plain_ns[i] = hand_over(plain, false, back[0], there[1]);
        asked_ns[i] = hand_over(lingers, true, back[0], there[1]);
    }
    close(there[1]);
    waitpid(child, NULL, 0);
    bench_sort(plain_ns, rounds);
    bench_sort(asked_ns, rounds);
    const size_t middle = rounds / 2;
    bench_add("hand-over to one who waits, median", (double)plain_ns[middle] / 1000, 0, "us", BENCH_NO_GOAL, 0);
    bench_add("hand-over by a lingering one, median", (double)asked_ns[middle] / 1000, 0, "us", BENCH_NO_GOAL, 0);
    bench_add("ratio", (double)asked_ns[middle] / (double)plain_ns[middle], 2, "", BENCH_AT_MOST, 1.6);
    simba_locker_free(plain);
    simba_locker_free(lingers);
    simba_client_close(client);
}

/* --- a crowd ------------------------------------------------------------------------------------------ */

/* What all processes share. */
typedef struct crowd {
    pthread_barrier_t ready;
    int64_t from_ns, until_ns; /* when turns count: nobody may be alone with the mutex before or after the others */
    volatile uint64_t counts[PROCESSES * THREADS];
} crowd;

typedef struct hand {
    simba_client *client;
    crowd *crowd;
    volatile uint64_t *count;
} hand;

static void *grab(void *arg)
{
    const hand *self = arg;
    simba_locker *locker = make_locker(self->client, "crowd", LINGER_MS);
    acquire(locker);
    release(locker);
    if (pthread_barrier_wait(&self->crowd->ready) != 0) { /* true for one of them */
        self->crowd->from_ns = bench_now_ns() + INT64_C(500000000);
        self->crowd->until_ns = self->crowd->from_ns + (quick ? 1000 : 5000) * INT64_C(1000000);
    }
    pthread_barrier_wait(&self->crowd->ready);
    int64_t now_ns;
    while ((now_ns = bench_now_ns()) < self->crowd->until_ns) {
        acquire(locker);
        *self->count += now_ns >= self->crowd->from_ns;
        release(locker);
    }
    simba_locker_free(locker);
    return NULL;
}

static void run_process(const char *url, crowd *shared, unsigned number)
{
    simba_client *client = open_client(url);
    pthread_t threads[THREADS];
    hand hands[THREADS];
    for (int i = 0; i < THREADS; i++) {
        hands[i] = (hand){client, shared, &shared->counts[number * THREADS + (unsigned)i]};
        if (pthread_create(&threads[i], NULL, grab, &hands[i]) != 0)
            bench_fail("thread", "cannot be started");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    simba_client_close(client);
}

static void measure_fairness(const char *url)
{
    crowd *shared = bench_shared(sizeof *shared);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (pthread_barrier_init(&shared->ready, &attributes, PROCESSES * THREADS) != 0)
        bench_fail("barrier", "cannot be made");
    pid_t children[PROCESSES];
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            run_process(url, shared, (unsigned)i);
            _exit(0);
        }
    }
    double sum = 0, squares = 0;
    for (int i = 0; i < PROCESSES; i++)
        waitpid(children[i], NULL, 0);
    for (int i = 0; i < PROCESSES * THREADS; i++) {
        const double count = (double)shared->counts[i];
        sum += count;
        squares += count * count;
    }
    bench_add("4 processes of 4 threads, turns", sum / (quick ? 1 : 5), 0, "/s", BENCH_NO_GOAL, 0);
    bench_add("Jain's index", sum * sum / (PROCESSES * THREADS * squares), 3, "", BENCH_AT_LEAST, 0.9);
}

static void measure(const char *url, bool processes)
{
    /* Fork first: a child must not inherit a client. */
    if (processes) {
        measure_hand_over(url);
        measure_fairness(url);
    }
    measure_pairs(url);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 && strcmp(argv[argc - 1], "--quick") != 0 ? argv[--argc] : NULL;
    quick = bench_wants_quick(argc, argv);
    char title[128];
    snprintf(title, sizeof title, "Lockers that linger, %.*s", (int)strcspn(url ? url : "sqlite and memory:", ":"),
             url ? url : "sqlite and memory:");
    if (url) {
        measure(url, true);
        return bench_print(title);
    }
    char sqlite[4200];
    snprintf(sqlite, sizeof sqlite, "sqlite://%s/linger.db", bench_temp_dir());
    measure(sqlite, true);
    measure("memory://linger", false); /* other processes have a memory of their own */
    return bench_print(title);
}
