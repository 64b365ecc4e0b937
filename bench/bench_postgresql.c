/* What the library costs on top of PostgreSQL. An uncontended lock and unlock is compared with a blocking loop of the
 * same statements on one connection. A hand-over is compared with one that is done by hand (release and notify, then
 * acquire), by plain statements and by the library's own. All of them take turns within one run, because the speed of a
 * machine varies. The server's own count of statements says what ten thousand held mutexes and two hundred waiting
 * processes cost it. The benchmark starts the servers, with their default settings except for the folders, and ends
 * them. */
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/postgresql/statements.h"
#include "bench.h"
#include "util/mem.h"

enum { PAIRS = 32, ROUNDS_MAX = 20000, HELD = 10000, WAITERS = 200, HAND_OVERS = 20, BLOCKS = 10 };

static int64_t stretch_ns = INT64_C(6000000000);
static bool quick;
static int port, pooler_port;
static char url[160], pooler_url[160];
static pid_t servers[2];

/* --- the servers ------------------------------------------------------------------------------------------ */

static PGconn *connect_raw(void)
{
    char info[128];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=postgres dbname=postgres", port);
    for (int i = 0; i < 3000; i++) {
        PGconn *pg = PQconnectdb(info);
        if (PQstatus(pg) == CONNECTION_OK)
            return pg;
        PQfinish(pg);
        bench_sleep_ms(10);
    }
    bench_fail("postgres", "takes no connections");
}

static void stop_servers(void)
{
    kill(servers[1], SIGKILL);
    kill(servers[0], SIGQUIT);
    waitpid(servers[1], NULL, 0);
    waitpid(servers[0], NULL, 0);
}

