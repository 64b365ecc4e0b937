/* What the library costs on top of Redis. An uncontended lock and unlock is compared with a blocking loop of the very same
 * two scripts, in turns within one run, because machines have moods. A mutex that sixteen processes fight for is compared
 * with the least that a hand-over takes: one release script, one push, one acquire script. The server is started here,
 * keeps nothing, and goes with the benchmark. */
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/redis/redis.h"
#include "bench.h"
#include "util/mem.h"

enum { PAIRS = 64, ROUNDS_MAX = 20000, FIGHTERS = 16 };

static int64_t stretch_ns = INT64_C(5000000000);
static int port;
static char url[64];
static pid_t server;

/* --- the server --------------------------------------------------------------------------------------- */

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

static void stop_server(void)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

static void start_server(void)
{
    char text[12];
    port = 20000 + getpid() % 20000;
    snprintf(text, sizeof text, "%d", port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    const char *dir = bench_temp_dir();
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout))
            _exit(126);
        execlp("redis-server", "redis-server", "--port", text, "--bind", "127.0.0.1", "--dir", dir, "--save", "",
               "--appendonly", "no", (char *)NULL);
        _exit(127);
    }
}

/* --- a blocking loop of the two scripts ----------------------------------------------------------------- */

typedef struct raw_locker {
    redisContext *context;
    char sha[2][41]; /* acquire, release */
    const char *id;
} raw_locker;

static void load(raw_locker *r, int i, redis_script script)
{
    char *text = simba__redis_script_text(script);
    redisReply *reply = text ? redisCommand(r->context, "SCRIPT LOAD %s", text) : NULL;
    if (!reply || reply->type != REDIS_REPLY_STRING)
        bench_fail("SCRIPT LOAD", "refused");
    snprintf(r->sha[i], sizeof r->sha[i], "%s", reply->str);
    freeReplyObject(reply);
    simba__free(text);
}

static raw_locker open_raw(const char *id)
{
    raw_locker r = {.context = connect_raw(), .id = id};
    load(&r, 0, REDIS_ACQUIRE);
    load(&r, 1, REDIS_RELEASE);
    return r;
}

static void expect_mine(redisReply *reply)
{
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->element[0]->integer != 1)
        bench_fail("script", reply && reply->type == REDIS_REPLY_ERROR ? reply->str : "not mine");
    freeReplyObject(reply);
}

static void raw_acquire(const raw_locker *r, const char *mutex)
{
    expect_mine(redisCommand(r->context,
                             "EVALSHA %s 3 simba:{%s} simba:{%s}:contender simba:{%s}:fence %s 4711 10000 6000 1 %s",
                             r->sha[0], mutex, mutex, mutex, r->id, ""));
}

static void raw_release(const raw_locker *r, const char *mutex)
{
    expect_mine(redisCommand(r->context, "EVALSHA %s 3 simba:{%s} simba:{%s}:contender simba:{%s}:fence %s 4711 0",
                             r->sha[1], mutex, mutex, mutex, r->id));
}

/* --- uncontended ---------------------------------------------------------------------------------------- */

typedef struct side {
    size_t count;
    int64_t rounds_ns[ROUNDS_MAX];
} side;

static int by_value(const void *left, const void *right)
{
    const int64_t x = *(const int64_t *)left;
    const int64_t y = *(const int64_t *)right;
    return (x > y) - (x < y);
}

/* Pairs per second, by the round that nine tenths were slower than. */
static double quiet_rate(side *s)
{
    qsort(s->rounds_ns, s->count, sizeof s->rounds_ns[0], by_value);
    const size_t tenth = s->count / 10;
    return PAIRS * 1e9 / (double)s->rounds_ns[tenth];
}

static void simba_round(side *s, simba_locker *locker)
{
    simba_error error;
    const int64_t start_ns = bench_now_ns();
    for (int i = 0; i < PAIRS; i++) {
        bench_check(simba_locker_acquire(locker, 5000, &error), "acquire", &error);
        bench_check(simba_locker_release(locker, &error), "release", &error);
    }
    s->rounds_ns[s->count++] = bench_now_ns() - start_ns;
}

static void raw_round(side *s, const raw_locker *r)
{
    const int64_t start_ns = bench_now_ns();
    for (int i = 0; i < PAIRS; i++) {
        raw_acquire(r, "plain");
        raw_release(r, "plain");
    }
    s->rounds_ns[s->count++] = bench_now_ns() - start_ns;
}

