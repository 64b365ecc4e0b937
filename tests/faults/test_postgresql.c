/* Contenders on a real PostgreSQL server that is maltreated, see plays.h; its limits for statements and connections, and
 * connections whose first packet gets lost. */
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "faults/plays.h"

static PGconn *connect_raw(void)
{
    char info[128];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=postgres dbname=simba application_name=administrator",
             subject.port);
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

static bool start(void)
{
    return server_start_postgresql(&subject, NULL);
}

static const char *url(int port)
{
    static char text[128];
    snprintf(text, sizeof text,
             "postgresql://postgres@127.0.0.1:%d/simba?sslmode=disable&create=yes&connect-timeout=1s", port);
    return text;
}

static void freeze(bool frozen)
{
    server_freeze_postgresql(&subject, frozen);
}

/* Those that listen too. */
static void end_connections(void)
{
    SAY("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'simba'");
}

static void make_read_only(bool read_only)
{
    SAY(read_only ? "alter system set default_transaction_read_only = on"
                  : "alter system reset default_transaction_read_only",
        "select pg_reload_conf()");
}

static PGconn *locker;

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
    PQfinish(locker);
}

static const acts_on_server acts = {"postgres",      start,          SIGQUIT,  url,       freeze,
                                    end_connections, make_read_only, lock_row, unlock_row};

/* Short limits for statements, transactions and idle connections cost nobody anything. */
static void about_timeouts(void **state)
{
    ref_scene("timeouts");
    const unsigned grants = arena.grants;
    SAY("alter system set statement_timeout = '1s'", "alter system set idle_in_transaction_session_timeout = '100ms'",
        "alter system set idle_session_timeout = '150ms'", "select pg_reload_conf()");
    pass(4 * TTL_MS);
    assert_kept(grants);
    for (int i = 0; i < 3; i++)
        assert_hands_over();
    SAY("alter system reset all", "select pg_reload_conf()");
    assert_int_equal(ref_complaints(), 0);
}

/* Those of leases as long as here: earlier scenes may have left rows of contenders that could not say that they leave. */
static long waiters(void)
{
    PGconn *pg = connect_raw();
    PGresult *result = PQexec(pg, "select count(*) from simba_mutex_waiters "
                                  "where until > extract(epoch from clock_timestamp()) * 1000 + 100000");
    const long n = PQresultStatus(result) == PGRES_TUPLES_OK ? strtol(PQgetvalue(result, 0, 0), NULL, 10) : -1;
    PQclear(result);
    PQfinish(pg);
    return n;
}

/* L2: a server that has crashed knows nothing of those who wait, and neither does a standby that takes over. They enter the queue
 * again, long before the lease that they know of ends, and so they are told of the next release. */
static void queue_lost(void **state)
{
    open_arena(url(subject.port), arena_timing(10 * ARENA_LONG_MS, 10 * ARENA_LONG_MS));
    ref_scene("queue lost");
    if (!REF_WITHIN(ARENA_LONG_MS, waiters() == N - 1))
        fail_msg("%ld waiters, not %d", waiters(), N - 1);
    server_signal(&subject, acts.crash);
    assert_true(acts.start());
    assert_true(REF_WITHIN(ARENA_LONG_MS, waiters() == N - 1));
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
    close_arena();
}

/* --- the first packet of a connection ---------------------------------------------------------------------- */

/* The local port of a socket that waits for an answer to its first packet to this port; 0: there is none. */
static unsigned connecting_from(int port)
{
    enum { SYN_SENT = 2 };
    FILE *file = fopen("/proc/net/tcp", "re");
    char line[512];
    unsigned from = 0;
    assert_non_null(file);
    while (from == 0 && fgets(line, sizeof line, file)) {
        unsigned local, remote, state;
        if (sscanf(line, "%*d: %*x:%x %*x:%x %x", &local, &remote, &state) == 3 && remote == (unsigned)port &&
            state == SYN_SENT)
            from = local;
    }
    fclose(file);
    return from;
}

typedef struct attempts {
    unsigned count;
    unsigned from; /* the latest */
    int64_t since_ms;
} attempts;

static void look_at_attempts(int port, attempts *seen)
{
    const unsigned from = connecting_from(port);
    if (from == 0 || from == seen->from)
        return;
    *seen = (attempts){seen->count + 1, from, ref_now_ms()};
}

static bool is_tried_anew(int port, attempts *seen)
{
    look_at_attempts(port, seen);
    return seen->count > 1;
}

/* Does an attempt last longer than one of those that are cut short? */
static bool is_tried_patiently(int port, attempts *seen)
{
    look_at_attempts(port, seen);
    return ref_now_ms() - seen->since_ms > 400;
}

/* The kernel would repeat it after a second, by the same socket, and in pauses that double. So there is another attempt before
 * that; but after a few of them one gets the time that a server far away needs. */
static void first_packet_lost(void **state)
{
    char text[160];
    simba_error err = {0};
    attempts seen = {0};
    ref_scene("first packet lost");
    ref_watchdog(ARENA_WATCHDOG_S);
    ref_arena_init(&arena);
    proxy_start(&network, subject.port);
    proxy_set(&network, PROXY_LOSS);
    snprintf(text, sizeof text,
             "postgresql://postgres@127.0.0.1:%d/simba?sslmode=disable&create=yes&connect-timeout=60s", network.port);
    assert_int_equal(simba_client_open(text, NULL, &err, &clients[0]), 0);
    const simba_contender_options options = ref_options(&arena, 0);
    assert_int_equal(simba_contender_new(clients[0], "orders", &options, &err, &arena.contenders[0].handle), 0);
    assert_int_equal(ref_start(&arena.contenders[0]), 0);
    /* Without a hurry it would be when the request is over, after ten seconds. */
    assert_true(REF_WITHIN(ref_scaled_ms(5000), is_tried_anew(network.port, &seen)));
    assert_true(REF_WITHIN(ref_scaled_ms(5000), is_tried_patiently(network.port, &seen)));
    proxy_set(&network, PROXY_PASS);
    assert_true(someone_leads());
    ref_stop(&arena.contenders[0]);
    ref_free(&arena.contenders[0]);
    simba_client_close(clients[0]);
    proxy_stop(&network);
    ref_watchdog(0);
    assert_int_equal(ref_complaints(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SQL_PLAYS_TESTS,
        cmocka_unit_test_setup_teardown(about_timeouts, setup, teardown),
        cmocka_unit_test(queue_lost),
        cmocka_unit_test(first_packet_lost),
    };
    return RUN_PLAYS(tests);
}