static void become_nobody(void)
{
    const struct passwd *nobody = geteuid() == 0 ? getpwnam("nobody") : NULL;
    if (nobody && (setgroups(0, NULL) != 0 || setgid(nobody->pw_gid) != 0 || setuid(nobody->pw_uid) != 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void start_servers(void)
{
    char command[512], path[256], config[256], port_text[12];
    const char *dir = bench_temp_dir();
    const struct passwd *nobody = geteuid() == 0 ? getpwnam("nobody") : NULL;
    glob_t found;
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0)
        bench_fail("postgres", "is not installed");
    const char *bin = found.gl_pathv[found.gl_pathc - 1];
    port = 20000 + getpid() % 20000;
    pooler_port = port + 1;
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d/postgres?sslmode=disable&create=yes", port);
    snprintf(pooler_url, sizeof pooler_url, "postgresql://postgres@127.0.0.1:%d/postgres?sslmode=disable&create=yes",
             pooler_port);
    snprintf(config, sizeof config, "%s/pgbouncer.ini", dir);
    FILE *file = fopen(config, "we");
    if (!file || (nobody && chown(dir, nobody->pw_uid, nobody->pw_gid) != 0))
        bench_fail("folder", dir);
    fprintf(file,
            "[databases]\npostgres = host=127.0.0.1 port=%d user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            "listen_port = %d\nauth_type = any\npool_mode = transaction\nunix_socket_dir =\nmax_client_conn = 2000\n",
            port, pooler_port);
    fclose(file);
    servers[0] = fork();
    if (servers[0] == 0) {
        become_nobody();
        snprintf(command, sizeof command,
                 "%s/initdb -D %s/data -A trust -U postgres --no-locale -E UTF8 >/dev/null 2>&1", bin, dir);
        if (system(command) != 0 || !freopen("/dev/null", "w", stderr)) // NOLINT(cert-env33-c)
            _exit(126);
        snprintf(path, sizeof path, "%s/postgres", bin);
        snprintf(config, sizeof config, "%s/data", dir);
        snprintf(port_text, sizeof port_text, "%d", port);
        execl(path, "postgres", "-D", config, "-p", port_text, "-c", "listen_addresses=127.0.0.1", "-c",
              "unix_socket_directories=", "-c", "max_connections=1000", "-c",
              "shared_preload_libraries=pg_stat_statements", (char *)NULL);
        _exit(127);
    }
    PQfinish(connect_raw());
    servers[1] = fork();
    if (servers[1] == 0) {
        become_nobody();
        if (!freopen("/dev/null", "w", stderr))
            _exit(126);
        execlp("pgbouncer", "pgbouncer", config, (char *)NULL);
        _exit(127);
    }
    globfree(&found);
}

/* --- a blocking loop of the same statements ---------------------------------------------------------------- */

static double ask(PGconn *pg, const char *sql, int count, const char *const *values)
{
    PGresult *result = PQexecParams(pg, sql, count, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        bench_fail(sql, PQerrorMessage(pg));
    const double value = PQntuples(result) > 0 && PQnfields(result) > 0 ? strtod(PQgetvalue(result, 0, 0), NULL) : 0;
    PQclear(result);
    return value;
}

/* Run the statement that calls the function; false: it was refused. */
static bool decide(PGconn *pg, const char *request, const char *channel)
{
    static char *sql;
    const simba__pg_options options = {.table = "simba_mutex"};
    const char *const values[] = {request, channel};
    if (!sql)
        sql = simba__pg_statement_text(SIMBA__PG_DECIDE, &options);
    PGresult *result = PQexecParams(pg, sql, 2, NULL, values, NULL, NULL, 0);
    if (PQntuples(result) != 1)
        bench_fail("decide", PQerrorMessage(pg));
    const bool is_done = PQgetvalue(result, 0, SIMBA__PG_DEED)[0] == SIMBA__PG_DONE;
    PQclear(result);
    return is_done;
}

static void raw_pair(PGconn *pg)
{
    if (!decide(pg, "{{q,plain,\"0:4711@10.0.0.1\",4711,0,10000,16000,0}}", "simba_0000000000000000") ||
        !decide(pg, "{{r,plain,\"0:4711@10.0.0.1\",4711,0,0,0,0}}", "simba_0000000000000000"))
        bench_fail("pair", "not mine");
}

static double statements(PGconn *pg)
{
    return ask(pg, "select sum(calls) from pg_stat_statements", 0, NULL);
}

/* --- uncontended --------------------------------------------------------------------------------------------- */

typedef struct side {
    size_t count;
    int64_t rounds_ns[ROUNDS_MAX];
} side;

static int64_t usual_ns(side *s)
{
    bench_sort(s->rounds_ns, s->count);
    return s->count ? s->rounds_ns[s->count / 2] : 0;
}

static void measure_uncontended(PGconn *pg)
{
    static side ours, plain;
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    bench_check(simba_locker_new(client, "bench", NULL, &error, &locker), "locker", &error);
    bench_check(simba_locker_acquire(locker, 5000, &error), "acquire", &error);
    bench_check(simba_locker_release(locker, &error), "release", &error);
    raw_pair(pg);
    const int64_t until_ns = bench_now_ns() + stretch_ns;
    do {
        int64_t start_ns = bench_now_ns();
        for (int i = 0; i < PAIRS; i++) {
            bench_check(simba_locker_acquire(locker, 5000, &error), "acquire", &error);
            bench_check(simba_locker_release(locker, &error), "release", &error);
        }
        ours.rounds_ns[ours.count++] = bench_now_ns() - start_ns;
        start_ns = bench_now_ns();
        for (int i = 0; i < PAIRS; i++)
            raw_pair(pg);
        plain.rounds_ns[plain.count++] = bench_now_ns() - start_ns;
    } while (bench_now_ns() < until_ns && ours.count < ROUNDS_MAX);
    simba_locker_free(locker);
    simba_client_close(client);
    const double our_rate = PAIRS * 1e9 / (double)usual_ns(&ours);
    const double plain_rate = PAIRS * 1e9 / (double)usual_ns(&plain);
    bench_add("the same statements, blocking", plain_rate, 0, "pairs/s", BENCH_NO_GOAL, 0);
    bench_add("lock + unlock", our_rate, 0, "pairs/s", BENCH_NO_GOAL, 0);
    bench_add("ratio of the two", our_rate / plain_rate, 2, "", BENCH_AT_LEAST, 0.9);
}

/* --- a hand-over ------------------------------------------------------------------------------------------------ */

typedef struct shared {
    volatile int ready, turn, over;
    volatile int64_t released_ns, taken_ns;
    volatile int turns, inside, breaches;
} shared;

static void await(const volatile int *value, int wanted)
{
    while (*value != wanted)
        usleep(50);
}

/* A hand-over by hand: what the two processes say to the server. */
typedef struct by_hand {
    const char *hold, *wait, *release, *take, *give_back;
} by_hand;

/* A row with an owner and nothing else: no lease, no token, no line. */
static const by_hand plainly = {
    .hold = "update hand set owner = 'me'",
    .wait = "select 1",
    .release = "with freed as (update hand set owner = '' returning 1) select pg_notify('hand', '') from freed",
    .take = "update hand set owner = 'you' where owner = '' returning owner",
    .give_back = "select 1",
};

/* What the library says, said without the library. */
#define DECIDE(request) "select * from \"simba_mutex_decide_3\"('{{" request ",0,\"\",0}}'::text[], 'hand')"
static const by_hand as_we_do = {
    .hold = DECIDE("q,hand,me,1,0,10000,16000"),
    .wait = DECIDE("q,hand,you,2,0,10000,16000"),
    .release = DECIDE("r,hand,me,1,0,0,0"),
    .take = DECIDE("q,hand,you,2,0,10000,16000"),
    .give_back = DECIDE("r,hand,you,2,0,0,0"),
};

/* The process that listens and then acquires. */
static void take_by_hand(shared *s, const by_hand *say)
{
    PGconn *pg = connect_raw();
    ask(pg, "listen hand", 0, NULL);
    for (int i = 1; i <= HAND_OVERS; i++) {
        await(&s->inside, i);
        ask(pg, say->wait, 0, NULL);
        s->ready = i;
        PGnotify *heard;
        while (!(heard = PQnotifies(pg))) {
            struct pollfd socket = {.fd = PQsocket(pg), .events = POLLIN};
            if (poll(&socket, 1, 10000) <= 0)
                bench_fail("by hand", "nobody was notified");
            PQconsumeInput(pg);
        }
        PQfreemem(heard);
        ask(pg, say->take, 0, NULL);
        s->taken_ns = bench_now_ns();
        ask(pg, say->give_back, 0, NULL);
        s->turn = i;
    }
    _exit(0);
}

static void hand_over_by_hand(PGconn *pg, const by_hand *say, side *times)
{
    shared *s = bench_shared(sizeof(shared));
    const pid_t child = fork();
    if (child == 0)
        take_by_hand(s, say);
    for (int i = 1; i <= HAND_OVERS; i++) {
        ask(pg, say->hold, 0, NULL);
        s->inside = i;
        await(&s->ready, i);
        bench_sleep_ms(20); /* as the others do: a disk that was idle takes longer */
        const int64_t start_ns = bench_now_ns();
        ask(pg, say->release, 0, NULL);
        await(&s->turn, i);
        times->rounds_ns[times->count++] = s->taken_ns - start_ns;
    }
    waitpid(child, NULL, 0);
    munmap(s, sizeof *s);
}

/* By the library: a process that takes the mutex, and gives it back when the other one waits again. */
static void take_turns(shared *s, const char *where)
{
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    bench_check(simba_client_open(where, NULL, &error, &client), where, &error);
    bench_check(simba_locker_new(client, "turns", NULL, &error, &locker), "locker", &error);
    for (int i = 1; !s->over; i++) {
        await(&s->inside, i); /* the other process has it */
        s->ready = i;
        bench_check(simba_locker_acquire(locker, 60000, &error), "acquire", &error);
        s->taken_ns = bench_now_ns();
        bench_check(simba_locker_release(locker, &error), "release", &error);
        s->turn = i;
    }
    _exit(0);
}

/* Do `count` hand-overs, each after a wait of `wait_ms`. */
static void hand_over(const char *where, int count, int64_t wait_ms, side *times)
{
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    shared *s = bench_shared(sizeof(shared));
    bench_check(simba_client_open(where, NULL, &error, &client), where, &error);
    bench_check(simba_locker_new(client, "turns", NULL, &error, &locker), "locker", &error);
    bench_check(simba_locker_acquire(locker, 20000, &error), "acquire", &error);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        take_turns(s, where);
    }
    for (int i = 1; i <= count; i++) {
        s->inside = i;
        await(&s->ready, i);
        bench_sleep_ms(i == 1 ? wait_ms + 300 : wait_ms); /* the first time, it has to begin to listen */
        s->over = i == count;
        const int64_t start_ns = bench_now_ns();
        bench_check(simba_locker_release(locker, &error), "release", &error);
        await(&s->turn, i);
        times->rounds_ns[times->count++] = s->taken_ns - start_ns;
        bench_check(simba_locker_acquire(locker, 20000, &error), "acquire", &error);
    }
    waitpid(child, NULL, 0);
    simba_locker_free(locker);
    simba_client_close(client);
    munmap(s, sizeof *s);
}

static void measure_hand_over(PGconn *pg)
{
    static side plain, same, ours, young, old;
    ask(pg, "create table hand (owner text)", 0, NULL);
    ask(pg, "insert into hand values ('')", 0, NULL);
    for (int i = 0; i < (quick ? 3 : BLOCKS); i++) {
        hand_over_by_hand(pg, &plainly, &plain);
        hand_over_by_hand(pg, &as_we_do, &same);
        hand_over(url, HAND_OVERS, 20, &ours);
    }
    const double plain_ms = (double)usual_ns(&plain) / 1e6;
    const double same_ms = (double)usual_ns(&same) / 1e6;
    const double our_ms = (double)usual_ns(&ours) / 1e6;
    bench_add("release and notify, then acquire, by hand", plain_ms, 2, "ms", BENCH_NO_GOAL, 0);
    bench_add("the same by the library's statements", same_ms, 2, "ms", BENCH_NO_GOAL, 0);
    bench_add("hand-over", our_ms, 2, "ms", BENCH_NO_GOAL, 0);
    bench_add("ratio to the first", our_ms / plain_ms, 2, "", BENCH_AT_MOST, 1.3);
    bench_add("ratio to the second", our_ms / same_ms, 2, "", BENCH_AT_MOST, 1.1);
    hand_over(pooler_url, quick ? 3 : 10, 300, &young);
    hand_over(pooler_url, 1, 15000, &old);
    usual_ns(&young);
    bench_add("through the pooler, young waits, the slowest", (double)young.rounds_ns[young.count - 1] / 1e6, 1, "ms",
              BENCH_AT_MOST, 100);
    bench_add("through the pooler, a wait of 15 s", (double)old.rounds_ns[0] / 1e6, 1, "ms", BENCH_AT_MOST, 1000);
}

/* --- many held ---------------------------------------------------------------------------------------------------- */

static void measure_held(PGconn *pg)
{
    static simba_contender *contenders[HELD];
    simba_client *client;
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    const int64_t start_ns = bench_now_ns();
    for (int i = 0; i < HELD; i++) {
        char name[32];
        snprintf(name, sizeof name, "held-%05d", i);
        bench_check(simba_contender_new(client, name, NULL, &error, &contenders[i]), name, &error);
        bench_check(simba_contender_start(contenders[i]), name, NULL);
    }
    simba_stats stats = SIMBA_STATS_INIT;
    while (stats.held < HELD && bench_now_ns() < start_ns + INT64_C(60000000000)) {
        bench_sleep_ms(5);
        simba_client_stats(client, &stats);
    }
    bench_add("10,000 mutexes acquired", (double)(bench_now_ns() - start_ns) / 1e6, 0, "ms", BENCH_NO_GOAL, 0);
    const uint64_t renewals = stats.renewals;
    const double before = statements(pg);
    const int64_t from_ns = bench_now_ns();
    bench_sleep_ms(quick ? 12000 : 31000);
    const double elapsed = (double)(bench_now_ns() - from_ns) / 1e9;
    const double more = statements(pg) - before - 1;
    simba_client_stats(client, &stats);
    bench_add("renewals of 10,000 at ttl 10 s", (double)(stats.renewals - renewals) / elapsed, 0, "per s",
              BENCH_NO_GOAL, 0);
    bench_add("statements for that", more / elapsed, 1, "per s", BENCH_AT_MOST, 30);
    bench_add("renewals that failed", (double)stats.renewals_failed, 0, "", BENCH_AT_MOST, 0);
    simba_client_close(client);
    for (int i = 0; i < HELD; i++)
        simba_contender_free(contenders[i]);
}

/* --- many waiting ---------------------------------------------------------------------------------------------------- */

static void wait_in_crowd(shared *s, const char *where)
{
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    bench_check(simba_client_open(where, NULL, &error, &client), where, &error);
    bench_check(simba_locker_new(client, "crowd", NULL, &error, &locker), "locker", &error);
    __atomic_add_fetch(&s->ready, 1, __ATOMIC_SEQ_CST);
    while (!s->over) {
        if (simba_locker_acquire(locker, -1, &error) < 0)
            continue;
        s->breaches += s->inside++ != 0;
        s->taken_ns = bench_now_ns();
        __atomic_add_fetch(&s->turns, 1, __ATOMIC_SEQ_CST);
        while (s->turn < s->turns)
            usleep(200);
        s->inside--;
        s->released_ns = bench_now_ns();
        bench_check(simba_locker_release(locker, &error), "release", &error);
    }
    _exit(0);
}

/* Statements of each process per second while the owner stays, and the hand-overs after that. */
static void measure_crowd(PGconn *pg, const char *where, const char *what, bench_goal goal, double limit)
{
    static side times;
    static char names[4][80];
    static int round;
    shared *s = bench_shared(sizeof(shared));
    pid_t children[WAITERS];
    char waits[256];
    snprintf(waits, sizeof waits, "%s&ttl=60s&transition=30s", where);
    for (int i = 0; i < WAITERS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            wait_in_crowd(s, waits);
        }
    }
    for (int i = 0; i < 6000 && (s->ready < WAITERS || s->turns == 0); i++)
        bench_sleep_ms(10);
    bench_sleep_ms(16000); /* the waiters wait for long */
    const double before = statements(pg);
    const int64_t from_ns = bench_now_ns();
    bench_sleep_ms(4000);
    const double elapsed = (double)(bench_now_ns() - from_ns) / 1e9;
    const double each = (statements(pg) - before - 1) / elapsed / WAITERS;
    snprintf(names[round], sizeof names[round], "200 processes wait%s: statements of each", what);
    bench_add(names[round++], each, 3, "per s", goal, limit);
    times.count = 0;
    for (int i = 0; i < (quick ? 10 : 40); i++) {
        const int turns = s->turns;
        s->turn = turns;
        for (int k = 0; k < 100000 && s->turns == turns; k++)
            usleep(100);
        times.rounds_ns[times.count++] = s->taken_ns - s->released_ns;
        bench_sleep_ms(50);
    }
    snprintf(names[round], sizeof names[round], "200 processes wait%s: a hand-over", what);
    bench_add(names[round++], (double)usual_ns(&times) / 1e6, 2, "ms", BENCH_NO_GOAL, 0);
    if (s->breaches > 0)
        bench_fail("crowd", "two were inside at once");
    for (int i = 0; i < WAITERS; i++)
        kill(children[i], SIGKILL);
    for (int i = 0; i < WAITERS; i++)
        waitpid(children[i], NULL, 0);
    ask(pg, "update simba_mutex set transition_at = 1", 0, NULL);
}

int main(int argc, char **argv)
{
    quick = bench_wants_quick(argc, argv);
    if (quick)
        stretch_ns /= 5;
    signal(SIGPIPE, SIG_IGN);
    start_servers();
    PGconn *pg = connect_raw();
    ask(pg, "create extension if not exists pg_stat_statements", 0, NULL);
    measure_uncontended(pg);
    measure_hand_over(pg);
    measure_held(pg);
    measure_crowd(pg, url, "", BENCH_AT_MOST, 0.01);
    measure_crowd(pg, pooler_url, " behind the pooler", BENCH_BELOW, 2);
    PQfinish(pg);
    stop_servers();
    return bench_print("PostgreSQL on the same machine, unpinned, as it comes");
}
