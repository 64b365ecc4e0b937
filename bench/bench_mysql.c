/* What the library costs on top of MariaDB. An uncontended lock and unlock is compared with a blocking loop of the same
 * prepared statements on one connection. The two take turns within one run, because the speed of a machine varies. The
 * server's own counters say what ten thousand held mutexes and two hundred waiting processes cost it. The benchmark
 * starts the server, with its default settings except for the data folder, and ends it. */
#include <grp.h>
#include <mysql.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/mysql/statements.h"
#include "bench.h"
#include "util/mem.h"

enum { PAIRS = 32, ROUNDS_MAX = 20000, HELD = 10000, WAITERS = 200 };

static int64_t stretch_ns = INT64_C(6000000000);
static bool quick;
static int port;
static char url[128];
static pid_t server;

/* --- the server ------------------------------------------------------------------------------------------- */

static MYSQL *try_connect(void)
{
    MYSQL *mysql = mysql_init(NULL);
    const unsigned protocol = MYSQL_PROTOCOL_TCP;
    mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    if (mysql_real_connect(mysql, "127.0.0.1", "root", "", NULL, (unsigned)port, NULL, CLIENT_FOUND_ROWS))
        return mysql;
    mysql_close(mysql);
    return NULL;
}

static MYSQL *connect_raw(void)
{
    for (int i = 0; i < 3000; i++) {
        MYSQL *mysql = try_connect();
        if (mysql) {
            mysql_query(mysql, "create database if not exists simba");
            mysql_select_db(mysql, "simba");
            return mysql;
        }
        bench_sleep_ms(10);
    }
    bench_fail("mariadbd", "takes no connections");
}

static void stop_server(void)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

static void become_nobody(void)
{
    const struct passwd *nobody = geteuid() == 0 ? getpwnam("nobody") : NULL;
    if (nobody && (setgroups(0, NULL) != 0 || setgid(nobody->pw_gid) != 0 || setuid(nobody->pw_uid) != 0))
        _exit(126);
}

static void start_server(void)
{
    char text[32];
    char command[512];
    char datadir[256];
    const char *dir = bench_temp_dir();
    const struct passwd *nobody = geteuid() == 0 ? getpwnam("nobody") : NULL;
    port = 20000 + getpid() % 20000;
    snprintf(text, sizeof text, "--port=%d", port);
    snprintf(datadir, sizeof datadir, "--datadir=%s", dir);
    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%d/simba?create=yes", port);
    if (nobody && chown(dir, nobody->pw_uid, nobody->pw_gid) != 0)
        bench_fail("chown", dir);
    server = fork();
    if (server == 0) {
        become_nobody();
        snprintf(
            command, sizeof command,
            "mariadb-install-db --no-defaults --datadir=%s --auth-root-authentication-method=normal --skip-test-db "
            "--skip-name-resolve >/dev/null 2>&1",
            dir);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (system(command) != 0 || !freopen("/dev/null", "w", stderr)) // NOLINT(cert-env33-c)
            _exit(126);
        execlp("mariadbd", "mariadbd", "--no-defaults", datadir, text, "--socket=my.sock", "--bind-address=127.0.0.1",
               "--skip-name-resolve", "--max-connections=1000", "--performance-schema=OFF", (char *)NULL);
        _exit(127);
    }
}

static double counter(MYSQL *mysql, const char *name)
{
    char sql[128];
    snprintf(sql, sizeof sql, "show global status like '%s'", name);
    if (mysql_query(mysql, sql) != 0)
        bench_fail(sql, mysql_error(mysql));
    MYSQL_RES *result = mysql_store_result(mysql);
    MYSQL_ROW row = mysql_fetch_row(result);
    const double value = row ? strtod(row[1], NULL) : 0;
    mysql_free_result(result);
    return value;
}

/* Seconds of processor time that the server has used. */
static double server_seconds(void)
{
    char path[64];
    char text[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)server);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *at = strrchr(text, ')');
    unsigned long long user = 0;
    unsigned long long system_time = 0;
    if (at)
        sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system_time); // NOLINT
    return (double)(user + system_time) / (double)sysconf(_SC_CLK_TCK);
}

/* --- a blocking loop of the same statements ------------------------------------------------------------------ */

typedef struct raw_locker {
    MYSQL *mysql;
    MYSQL_STMT *acquire, *get, *release;
} raw_locker;