static void measure_uncontended(void)
{
    static side ours;
    static side plain;
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    raw_locker r = open_raw("plain");
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    bench_check(simba_locker_new(client, "bench", NULL, &error, &locker), "locker", &error);
    const int64_t until_ns = bench_now_ns() + stretch_ns;
    do {
        simba_round(&ours, locker);
        raw_round(&plain, &r);
    } while (bench_now_ns() < until_ns && ours.count < ROUNDS_MAX);
    simba_locker_free(locker);
    simba_client_close(client);
    redisFree(r.context);
    const double our_rate = quiet_rate(&ours);
    const double plain_rate = quiet_rate(&plain);
    bench_add("the two scripts, blocking", plain_rate, 0, "pairs/s", BENCH_NO_GOAL, 0);
    bench_add("lock + unlock", our_rate, 0, "pairs/s", BENCH_NO_GOAL, 0);
    bench_add("ratio of the two", our_rate / plain_rate, 2, "", BENCH_AT_LEAST, 0.85);
}

/* --- a fight ---------------------------------------------------------------------------------------------- */

/* Hand-overs per second between two that take turns: release, hear of it, acquire. */
static double measure_floor(void)
{
    raw_locker players[2] = {open_raw("x"), open_raw("y")};
    redisContext *ears[2] = {connect_raw(), connect_raw()};
    freeReplyObject(redisCommand(ears[0], "SUBSCRIBE simba:{floor}:x"));
    freeReplyObject(redisCommand(ears[1], "SUBSCRIBE simba:{floor}:y"));
    raw_acquire(&players[0], "floor");
    const int64_t start_ns = bench_now_ns();
    int64_t turns = 0;
    for (; bench_now_ns() < start_ns + stretch_ns / 2; turns++) {
        const int next = (int)((turns + 1) % 2);
        freeReplyObject(redisCommand(players[next].context, "ZADD simba:{floor}:contender 1 %s", players[next].id));
        raw_release(&players[turns % 2], "floor");
        void *message = NULL;
        if (redisGetReply(ears[next], &message) != REDIS_OK)
            bench_fail("floor", "no message");
        freeReplyObject(message);
        raw_acquire(&players[next], "floor");
    }
    const double rate = (double)turns * 1e9 / (double)(bench_now_ns() - start_ns);
    for (int i = 0; i < 2; i++) {
        redisFree(players[i].context);
        redisFree(ears[i]);
    }
    return rate;
}

typedef struct fight {
    volatile int last;
    volatile int inside;
    volatile int breaches;
    volatile int64_t until_ns;
    int64_t turns[FIGHTERS], from_others[FIGHTERS];
} fight;

static void play(fight *f, int me)
{
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    bench_check(simba_locker_new(client, "fight", NULL, &error, &locker), "locker", &error);
    while (bench_now_ns() < f->until_ns) {
        const int rc = simba_locker_acquire(locker, 1000, &error);
        if (rc == SIMBA_ETIMEDOUT)
            continue;
        bench_check(rc, "acquire", &error);
        f->breaches += f->inside++ != 0;
        f->from_others[me] += f->last != me;
        f->turns[me]++;
        f->last = me;
        f->inside--;
        bench_check(simba_locker_release(locker, &error), "release", &error);
    }
    simba_locker_free(locker);
    simba_client_close(client);
}

static void measure_fight(void)
{
    fight *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (f == MAP_FAILED)
        bench_fail("mmap", "no memory");
    const double floor_rate = measure_floor();
    const int64_t start_ns = bench_now_ns();
    f->until_ns = start_ns + stretch_ns;
    for (int i = 0; i < FIGHTERS; i++)
        if (fork() == 0) {
            play(f, i);
            _exit(0);
        }
    for (int i = 0; i < FIGHTERS; i++)
        wait(NULL);
    double sum = 0;
    double squares = 0;
    double handed = 0;
    for (int i = 0; i < FIGHTERS; i++) {
        sum += (double)f->turns[i];
        squares += (double)f->turns[i] * (double)f->turns[i];
        handed += (double)f->from_others[i];
    }
    const double rate = handed * 1e9 / (double)stretch_ns;
    bench_add("release, push, acquire: the floor", floor_rate, 0, "hand-overs/s", BENCH_NO_GOAL, 0);
    bench_add("16 processes fight", rate, 0, "hand-overs/s", BENCH_NO_GOAL, 0);
    bench_add("ratio of the two", rate / floor_rate, 2, "", BENCH_AT_LEAST, 0.7);
    bench_add("Jain's fairness index", squares > 0 ? sum * sum / (FIGHTERS * squares) : 0, 2, "", BENCH_AT_LEAST, 0.95);
    bench_add("two inside at once", f->breaches, 0, "times", BENCH_AT_MOST, 0);
}

int main(int argc, char **argv)
{
    if (bench_wants_quick(argc, argv))
        stretch_ns /= 5;
    start_server();
    redisFree(connect_raw());
    measure_uncontended();
    measure_fight();
    stop_server();
    return bench_print("Redis on the same machine, unpinned");
}
