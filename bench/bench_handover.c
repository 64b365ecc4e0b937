/* How long does a mutex lie idle when one process gives it back and another waits for it? Two processes pass one mutex
 * of a SQLite file to and fro. They write the time of a clock that both share into memory that both share. The time
 * runs from just before the call of release in one to the return of acquire in the other. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define HANDOVERS_MAX 1000
#define SETTLE_MS 2 /* time for the other process to be refused and begin to wait */
#define LIMIT_NS INT64_C(25000000000)

/* This memory is shared by both processes. */
typedef struct shared {
    atomic_llong released_ns; /* when the holder called release */
    atomic_uint passed;       /* hand-overs so far; the first to acquire counts as one */
    atomic_bool waiting[2];   /* about to call acquire, or in it */
    atomic_bool over;         /* enough, or something broke */
    int64_t samples[HANDOVERS_MAX];
    unsigned wanted;
} shared;

static void wait_until_other_waits(const shared *s, int me)
{
    while (!atomic_load(&s->waiting[!me]) && !atomic_load(&s->over))
        bench_sleep_ms(1);
    bench_sleep_ms(SETTLE_MS);
}

/* Take the turn: the mutex is ours now. True: it was the last one. */
static bool take_sample(shared *s, int64_t acquired_ns)
{
    const unsigned index = atomic_load(&s->passed);
    if (index > 0)
        s->samples[index - 1] = acquired_ns - atomic_load(&s->released_ns);
    atomic_store(&s->passed, index + 1);
    return index == s->wanted;
}

static void pass_to_and_fro(shared *s, int me, simba_locker *locker, int64_t until_ns)
{
    simba_error error;
    while (!atomic_load(&s->over)) {
        atomic_store(&s->waiting[me], true);
        const int code = simba_locker_acquire(locker, 5000, &error);
        const int64_t acquired_ns = bench_now_ns();
        if (atomic_load(&s->over))
            return;
        bench_check(code, "acquire", &error);
        atomic_store(&s->waiting[me], false);
        const bool last = take_sample(s, acquired_ns) || acquired_ns > until_ns;
        if (last)
            atomic_store(&s->over, true);
        else
            wait_until_other_waits(s, me);

        const unsigned passed = atomic_load(&s->passed);
        atomic_store(&s->released_ns, bench_now_ns());
        bench_check(simba_locker_release(locker, &error), "release", &error);
        /* Do not ask again before the other process had it. */
        while (atomic_load(&s->passed) == passed && !atomic_load(&s->over))
            bench_sleep_ms(1);
    }
}

/* A child process opens a client of its own, as every process must. */
static void play(shared *s, int me, const char *url, int64_t until_ns)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_locker l = bench_locker_open(url, "ball");
    pass_to_and_fro(s, me, l.locker, until_ns);
    bench_locker_close(&l);
    exit(0);
}

static bool await_players(shared *s, const pid_t *players)
{
    bool worked = true;
    for (int i = 0; i < 2; i++) {
        int status = 0;
        const pid_t ended = wait(&status);
        const bool failed = ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        atomic_store(&s->over, true);
        if (failed && ended > 0)
            kill(players[ended == players[0]], SIGKILL);
        worked = worked && !failed;
    }
    return worked;
}

static void report(shared *s)
{
    const unsigned passed = atomic_load(&s->passed);
    if (passed < 2)
        bench_fail("hand-over", "the mutex never changed hands");
    const unsigned count = passed - 1;
    bench_row("hand-overs", count, "");
    bench_row("median", bench_median(s->samples, count) / 1e6, "ms");
    bench_row("slowest", (double)s->samples[count - 1] / 1e6, "ms");
}

int main(int argc, char **argv)
{
    const bool quick = bench_wants_quick(argc, argv);
    char url[700];
    shared *s = bench_shared(sizeof *s);
    s->wanted = quick ? 100 : 500;
    /* Short leases: a lost wake-up then shows as a slow hand-over, and does not end the run. */
    snprintf(url, sizeof url, "sqlite://%s/handover.db?ttl=1s&transition=1s", bench_temp_dir());

    const int64_t until_ns = bench_now_ns() + LIMIT_NS;
    pid_t players[2];
    for (int me = 0; me < 2; me++) {
        players[me] = fork();
        if (players[me] == 0)
            play(s, me, url, until_ns);
        if (players[me] < 0)
            bench_fail("fork", "refused");
    }
    if (!await_players(s, players))
        bench_fail("hand-over", "a process failed");
    report(s);
    return 0;
}
