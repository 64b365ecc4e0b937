/* What the library costs on top of Redis, and what it costs Redis itself: the time that the server spends in commands,
 * by its own count. An uncontended lock and unlock is compared with a blocking loop of the same two scripts. The two
 * take turns within one run, because the speed of a machine varies. A mutex for which sixteen processes contend is
 * compared with the least that a hand-over takes: one release script, one push, one acquire script.
 *
 * A killed holder shows how long a mutex lies idle; a process that holds 50,000 mutexes shows what renewing them costs.
 * A process that waits for the 50,000 mutexes of a killed one shows what an overload costs, and one that closes with
 * 100,000 shows how long giving back takes. The benchmark starts the server, which keeps nothing, and ends it. */
#include <hiredis/hiredis.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/redis/scripts.h"
#include "bench.h"
#include "util/mem.h"

enum { PAIRS = 64, ROUNDS_MAX = 20000, FIGHTERS = 16, FIGHTS = 9 };

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

/* The processor time of everything that the server does, reading and writing included. */
static double server_cpu_seconds(redisContext *raw)
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
    raw_locker r = {.context = connect_raw(), .id = id};
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
    redisContext *ears[2] = {connect_raw(), connect_raw()};
    freeReplyObject(redisCommand(ears[0], "SUBSCRIBE simba:{floor}:x"));
    freeReplyObject(redisCommand(ears[1], "SUBSCRIBE simba:{floor}:y"));
    raw_acquire(&players[0], "floor");
    const double before_s = server_cpu_seconds(context);
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
                             .server_us = (server_cpu_seconds(context) - before_s) * 1e6 / (double)turns};
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
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
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

static void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_fail("mmap", "no memory");
    return memory;
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
    double cpu_s = server_cpu_seconds(context);
    sleep_until(f->until_ns);
    cpu_s = server_cpu_seconds(context) - cpu_s;
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
    redisContext *context = connect_raw();
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
    bench_add("ratio of the two", rate / floor_rate, 2, "", BENCH_AT_LEAST, 0.7);
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
    fight *f = shared_memory(sizeof *f);
    measure_rounds(f, "any core");
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    if (sched_getaffinity(0, sizeof all, &all) == 0 && sched_setaffinity(0, sizeof one, &one) == 0 &&
        sched_setaffinity(server, sizeof one, &one) == 0) {
        measure_rounds(f, "one core");
        sched_setaffinity(server, sizeof all, &all);
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
    bench_check(simba_client_open(url, NULL, &error, ret_client), url, &error);
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

static int64_t ask_number(redisContext *raw, const char *command)
{
    redisReply *reply = redisCommand(raw, command);
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        bench_fail(command, "no number");
    const int64_t number = reply->integer;
    freeReplyObject(reply);
    return number;
}

static void measure_succession(void)
{
    succession *s = shared_memory(sizeof *s);
    redisContext *raw = connect_raw();
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
    while (ask_number(raw, "ZCARD simba:{throne}:contender") < FIGHTERS)
        bench_sleep_ms(1);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    const int64_t free_at_ns = ask_number(raw, "PTTL simba:{throne}") * 1000000 + bench_now_ns();
    wait_for_all();
    redisFree(raw);
    bench_add("a holder is killed, 16 wait: idle after expiry", (double)(s->taken_at_ns - free_at_ns) / 1e6, 0, "ms",
              BENCH_BELOW, 250);
}

/* --- a crowd of holders --------------------------------------------------------------------------------------- */

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

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

static simba_stats stats_of(simba_client *client)
{
    simba_stats stats = SIMBA_STATS_INIT;
    bench_check(simba_client_stats(client, &stats), "stats", NULL);
    return stats;
}

static uint64_t losses_of(const simba_stats *stats)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < sizeof stats->losses / sizeof stats->losses[0]; i++)
        lost += stats->losses[i];
    return lost;
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
    redisContext *raw = connect_raw();
    if (!crowd)
        bench_fail("crowd", "out of memory");
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    for (size_t i = 0; i < size; i++) {
        snprintf(mutex, sizeof mutex, "crowd-%zu", i);
        bench_check(simba_contender_new(client, mutex, &options, &error, &crowd[i]), mutex, &error);
        bench_check(simba_contender_start(crowd[i]), mutex, NULL);
    }
    const int64_t patience_ns = bench_now_ns() + INT64_C(15000000000);
    while (stats_of(client).held < size && bench_now_ns() < patience_ns)
        bench_sleep_ms(20);
    bench_check(simba_contender_new(client, "crowd-0", &options, &error, &waiter), "waiter", &error);
    bench_check(simba_contender_start(waiter), "waiter", NULL);

    const simba_stats before = stats_of(client);
    const int64_t start_ns = bench_now_ns();
    const double start_cpu = cpu_seconds();
    const double start_server = server_cpu_seconds(raw);
    simba_stats now = SIMBA_STATS_INIT;
    do {
        bench_sleep_ms(200);
        now = stats_of(client);
    } while (bench_now_ns() < start_ns + ttl_ms * 1000000 ||
             (now.renewals - before.renewals < size && bench_now_ns() < start_ns + 2 * ttl_ms * 1000000));
    const double percent = 1e11 / (double)(bench_now_ns() - start_ns);
    const uint64_t lost = losses_of(&now);
    snprintf(what, sizeof what, "%zu held, ttl %d s: CPU", size, (int)(ttl_ms / 1000));
    bench_add(what, (cpu_seconds() - start_cpu) * percent, 1, "% of a core", BENCH_BELOW, 15);
    bench_add("CPU of the server", (server_cpu_seconds(raw) - start_server) * percent, 1, "% of a core", BENCH_NO_GOAL,
              0);
    bench_add("server, per renewal",
              (server_cpu_seconds(raw) - start_server) * 1e6 / (double)(now.renewals - before.renewals), 1, "us",
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
    while (stats_of(client).held < size && bench_now_ns() < until_ns)
        bench_sleep_ms(2);
    return stats_of(client).held >= size;
}

