/* Many mutexes of one process on Redis, and more requests than the server can answer. Renewing 50,000 shows what a held mutex costs.
 * A process that waits for the 50,000 mutexes of a killed one asks for all of them at once; one that closes with 100,000 gives
 * them all back at once. At last the server gets a tenth of a processor, while a program asks as fast as if it had all of it. */
#include <stdlib.h>

#include "backends/redis/scripts.h"
#include "bench.h"
#include "redis_server.h"
#include "util/mem.h"

/* --- a crowd of holders --------------------------------------------------------------------------------------- */

/* The connections of the library, without our own. */
static int connection_count(redisContext *raw)
{
    redisReply *reply = redisCommand(raw, "CLIENT LIST");
    int count = -1;
    for (const char *at = reply && reply->type == REDIS_REPLY_STRING ? reply->str : NULL; at && *at; count++) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    freeReplyObject(reply);
    return count;
}

/* Measure for at least one ttl, and until each was renewed. One more contender waits for a mutex of the crowd, so that
 * there are subscriptions too. */
static void measure_crowd(size_t size, int64_t ttl_ms)
{
    char what[64];
    char mutex[32];
    simba_error error;
    simba_client *client;
    simba_contender *waiter;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.timing.ttl_ms = ttl_ms;
    simba_contender **crowd = calloc(size, sizeof *crowd);
    redisContext *raw = redis_connect();
    if (!crowd)
        bench_fail("crowd", "out of memory");
    bench_check(simba_client_open(redis.url, NULL, &error, &client), redis.url, &error);
    for (size_t i = 0; i < size; i++) {
        snprintf(mutex, sizeof mutex, "crowd-%zu", i);
        bench_check(simba_contender_new(client, mutex, &options, &error, &crowd[i]), mutex, &error);
        bench_check(simba_contender_start(crowd[i]), mutex, NULL);
    }
    const int64_t patience_ns = bench_now_ns() + INT64_C(15000000000);
    while (bench_stats(client).held < size && bench_now_ns() < patience_ns)
        bench_sleep_ms(20);
    bench_check(simba_contender_new(client, "crowd-0", &options, &error, &waiter), "waiter", &error);
    bench_check(simba_contender_start(waiter), "waiter", NULL);

    const simba_stats before = bench_stats(client);
    const int64_t start_ns = bench_now_ns();
    const double start_cpu = bench_cpu_seconds();
    const double start_server = redis_cpu_seconds(raw);
    simba_stats now = SIMBA_STATS_INIT;
    do {
        bench_sleep_ms(200);
        now = bench_stats(client);
    } while (bench_now_ns() < start_ns + ttl_ms * 1000000 ||
             (now.renewals - before.renewals < size && bench_now_ns() < start_ns + 2 * ttl_ms * 1000000));
    const double percent = 1e11 / (double)(bench_now_ns() - start_ns);
    const uint64_t lost = bench_losses(&now);
    snprintf(what, sizeof what, "%zu held, ttl %d s: CPU", size, (int)(ttl_ms / 1000));
    bench_add(what, (bench_cpu_seconds() - start_cpu) * percent, 1, "% of a core", BENCH_BELOW, 15);
    bench_add("CPU of the server", (redis_cpu_seconds(raw) - start_server) * percent, 1, "% of a core", BENCH_NO_GOAL,
              0);
    bench_add("server, per renewal",
              (redis_cpu_seconds(raw) - start_server) * 1e6 / (double)(now.renewals - before.renewals), 1, "us",
              BENCH_AT_MOST, 5);
    bench_add("connections", connection_count(raw), 0, "", BENCH_AT_MOST, 2);
    bench_add("renewed", (double)(now.renewals - before.renewals), 0, "", BENCH_AT_LEAST, (double)size);
    bench_add("lost, or not renewed at the first try", (double)(lost + size - now.held + now.renewals_failed), 0, "",
              BENCH_AT_MOST, 0);
    simba_contender_free(waiter);
    for (size_t i = 0; i < size; i++)
        simba_contender_free(crowd[i]);
    free(crowd);
    simba_client_close(client);
    redisFree(raw);
}

/* --- more than the server can do at a time ---------------------------------------------------------------------- */

/* ttl 2 s, transition 1 s: all leases of the killed process end within the time that it took to get them. */
static simba_contender **start_contenders(simba_client *client, const char *of, size_t size, int64_t ttl_ms,
                                          int64_t transition_ms)
{
    simba_error error;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.timing.ttl_ms = ttl_ms;
    options.timing.transition_ms = transition_ms;
    simba_contender **all = calloc(size, sizeof *all);
    if (!all)
        bench_fail("contenders", "out of memory");
    for (size_t i = 0; i < size; i++) {
        char mutex[32];
        snprintf(mutex, sizeof mutex, "%s-%zu", of, i);
        bench_check(simba_contender_new(client, mutex, &options, &error, &all[i]), mutex, &error);
        bench_check(simba_contender_start(all[i]), mutex, NULL);
    }
    return all;
}

