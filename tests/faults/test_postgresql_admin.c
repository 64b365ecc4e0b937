/* What an administrator of a PostgreSQL server may do to a role that has the rights of docs/postgresql.md and no others: limits for
 * its statements and connections, locks on its table and on its rows, and a back end that is killed, which takes all others
 * with it. */
#include <libpq-fe.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "faults/arena.h"
#include "lib/server.h"

#define TTL_MS (ref_scaled_ms(500))
#define TRANSITION_MS (ref_scaled_ms(1500))
#define RIGHTS                                                                                                         \
    "revoke all on schema public from public", "revoke all on all functions in schema public from public",             \
        "grant usage on schema public to worker", "grant select, insert, update on simba_mutex to worker",             \
        "grant select, insert, update, delete on simba_mutex_waiters to worker"

static server postgresql;
static PGconn *administrator;

static void connect_administrator(void)
{
    char info[128];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=postgres dbname=simba", postgresql.port);
    administrator = PQconnectdb(info);
    if (PQstatus(administrator) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(administrator));
}

static void say(const char *const *statements)
{
    for (; *statements; statements++) {
        PGresult *result = PQexec(administrator, *statements);
        if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
            fail_msg("%s: %s", *statements, PQerrorMessage(administrator));
        PQclear(result);
    }
}
#define SAY(...) say((const char *const[]){__VA_ARGS__, NULL})

static void url_of(const char *user, char *url, size_t size)
{
    snprintf(url, size, "postgresql://%s@127.0.0.1:%d/simba?sslmode=disable&connect-timeout=1s", user, postgresql.port);
}

static int group_setup(void **state)
{
    (void)state;
    char url[128];
    simba_client *client;
    simba_error err = {0};
    server_init(&postgresql);
    if (!server_start_postgresql(&postgresql, NULL))
        fail_msg("postgres does not start");
    url_of("postgres", url, sizeof url);
    if (simba_client_open(url, NULL, &err, &client) < 0 || simba_client_prepare(client, &err) < 0)
        fail_msg("%s", err.text);
    simba_client_close(client);
    connect_administrator();
    SAY("create role worker login", RIGHTS);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    PQfinish(administrator);
    server_fini(&postgresql);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    char url[128];
    url_of("worker", url, sizeof url);
    open_arena(url, arena_timing(TTL_MS, TRANSITION_MS));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_arena();
    SAY("alter role worker reset all");
    return 0;
}

/* The mutex goes round. */
static void least_privileges(void **state)
{
    (void)state;
    ref_scene("least privileges");
    for (int i = 0; i < 10; i++)
        assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* While the table is locked every statement runs into a limit. The lease of the leader is longer. */
static void assert_outlives_locked_table(const char *limit, int64_t ms)
{
    const unsigned grants = arena.grants;
    SAY(limit, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'worker'");
    usleep((unsigned)(TTL_MS * 1000)); /* all are connected again, with the limit */
    SAY("begin", "lock table simba_mutex");
    usleep((unsigned)(ms * 1000));
    SAY("commit");
    usleep((unsigned)(TTL_MS * 1000));
    assert_kept(grants);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

static void statement_timeout(void **state)
{
    (void)state;
    ref_scene("statement_timeout");
    assert_outlives_locked_table("alter role worker set statement_timeout = '50ms'", TTL_MS * 3 / 2);
}

/* The limit of a second that the store sets by itself. */
static void lock_timeout(void **state)
{
    (void)state;
    ref_scene("lock_timeout");
    assert_outlives_locked_table("alter role worker set lock_timeout = '10s'", ref_scaled_ms(1200));
}

/* Connections are closed whenever they have nothing to do. */
static void idle_timeouts(void **state)
{
    (void)state;
    ref_scene("idle timeouts");
    const unsigned grants = arena.grants;
    SAY("alter role worker set idle_in_transaction_session_timeout = '1ms'",
        "alter role worker set idle_session_timeout = '20ms'",
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'worker'");
    usleep((unsigned)(3 * TTL_MS * 1000));
    assert_kept(grants);
    for (int i = 0; i < 5; i++)
        assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* A back end is killed: the server ends all others as well, recovers, and goes on. */
static void killed_back_end(void **state)
{
    (void)state;
    ref_scene("killed back end");
    kill(PQbackendPID(administrator), SIGKILL);
    PQfinish(administrator);
    assert_true(someone_leads());
    for (int i = 0; i < 3; i++)
        assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
    connect_administrator();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(least_privileges, setup, teardown),
        cmocka_unit_test_setup_teardown(statement_timeout, setup, teardown),
        cmocka_unit_test_setup_teardown(lock_timeout, setup, teardown),
        cmocka_unit_test_setup_teardown(idle_timeouts, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_back_end, setup, teardown),
    };
    if (!server_has("postgres")) {
        puts("1..0 # SKIP postgres is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
