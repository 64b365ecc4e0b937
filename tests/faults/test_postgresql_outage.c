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
    open_arena(url, arena_timing(ref_scaled_ms(1000), ref_scaled_ms(1000)));
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
    pass(ref_scaled_ms(700)); /* shortly before it is renewed */
    proxy_set(&network, mode);
    pass(ref_scaled_ms(700));
    proxy_set(&network, PROXY_PASS);
    pass(ref_scaled_ms(1000));
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
        cmocka_unit_test_setup_teardown(fail_over, pair_setup, pair_teardown),
    };
    if (!server_has("postgres")) {
        puts("1..0 # SKIP postgres is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