/* The client stops the contenders that still run. */
static int64_t close_all(simba_client *client, simba_contender **all, size_t size)
{
    const int64_t start_ns = bench_now_ns();
    simba_client_close(client);
    const int64_t took_ns = bench_now_ns() - start_ns;
    for (size_t i = 0; i < size; i++)
        simba_contender_free(all[i]);
    free(all);
    return took_ns;
}

/* False: not all of them were held in this time. */
static bool await_held(simba_client *client, size_t size, int64_t within_ms)
{
    const int64_t until_ns = bench_now_ns() + within_ms * 1000000;
    while (bench_stats(client).held < size && bench_now_ns() < until_ns)
        bench_sleep_ms(2);
    return bench_stats(client).held >= size;
}

static void hold_estate(volatile int *held, size_t size)
{
    simba_client *client;
    simba_error error;
    bench_check(simba_client_open(redis.url, NULL, &error, &client), redis.url, &error);
    start_contenders(client, "estate", size, 2000, 1000);
    if (!await_held(client, size, 60000))
        bench_fail("estate", "could not be had");
    *held = 1;
    for (;;)
        pause();
}

static void measure_estate(size_t size)
{
    char what[64];
    simba_client *client;
    simba_error error;
    volatile int *held = bench_shared(sizeof *held);
    redisContext *raw = redis_connect();
    const pid_t holder = fork();
    if (holder == 0)
        hold_estate(held, size);
    while (!*held && waitpid(holder, NULL, WNOHANG) == 0)
        bench_sleep_ms(1);
    if (!*held)
        bench_fail("estate", "nobody holds it");
    bench_check(simba_client_open(redis.url, NULL, &error, &client), redis.url, &error);
    const int64_t keys = redis_number(raw, "DBSIZE"); /* each queue will be one more */
    simba_contender **heirs = start_contenders(client, "estate", size, 2000, 1000);
    const int64_t patience_ns = bench_now_ns() + INT64_C(60000000000);
    while (redis_number(raw, "DBSIZE") < keys + (int64_t)size && bench_now_ns() < patience_ns)
        bench_sleep_ms(20);
    const simba_stats before = bench_stats(client);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    const int64_t killed_ns = bench_now_ns();
    const bool had = await_held(client, size, 60000);
    const int64_t took_ns = bench_now_ns() - killed_ns;
    bench_sleep_ms(4000); /* twice the ttl: all are renewed */
    const simba_stats after = bench_stats(client);
    snprintf(what, sizeof what, "%zu of a killed process, 2 s + 1 s: all had", size);
    bench_add(what, (double)took_ns / 1e9, 2, "s", BENCH_AT_MOST, 3.2);
    bench_add("requests that failed", (double)(after.errors - before.errors), 0, "", BENCH_AT_MOST, 0);
    bench_add("leases lost again", (double)(bench_losses(&after) - bench_losses(&before)), 0, "", BENCH_AT_MOST, 0);
    bench_add("held 4 s later", (double)after.held, 0, "", BENCH_AT_LEAST, had ? (double)size : 0);
    close_all(client, heirs, size);
    redisFree(raw);
}

static void measure_closing(size_t size)
{
    char what[64];
    simba_client *client;
    simba_error error;
    redisContext *raw = redis_connect();
    bench_check(simba_client_open(redis.url, NULL, &error, &client), redis.url, &error);
    simba_contender **all = start_contenders(client, "closed", size, 10000, 6000);
    if (!await_held(client, size, 60000))
        bench_fail("closing", "not all could be had");
    const int64_t took_ns = close_all(client, all, size);
    snprintf(what, sizeof what, "closing a client that holds %zu", size);
    bench_add(what, (double)took_ns / 1e9, 2, "s", BENCH_NO_GOAL, 0);
    redisReply *reply = redisCommand(raw, "EVAL %s 0", "return #redis.call('KEYS', 'simba:{closed-*}')");
    bench_add("not given back", reply && reply->type == REDIS_REPLY_INTEGER ? (double)reply->integer : -1, 0, "",
              BENCH_AT_MOST, 0);
    freeReplyObject(reply);
    redisFree(raw);
}

/* --- ten times what the server can do ------------------------------------------------------------------------------ */

/* Let the server run for three milliseconds in thirty. The caller kills the process that does this. */
static pid_t slow_server_down(void)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        kill(redis.pid, SIGSTOP);
        bench_sleep_ms(27);
        kill(redis.pid, SIGCONT);
        bench_sleep_ms(3);
    }
}

/* What the server did in a while. */
typedef struct work {
    double per_second; /* grants */
    double busy;       /* of a core */
} work;

