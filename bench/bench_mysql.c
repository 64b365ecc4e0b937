/* What does the library cost on top of MariaDB? A lock and unlock is compared with the same two packets of statements in a blocking loop, and
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

#include "bench.h"

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
    if (mysql_real_connect(mysql, "127.0.0.1", "root", "", NULL, (unsigned)port, NULL,
                           CLIENT_FOUND_ROWS | CLIENT_MULTI_STATEMENTS))
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

#define STORE_NOW "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) div 1000"
#define COLUMNS                                                                                                        \
    "mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, revoked_version, "            \
    "note_token, "                                                                                                     \
    "note_number, forgotten_version"

static const char lock_text[] = "start transaction; select " COLUMNS " from `simba_mutex` where mutex in (_utf8mb4 "
                                "x'706c61696e') order by mutex for update skip locked; select " STORE_NOW;
static const char put_text[] =
    "insert into `simba_mutex` (mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, "
    "revoked_version) values (_utf8mb4 x'706c61696e', %llu, %llu, %llu, _utf8mb4 x'%s', %llu, %d, %llu, 0) on "
    "duplicate key "
    "update acquired_at = values(acquired_at), ttl_at = values(ttl_at), transition_at = values(transition_at), "
    "owner_id = "
    "values(owner_id), version = values(version), nonce = values(nonce), nonce_version = values(nonce_version), "
    "revoked_version = values(revoked_version); commit";

/* Several statements; column `which` of the only row of the first and of the last result with rows. */
static void say(MYSQL *mysql, const char *sql, unsigned which, unsigned long long *ret_first,
                unsigned long long *ret_last)
{
    bool is_first = true;
    if (mysql_real_query(mysql, sql, strlen(sql)) != 0)
        bench_fail(sql, mysql_error(mysql));
    do {
        MYSQL_RES *result = mysql_store_result(mysql);
        MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
        if (row && is_first && ret_first)
            *ret_first = strtoull(row[which], NULL, 10);
        else if (row && ret_last)
            *ret_last = strtoull(row[0], NULL, 10);
        is_first &= !row;
        mysql_free_result(result);
    } while (mysql_next_result(mysql) == 0);
}

static MYSQL *open_raw(void)
{
    MYSQL *mysql = connect_raw();
    say(mysql,
        "insert ignore into simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id, version) values "
        "('plain', 0, 0, "
        "0, '', 0)",
        0, NULL, NULL);
    return mysql;
}

static void raw_pair(void *user)
{
    MYSQL *mysql = user;
    unsigned long long version = 0, now = 0;
    char sql[1024];
    say(mysql, lock_text, 5, &version, &now);
    snprintf(sql, sizeof sql, put_text, now, now + 10000, now + 16000, "303a343731314031302e302e302e31", version + 1,
             4711, version + 1);
    say(mysql, sql, 0, NULL, NULL);
    say(mysql, lock_text, 5, &version, &now);
    snprintf(sql, sizeof sql, put_text, 0ULL, 0ULL, 0ULL, "", version + 1, 0, 0ULL);
    say(mysql, sql, 0, NULL, NULL);
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
    MYSQL *r = open_raw();
    two_updates u = open_updates();
    const bench_side sides[] = {{bench_locker_pair, &l}, {raw_pair, r}, {update_pair, &u}};
    bench_take_turns(sides, 3, quick, per_second);
    bench_locker_close(&l);
    mysql_close(r);
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
