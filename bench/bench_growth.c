/* One point of a curve: what a number of mutexes, of contenders for one mutex, or of processes that wait for one mutex cost. Prints
 * one line of figures. bench/growth runs it for many numbers, each in a process of its own, and draws the plots.
 *   mutexes URL N      bytes of memory each; seconds until all are held; percent of a core while they are renewed; how many were lost
 *   contenders URL N   bytes each; seconds until all wait; microseconds of a hand-over
 *   waiters URL N      as many mutexes that another process holds, each with one contender here: bytes each; seconds until all wait;
 *                      percent of a core and requests to the store while they wait; connections; seconds until all are granted after
 *                      the other process has begun to close; failed requests
 *   processes URL N    microseconds of a hand-over */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { PATIENCE_S = 240, PASSES = 50, COUNT_MAX = 1000000, PROCESSES_MAX = 4096 };

static double seconds_since(int64_t start_ns)
{
    return (double)(bench_now_ns() - start_ns) / 1e9;
}

static double resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long size = 0, resident = 0;
    if (!file || fscanf(file, "%llu %llu", &size, &resident) != 2)
        bench_fail("/proc/self/statm", "cannot be read");
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static simba_client *open_client(const char *url)
{
    simba_client *client = NULL;
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    return client;
}

static _Atomic(simba_contender *) leader; /* the contender that was told last */

static void note_leader(simba_contender *contender, const simba_state *state, void *user)
{
    (void)state;
    (void)user;
    atomic_store(&leader, contender);
}

static void start_one(simba_client *client, const char *mutex)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *contender = NULL;
    simba_error error;
    options.on_acquired = note_leader;
    bench_check(simba_contender_new(client, mutex, &options, &error, &contender), mutex, &error);
    bench_check(simba_contender_start(contender), mutex, NULL);
}

/* --- mutexes ------------------------------------------------------------------------------------------ */

static void grow_mutexes(const char *url, unsigned count)
{
    enum { TTL_MS = 10000 };
    char full[1024];
    snprintf(full, sizeof full, "%s%cttl=10s&transition=10s", url, strchr(url, '?') ? '&' : '?');
    simba_client *client = open_client(full);
    start_one(client, "first"); /* the first one brings costs that are not its own */
    const double bytes_before = resident_bytes();
    const int64_t start_ns = bench_now_ns();
    for (unsigned i = 0; i < count; i++) {
        char mutex[SIMBA_MUTEX_MAX];
        snprintf(mutex, sizeof mutex, "grow-%u", i);
        start_one(client, mutex);
    }
    while (bench_stats(client).held <= count) {
        if (seconds_since(start_ns) > PATIENCE_S)
            bench_fail("mutexes", "not all are held in time");
        bench_sleep_ms(20);
    }
    const double start_s = seconds_since(start_ns);
    const double bytes = (resident_bytes() - bytes_before) / count;
    const double cpu_before = bench_cpu_seconds();
    const int64_t calm_ns = bench_now_ns();
    const uint64_t renewals = bench_stats(client).renewals;
    bench_sleep_ms(TTL_MS);
    while (bench_stats(client).renewals - renewals < count && seconds_since(calm_ns) < 3 * TTL_MS / 1000.0)
        bench_sleep_ms(100);
    const double cpu = 100 * (bench_cpu_seconds() - cpu_before) / seconds_since(calm_ns);
    const simba_stats after = bench_stats(client);
    printf("%u %.0f %.3f %.2f %llu\n", count, bytes, start_s, cpu, (unsigned long long)(count + 1 - after.held));
}

/* --- waiters ------------------------------------------------------------------------------------------- */

static void start_many(simba_client *client, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char mutex[SIMBA_MUTEX_MAX];
        snprintf(mutex, sizeof mutex, "grow-%u", i);
        start_one(client, mutex);
    }
}

static void await_held(simba_client *client, unsigned count)
{
    const int64_t start_ns = bench_now_ns();
    while (bench_stats(client).held < count) {
        if (seconds_since(start_ns) > PATIENCE_S)
            bench_fail("mutexes", "not all are held in time");
        bench_sleep_ms(20);
    }
}

