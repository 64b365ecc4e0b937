/* A process holds 50,000 mutexes on Redis, and another waits for all of them. What if the first is killed? The benchmark starts the
 * server, which keeps nothing, and ends it. */
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* All leases of the killed process end within the time that it took to get them. */
enum { TTL_MS = 2000, TRANSITION_MS = 1000, WAIT_S = 60 };

static int port;
static char url[64];

static redisContext *connect_raw(void)
{
    for (int i = 0; i < 500; i++) {
        redisContext *raw = redisConnect("127.0.0.1", port);
        if (raw && !raw->err)
            return raw;
        redisFree(raw);
        bench_sleep_ms(10);
    }
    bench_fail("redis-server", "takes no connections");
}

static pid_t start_server(void)
{
    char text[12];
    port = 20000 + getpid() % 20000;
    snprintf(text, sizeof text, "%d", port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?restart-wait=no", port);
    const char *dir = bench_temp_dir();
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout))
            _exit(126);
        execlp("redis-server", "redis-server", "--port", text, "--bind", "127.0.0.1", "--dir", dir, "--save", "",
               "--appendonly", "no", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static int64_t key_count(redisContext *raw)
{
    redisReply *reply = redisCommand(raw, "DBSIZE");
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        bench_fail("DBSIZE", "no number");
    const int64_t count = reply->integer;
    freeReplyObject(reply);
    return count;
}

static pid_t start_holder(size_t size)
{
    volatile int *held = bench_shared(sizeof *held);
    const pid_t holder = fork();
    if (holder == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const bench_crowd crowd = bench_crowd_start(url, "estate", size, TTL_MS, TRANSITION_MS);
        *held = bench_crowd_await_held(&crowd);
        for (;;)
            pause();
    }
    for (int i = 0; i < WAIT_S * 100 && !*held; i++)
        bench_sleep_ms(10);
    if (!*held)
        bench_fail("estate", "nobody holds it");
    return holder;
}

static uint64_t losses(const simba_stats *stats)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < sizeof stats->losses / sizeof stats->losses[0]; i++)
        lost += stats->losses[i];
    return lost;
}

static void measure_estate(size_t size)
{
    char what[64];
    redisContext *raw = connect_raw();
    const pid_t holder = start_holder(size);
    const int64_t keys = key_count(raw); /* the queue of each mutex will be one more */
    bench_crowd heirs = bench_crowd_start(url, "estate", size, TTL_MS, TRANSITION_MS);
    for (int i = 0; i < WAIT_S * 50 && key_count(raw) < keys + (int64_t)size; i++)
        bench_sleep_ms(20);
    const simba_stats before = bench_crowd_stats(&heirs);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    const int64_t killed_ns = bench_now_ns();
    bench_crowd_await_held(&heirs);
    snprintf(what, sizeof what, "%zu of a killed process: all had", size);
    bench_row(what, (double)(bench_now_ns() - killed_ns) / 1e9, "s");
    bench_sleep_ms(2LL * TTL_MS); /* all are renewed */
    const simba_stats after = bench_crowd_stats(&heirs);
    bench_row("requests that failed", (double)(after.errors - before.errors), "");
    bench_row("leases lost again", (double)(losses(&after) - losses(&before)), "");
    bench_row("held 4 s later", (double)after.held, "");
    bench_crowd_end(&heirs);
    redisFree(raw);
}

int main(int argc, char **argv)
{
    const bool quick = bench_wants_quick(argc, argv);
    const pid_t server = start_server();
    measure_estate(quick ? 5000 : 50000);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}
