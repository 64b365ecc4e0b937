/* Contenders on a real PostgreSQL server that is killed, frozen, locked and made read-only while they lead and wait. Whatever
 * happens, the referee must have nothing to complain about: one leader at a time, tokens that grow, callbacks that
 * alternate. */
#include <libpq-fe.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <unistd.h>

#include "faults/arena.h"
#include "lib/server.h"

#define TTL_MS (ref_scaled_ms(500))
#define TRANSITION_MS (ref_scaled_ms(1500))
#define FORMAT "postgresql://postgres@%s/simba?sslmode=disable&create=yes&connect-timeout=1s"

static server postgresql;

static PGconn *connect_raw(void)
{
    char info[128];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=postgres dbname=simba application_name=administrator",
             postgresql.port);
    PGconn *pg = PQconnectdb(info);
    if (PQstatus(pg) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(pg));
    return pg;
}

static void say_on(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    PQclear(result);
}

/* Plain statements of an administrator, one after the other. */
static void say(const char *const *statements)
{
    PGconn *pg = connect_raw();
    for (; *statements; statements++)
        say_on(pg, *statements);
    PQfinish(pg);
}
#define SAY(...) say((const char *const[]){__VA_ARGS__, NULL})

static void start(void)
{
    if (!server_start_postgresql(&postgresql, NULL))
        fail_msg("postgres does not start");
}

static int group_setup(void **state)
{
    (void)state;
    server_init(&postgresql);
    start();
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    server_fini(&postgresql);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    char url[160];
    snprintf(url, sizeof url, FORMAT, postgresql.hosts);
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
        server_freeze_postgresql(&postgresql, true);
        usleep((unsigned)(TRANSITION_MS / 3 * 1000));
        server_freeze_postgresql(&postgresql, false);
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
    server_freeze_postgresql(&postgresql, true);
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    ref_lock();
    const simba_reason reason = arena.contenders[0].reason;
    ref_unlock();
    assert_int_equal(reason, SIMBA_REASON_EXPIRED);
    server_freeze_postgresql(&postgresql, false);
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* It ends as in a crash, and is back when the lease may be over or not: what it has acknowledged is still there. */
static void test_restart(void **state)
{
    (void)state;
    ref_scene("restart");
    server_signal(&postgresql, SIGQUIT);
    start();
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* All connections, those that listen too, are ended again and again while the mutex goes round. */
static void test_terminated(void **state)
{
    (void)state;
    ref_scene("terminated");
    for (int i = 0; i < 5; i++) {
        SAY("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'simba'");
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
    SAY("alter system set default_transaction_read_only = on", "select pg_reload_conf()");
    usleep((unsigned)(TTL_MS * 1000));
    SAY("alter system reset default_transaction_read_only", "select pg_reload_conf()");
    usleep((unsigned)(TTL_MS * 1000));
    assert_kept(grants);
    SAY("alter system set default_transaction_read_only = on", "select pg_reload_conf()");
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    SAY("alter system reset default_transaction_read_only", "select pg_reload_conf()");
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* An administrator's transaction keeps the row locked for longer than the lease. */
static void test_row_locked(void **state)
{
    (void)state;
    ref_scene("row locked");
    PGconn *pg = connect_raw();
    say_on(pg, "begin");
    say_on(pg, "update simba_mutex set version = version where mutex = 'orders'");
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    PQfinish(pg);
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Short limits for statements, transactions and idle connections cost nobody anything. */
static void test_timeouts(void **state)
{
    (void)state;
    ref_scene("timeouts");
    const unsigned grants = arena.grants;
    SAY("alter system set statement_timeout = '1s'", "alter system set idle_in_transaction_session_timeout = '100ms'",
        "alter system set idle_session_timeout = '150ms'", "select pg_reload_conf()");
    usleep((unsigned)(4 * TTL_MS * 1000));
    assert_kept(grants);
    for (int i = 0; i < 3; i++)
        assert_hands_over();
    SAY("alter system reset all", "select pg_reload_conf()");
    assert_int_equal(ref_complaints(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_short_freeze, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_freeze, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_terminated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_read_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_row_locked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timeouts, setup, teardown),
    };
    if (!server_has("postgres")) {
        puts("1..0 # SKIP postgres is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
