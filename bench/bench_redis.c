/* What the library costs on top of Redis, and what it costs Redis itself: the time that the server spends in commands,
 * by its own count. An uncontended lock and unlock is compared with a blocking loop of the same two scripts. The two
 * take turns within one run, because the speed of a machine varies. A mutex for which sixteen processes contend is
 * compared with the least that a hand-over takes: one release script, one push, one acquire script.
 *
 * A killed holder shows how long a mutex lies idle. The benchmark starts the server, which keeps nothing, and ends it. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/redis/scripts.h"
#include "bench.h"
#include "redis_server.h"
#include "util/mem.h"

enum { PAIRS = 64, ROUNDS_MAX = 20000, FIGHTERS = 16, FIGHTS = 9 };

static int64_t stretch_ns = INT64_C(5000000000);

/* Microseconds that the server has spent in scripts, and in SETs outside of scripts. The time of a script includes the
 * commands that it calls. */
static int64_t command_us(redisContext *context, const char *command)
{
    char sought[32];
    long long us = 0;
    snprintf(sought, sizeof sought, "cmdstat_%s:calls=", command);
    redisReply *reply = redisCommand(context, "INFO commandstats");
    const char *at = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, sought) : NULL;
    if (at)
        sscanf(strchr(at, ','), ",usec=%lld", &us);
    freeReplyObject(reply);
    return us;
}

static int64_t script_us(redisContext *context)
{
    return command_us(context, "evalsha");
}

/* --- a blocking loop of the two scripts ----------------------------------------------------------------- */

typedef struct raw_locker {
    redisContext *context;
    char sha[2][41]; /* acquire, release */
    const char *id;
    char head[38]; /* the token and the nonce of its grant, as the grant begins with them */
} raw_locker;

static const char nonce[] = "00000000000000004711";

static void load(raw_locker *r, int i, redis_script script)
{
    char *text = simba__redis_script_text(script, &(redis_options){.kind = REDIS_SINGLE});
    redisReply *reply = text ? redisCommand(r->context, "SCRIPT LOAD %s", text) : NULL;
    if (!reply || reply->type != REDIS_REPLY_STRING)
        bench_fail("SCRIPT LOAD", "refused");
    snprintf(r->sha[i], sizeof r->sha[i], "%s", reply->str);
    freeReplyObject(reply);
    simba__free(text);
}

static raw_locker open_raw(const char *id)
{
    raw_locker r = {.context = redis_connect(), .id = id};
    load(&r, 0, REDIS_ACQUIRE);
    load(&r, 1, REDIS_RELEASE);
    return r;
}

/* Asks for "mine": a script answers it with a grant, or with 1. */
static void ask(raw_locker *r, int script, const char *mutex, size_t count, const char *const *args)
{
    static const char *const suffixes[] = {"", ":grant", ":contender", ":fence"};
    enum { KEYS = sizeof suffixes / sizeof *suffixes };
    char keys[KEYS][64];
    const char *argv[16] = {"EVALSHA", r->sha[script], "4"};
    size_t argc = 3;
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "simba:{%s}%s", mutex, suffixes[i]);
        argv[argc++] = keys[i];
    }
    for (size_t i = 0; i < count; i++)
        argv[argc++] = args[i];
    redisReply *reply = redisCommandArgv(r->context, (int)argc, argv, NULL);
    const bool is_grant = reply && reply->type == REDIS_REPLY_STRING && reply->str[0] != '#';
    if (!is_grant && !(reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1))
        bench_fail("script", reply && reply->type == REDIS_REPLY_ERROR ? reply->str : "not mine");
    if (is_grant)
        snprintf(r->head, sizeof r->head, "%s", reply->str);
    freeReplyObject(reply);
}

static void raw_acquire(raw_locker *r, const char *mutex)
{
    ask(r, 0, mutex, 4, (const char *[]){r->id, nonce, "16000", "6000"});
}

/* It was in the queue, and is invited. */
static void raw_take(raw_locker *r, const char *mutex)
{
    char invited[16];
    snprintf(invited, sizeof invited, "@@%s", r->id);
    ask(r, 0, mutex, 6, (const char *[]){r->id, nonce, "16000", "6000", "1", invited});
}

/* `waits`: another contender of its client waits, as far as that knows. */
static void raw_release(raw_locker *r, const char *mutex, bool waits)
{
    ask(r, 1, mutex, waits ? 3 : 2, (const char *[]){r->id, r->head, "@@"});
}

