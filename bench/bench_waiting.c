/* What if 200 processes wait for one mutex of a SQLite file? Each takes it once and gives it back at once. The time runs from the
 * first release, when all wait, to the last acquire. */
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

enum { PROCESSES = 200 };

/* This memory is shared by all processes. */
typedef struct shared {
    atomic_uint waiting; /* processes that were refused, or are about to be */
    atomic_llong last_ns;
} shared;

static void play(shared *s, const char *url)
{
    simba_error error;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_locker l = bench_locker_open(url, "ball");
    atomic_fetch_add(&s->waiting, 1);
    bench_check(simba_locker_acquire(l.locker, 120000, &error), "acquire", &error);
    atomic_store(&s->last_ns, bench_now_ns());
    bench_check(simba_locker_release(l.locker, &error), "release", &error);
    bench_locker_close(&l);
    exit(0);
}

int main(int argc, char **argv)
{
    char url[700];
    simba_error error;
    bench_wants_quick(argc, argv); /* it is quick */
    shared *s = bench_shared(sizeof *s);
    snprintf(url, sizeof url, "sqlite://%s/waiting.db?ttl=60s", bench_temp_dir());
    bench_locker l = bench_locker_open(url, "ball");
    bench_check(simba_locker_acquire(l.locker, 5000, &error), "acquire", &error);
    for (unsigned i = 0; i < PROCESSES; i++) {
        const pid_t child = fork();
        if (child < 0)
            bench_fail("fork", strerror(errno));
        if (child == 0)
            play(s, url);
        while (atomic_load(&s->waiting) <= i && waitpid(child, NULL, WNOHANG) == 0)
            bench_sleep_ms(1);
    }
    bench_sleep_ms(200);
    const int64_t began_ns = bench_now_ns();
    bench_check(simba_locker_release(l.locker, &error), "release", &error);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status = 0;
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            bench_fail("hand-over", "a process failed");
    }
    bench_locker_close(&l);
    bench_row("200 hand-overs", (double)(atomic_load(&s->last_ns) - began_ns) / 1e6, "ms");
    return 0;
}
