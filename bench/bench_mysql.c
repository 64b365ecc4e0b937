/* What does the library cost on top of MariaDB? A lock and unlock is compared with the same prepared statements in a blocking loop, and
 * with the least that takes a row and gives it back: an UPDATE and an UPDATE. The server's own counter says what ten thousand held
 * mutexes cost it. The benchmark starts the server, with its default settings except for the data folder, and ends it. */
#include <grp.h>
#include <mysql.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/mysql/statements.h"
#include "bench.h"
#include "util/mem.h"

enum { HELD = 10000 };

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

/* --- the same statements by hand ------------------------------------------------------------------------- */

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

static raw_locker open_raw(void)
{
    raw_locker r = {.mysql = connect_raw()};
    r.acquire = prepare(r.mysql, SIMBA__SQL_ACQUIRE);
    r.get = prepare(r.mysql, SIMBA__SQL_GET);
    r.release = prepare(r.mysql, SIMBA__SQL_RELEASE);
    if (mysql_query(r.mysql, "insert ignore into simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id, "
                             "version) values ('plain', 0, 0, 0, '', 0)") != 0)
        bench_fail("insert", mysql_error(r.mysql));
    return r;
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

static void raw_pair(void *user)
{
    const raw_locker *r = user;
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

/* --- an UPDATE and an UPDATE ------------------------------------------------------------------------------ */

/* The least that a lock with a lease can do: each is a transaction of its own, which asks the server for the time. */
#define NOW "cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)"
static const char *const take_text = "update hand set owner = ?, token = token + 1, until = " NOW " + 16000 "
                                     "where mutex = ? and (owner = '' or until <= " NOW ")";
static const char *const give_back_text = "update hand set owner = '', until = 0 where owner = ? and mutex = ?";

typedef struct two_updates {
    MYSQL *mysql;
    MYSQL_STMT *take, *give_back;
} two_updates;

static MYSQL_STMT *prepare_text(MYSQL *mysql, const char *text)
{
    MYSQL_STMT *statement = mysql_stmt_init(mysql);
    if (mysql_stmt_prepare(statement, text, strlen(text)) != 0)
        bench_fail(text, mysql_stmt_error(statement));
    return statement;
}

static two_updates open_updates(void)
{
    two_updates u = {.mysql = connect_raw()};
    if (mysql_query(u.mysql, "create table hand (mutex varchar(66) primary key, owner varchar(100), token bigint, "
                             "until bigint)") != 0 ||
        mysql_query(u.mysql, "insert into hand values ('plain', '', 0, 0)") != 0)
        bench_fail("table", mysql_error(u.mysql));
    u.take = prepare_text(u.mysql, take_text);
    u.give_back = prepare_text(u.mysql, give_back_text);
    return u;
}

static void update_pair(void *user)
{
    const two_updates *u = user;
    char mutex[] = "plain";
    char id[] = "0:4711@10.0.0.1";
    unsigned long mutex_length = strlen(mutex);
    unsigned long id_length = strlen(id);
    MYSQL_BIND binds[] = {word(id, &id_length), word(mutex, &mutex_length)};
    execute(u->take, binds);
    execute(u->give_back, binds);
    if (mysql_stmt_affected_rows(u->take) != 1 || mysql_stmt_affected_rows(u->give_back) != 1)
        bench_fail("update", "not mine");
}

/* --- the measurements -------------------------------------------------------------------------------------- */

static void measure_pairs(bool quick)
{
    double per_second[3];
    bench_locker l = bench_locker_open(url, "bench");
    bench_locker_pair(&l); /* makes the table */
    raw_locker r = open_raw();
    two_updates u = open_updates();
    const bench_side sides[] = {{bench_locker_pair, &l}, {raw_pair, &r}, {update_pair, &u}};
    bench_take_turns(sides, 3, quick, per_second);
    bench_locker_close(&l);
    mysql_stmt_close(r.acquire);
    mysql_stmt_close(r.get);
    mysql_stmt_close(r.release);
    mysql_close(r.mysql);
    mysql_stmt_close(u.take);
    mysql_stmt_close(u.give_back);
    mysql_close(u.mysql);
    bench_row("lock + unlock", per_second[0], "pairs/s");
    bench_row("the same statements, blocking", per_second[1], "pairs/s");
    bench_row("an UPDATE and an UPDATE", per_second[2], "pairs/s");
    bench_row("ratio of the two", per_second[0] / per_second[1], "");
    bench_row("ratio to an UPDATE and an UPDATE", per_second[0] / per_second[2], "");
}

static void measure_held(bool quick)
{
    MYSQL *mysql = connect_raw();
    bench_crowd crowd = bench_crowd_start(url, "held", HELD, 10000, 6000);
    if (!bench_crowd_await_held(&crowd))
        bench_fail("held", "not all could be had");
    const simba_stats before = bench_crowd_stats(&crowd);
    const double questions = counter(mysql, "Questions");
    const double executed = counter(mysql, "Com_stmt_execute");
    const int64_t from_ns = bench_now_ns();
    bench_sleep_ms(quick ? 12000 : 31000);
    const double elapsed_s = (double)(bench_now_ns() - from_ns) / 1e9;
    /* Questions counts executions of prepared statements too; some servers count them only there. */
    const double asked = counter(mysql, "Questions") - questions;
    const double more = counter(mysql, "Com_stmt_execute") - executed;
    const simba_stats after = bench_crowd_stats(&crowd);
    bench_row("renewals of 10,000 at ttl 10 s", (double)(after.renewals - before.renewals) / elapsed_s, "per s");
    bench_row("statements for that", (asked > more ? asked : more) / elapsed_s, "per s");
    bench_row("renewals that failed", (double)after.renewals_failed, "");
    bench_crowd_end(&crowd);
    mysql_close(mysql);
}

int main(int argc, char **argv)
{
    const bool quick = bench_wants_quick(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    start_server();
    mysql_close(connect_raw());
    measure_pairs(quick);
    measure_held(quick);
    stop_server();
    return 0;
}
