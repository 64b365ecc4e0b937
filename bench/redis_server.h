/* A Redis server of a benchmark's own, which keeps nothing, and what can be asked of it past the library. For programs that are
 * linked with hiredis. */
#ifndef SIMBA_BENCH_REDIS_SERVER_H
#define SIMBA_BENCH_REDIS_SERVER_H

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static struct {
    int port;
    char url[64];
    pid_t pid;
} redis;

static inline redisContext *redis_connect(void)
{
    for (int i = 0; i < 500; i++) {
        redisContext *raw = redisConnect("127.0.0.1", redis.port);
        if (raw && !raw->err)
            return raw;
        redisFree(raw);
        bench_sleep_ms(10);
    }
    bench_fail("redis-server", "takes no connections");
}

static inline void redis_stop(void)
{
    kill(redis.pid, SIGKILL);
    waitpid(redis.pid, NULL, 0);
}

/* Returns when it takes connections. */
static inline void redis_start(void)
{
    char text[12];
    redis.port = 20000 + getpid() % 20000;
    snprintf(text, sizeof text, "%d", redis.port);
    snprintf(redis.url, sizeof redis.url, "redis://127.0.0.1:%d", redis.port);
    const char *dir = bench_temp_dir();
    redis.pid = fork();
    if (redis.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout))
            _exit(126);
        execlp("redis-server", "redis-server", "--port", text, "--bind", "127.0.0.1", "--dir", dir, "--save", "",
               "--appendonly", "no", (char *)NULL);
        _exit(127);
    }
    redisFree(redis_connect());
}

/* The answer to a command whose answer is a number. */
static inline int64_t redis_number(redisContext *raw, const char *command)
{
    redisReply *reply = redisCommand(raw, command);
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        bench_fail(command, "no number");
    const int64_t number = reply->integer;
    freeReplyObject(reply);
    return number;
}

/* The processor time of everything that the server does, reading and writing included. */
static inline double redis_cpu_seconds(redisContext *raw)
{
    redisReply *reply = redisCommand(raw, "INFO cpu");
    double system = 0;
    double user = 0;
    const char *at = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "used_cpu_sys:") : NULL;
    if (!at || sscanf(at, "used_cpu_sys:%lf used_cpu_user:%lf", &system, &user) != 2)
        bench_fail("INFO cpu", "not understood");
    freeReplyObject(reply);
    return system + user;
}

#endif
