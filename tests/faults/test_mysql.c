/* Contenders on a real MariaDB server that is killed, frozen, cut off and made read-only while they lead and wait. Whatever
 * happens, the referee must have nothing to complain about: one leader at a time, tokens that grow, callbacks that
 * alternate. The server writes every change to its disk before it answers, since a server that forgets can promise
 * nothing. */
#include <mysql.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>

#include "faults/sql_plays.h"

static server mariadb;

static void start_mariadb(void)
{
    if (!server_start_mariadb(&mariadb, (const char *const[]){"--innodb-flush-log-at-trx-commit=1", NULL}))
        fail_msg("mariadbd does not start");
}

static MYSQL *connect_raw(void)
{
    MYSQL *mysql = mysql_init(NULL);
    const unsigned protocol = MYSQL_PROTOCOL_TCP;
    mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    if (!mysql_real_connect(mysql, "127.0.0.1", "root", "", "simba", (unsigned)mariadb.port, NULL, 0))
        fail_msg("%s", mysql_error(mysql));
    return mysql;
}

static void say_on(MYSQL *mysql, const char *sql)
{
    if (mysql_query(mysql, sql) != 0)
        fail_msg("%s: %s", sql, mysql_error(mysql));
    mysql_free_result(mysql_store_result(mysql));
}

/* Plain statements of an administrator, one after the other. */
static void say(const char *const *statements)
{
    MYSQL *mysql = connect_raw();
    for (; *statements; statements++)
        say_on(mysql, *statements);
    mysql_close(mysql);
}
#define SAY(...) say((const char *const[]){__VA_ARGS__, NULL})

static int group_setup(void **state)
{
    (void)state;
    server_init(&mariadb);
    start_mariadb();
    SAY("create user worker@'%'", "grant all on simba.* to worker@'%'");
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    server_fini(&mariadb);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    char url[128];
    snprintf(url, sizeof url, "mysql://worker@127.0.0.1:%d/simba?create=yes&connect-timeout=1s&timeout=1s",
             mariadb.port);
    open_arena(url, arena_timing(TTL_MS, TRANSITION_MS));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_arena();
    return 0;
}

/* --- packets that get lost -------------------------------------------------------------------------------- */

static proxy network;

static int lossy_setup(void **state)
{
    (void)state;
    char url[128];
    proxy_start(&network, mariadb.port);
    snprintf(url, sizeof url, "mysql://worker@127.0.0.1:%d/simba?create=yes", network.port);
    open_arena(url, arena_timing(ref_outage_ms(1000), ref_outage_ms(1000)));
    return 0;
}

static int lossy_teardown(void **state)
{
    proxy_set(&network, PROXY_PASS);
    teardown(state);
    proxy_stop(&network);
    return 0;
}

static void lossy_outages(void **state)
{
    (void)state;
    play_lossy_outages(&network, 3);
}

/* --- what is done to it ------------------------------------------------------------------------------------ */

static void freeze(bool frozen)
{
    server_signal(&mariadb, frozen ? SIGSTOP : SIGCONT);
}

static void restart(void)
{
    server_signal(&mariadb, SIGKILL);
    start_mariadb();
}

static void end_connections(void)
{
    SAY("kill user worker");
}

static void make_read_only(bool read_only)
{
    SAY(read_only ? "set global read_only = 1" : "set global read_only = 0");
}

static MYSQL *locker;

static void lock_row(const char *mutex)
{
    char sql[96];
    snprintf(sql, sizeof sql, "update simba_mutex set version = version where mutex = '%s'", mutex);
    locker = connect_raw();
    say_on(locker, "begin");
    say_on(locker, sql);
}

static void unlock_row(void)
{
    mysql_close(locker);
}

static const sql_acts acts = {freeze, restart, end_connections, make_read_only, lock_row, unlock_row};

static void locked_row_among_others(void **state)
{
    (void)state;
    char url[128];
    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%d/simba?create=yes", mariadb.port);
    play_locked_row(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SQL_PLAYS_TESTS,
        cmocka_unit_test(locked_row_among_others),
        cmocka_unit_test_setup_teardown(lossy_outages, lossy_setup, lossy_teardown),
    };
    if (!server_has("mariadbd")) {
        puts("1..0 # SKIP mariadbd is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