/* The other process: holds all mutexes, says so, and gives them back when it is told to. */
static void hold_until_told(const char *url, unsigned count, int in, int out)
{
    char byte = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    simba_client *client = open_client(url);
    start_many(client, count);
    await_held(client, count);
    if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
        bench_fail("pipe", "the other process has gone");
    simba_client_close(client);
    _exit(0);
}

static uint64_t acquires_answered(simba_client *client)
{
    const simba_histogram answered = bench_stats(client).acquire;
    uint64_t count = 0;
    for (unsigned i = 0; i < SIMBA_HISTOGRAM_BUCKETS; i++)
        count += answered.buckets[i];
    return count;
}

/* Wait until each contender has had an answer, and for a second hardly any has asked again. Returns how long that took, without that
 * second. */
static double await_calm(simba_client *client, unsigned count, int64_t start_ns)
{
    uint64_t requests = 0;
    double since_s = 0;
    do {
        const uint64_t now = bench_stats(client).requests;
        if (acquires_answered(client) < count || now - requests > count / 100) {
            requests = now;
            since_s = seconds_since(start_ns);
        }
        if (seconds_since(start_ns) > PATIENCE_S)
            bench_fail("waiters", "not all wait in time");
        bench_sleep_ms(10);
    } while (seconds_since(start_ns) < since_s + 1);
    return since_s;
}

static unsigned open_sockets(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        char target[64] = "";
        count += readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0 &&
                 strncmp(target, "socket:", 7) == 0;
    }
    if (folder)
        closedir(folder);
    return count;
}

static void grow_waiters(const char *url, unsigned count)
{
    enum { CALM_MS = 10000 };
    char full[1024], byte = 0;
    int there[2], back[2];
    snprintf(full, sizeof full, "%s%cttl=10s&transition=10s", url, strchr(url, '?') ? '&' : '?');
    const bool session = strncmp(url, "zookeeper:", 10) == 0; /* its sessions have their own time */
    if (pipe(there) != 0 || pipe(back) != 0)
        bench_fail("pipe", "cannot be made");
    if (fork() == 0)
        hold_until_told(session ? url : full, count, there[0], back[1]);
    close(back[1]);
    if (read(back[0], &byte, 1) != 1)
        bench_fail("waiters", "the other process does not hold all mutexes");
    simba_client *client = open_client(session ? url : full);
    start_one(client, "first");
    await_held(client, 1);
    const double bytes_before = resident_bytes();
    const int64_t start_ns = bench_now_ns();
    start_many(client, count);
    const double start_s = await_calm(client, count + 1, start_ns);
    const double bytes = (resident_bytes() - bytes_before) / count;
    const double cpu_before = bench_cpu_seconds();
    const uint64_t requests = bench_stats(client).requests;
    bench_sleep_ms(CALM_MS);
    const double cpu = 100 * (bench_cpu_seconds() - cpu_before) / (CALM_MS / 1000.0);
    const uint64_t asked = bench_stats(client).requests - requests;
    const unsigned sockets = open_sockets();
    if (bench_stats(client).waiting != count)
        bench_fail("waiters", "not all of them wait any more");
    const int64_t told_ns = bench_now_ns();
    if (write(there[1], &byte, 1) != 1)
        bench_fail("pipe", "the other process has gone");
    await_held(client, count + 1);
    printf("%u %.0f %.3f %.2f %llu %u %.3f %llu\n", count, bytes, start_s, cpu, (unsigned long long)asked, sockets,
           seconds_since(told_ns), (unsigned long long)bench_stats(client).errors);
}

/* --- contenders --------------------------------------------------------------------------------------- */