static MYSQL_STMT *prepare(MYSQL *mysql, simba__sql_action which)
{
    char *text = simba__my_statement_text(which, 0, "simba_mutex", true);
    MYSQL_STMT *statement = mysql_stmt_init(mysql);
    if (!text || mysql_stmt_prepare(statement, text, strlen(text)) != 0)
        bench_fail("prepare", mysql_stmt_error(statement));
    simba__free(text);
    return statement;
}

static raw_locker *open_raw(void)
{
    static raw_locker r;
    r.mysql = connect_raw();
    r.acquire = prepare(r.mysql, SIMBA__SQL_ACQUIRE);
    r.get = prepare(r.mysql, SIMBA__SQL_GET);
    r.release = prepare(r.mysql, SIMBA__SQL_RELEASE);
    if (mysql_query(r.mysql, "insert ignore into simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id, "
                             "version) values ('plain', 0, 0, 0, '', 0)") != 0)
        bench_fail("insert", mysql_error(r.mysql));
    return &r;
}

static MYSQL_BIND number(uint64_t *at)
{
    return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = at, .is_unsigned = 1};
}

static MYSQL_BIND word(char *text, unsigned long *length)
{
    return (MYSQL_BIND){
        .buffer_type = MYSQL_TYPE_STRING, .buffer = text, .buffer_length = strlen(text), .length = length};
}

static void execute(MYSQL_STMT *statement, MYSQL_BIND *binds)
{
    if (mysql_stmt_bind_param(statement, binds) != 0 || mysql_stmt_execute(statement) != 0)
        bench_fail("execute", mysql_stmt_error(statement));
}

static void raw_pair(raw_locker *r)
{
    static char mutex[] = "plain";
    static char id[] = "0:4711@10.0.0.1";
    unsigned long mutex_length = strlen(mutex);
    unsigned long id_length = strlen(id);
    uint64_t ttl = 10000;
    uint64_t lease = 16000;
    uint64_t floor = 0;
    uint64_t nonce = 4711;
    uint64_t most = UINT32_MAX;
    MYSQL_BIND acquire[] = {number(&ttl),   number(&lease), word(id, &id_length),       number(&floor),
                            number(&nonce), number(&floor), word(mutex, &mutex_length), number(&floor),
                            number(&most)};
    execute(r->acquire, acquire);
    uint64_t token = mysql_stmt_insert_id(r->acquire);
    if (mysql_stmt_affected_rows(r->acquire) != 1)
        bench_fail("acquire", "not mine");
    MYSQL_BIND get[] = {word(mutex, &mutex_length)};
    execute(r->get, get);
    while (mysql_stmt_fetch(r->get) == 0)
        ;
    MYSQL_BIND release[] = {word(mutex, &mutex_length), number(&token), word(id, &id_length), number(&nonce)};
    execute(r->release, release);
    if (mysql_stmt_affected_rows(r->release) != 1)
        bench_fail("release", "not mine");
}

/* --- uncontended ----------------------------------------------------------------------------------------------- */

typedef struct side {
    size_t count;
    int64_t rounds_ns[ROUNDS_MAX];
} side;

/* Pairs per second in the median round. */
static double usual_rate(side *s)
{
    bench_sort(s->rounds_ns, s->count);
    const size_t middle = s->count / 2;
    return PAIRS * 1e9 / (double)s->rounds_ns[middle];
}

static void measure_uncontended(void)
{
    static side ours;
    static side plain;
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    bench_check(simba_locker_new(client, "bench", NULL, &error, &locker), "locker", &error);
    bench_check(simba_locker_acquire(locker, 1000, &error), "acquire", &error);
    bench_check(simba_locker_release(locker, &error), "release", &error);
    raw_locker *r = open_raw();
    const int64_t until_ns = bench_now_ns() + stretch_ns;
    do {
        int64_t start_ns = bench_now_ns();
        for (int i = 0; i < PAIRS; i++) {
            bench_check(simba_locker_acquire(locker, 1000, &error), "acquire", &error);
            bench_check(simba_locker_release(locker, &error), "release", &error);
        }
        ours.rounds_ns[ours.count++] = bench_now_ns() - start_ns;
        start_ns = bench_now_ns();
        for (int i = 0; i < PAIRS; i++)
            raw_pair(r);
        plain.rounds_ns[plain.count++] = bench_now_ns() - start_ns;
    } while (bench_now_ns() < until_ns && ours.count < ROUNDS_MAX);
    simba_locker_free(locker);
    simba_client_close(client);
    mysql_stmt_close(r->acquire);
    mysql_stmt_close(r->get);
    mysql_stmt_close(r->release);
    mysql_close(r->mysql);
    const double our_rate = usual_rate(&ours);
    const double plain_rate = usual_rate(&plain);
    bench_add("the same statements, blocking", plain_rate, 0, "pairs/s", BENCH_NO_GOAL, 0);
    bench_add("lock + unlock", our_rate, 0, "pairs/s", BENCH_NO_GOAL, 0);
    bench_add("ratio of the two", our_rate / plain_rate, 2, "", BENCH_AT_LEAST, 0.8);
}

