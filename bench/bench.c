/* See bench.h. */
#include "bench.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SIDES_MAX = 3, ROUNDS_MAX = 20000, PAIRS = 16, STRETCH_MS = 6000, TIMEOUT_S = 60 };

static char temp_dir[512];
static pid_t temp_dir_owner;

bool bench_wants_quick(int argc, char **argv)
{
    if (argc == 1)
        return false;
    if (argc == 2 && strcmp(argv[1], "--quick") == 0)
        return true;
    fprintf(stderr, "Usage: %s [--quick]\n", argv[0]);
    exit(64);
}

/* Nothing stays in the buffer, which children inherit. */
void bench_row(const char *what, double measured, const char *unit)
{
    printf("%s\t%.3f\t%s\n", what, measured, unit);
    if (fflush(stdout) != 0)
        bench_fail("stdout", "cannot be written");
}

void bench_fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

void bench_check(int code, const char *what, const simba_error *error)
{
    if (code >= 0)
        return;
    bench_fail(what, error != NULL && error->text[0] != '\0' ? error->text : simba_error_text(code));
}

/* --- time --------------------------------------------------------------------------------------- */

int64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void bench_sleep_ms(int64_t ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static int by_value(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

double bench_median(int64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    const int64_t middle = count > 0 ? values[count / 2] : 0;
    return (double)middle;
}

/* --- files and memory --------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static void remove_temp_dir(void)
{
    if (getpid() == temp_dir_owner)
        nftw(temp_dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *bench_temp_dir(void)
{
    if (temp_dir_owner != 0)
        return temp_dir;
    const char *tmp = getenv("TMPDIR");
    snprintf(temp_dir, sizeof temp_dir, "%s/simba-bench-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(temp_dir) == NULL)
        bench_fail("temporary directory", temp_dir);
    temp_dir_owner = getpid();
    atexit(remove_temp_dir);
    return temp_dir;
}

void *bench_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_fail("shared memory", "refused");
    return memory;
}

/* --- lock and unlock ---------------------------------------------------------------------------- */

void bench_take_turns(const bench_side *sides, size_t count, bool quick, double *ret_per_second)
{
    static int64_t took_ns[SIDES_MAX][ROUNDS_MAX];
    const int64_t until_ns = bench_now_ns() + INT64_C(1000000) * (quick ? STRETCH_MS / 10 : STRETCH_MS);
    size_t rounds = 0;
    do {
        for (size_t i = 0; i < count; i++) {
            const int64_t start_ns = bench_now_ns();
            for (int k = 0; k < PAIRS; k++)
                sides[i].pair(sides[i].user);
            took_ns[i][rounds] = bench_now_ns() - start_ns;
        }
        rounds++;
    } while (bench_now_ns() < until_ns && rounds < ROUNDS_MAX);
    for (size_t i = 0; i < count; i++) {
        qsort(took_ns[i], rounds, sizeof took_ns[i][0], by_value);
        const size_t tenth = rounds / 10;
        ret_per_second[i] = PAIRS * 1e9 / (double)took_ns[i][tenth];
    }
}

bench_locker bench_locker_open(const char *url, const char *mutex)
{
    bench_locker l = {NULL, NULL};
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &l.client), url, &error);
    bench_check(simba_locker_new(l.client, mutex, NULL, &error, &l.locker), "locker", &error);
    return l;
}

void bench_locker_close(bench_locker *locker)
{
    simba_locker_free(locker->locker);
    simba_client_close(locker->client);
}

void bench_locker_pair(void *locker)
{
    const bench_locker *l = locker;
    simba_error error;
    bench_check(simba_locker_acquire(l->locker, 5000, &error), "acquire", &error);
    bench_check(simba_locker_release(l->locker, &error), "release", &error);
}

/* --- many contenders ---------------------------------------------------------------------------- */

bench_crowd bench_crowd_start(const char *url, const char *of, size_t size, int64_t ttl_ms, int64_t transition_ms)
{
    bench_crowd crowd = {.all = calloc(size, sizeof *crowd.all), .size = size};
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_error error;
    char mutex[SIMBA_MUTEX_MAX];
    options.timing.ttl_ms = ttl_ms;
    options.timing.transition_ms = transition_ms;
    if (!crowd.all)
        bench_fail("contenders", "out of memory");
    bench_check(simba_client_open(url, NULL, &error, &crowd.client), url, &error);
    for (size_t i = 0; i < size; i++) {
        snprintf(mutex, sizeof mutex, "%s-%zu", of, i);
        bench_check(simba_contender_new(crowd.client, mutex, &options, &error, &crowd.all[i]), mutex, &error);
        bench_check(simba_contender_start(crowd.all[i]), mutex, NULL);
    }
    return crowd;
}

simba_stats bench_crowd_stats(const bench_crowd *crowd)
{
    simba_stats stats = SIMBA_STATS_INIT;
    bench_check(simba_client_stats(crowd->client, &stats), "stats", NULL);
    return stats;
}

bool bench_crowd_await_held(const bench_crowd *crowd)
{
    const int64_t until_ns = bench_now_ns() + TIMEOUT_S * INT64_C(1000000000);
    while (bench_crowd_stats(crowd).held < crowd->size && bench_now_ns() < until_ns)
        bench_sleep_ms(2);
    return bench_crowd_stats(crowd).held >= crowd->size;
}

void bench_crowd_end(bench_crowd *crowd)
{
    simba_client_close(crowd->client); /* stops the contenders that still run */
    for (size_t i = 0; i < crowd->size; i++)
        simba_contender_free(crowd->all[i]);
    free(crowd->all);
}