/* --- uncontended ---------------------------------------------------------------------------------------- */

typedef struct side {
    size_t count;
    int64_t rounds_ns[ROUNDS_MAX];
} side;

/* Pairs per second in the round at the fastest tenth. */
static double quiet_rate(side *s)
{
    bench_sort(s->rounds_ns, s->count);
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

static void raw_round(side *s, raw_locker *r)
{
    const int64_t start_ns = bench_now_ns();
    for (int i = 0; i < PAIRS; i++) {
        raw_acquire(r, "plain");
        raw_release(r, "plain", false);
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
    bench_check(simba_client_open(redis.url, NULL, &error, &client), redis.url, &error);
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
    bench_add("ratio of the two", our_rate / plain_rate, 2, "", BENCH_AT_LEAST, 0.95);
}

/* --- what a pair costs the server ------------------------------------------------------------------------- */

/* The least that a lock can be: SET NX, and a script that deletes the key if it is ours. */
static double measure_least(redisContext *context)
{
    static const char unlock[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end";
    char sha[41];
    redisReply *reply = redisCommand(context, "SCRIPT LOAD %s", unlock);
    snprintf(sha, sizeof sha, "%s", reply && reply->type == REDIS_REPLY_STRING ? reply->str : "");
    freeReplyObject(reply);
    const int64_t before_us = script_us(context) + command_us(context, "set");
    for (int i = 0; i < PAIRS; i++) {
        freeReplyObject(redisCommand(context, "SET least me NX PX 16000"));
        freeReplyObject(redisCommand(context, "EVALSHA %s 1 least me", sha));
    }
    return (double)(script_us(context) + command_us(context, "set") - before_us) / PAIRS;
}

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The two take turns; the median of each counts. */
static void measure_cost(void)
{
    enum { ROUNDS = 101 };
    static double ours[ROUNDS];
    static double least[ROUNDS];
    raw_locker r = open_raw("plain");
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t before_us = script_us(r.context);
        for (int j = 0; j < PAIRS; j++) {
            raw_acquire(&r, "plain");
            raw_release(&r, "plain", false);
        }
        ours[i] = (double)(script_us(r.context) - before_us) / PAIRS;
        least[i] = measure_least(r.context);
    }
    redisFree(r.context);
    qsort(ours, ROUNDS, sizeof *ours, by_size);
    qsort(least, ROUNDS, sizeof *least, by_size);
    bench_add("server, commands of a lock + unlock", ours[ROUNDS / 2], 1, "us", BENCH_AT_MOST, 16);
    bench_add("SET NX and a script that deletes", least[ROUNDS / 2], 1, "us", BENCH_NO_GOAL, 0);
}

/* --- a fight ---------------------------------------------------------------------------------------------- */

/* Hand-overs per second, and what each of them cost the server. */
typedef struct hand_overs {
    double per_second, server_us;
} hand_overs;

/* Two that take turns: release, hear of it, acquire. */
static hand_overs measure_floor(redisContext *context, int64_t ns)
{
    raw_locker players[2] = {open_raw("x"), open_raw("y")};
    redisContext *ears[2] = {redis_connect(), redis_connect()};
    freeReplyObject(redisCommand(ears[0], "SUBSCRIBE simba:{floor}:x"));
    freeReplyObject(redisCommand(ears[1], "SUBSCRIBE simba:{floor}:y"));
    raw_acquire(&players[0], "floor");
    const double before_s = redis_cpu_seconds(context);
    const int64_t start_ns = bench_now_ns();
    int64_t turns = 0;
    for (; bench_now_ns() < start_ns + ns; turns++) {
        const int next = (int)((turns + 1) % 2);
        freeReplyObject(redisCommand(players[next].context, "ZADD simba:{floor}:contender 1 %s", players[next].id));
        raw_release(&players[turns % 2], "floor", true);
        void *message = NULL;
        if (redisGetReply(ears[next], &message) != REDIS_OK)
            bench_fail("floor", "no message");
        freeReplyObject(message);
        raw_take(&players[next], "floor");
    }
    const hand_overs seen = {.per_second = (double)turns * 1e9 / (double)(bench_now_ns() - start_ns),
                             .server_us = (redis_cpu_seconds(context) - before_s) * 1e6 / (double)turns};
    raw_release(&players[turns % 2], "floor", true);
    for (int i = 0; i < 2; i++) {
        redisFree(players[i].context);
        redisFree(ears[i]);
    }
    return seen;
}

typedef struct fight {
    volatile int last;
    volatile int inside;
    volatile int breaches;
    volatile int ready;
    volatile int64_t from_ns, until_ns; /* the time that counts; 0: not known yet */
    int64_t turns[FIGHTERS], from_others[FIGHTERS];
} fight;

static void play(fight *f, int me)
{
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    bench_check(simba_client_open(redis.url, NULL, &error, &client), redis.url, &error);
    bench_check(simba_locker_new(client, "fight", NULL, &error, &locker), "locker", &error);
    bench_check(simba_locker_acquire(locker, 5000, &error), "acquire", &error);
    bench_check(simba_locker_release(locker, &error), "release", &error);
    __atomic_fetch_add(&f->ready, 1, __ATOMIC_SEQ_CST);
    while (f->until_ns == 0)
        bench_sleep_ms(1);
    while (bench_now_ns() < f->until_ns) {
        const int rc = simba_locker_acquire(locker, 1000, &error);
        if (rc == SIMBA_ETIMEDOUT)
            continue;
        bench_check(rc, "acquire", &error);
        f->breaches += f->inside++ != 0;
        if (bench_now_ns() >= f->from_ns) {
            f->from_others[me] += f->last != me;
            f->turns[me]++;
        }
        f->last = me;
        f->inside--;
        bench_check(simba_locker_release(locker, &error), "release", &error);
    }
    simba_locker_free(locker);
    simba_client_close(client);
}

static void wait_for_all(void)
{
    int status;
    for (int i = 0; i < FIGHTERS; i++)
        if (wait(&status) < 0 || status != 0)
            bench_fail("a process", "did not end well");
}

static void sleep_until(int64_t at_ns)
{
    while (bench_now_ns() < at_ns)
        bench_sleep_ms(1);
}

/* `f` adds up everything that happened. What it costs the server that the processes connect does not count. */
static hand_overs fight_for(fight *f, redisContext *context, int64_t ns)
{
    int64_t before = 0;
    int64_t after = 0;
    f->ready = 0;
    f->until_ns = 0;
    for (int i = 0; i < FIGHTERS; i++) {
        before += f->from_others[i];
        if (fork() == 0) {
            play(f, i);
            _exit(0);
        }
    }
    while (f->ready < FIGHTERS)
        bench_sleep_ms(1);
    f->from_ns = bench_now_ns() + 50000000; /* by then everybody listens */
    f->until_ns = f->from_ns + ns;
    sleep_until(f->from_ns);
    double cpu_s = redis_cpu_seconds(context);
    sleep_until(f->until_ns);
    cpu_s = redis_cpu_seconds(context) - cpu_s;
    wait_for_all();
    for (int i = 0; i < FIGHTERS; i++)
        after += f->from_others[i];
    const double count = (double)(after - before);
    return (hand_overs){.per_second = count * 1e9 / (double)ns, .server_us = cpu_s * 1e6 / count};
}

static double median(double *values, size_t count)
{
    for (size_t i = 1; i < count; i++) /* they are few */
        for (size_t j = i; j > 0 && values[j - 1] > values[j]; j--) {
            const double swapped = values[j];
            values[j] = values[j - 1];
            values[j - 1] = swapped;
        }
    return values[count / 2];
}

/* They take turns; the median of each counts. The cost of a change of threads depends on the core that the scheduler
 * chooses, and that stays the same for longer than a round. */
static void measure_rounds(fight *f, const char *where)
{
    char what[64];
    double floors[FIGHTS];
    double fights[FIGHTS];
    double floor_us[FIGHTS];
    double fight_us[FIGHTS];
    redisContext *context = redis_connect();
    for (int i = 0; i < FIGHTS; i++) {
        const hand_overs least = measure_floor(context, stretch_ns / 25);
        const hand_overs ours = fight_for(f, context, stretch_ns / 25);
        floors[i] = least.per_second;
        floor_us[i] = least.server_us;
        fights[i] = ours.per_second;
        fight_us[i] = ours.server_us;
    }
    redisFree(context);
    const double floor_rate = median(floors, FIGHTS);
    const double rate = median(fights, FIGHTS);
    snprintf(what, sizeof what, "release, push, acquire, %s: the floor", where);
    bench_add(what, floor_rate, 0, "hand-overs/s", BENCH_NO_GOAL, 0);
    snprintf(what, sizeof what, "16 processes fight, %s", where);
    bench_add(what, rate, 0, "hand-overs/s", BENCH_NO_GOAL, 0);
    bench_add("ratio of the two", rate / floor_rate, 2, "", BENCH_AT_LEAST, 0.85);
    const double least_us = median(floor_us, FIGHTS);
    const double our_us = median(fight_us, FIGHTS);
    bench_add("server, per hand-over: the floor", least_us, 1, "us", BENCH_NO_GOAL, 0);
    bench_add("server, per hand-over of the 16", our_us, 1, "us", BENCH_NO_GOAL, 0);
    bench_add("ratio of the two", our_us / least_us, 2, "", BENCH_AT_MOST, 1.5);
}

static void measure_fight(void)
{
    cpu_set_t all;
    cpu_set_t one;
    fight *f = bench_shared(sizeof *f);
    measure_rounds(f, "any core");
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    if (sched_getaffinity(0, sizeof all, &all) == 0 && sched_setaffinity(0, sizeof one, &one) == 0 &&
        sched_setaffinity(redis.pid, sizeof one, &one) == 0) {
        measure_rounds(f, "one core");
        sched_setaffinity(redis.pid, sizeof all, &all);
        sched_setaffinity(0, sizeof all, &all);
    }
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < FIGHTERS; i++) {
        sum += (double)f->turns[i];
        squares += (double)f->turns[i] * (double)f->turns[i];
    }
    bench_add("Jain's fairness index", squares > 0 ? sum * sum / (FIGHTERS * squares) : 0, 2, "", BENCH_AT_LEAST, 0.95);
    bench_add("two inside at once", f->breaches, 0, "times", BENCH_AT_MOST, 0);
}

/* --- a holder that is killed -------------------------------------------------------------------------------- */

typedef struct succession {
    volatile int held;
    volatile int64_t taken_at_ns;
} succession;

/* ttl 2 s, transition 3 s: with these, the jitter alone would be up to half a second. */
static simba_locker *succession_locker(simba_client **ret_client)
{
    simba_locker *locker;
    simba_error error;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    options.timing.ttl_ms = 2000;
    options.timing.transition_ms = 3000;
    bench_check(simba_client_open(redis.url, NULL, &error, ret_client), redis.url, &error);
    bench_check(simba_locker_new(*ret_client, "throne", &options, &error, &locker), "locker", &error);
    return locker;
}

static void sit_on_throne(succession *s)
{
    simba_client *client;
    simba_error error;
    bench_check(simba_locker_acquire(succession_locker(&client), 5000, &error), "acquire", &error);
    s->held = 1;
    for (;;)
        pause();
}

static void wait_for_throne(succession *s)
{
    simba_client *client;
    simba_error error;
    simba_locker *locker = succession_locker(&client);
    bench_check(simba_locker_acquire(locker, 30000, &error), "acquire", &error);
    if (s->taken_at_ns == 0)
        s->taken_at_ns = bench_now_ns();
    simba_locker_free(locker);
    simba_client_close(client);
}

static void measure_succession(void)
{
    succession *s = bench_shared(sizeof *s);
    redisContext *raw = redis_connect();
    const pid_t holder = fork();
    if (holder == 0)
        sit_on_throne(s);
    while (!s->held)
        bench_sleep_ms(1);
    for (int i = 0; i < FIGHTERS; i++)
        if (fork() == 0) {
            wait_for_throne(s);
            _exit(0);
        }
    while (redis_number(raw, "ZCARD simba:{throne}:contender") < FIGHTERS)
        bench_sleep_ms(1);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    const int64_t free_at_ns = redis_number(raw, "PTTL simba:{throne}") * 1000000 + bench_now_ns();
    wait_for_all();
    redisFree(raw);
    bench_add("a holder is killed, 16 wait: idle after expiry", (double)(s->taken_at_ns - free_at_ns) / 1e6, 0, "ms",
              BENCH_BELOW, 250);
}

int main(int argc, char **argv)
{
    if (bench_wants_quick(argc, argv))
        stretch_ns /= 5;
    redis_start();
    measure_uncontended();
    measure_cost();
    measure_fight();
    measure_succession();
    redis_stop();
    return bench_print("Redis on the same machine");
}