/* --- many held --------------------------------------------------------------------------------------------------- */

static void measure_held(void)
{
    static simba_contender *contenders[HELD];
    simba_client *client;
    simba_error error;
    MYSQL *mysql = connect_raw();
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
    const int64_t seconds = quick ? 12 : 31;
    const double before = counter(mysql, "Questions");
    const double executed = counter(mysql, "Com_stmt_execute");
    const double used = server_seconds();
    const int64_t from_ns = bench_now_ns();
    const uint64_t renewals = stats.renewals;
    bench_sleep_ms(seconds * 1000);
    const double elapsed = (double)(bench_now_ns() - from_ns) / 1e9;
    /* Questions counts executions of prepared statements too; some servers count them only there. */
    const double after = counter(mysql, "Questions");
    const double more = counter(mysql, "Com_stmt_execute") - executed;
    const double statements = after - before > more ? after - before : more;
    simba_client_stats(client, &stats);
    uint64_t lost = 0;
    for (size_t i = 0; i < sizeof stats.losses / sizeof *stats.losses; i++)
        lost += stats.losses[i];
    bench_add("renewals of 10,000 at ttl 10 s", (double)(stats.renewals - renewals) / elapsed, 0, "per s",
              BENCH_NO_GOAL, 0);
    bench_add("statements for that", statements / elapsed, 1, "per s", BENCH_AT_MOST, 30);
    bench_add("processor of the server for that", (server_seconds() - used) / elapsed * 100, 1, "%", BENCH_NO_GOAL, 0);
    bench_add("renewals that failed", (double)stats.renewals_failed, 0, "", BENCH_AT_MOST, 0);
    bench_add("leaderships lost", (double)lost, 0, "", BENCH_AT_MOST, 0);
    simba_client_close(client);
    for (int i = 0; i < HELD; i++)
        simba_contender_free(contenders[i]);
    mysql_close(mysql);
}

/* --- many waiting ---------------------------------------------------------------------------------------------------- */

typedef struct crowd {
    volatile int ready;
    volatile int over;
    volatile int64_t released_ns;
    volatile int64_t taken_ns;
    volatile int turns;
    volatile int inside;
    volatile int breaches;
} crowd;

/* A process that waits for its turn, and then until it is told to go on. */
static void wait_in_crowd(crowd *c, const int go[2])
{
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    char byte;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    bench_check(simba_locker_new(client, "crowd", NULL, &error, &locker), "locker", &error);
    __atomic_add_fetch(&c->ready, 1, __ATOMIC_SEQ_CST);
    while (!c->over) {
        if (simba_locker_acquire(locker, -1, &error) < 0)
            continue;
        c->taken_ns = bench_now_ns();
        c->breaches += c->inside++ != 0;
        __atomic_add_fetch(&c->turns, 1, __ATOMIC_SEQ_CST);
        if (read(go[0], &byte, 1) != 1)
            _exit(1);
        c->inside--;
        c->released_ns = bench_now_ns();
        bench_check(simba_locker_release(locker, &error), "release", &error);
    }
    _exit(0); /* do not measure two hundred good-byes */
}

static void hand_over(crowd *c, const int go[2])
{
    const int turns = c->turns;
    if (write(go[1], "", 1) != 1)
        bench_fail("write", "pipe");
    for (int i = 0; i < 100000 && c->turns == turns; i++)
        usleep(100);
}

