/* What does a hand-over cost when many processes wait for one mutex of a SQLite file? Each process takes the mutex once and
 * gives it back at once. The time runs from the first release, when all wait, to the last acquire. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define PROCESSES_MAX 1000
#define SAMPLES 200 /* hand-overs of each kind */

/* This memory is shared by all processes. */
typedef struct shared {
    atomic_uint waiting; /* processes that were refused, or are about to be */
    atomic_uint taken;
    atomic_uint spoke; /* how many warnings the library gave */
    int64_t taken_ns[PROCESSES_MAX];
    pid_t order[PROCESSES_MAX];
} shared;

static shared *s;

static void count_warning(void *user, simba_log_level level, const char *text)
{
    (void)user;
    (void)text;
    if (level <= SIMBA_LOG_WARN)
        atomic_fetch_add(&s->spoke, 1);
}

static simba_client *open_client(const char *url)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_error error;
    options.log = count_warning;
    bench_check(simba_client_open(url, &options, &error, &client), url, &error);
    return client;
}

static void take_once(simba_locker *locker)
{
    simba_error error;
    atomic_fetch_add(&s->waiting, 1);
    bench_check(simba_locker_acquire(locker, 120000, &error), "acquire", &error);
    const unsigned index = atomic_fetch_add(&s->taken, 1);
    s->taken_ns[index] = bench_now_ns();
    s->order[index] = getpid();
    bench_check(simba_locker_release(locker, &error), "release", &error);
}

static void play(const char *url)
{
    simba_locker *locker = NULL;
    simba_error error;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    simba_client *client = open_client(url);
    bench_check(simba_locker_new(client, "ball", NULL, &error, &locker), "locker", &error);
    take_once(locker);
    simba_locker_free(locker);
    simba_client_close(client);
    exit(0);
}

/* The median time of the first hand-overs, while (almost) all processes waited. */
static double measure(const char *url, unsigned processes, double *ret_whole_ms)
{
    static int64_t times[PROCESSES_MAX];
    simba_locker *locker = NULL;
    simba_error error;
    memset(s, 0, sizeof *s);
    simba_client *client = open_client(url);
    bench_check(simba_locker_new(client, "ball", NULL, &error, &locker), "locker", &error);
    bench_check(simba_locker_acquire(locker, 5000, &error), "acquire", &error);
    for (unsigned i = 0; i < processes; i++) {
        const pid_t child = fork();
        if (child < 0)
            bench_fail("fork", strerror(errno));
        if (child == 0)
            play(url);
        while (atomic_load(&s->waiting) <= i)
            bench_sleep_ms(1);
    }
    bench_sleep_ms(200);
    const int64_t began_ns = bench_now_ns();
    bench_check(simba_locker_release(locker, &error), "release", &error);
    for (unsigned i = 0; i < processes; i++) {
        int status = 0;
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            bench_fail("hand-over", "a process failed");
    }
    const unsigned count = processes < SAMPLES ? processes : SAMPLES;
    for (unsigned i = 0; i < count; i++)
        times[i] = s->taken_ns[i] - (i > 0 ? s->taken_ns[i - 1] : began_ns);
    bench_sort(times, count);
    *ret_whole_ms = (double)(s->taken_ns[processes - 1] - began_ns) / 1e6;
    simba_locker_free(locker);
    simba_client_close(client);
    const unsigned middle = count / 2;
    return (double)times[middle] / 1e6;
}

int main(int argc, char **argv)
{
    static const unsigned sizes[] = {10, 100, 200, 1000};
    const bool quick = bench_wants_quick(argc, argv);
    char url[700];
    char what[64];
    s = bench_shared(sizeof *s);
    snprintf(url, sizeof url, "sqlite://%s/waiting.db?ttl=60s", bench_temp_dir());
    double few = 0;
    unsigned spoke = 0;
    for (size_t i = 0; i < (quick ? 3 : 4); i++) {
        double whole_ms;
        const double median = measure(url, sizes[i], &whole_ms);
        spoke += atomic_load(&s->spoke);
        few = i == 0 ? median : few;
        snprintf(what, sizeof what, "hand-over, %u waiting: median", sizes[i]);
        bench_add(what, median, 3, "ms", BENCH_NO_GOAL, 0);
        snprintf(what, sizeof what, "%u hand-overs", sizes[i]);
        bench_add(what, whole_ms, 1, "ms", BENCH_NO_GOAL, 0);
        if (i > 0) {
            snprintf(what, sizeof what, "%u waiting, compared with 10", sizes[i]);
            bench_add(what, median / few, 2, "", BENCH_AT_MOST, 1.5);
        }
    }
    bench_add("warnings", spoke, 0, "", BENCH_AT_MOST, 0);
    return bench_print("SQLite, one mutex that many processes wait for");
}
