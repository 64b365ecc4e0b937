/* Contenders on a PostgreSQL server that they lose sight of for a while: the network is cut, answers or all packets get lost, and
 * the server is replaced by its standby. The referee must have nothing to complain about, and an outage that is shorter than
 * the transition costs nobody the leadership (L3). */
#include <signal.h>
#include <simba.h>
#include <stdio.h>

#include "faults/sql_plays.h"

#define FORMAT "postgresql://postgres@%s/simba?sslmode=disable&create=yes&connect-timeout=1s"

static server postgresql;
static proxy network;

static int group_setup(void **state)
{
    (void)state;
    server_init(&postgresql);
    if (!server_start_postgresql(&postgresql, NULL))
        fail_msg("postgres does not start");
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    server_fini(&postgresql);
    return 0;
}

/* --- the network ------------------------------------------------------------------------------------------- */

static int network_setup(void **state)
{
    (void)state;
    char url[160], hosts[32];
    proxy_start(&network, postgresql.port);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", network.port);
    snprintf(url, sizeof url, FORMAT, hosts);
    open_arena(url, arena_timing(ref_outage_ms(1000), ref_outage_ms(1000)));
    return 0;
}

static int network_teardown(void **state)
{
    proxy_set(&network, PROXY_PASS);
    (void)state;
    close_arena();
    proxy_stop(&network);
    return 0;
}

static void lossy_outages(void **state)
{
    (void)state;
    play_lossy_outages(&network, 3);
}

static void assert_outlives(proxy_mode mode)
{
    const unsigned grants = arena.grants;
    pass(ref_outage_ms(700)); /* shortly before it is renewed */
    proxy_set(&network, mode);
    pass(ref_outage_ms(700));
    proxy_set(&network, PROXY_PASS);
    pass(ref_outage_ms(1000));
    assert_kept(grants);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* All connections are closed, and new ones as well. */
static void about_cut(void **state)
{
    (void)state;
    ref_scene("cut");
    assert_outlives(PROXY_CUT);
}

/* The server does what it is asked to do, and nobody hears of it. */
static void about_deaf(void **state)
{
    (void)state;
    ref_scene("deaf");
    assert_outlives(PROXY_DEAF);
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
    (void)state;
    char url[160], hosts[32];
    simba_error err = {0};
    attempts seen = {0};
    ref_scene("first packet lost");
    ref_watchdog(ARENA_WATCHDOG_S);
    ref_arena_init(&arena);
    proxy_start(&network, postgresql.port);
    proxy_set(&network, PROXY_LOSS);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", network.port);
    snprintf(url, sizeof url, "postgresql://postgres@%s/simba?sslmode=disable&create=yes&connect-timeout=60s", hosts);
    assert_int_equal(simba_client_open(url, NULL, &err, &clients[0]), 0);
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

/* --- a fail-over ---------------------------------------------------------------------------------------------- */

static server pair;

static int pair_setup(void **state)
{
    (void)state;
    char url[200];
    server_init(&pair);
    if (!server_start_postgresql_pair(&pair))
        fail_msg("the pair does not start");
    snprintf(url, sizeof url, FORMAT, pair.hosts);
    open_arena(url, arena_timing(ref_scaled_ms(1000), ref_scaled_ms(4000)));
    return 0;
}

static int pair_teardown(void **state)
{
    (void)state;
    close_arena();
    server_fini(&pair);
    return 0;
}

/* The primary is gone, its standby is promoted: no grant that was acknowledged is lost, and the mutex goes on round. */
static void fail_over(void **state)
{
    (void)state;
    ref_scene("fail-over");
    assert_hands_over();
    server_signal(&pair, SIGQUIT);
    assert_true(server_tell_postgresql(server_nth(&pair, 1), "select pg_promote()"));
    assert_true(someone_leads());
    for (int i = 0; i < 3; i++)
        assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lossy_outages, network_setup, network_teardown),
        cmocka_unit_test_setup_teardown(about_cut, network_setup, network_teardown),
        cmocka_unit_test_setup_teardown(about_deaf, network_setup, network_teardown),
        cmocka_unit_test(first_packet_lost),
        cmocka_unit_test_setup_teardown(fail_over, pair_setup, pair_teardown),
    };
    if (!server_has("postgres")) {
        puts("1..0 # SKIP postgres is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