/* What it does if a bare client keeps some hundred requests under way. `of`: what its mutexes are called. */
static work work_of_bare_client(redisContext *watcher, const char *of, int64_t ns)
{
    enum { AT_A_TIME = 512 };
    redisContext *raw = redis_connect();
    char *text = simba__redis_script_text(REDIS_ACQUIRE, &(redis_options){.kind = REDIS_SINGLE});
    redisReply *sha = text ? redisCommand(raw, "SCRIPT LOAD %s", text) : NULL;
    if (!sha || sha->type != REDIS_REPLY_STRING)
        bench_fail("SCRIPT LOAD", "refused");
    int64_t count = 0;
    const double before_s = redis_cpu_seconds(watcher);
    const int64_t start_ns = bench_now_ns();
    for (int64_t asked = 0; bench_now_ns() < start_ns + ns;) {
        for (; asked < count + AT_A_TIME; asked++) {
            char keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE];
            char mutex[32];
            snprintf(mutex, sizeof mutex, "%s-%lld", of, (long long)asked);
            simba__redis_script_keys(REDIS_ACQUIRE, false, mutex, keys);
            redisAppendCommand(raw, "EVALSHA %s 4 %s %s %s %s bare 00000000000000004711 16000 6000", sha->str, keys[0],
                               keys[1], keys[2], keys[3]);
        }
        for (int i = 0; i < AT_A_TIME / 2; i++, count++) {
            void *reply = NULL;
            if (redisGetReply(raw, &reply) != REDIS_OK)
                bench_fail("a grant", raw->errstr);
            freeReplyObject(reply);
        }
    }
    const double took_s = (double)(bench_now_ns() - start_ns) / 1e9;
    const work done = {(double)count / took_s, (redis_cpu_seconds(watcher) - before_s) / took_s};
    freeReplyObject(sha);
    simba__free(text);
    redisFree(raw);
    return done;
}

/* Tokens are the time of the grant: how many were granted before one that asked earlier? */
static size_t count_overtakers(simba_contender **all, size_t size)
{
    size_t count = 0;
    for (size_t i = 1; i < size; i++)
        count += simba_contender_token(all[i]) <= simba_contender_token(all[i - 1]);
    return count;
}

/* Some leases are held, and renewed every two seconds, while others ask for far more than the server does. How long a grant
 * takes the server varies with its caches, so what counts is that it is as busy as with the bare client. */
static void measure_overload(size_t held, int64_t ns)
{
    char what[64];
    simba_client *holder;
    simba_client *crowd;
    simba_error error;
    redisContext *watcher = redis_connect();
    bench_check(simba_client_open(redis.url, NULL, &error, &holder), redis.url, &error);
    bench_check(simba_client_open(redis.url, NULL, &error, &crowd), redis.url, &error);
    simba_contender **holders = start_contenders(holder, "kept", held, 2000, 1000);
    if (!await_held(holder, held, 60000))
        bench_fail("overload", "not all could be had");
    const pid_t brake = slow_server_down();
    const work bare = work_of_bare_client(watcher, "bare", ns);
    const simba_stats before = bench_stats(holder);
    const size_t size = (size_t)(bare.per_second * 10);
    const double before_s = redis_cpu_seconds(watcher);
    const int64_t start_ns = bench_now_ns();
    simba_contender **all = start_contenders(crowd, "asked", size, 60000, 6000);
    const int64_t asked_ns = bench_now_ns() - start_ns;
    if (!await_held(crowd, size, 60000))
        bench_fail("overload", "not all were served");
    const double took_s = (double)(bench_now_ns() - start_ns) / 1e9;
    const double busy = (redis_cpu_seconds(watcher) - before_s) / took_s;
    const simba_stats after = bench_stats(holder);
    const simba_stats others = bench_stats(crowd);
    kill(brake, SIGKILL);
    waitpid(brake, NULL, 0);
    kill(redis.pid, SIGCONT);
    bench_add("a server with a tenth of a core, bare client", bare.per_second, 0, "grants/s", BENCH_NO_GOAL, 0);
    snprintf(what, sizeof what, "%zu asked for within %d ms, that is", size, (int)(asked_ns / 1000000));
    bench_add(what, (double)size * 1e9 / (double)asked_ns / bare.per_second, 0, "times as fast", BENCH_AT_LEAST, 10);
    bench_add("served", (double)size / took_s, 0, "grants/s", BENCH_NO_GOAL, 0);
    bench_add("server busy, compared with the bare client", busy / bare.busy, 2, "", BENCH_AT_LEAST, 0.95);
    bench_add("served before one that asked earlier", (double)count_overtakers(all, size), 0, "", BENCH_AT_MOST, 0);
    bench_add("requests that failed", (double)others.errors, 0, "", BENCH_AT_MOST, 0);
    snprintf(what, sizeof what, "%zu held meanwhile: lost", held);
    bench_add(what, (double)(bench_losses(&after) - bench_losses(&before)), 0, "", BENCH_AT_MOST, 0);
    bench_add("renewals that failed", (double)(after.renewals_failed - before.renewals_failed), 0, "", BENCH_AT_MOST,
              0);
    close_all(crowd, all, size);
    close_all(holder, holders, held);
    redisFree(watcher);
}

int main(int argc, char **argv)
{
    const bool quick = bench_wants_quick(argc, argv);
    redis_start();
    measure_crowd(quick ? 5000 : 50000, quick ? 2000 : 10000);
    measure_estate(quick ? 5000 : 50000);
    measure_closing(quick ? 10000 : 100000);
    measure_overload(quick ? 500 : 2000, quick ? INT64_C(500000000) : INT64_C(2000000000));
    redis_stop();
    return bench_print("Redis, many mutexes of one process");
}
