/* What does a contender cost that has nothing to do? A process has 100,000 of them, each of which leads a mutex of its
 * own on memory://. This measures the bytes that the library takes for each, the threads, and the CPU time of renewing
 * them all. */
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define PATIENCE_MS 12000
#define LOOK_MS 20

/* --- an allocator that counts ------------------------------------------------------------------- */

/* In front of every block, so that freeing it can subtract its size. This does not change what the system rounds up:
 * that goes in steps of this same size. */
typedef struct header {
    size_t size;
    size_t unused;
} header;

static atomic_llong asked_bytes;
static atomic_llong usable_bytes;

static void count(header *block, int sign)
{
    atomic_fetch_add(&asked_bytes, sign * (long long)block->size);
    atomic_fetch_add(&usable_bytes, sign * (long long)(malloc_usable_size(block) - sizeof *block));
}

static void *counting_malloc(size_t size)
{
    header *block = malloc(size + sizeof *block);
    if (block == NULL)
        return NULL;
    block->size = size;
    count(block, 1);
    return block + 1;
}

static void counting_free(void *memory)
{
    if (memory == NULL)
        return;
    header *block = (header *)memory - 1;
    count(block, -1);
    free(block);
}

static void *counting_realloc(void *memory, size_t size)
{
    if (memory == NULL)
        return counting_malloc(size);
    header *block = (header *)memory - 1;
    count(block, -1);
    header *moved = realloc(block, size + sizeof *block);
    if (moved == NULL) {
        count(block, 1);
        return NULL;
    }
    moved->size = size;
    count(moved, 1);
    return moved + 1;
}

/* --- the process, seen from outside ------------------------------------------------------------- */

static int thread_count(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    int threads = -1;
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "Threads: %d", &threads) == 1)
            break;
    }
    if (status != NULL)
        fclose(status);
    if (threads < 0)
        bench_fail("/proc/self/status", "does not tell the number of threads");
    return threads;
}

/* --- the measurements --------------------------------------------------------------------------- */

typedef struct crowd {
    simba_client *client;
    simba_contender **contenders;
    size_t size;
    int64_t ttl_ms;
} crowd;

static void start_all(crowd *c)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_error error;
    char mutex[SIMBA_MUTEX_MAX];
    options.timing.ttl_ms = c->ttl_ms;
    for (size_t i = 0; i < c->size; i++) {
        snprintf(mutex, sizeof mutex, "idle-%zu", i);
        bench_check(simba_contender_new(c->client, mutex, &options, &error, &c->contenders[i]), mutex, &error);
        bench_check(simba_contender_start(c->contenders[i]), mutex, NULL);
    }
    const int64_t until_ns = bench_now_ns() + PATIENCE_MS * INT64_C(1000000);
    while (bench_stats(c->client).held < c->size) {
        if (bench_now_ns() > until_ns)
            bench_fail("start", "not all contenders lead after 12 s");
        bench_sleep_ms(LOOK_MS);
    }
}

/* Measure for at least one ttl, and until each was renewed: a stretch without renewals would flatter. */
static void measure_renewals(const crowd *c)
{
    const simba_stats before = bench_stats(c->client);
    const int64_t start_ns = bench_now_ns();
    const double start_cpu = bench_cpu_seconds();
    const int64_t shortest_ns = c->ttl_ms * 1000000;
    uint64_t renewals = 0;
    int64_t elapsed_ns = 0;
    do {
        bench_sleep_ms(200);
        elapsed_ns = bench_now_ns() - start_ns;
        renewals = bench_stats(c->client).renewals - before.renewals;
        if (elapsed_ns > 2 * shortest_ns)
            bench_fail("renewals", "not all contenders were renewed within two ttls");
    } while (elapsed_ns < shortest_ns || renewals < c->size);
    const double cpu = bench_cpu_seconds() - start_cpu;
    const simba_stats after = bench_stats(c->client);

    char what[64];
    if (after.held != c->size)
        bench_fail("renewals", "a contender lost its mutex");
    snprintf(what, sizeof what, "renewals in %.1f s", (double)elapsed_ns / 1e9);
    bench_add(what, (double)renewals, 0, "", BENCH_NO_GOAL, 0);
    bench_add("CPU time of a renewal", cpu * 1e6 / (double)renewals, 2, "us", BENCH_NO_GOAL, 0);
    bench_add("CPU while renewing all", cpu * 1e11 / (double)elapsed_ns, 1, "% of a core", BENCH_BELOW, 25);
}

int main(int argc, char **argv)
{
    const bool quick = bench_wants_quick(argc, argv);
    crowd c = {.size = quick ? 10000 : 100000, .ttl_ms = quick ? 2000 : 10000};
    simba_error error;
    char title[96];

    bench_check(simba_set_allocator(counting_malloc, counting_realloc, counting_free), "allocator", NULL);
    c.contenders = calloc(c.size, sizeof *c.contenders);
    if (c.contenders == NULL)
        bench_fail("start", "out of memory");
    const int threads_without = thread_count();
    bench_check(simba_client_open("memory://bench", NULL, &error, &c.client), "open", &error);
    const int threads_before = thread_count();
    const double asked_before = (double)asked_bytes;
    const double usable_before = (double)usable_bytes;
    const int64_t start_ns = bench_now_ns();
    start_all(&c);
    const double start_seconds = (double)(bench_now_ns() - start_ns) / 1e9;

    const double size = (double)c.size;
    bench_add("time to start them all", start_seconds, 2, "s", BENCH_NO_GOAL, 0);
    bench_add("memory asked for, each", ((double)asked_bytes - asked_before) / size, 0, "bytes", BENCH_NO_GOAL, 0);
    bench_add("memory taken, each", ((double)usable_bytes - usable_before) / size, 0, "bytes", BENCH_AT_MOST, 1024);
    bench_add("threads of an open client", threads_before - threads_without, 0, "", BENCH_NO_GOAL, 0);
    bench_add("threads added by the contenders", thread_count() - threads_before, 0, "", BENCH_BELOW, 64);
    measure_renewals(&c);

    for (size_t i = 0; i < c.size; i++)
        simba_contender_free(c.contenders[i]);
    free(c.contenders);
    bench_check(simba_client_close(c.client), "close", NULL);
    snprintf(title, sizeof title, "%zu contenders, each leading a mutex of its own, ttl %d s", c.size,
             (int)(c.ttl_ms / 1000));
    return bench_print(title);
}
