/* Contenders on a real MariaDB server that is killed, frozen, cut off and made read-only while they lead and wait. Whatever
 * happens, the referee must have nothing to complain about: one leader at a time, tokens that grow, callbacks that
 * alternate. The server writes every change to its disk before it answers, since a server that forgets can promise
 * nothing. */
#include <mysql.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults/arena.h"
#include "faults/locked_row.h"
#include "lib/server.h"
#include "util/random.h"

#define TTL_MS (ref_scaled_ms(500))
#define TRANSITION_MS (ref_scaled_ms(1500))

static server mariadb;

static void start_mariadb(void)
{
    if (!server_start_mariadb(&mariadb, (const char *const[]){"--innodb-flush-log-at-trx-commit=1", NULL}))
        fail_msg("mariadbd does not start");
}

/* Plain statements of an administrator, one after the other. */
static void say(const char *const *statements)
{
    MYSQL *mysql = mysql_init(NULL);
    const unsigned protocol = MYSQL_PROTOCOL_TCP;
    mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    if (!mysql_real_connect(mysql, "127.0.0.1", "root", "", "simba", (unsigned)mariadb.port, NULL, 0))
        fail_msg("%s", mysql_error(mysql));
    for (; *statements; statements++) {
        if (mysql_query(mysql, *statements) != 0)
            fail_msg("%s: %s", *statements, mysql_error(mysql));
        mysql_free_result(mysql_store_result(mysql));
    }
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

static void assert_kept(unsigned grants)
{
    ref_lock();
    const bool kept = arena.grants == grants && arena.inside == &arena.contenders[0];
    ref_unlock();
    assert_true(kept);
}

/* Frozen for less than the transition: nobody loses anything. */
static void test_short_freeze(void **state)
{
    (void)state;
    ref_scene("short freeze");
    const unsigned grants = arena.grants;
    for (int i = 0; i < 2; i++) {
        server_signal(&mariadb, SIGSTOP);
        usleep((unsigned)(TRANSITION_MS / 3 * 1000));
        server_signal(&mariadb, SIGCONT);
        usleep((unsigned)(TTL_MS * 1000));
    }
    assert_kept(grants);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Frozen for longer than the lease: the holder is told, and somebody leads again after the thaw. */
static void test_long_freeze(void **state)
{
    (void)state;
    ref_scene("long freeze");
    server_signal(&mariadb, SIGSTOP);
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    ref_lock();
    const simba_reason reason = arena.contenders[0].reason;
    ref_unlock();
    assert_int_equal(reason, SIMBA_REASON_EXPIRED);
    server_signal(&mariadb, SIGCONT);
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Killed, and back when the lease may be over or not: what it has acknowledged is still there. */
static void test_restart(void **state)
{
    (void)state;
    ref_scene("restart");
    server_signal(&mariadb, SIGKILL);
    start_mariadb();
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* All connections are killed again and again while the mutex goes round. */
static void test_connections_killed(void **state)
{
    (void)state;
    ref_scene("connections killed");
    for (int i = 0; i < 5; i++) {
        SAY("kill user worker");
        assert_hands_over();
    }
    assert_int_equal(ref_complaints(), 0);
}

/* The server is read-only for a moment, then for longer than the lease. */
static void test_read_only(void **state)
{
    (void)state;
    ref_scene("read-only");
    const unsigned grants = arena.grants;
    SAY("set global read_only = 1");
    usleep((unsigned)(TTL_MS * 1000));
    SAY("set global read_only = 0");
    usleep((unsigned)(TTL_MS * 1000));
    assert_kept(grants);
    SAY("set global read_only = 1");
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    SAY("set global read_only = 0");
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* --- packets that get lost -------------------------------------------------------------------------------- */

static proxy network;

static int lossy_setup(void **state)
{
    (void)state;
    char url[128];
    proxy_start(&network, mariadb.port);
    snprintf(url, sizeof url, "mysql://worker@127.0.0.1:%d/simba?create=yes", network.port);
    open_arena(url, arena_timing(ref_scaled_ms(1000), ref_scaled_ms(1000)));
    return 0;
}

static int lossy_teardown(void **state)
{
    proxy_set(&network, PROXY_PASS);
    teardown(state);
    proxy_stop(&network);
    return 0;
}

/* Outages in which all packets get lost, and that end a quarter of a second before the transition of a second does: nobody
 * loses anything (L3), although TCP repeats what was lost in pauses. SIMBA_TEST_OUTAGES says how many there are. */
static void test_lossy_outages(void **state)
{
    (void)state;
    ref_scene("lossy outages");
    const char *wanted = getenv("SIMBA_TEST_OUTAGES");
    const int count = wanted ? atoi(wanted) : 5;
    const unsigned grants = arena.grants;
    uint64_t seed = (uint64_t)getpid();
    for (int i = 0; i < count; i++) {
        usleep((unsigned)(ref_scaled_ms(simba__random_range(&seed, 300, 1300)) * 1000));
        proxy_set(&network, PROXY_LOSS);
        usleep((unsigned)(ref_scaled_ms(simba__random_range(&seed, 600, 750)) * 1000));
        proxy_set(&network, PROXY_PASS);
        if (wanted)
            fprintf(stderr, "outage %d: %u grants\n", i, grants_now());
    }
    usleep((unsigned)(ref_scaled_ms(1000) * 1000));
    assert_kept(grants);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* An administrator's transaction keeps the row locked for longer than the lease. */
static void test_row_locked(void **state)
{
    (void)state;
    ref_scene("row locked");
    MYSQL *mysql = mysql_init(NULL);
    const unsigned protocol = MYSQL_PROTOCOL_TCP;
    mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    assert_non_null(mysql_real_connect(mysql, "127.0.0.1", "root", "", "simba", (unsigned)mariadb.port, NULL, 0));
    assert_int_equal(mysql_query(mysql, "begin"), 0);
    assert_int_equal(mysql_query(mysql, "update simba_mutex set version = version where mutex = 'orders'"), 0);
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    mysql_close(mysql);
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

static MYSQL *administrator;

static void lock_row(void)
{
    const unsigned protocol = MYSQL_PROTOCOL_TCP;
    administrator = mysql_init(NULL);
    mysql_options(administrator, MYSQL_OPT_PROTOCOL, &protocol);
    assert_non_null(
        mysql_real_connect(administrator, "127.0.0.1", "root", "", "simba", (unsigned)mariadb.port, NULL, 0));
    assert_int_equal(mysql_query(administrator, "begin"), 0);
    assert_int_equal(mysql_query(administrator, "update simba_mutex set version = version where mutex = 'held-3'"), 0);
}

static void unlock_row(void)
{
    mysql_close(administrator);
}

static void test_locked_row_among_others(void **state)
{
    (void)state;
    char url[128];
    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%d/simba?create=yes", mariadb.port);
    play_locked_row(url, lock_row, unlock_row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_short_freeze, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_freeze, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_connections_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_read_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_row_locked, setup, teardown),
        cmocka_unit_test(test_locked_row_among_others),
        cmocka_unit_test_setup_teardown(test_lossy_outages, lossy_setup, lossy_teardown),
    };
    if (!server_has("mariadbd")) {
        puts("1..0 # SKIP mariadbd is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
