/* What does a held mutex cost that nobody wants? A process holds 100,000 on memory://. This measures the bytes that malloc sets aside
 * for each, the store's own row included, and the processor time of renewing them all. */
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bench.h"

/* --- an allocator that counts ------------------------------------------------------------------- */

/* In front of every block, so that freeing it can subtract its size. This does not change what the system rounds up:
 * that goes in steps of this same size. */
typedef struct header {
    size_t size;
    size_t unused;
} header;

static atomic_llong taken_bytes;

static void count(header *block, int sign)
{
    atomic_fetch_add(&taken_bytes, sign * (long long)(malloc_usable_size(block) - sizeof *block));
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

/* --- the measurements --------------------------------------------------------------------------- */

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Measure for at least one ttl, and until each was renewed: a stretch without renewals would flatter. */
static void measure_renewals(const bench_crowd *c, int64_t ttl_ms)
{
    const simba_stats before = bench_crowd_stats(c);
    const int64_t start_ns = bench_now_ns();
    const double start_s = cpu_seconds();
    const int64_t shortest_ns = ttl_ms * 1000000;
    uint64_t renewals = 0;
    int64_t elapsed_ns = 0;
    do {
        bench_sleep_ms(200);
        elapsed_ns = bench_now_ns() - start_ns;
        renewals = bench_crowd_stats(c).renewals - before.renewals;
        if (elapsed_ns > 2 * shortest_ns)
            bench_fail("renewals", "not all mutexes were renewed within two ttls");
    } while (elapsed_ns < shortest_ns || renewals < c->size);
    const double cpu_s = cpu_seconds() - start_s;
    if (bench_crowd_stats(c).held != c->size)
        bench_fail("renewals", "a mutex was lost");
    bench_row("CPU time of a renewal", cpu_s * 1e6 / (double)renewals, "us");
    bench_row("CPU while renewing all", cpu_s * 1e11 / (double)elapsed_ns, "% of a core");
}

int main(int argc, char **argv)
{
    const bool quick = bench_wants_quick(argc, argv);
    const int64_t ttl_ms = quick ? 1000 : 10000;
    bench_check(simba_set_allocator(counting_malloc, counting_realloc, counting_free), "allocator", NULL);
    bench_crowd c = bench_crowd_start("memory://bench", "idle", quick ? 10000 : 100000, ttl_ms, 6000);
    if (!bench_crowd_await_held(&c))
        bench_fail("start", "not all mutexes were held after a minute");
    bench_row("memory taken, each", (double)taken_bytes / (double)c.size, "bytes");
    measure_renewals(&c, ttl_ms);
    bench_crowd_end(&c);
    return 0;
}
