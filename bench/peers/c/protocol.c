/* See protocol.h. */
#include "protocol.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 1024, SAMPLES_MAX = 4000000, NAME_SIZE = 128, PAIRS_LEASE_MS = 10000 };

/* One thread of a command. */
typedef struct runner {
    const peer *p;
    void *lock;
    int64_t until_ns;
    size_t count;     /* of pairs */
    size_t size;      /* of samples */
    int64_t *samples; /* "pairs": what each took; "fight": when each was granted */
    pthread_t thread;
} runner;

void peer_fail(const char *what, const char *why)
{
    printf("error %s: %s\n", what, why);
    fflush(stdout);
    _exit(1);
}

void *peer_alloc(uint64_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        peer_fail("memory", "out of it");
    return memory;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void keep(runner *r, int64_t sample)
{
    if (r->count == SAMPLES_MAX)
        return;
    if (r->count == r->size) {
        r->size = r->size ? 2 * r->size : 4096;
        r->samples = realloc(r->samples, r->size * sizeof *r->samples);
        if (!r->samples)
            peer_fail("memory", "out of it");
    }
    r->samples[r->count++] = sample;
}

static void *run_pairs(void *argument)
{
    runner *r = argument;
    int64_t start_ns = now_ns();
    do {
        r->p->acquire(r->lock);
        r->p->release(r->lock);
        const int64_t end_ns = now_ns();
        keep(r, end_ns - start_ns);
        start_ns = end_ns;
    } while (start_ns < r->until_ns);
    return NULL;
}

static void *run_fight(void *argument)
{
    runner *r = argument;
    while (now_ns() < r->until_ns) {
        r->p->acquire(r->lock);
        keep(r, now_ns());
        r->p->release(r->lock);
    }
    return NULL;
}

static void run_all(runner *runners, unsigned count, void *(*run)(void *), int64_t ms)
{
    const int64_t until_ns = now_ns() + ms * 1000000;
    for (unsigned i = 0; i < count; i++) {
        runners[i].until_ns = until_ns;
        if (pthread_create(&runners[i].thread, NULL, run, &runners[i]) != 0)
            peer_fail("thread", "refused");
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(runners[i].thread, NULL);
}

static int by_value(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* pairs THREADS MS: threads of one client, each with a mutex of its own. */
static void pairs(const peer *p, void *client, unsigned threads, int64_t ms)
{
    runner *runners = peer_alloc(threads * sizeof *runners);
    for (unsigned i = 0; i < threads; i++) {
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "pairs-%d-%u", (int)getpid(), i);
        runners[i] = (runner){.p = p, .lock = p->lock_new(client, name, PAIRS_LEASE_MS)};
    }
    const int64_t start_ns = now_ns();
    run_all(runners, threads, run_pairs, ms);
    const int64_t elapsed_ns = now_ns() - start_ns;

    size_t count = 0;
    for (unsigned i = 0; i < threads; i++)
        count += runners[i].count;
    int64_t *all = peer_alloc((count + 1) * sizeof *all);
    for (unsigned i = 0, at = 0; i < threads; at += (unsigned)runners[i].count, i++)
        memcpy(all + at, runners[i].samples, runners[i].count * sizeof *all);
    qsort(all, count, sizeof *all, by_value);
    printf("pairs %zu %lld %lld %lld\n", count, (long long)elapsed_ns, (long long)all[count / 2],
           (long long)all[count * 99 / 100]);
    free(all);
    for (unsigned i = 0; i < threads; i++) {
        p->lock_free(runners[i].lock);
        free(runners[i].samples);
    }
    free(runners);
}

/* fight NAME CLIENTS MS: clients, a thread each, fight for one mutex. */
static void fight(const peer *p, const char *address, const char *name, unsigned clients, int64_t ms)
{
    runner *runners = peer_alloc(clients * sizeof *runners);
    void **opened = peer_alloc(clients * sizeof *opened);
    for (unsigned i = 0; i < clients; i++) {
        opened[i] = p->open(address);
        runners[i] = (runner){.p = p, .lock = p->lock_new(opened[i], name, PAIRS_LEASE_MS)};
    }
    run_all(runners, clients, run_fight, ms);
    printf("fight");
    for (unsigned i = 0; i < clients; i++) {
        const runner *r = &runners[i];
        putchar(' ');
        for (size_t k = 0; k < r->count; k++)
            printf(k ? ",%lld" : "%lld", (long long)r->samples[k]);
        if (r->count == 0)
            putchar('-');
        p->lock_free(r->lock);
        p->close(opened[i]);
        free(r->samples);
    }
    putchar('\n');
    free(runners);
    free(opened);
}

/* hold NAME LEASE_MS: keeps it until the process ends. */
static void hold(const peer *p, void *client, const char *name, int64_t lease_ms)
{
    void *lock = p->lock_new(client, name, lease_ms);
    p->acquire(lock);
    printf("held %lld\n", (long long)now_ns());
}

/* wait NAME LEASE_MS */
static void wait_for(const peer *p, void *client, const char *name, int64_t lease_ms)
{
    void *lock = p->lock_new(client, name, lease_ms);
    p->acquire(lock);
    printf("got %lld\n", (long long)now_ns());
    p->release(lock);
    p->lock_free(lock);
}

void peer_serve(const peer *p, int argc, char **argv)
{
    char line[512];
    char name[NAME_SIZE];
    unsigned count = 0;
    long long ms = 0;
    if (argc != 2)
        peer_fail(argv[0], "wants one argument: the address");
    void *client = p->open(argv[1]);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "pairs %u %lld", &count, &ms) == 2 && count > 0 && count <= THREADS_MAX)
            pairs(p, client, count, ms);
        else if (sscanf(line, "fight %127s %u %lld", name, &count, &ms) == 3 && count > 0 && count <= THREADS_MAX)
            fight(p, argv[1], name, count, ms);
        else if (sscanf(line, "hold %127s %lld", name, &ms) == 2)
            hold(p, client, name, ms);
        else if (sscanf(line, "wait %127s %lld", name, &ms) == 2)
            wait_for(p, client, name, ms);
        else
            peer_fail("command", "not understood");
        fflush(stdout);
    }
    _exit(0);
}
