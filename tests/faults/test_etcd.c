/* Contenders on a cluster of three real etcd servers, which are killed and frozen under them, and behind networks that break. Whatever
 * happens, the referee must have nothing to complain about: one leader at a time, tokens that grow, callbacks that alternate. */
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <unistd.h>

#include "faults/arena.h"
#include "lib/cm.h"
#include "lib/proxy.h"
#include "lib/referee.h"
#include "lib/server.h"

#include "client/client.h"
#include "stores/etcd/etcd.h"

#define SESSION_MS (ref_scaled_ms(6000))

static server etcd;
static proxy network; /* of the first contender, to the first server */

static int setup(void **state)
{
    (void)state;
    char url[160];
    char by_network[160];
    proxy_start(&network, etcd.port);
    snprintf(url, sizeof url, "etcd://%s?session-timeout=%llds", etcd.hosts, (long long)SESSION_MS / 1000);
    snprintf(by_network, sizeof by_network, "etcd://127.0.0.1:%d?session-timeout=%llds", network.port,
             (long long)SESSION_MS / 1000);
    simba_timing timing = SIMBA_TIMING_INHERIT;
    open_arena_by((const char *const[N]){by_network, url, url}, timing);
    return 0;
}

/* All of them by all servers. */
static int setup_cluster(void **state)
{
    (void)state;
    char url[160];
    proxy_start(&network, etcd.port);
    snprintf(url, sizeof url, "etcd://%s?session-timeout=%llds", etcd.hosts, (long long)SESSION_MS / 1000);
    open_arena(url, (simba_timing)SIMBA_TIMING_INHERIT);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_arena();
    proxy_stop(&network);
    return 0;
}

/* The network of the holder breaks, and comes back in time: nobody loses anything. */
static void short_outage(void **state)
{
    (void)state;
    ref_scene("short outage");
    const unsigned grants = grants_now();
    static const proxy_mode modes[] = {PROXY_FREEZE, PROXY_CUT, PROXY_DEAF};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        proxy_set(&network, modes[i]);
        usleep((unsigned)(SESSION_MS * 300)); /* the duration of the fault */
        proxy_set(&network, PROXY_PASS);
        assert_true(
            REF_WITHIN(ARENA_LONG_MS, simba_contender_held_for_ms(arena.contenders[0].handle) > SESSION_MS / 2));
        assert_kept(grants);
    }
    assert_hands_over();
}

/* The holder is cut off for longer than its lease: it is told before another one leads. */
static void long_outage(void **state)
{
    (void)state;
    ref_scene("long outage");
    const unsigned grants = grants_now();
    proxy_set(&network, PROXY_FREEZE);
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.grants > grants && arena.inside));
    assert_int_equal(arena.contenders[0].reason, SIMBA_REASON_SESSION_LOST);
    assert_ptr_not_equal(arena.inside, &arena.contenders[0]);
    proxy_set(&network, PROXY_PASS);
    assert_hands_over();
}

/* The servers go one after the other, the leader among them, and come back with their data. */
static void killed_servers(void **state)
{
    (void)state;
    ref_scene("killed servers");
    for (unsigned i = 0; i < SERVER_ENSEMBLE; i++) {
        const unsigned grants = grants_now();
        server_signal(server_nth(&etcd, i), SIGKILL);
        assert_hands_over();
        assert_true(grants_now() > grants);
        assert_true(server_restart_etcd(server_nth(&etcd, i)));
    }
}

/* Frozen instead of killed: nothing breaks, everything is silent. */
static void frozen_servers(void **state)
{
    (void)state;
    ref_scene("frozen servers");
    for (unsigned i = 0; i < SERVER_ENSEMBLE; i++) {
        server_signal(server_nth(&etcd, i), SIGSTOP);
        assert_hands_over();
        server_signal(server_nth(&etcd, i), SIGCONT);
    }
}

/* Two of three are gone: nobody can be granted anything, and the leader stops in time. */
static void no_quorum(void **state)
{
    (void)state;
    ref_scene("no quorum");
    const unsigned grants = grants_now();
    server_signal(server_nth(&etcd, 1), SIGSTOP);
    server_signal(server_nth(&etcd, 2), SIGSTOP);
    assert_true(REF_WITHIN(ARENA_LONG_MS, !arena.inside));
    assert_int_equal(grants_now(), grants);
    server_signal(server_nth(&etcd, 1), SIGCONT);
    server_signal(server_nth(&etcd, 2), SIGCONT);
    assert_hands_over();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(short_outage, setup, teardown),
        cmocka_unit_test_setup_teardown(long_outage, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_servers, setup_cluster, teardown),
        cmocka_unit_test_setup_teardown(frozen_servers, setup_cluster, teardown),
        cmocka_unit_test_setup_teardown(no_quorum, setup_cluster, teardown),
    };
    if (!server_has("etcd")) {
        puts("1..0 # SKIP etcd is not installed");
        return 0;
    }
    server_init(&etcd);
    const int failed = server_start_etcd_cluster(&etcd) ? cmocka_run_group_tests(tests, NULL, NULL)
                                                        : (puts("Bail out! etcd does not start"), 1);
    server_fini(&etcd);
    return failed;
}