static void hold_estate(volatile int *held, size_t size)
{
    simba_client *client;
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
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
    volatile int *held = shared_memory(sizeof *held);
    redisContext *raw = connect_raw();
    const pid_t holder = fork();
    if (holder == 0)
        hold_estate(held, size);
    while (!*held && waitpid(holder, NULL, WNOHANG) == 0)
        bench_sleep_ms(1);
    if (!*held)
        bench_fail("estate", "nobody holds it");
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    const int64_t keys = ask_number(raw, "DBSIZE"); /* each queue will be one more */
    simba_contender **heirs = start_contenders(client, "estate", size, 2000, 1000);
    const int64_t patience_ns = bench_now_ns() + INT64_C(60000000000);
    while (ask_number(raw, "DBSIZE") < keys + (int64_t)size && bench_now_ns() < patience_ns)
        bench_sleep_ms(20);
    const simba_stats before = stats_of(client);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    const int64_t killed_ns = bench_now_ns();
    const bool had = await_held(client, size, 60000);
    const int64_t took_ns = bench_now_ns() - killed_ns;
    bench_sleep_ms(4000); /* twice the ttl: all are renewed */
    const simba_stats after = stats_of(client);
    snprintf(what, sizeof what, "%zu of a killed process, 2 s + 1 s: all had", size);
    bench_add(what, (double)took_ns / 1e9, 2, "s", BENCH_AT_MOST, 3);
    bench_add("requests that failed", (double)(after.errors - before.errors), 0, "", BENCH_AT_MOST, 0);
    bench_add("leases lost again", (double)(losses_of(&after) - losses_of(&before)), 0, "", BENCH_AT_MOST, 0);
    bench_add("held 4 s later", (double)after.held, 0, "", BENCH_AT_LEAST, had ? (double)size : 0);
    close_all(client, heirs, size);
    redisFree(raw);
}

static void measure_closing(size_t size)
{
    char what[64];
    simba_client *client;
    simba_error error;
    redisContext *raw = connect_raw();
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
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

int main(int argc, char **argv)
{
    const bool quick = bench_wants_quick(argc, argv);
    if (quick)
        stretch_ns /= 5;
    start_server();
    redisFree(connect_raw());
    measure_uncontended();
    measure_cost();
    measure_fight();
    measure_succession();
    measure_crowd(quick ? 5000 : 50000, quick ? 2000 : 10000);
    measure_estate(quick ? 5000 : 50000);
    measure_closing(quick ? 10000 : 100000);
    stop_server();
    return bench_print("Redis on the same machine");
}