static void measure_crowd(void)
{
    static int64_t times_ns[1000];
    size_t count = 0;
    int go[2];
    crowd *c = bench_shared(sizeof *c);
    if (pipe(go) != 0)
        bench_fail("pipe", "cannot be made");
    pid_t children[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            wait_in_crowd(c, go);
        }
    }
    for (int i = 0; i < 2000 && (c->ready < WAITERS || c->turns == 0); i++)
        bench_sleep_ms(10);
    MYSQL *mysql = connect_raw();
    /* Nothing happens, and the waiters wait for long. */
    bench_sleep_ms(16000);
    double questions = counter(mysql, "Questions");
    double used = server_seconds();
    int64_t from_ns = bench_now_ns();
    bench_sleep_ms(4000);
    double elapsed = (double)(bench_now_ns() - from_ns) / 1e9;
    bench_add("200 processes wait: queries of each", (counter(mysql, "Questions") - questions) / elapsed / WAITERS, 2,
              "per s", BENCH_BELOW, 2);
    bench_add("200 processes wait: the server's processor", (server_seconds() - used) / elapsed * 100, 0, "%",
              BENCH_NO_GOAL, 0);
    /* Now the mutex goes round. */
    questions = counter(mysql, "Questions");
    used = server_seconds();
    from_ns = bench_now_ns();
    for (int i = 0; i < (quick ? 20 : 60); i++) {
        hand_over(c, go);
        if (c->taken_ns > c->released_ns)
            times_ns[count++] = c->taken_ns - c->released_ns;
        bench_sleep_ms(100);
    }
    elapsed = (double)(bench_now_ns() - from_ns) / 1e9;
    bench_sort(times_ns, count);
    const size_t middle = count / 2;
    bench_add("hand-over among 200, the middle one", (double)times_ns[middle] / 1e6, 2, "ms", BENCH_NO_GOAL, 0);
    bench_add("hand-over among 200, the slowest", count ? (double)times_ns[count - 1] / 1e6 : 0, 2, "ms", BENCH_AT_MOST,
              1000);
    bench_add("queries meanwhile, of each", (counter(mysql, "Questions") - questions) / elapsed / WAITERS, 2, "per s",
              BENCH_NO_GOAL, 0);
    bench_add("the server's processor meanwhile", (server_seconds() - used) / elapsed * 100, 0, "%", BENCH_NO_GOAL, 0);
    bench_add("two inside at once", c->breaches, 0, "times", BENCH_AT_MOST, 0);
    c->over = 1;
    for (int i = 0; i < WAITERS; i++)
        kill(children[i], SIGKILL);
    for (int i = 0; i < WAITERS; i++)
        waitpid(children[i], NULL, 0);
    mysql_close(mysql);
}

/* --- two processes, young and old waits ------------------------------------------------------------------------------------ */

/* From a release in this process to the grant in another one, which has waited for `wait_ms`. */
static double hand_over_after(int64_t wait_ms)
{
    crowd *c = bench_shared(sizeof *c);
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    bench_check(simba_locker_new(client, "pair", NULL, &error, &locker), "locker", &error);
    bench_check(simba_locker_acquire(locker, 20000, &error), "acquire", &error);
    const pid_t child = fork();
    if (child == 0) {
        simba_client *other;
        simba_locker *waiting;
        bench_check(simba_client_open(url, NULL, &error, &other), url, &error);
        bench_check(simba_locker_new(other, "pair", NULL, &error, &waiting), "locker", &error);
        c->ready = 1;
        bench_check(simba_locker_acquire(waiting, 60000, &error), "acquire", &error);
        c->taken_ns = bench_now_ns();
        simba_locker_free(waiting);
        simba_client_close(other);
        _exit(0);
    }
    while (!c->ready)
        bench_sleep_ms(1);
    bench_sleep_ms(wait_ms);
    const int64_t start_ns = bench_now_ns();
    bench_check(simba_locker_release(locker, &error), "release", &error);
    waitpid(child, NULL, 0);
    simba_locker_free(locker);
    simba_client_close(client);
    const double ms = (double)(c->taken_ns - start_ns) / 1e6;
    munmap(c, sizeof *c);
    return ms;
}

static void measure_pair(void)
{
    double young = 0;
    for (int i = 0; i < (quick ? 3 : 10); i++) {
        const double ms = hand_over_after(100 + 80 * i);
        young = ms > young ? ms : young;
    }
    bench_add("hand-over, waits below a second, the slowest", young, 1, "ms", BENCH_AT_MOST, 100);
    bench_add("hand-over, a wait of 15 s", hand_over_after(15000), 1, "ms", BENCH_AT_MOST, 1000);
}

int main(int argc, char **argv)
{
    quick = bench_wants_quick(argc, argv);
    if (quick)
        stretch_ns /= 5;
    signal(SIGPIPE, SIG_IGN);
    start_server();
    mysql_close(connect_raw());
    measure_uncontended();
    measure_pair();
    measure_held();
    measure_crowd();
    stop_server();
    return bench_print("MariaDB on the same machine, unpinned, innodb_flush_log_at_trx_commit=1");
}