static void grow_contenders(const char *url, unsigned count)
{
    simba_client *client = open_client(url);
    start_one(client, "ball");
    while (!atomic_load(&leader))
        bench_sleep_ms(1);
    const double bytes_before = resident_bytes();
    const int64_t start_ns = bench_now_ns();
    const uint64_t requests = bench_stats(client).requests;
    for (unsigned i = 0; i < count; i++)
        start_one(client, "ball");
    while (bench_stats(client).waiting < count || bench_stats(client).requests - requests < count) {
        if (seconds_since(start_ns) > PATIENCE_S)
            bench_fail("contenders", "not all wait in time");
        bench_sleep_ms(1);
    }
    const double start_s = seconds_since(start_ns);
    const double bytes = (resident_bytes() - bytes_before) / count;
    const unsigned passes = count < PASSES ? count : PASSES;
    const int64_t pass_ns = bench_now_ns();
    for (unsigned passed = 0; passed < passes; passed++) {
        simba_contender *one = atomic_exchange(&leader, NULL);
        bench_check(simba_contender_stop(one), "stop", NULL);
        while (!atomic_load(&leader)) {
            if (seconds_since(pass_ns) > PATIENCE_S)
                bench_fail("contenders", "nobody takes over");
            sched_yield();
        }
    }
    printf("%u %.0f %.3f %.1f\n", count, bytes, start_s, seconds_since(pass_ns) * 1e6 / passes);
}

/* --- processes ---------------------------------------------------------------------------------------- */

/* This memory is shared by all processes. */
typedef struct shared {
    atomic_uint waiting;
    _Atomic int64_t last_ns;
} shared;

static void take_once(shared *s, const char *url)
{
    simba_locker *locker = NULL;
    simba_error error;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    simba_client *client = open_client(url);
    bench_check(simba_locker_new(client, "ball", NULL, &error, &locker), "locker", &error);
    atomic_fetch_add(&s->waiting, 1);
    bench_check(simba_locker_acquire(locker, PATIENCE_S * 1000, &error), "acquire", &error);
    atomic_store(&s->last_ns, bench_now_ns());
    bench_check(simba_locker_release(locker, &error), "release", &error);
    simba_locker_free(locker);
    simba_client_close(client);
    exit(0);
}

static void grow_processes(const char *url, unsigned count)
{
    simba_locker *locker = NULL;
    simba_error error;
    shared *s = bench_shared(sizeof *s);
    simba_client *client = open_client(url);
    bench_check(simba_locker_new(client, "ball", NULL, &error, &locker), "locker", &error);
    bench_check(simba_locker_acquire(locker, 5000, &error), "acquire", &error);
    for (unsigned i = 0; i < count; i++) {
        const pid_t child = fork();
        if (child < 0)
            bench_fail("fork", strerror(errno));
        if (child == 0)
            take_once(s, url);
        while (atomic_load(&s->waiting) <= i)
            bench_sleep_ms(1);
    }
    bench_sleep_ms(300); /* nothing tells when the last of them was refused */
    const int64_t began_ns = bench_now_ns();
    bench_check(simba_locker_release(locker, &error), "release", &error);
    for (unsigned i = 0; i < count; i++) {
        int status = 0;
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            bench_fail("processes", "one of them failed");
    }
    printf("%u %.1f\n", count, (double)(atomic_load(&s->last_ns) - began_ns) / 1e3 / count);
}

int main(int argc, char **argv)
{
    const long count = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    if (count < 1 || count > COUNT_MAX) {
        fprintf(stderr, "Usage: %s mutexes|waiters|contenders|processes URL NUMBER\n", argv[0]);
        return 64;
    }
    if (strcmp(argv[1], "mutexes") == 0)
        grow_mutexes(argv[2], (unsigned)count);
    else if (strcmp(argv[1], "waiters") == 0)
        grow_waiters(argv[2], (unsigned)count);
    else if (strcmp(argv[1], "contenders") == 0)
        grow_contenders(argv[2], (unsigned)count);
    else if (strcmp(argv[1], "processes") == 0 && count <= PROCESSES_MAX)
        grow_processes(argv[2], (unsigned)count);
    else
        bench_fail(argv[1], "is not a curve, or there are too many processes");
    fflush(stdout);
    _exit(0); /* do not measure how long it takes to give back a million mutexes */
}
