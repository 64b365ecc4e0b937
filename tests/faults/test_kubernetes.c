/* Contenders on the tests' own API server of Kubernetes, which falls silent, forgets to answer and fails, and behind networks that break.
 * Whatever happens, the referee must have nothing to complain about: one leader at a time, tokens that grow, callbacks that alternate.
 * faults.processes_kubernetes kills and freezes the contenders themselves. */
#include <simba.h>
#include <stdio.h>
#include <unistd.h>

#include "faults/arena.h"
#include "lib/cm.h"
#include "lib/fake_kubernetes.h"
#include "lib/proxy.h"
#include "lib/referee.h"

static int64_t ttl_ms, transition_ms;

static fake_kubernetes fake;
static proxy network; /* of the first contender, who leads */

static int setup_with(int64_t lease_ms)
{
    char by_network[64], directly[64];
    fake_kubernetes_start(&fake, 0, NULL);
    proxy_start(&network, fake.port);
    snprintf(by_network, sizeof by_network, "kubernetes://127.0.0.1:%d/default?tls=no", network.port);
    snprintf(directly, sizeof directly, "kubernetes://127.0.0.1:%d/default?tls=no", fake.port);
    ttl_ms = transition_ms = lease_ms / 2;
    open_arena_by((const char *const[N]){by_network, directly, directly}, arena_timing(ttl_ms, transition_ms));
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_with(ref_scaled_ms(2000));
}

/* The shortest for which docs/safety.md promises anything. */
static int setup_outages(void **state)
{
    (void)state;
    return setup_with(ref_outage_ms(2000));
}

static int teardown(void **state)
{
    (void)state;
    close_arena();
    proxy_stop(&network);
    fake_kubernetes_stop(&fake);
    assert_int_equal(ref_complaints(), 0);
    return 0;
}

/* Of all clients, so far. */
static uint64_t renewals(void)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < N; i++) {
        simba_stats stats = SIMBA_STATS_INIT;
        simba_client_stats(clients[i], &stats);
        all += stats.renewals;
    }
    return all;
}

/* Whoever leads renews. */
static bool renews(void)
{
    const uint64_t before = renewals();
    return REF_WITHIN(ARENA_LONG_MS, renewals() > before);
}

/* The network of the leader breaks shortly before it renews. Nobody loses anything. */
static void break_networks(const proxy_mode *modes, unsigned count)
{
    const unsigned grants = grants_now();
    for (unsigned i = 0; i < count; i++) {
        ref_scene("short outage");
        assert_true(renews());
        usleep((unsigned)ttl_ms * (800 + 50 * i));
        proxy_set(&network, modes[i]);
        usleep((unsigned)transition_ms * (600 + 70 * i)); /* the length of the outage */
        proxy_set(&network, PROXY_PASS);
        assert_true(renews());
        assert_kept(grants);
    }
    assert_hands_over();
}

/* For up to three quarters of the transition. */
static void short_outages(void **state)
{
    (void)state;
    static const proxy_mode modes[] = {PROXY_FREEZE, PROXY_CUT, PROXY_DEAF};
    break_networks(modes, 3);
}

/* Every packet gets lost, those of new connections too. */
static void lossy_outages(void **state)
{
    (void)state;
    static const proxy_mode modes[] = {PROXY_LOSS, PROXY_LOSS, PROXY_LOSS};
    break_networks(modes, 3);
}

/* The leader is cut off for longer than its lease: it is told before another one leads. */
static void long_outage(void **state)
{
    (void)state;
    ref_scene("long outage");
    const unsigned grants = grants_now();
    proxy_set(&network, PROXY_FREEZE);
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.grants > grants && arena.inside));
    assert_int_equal(arena.contenders[0].reason, SIMBA_REASON_EXPIRED);
    assert_ptr_not_equal(arena.inside, &arena.contenders[0]);
    proxy_set(&network, PROXY_PASS);
    assert_hands_over();
}

/* The server answers nobody, for half of the transition, and then for longer than a lease: nobody can be granted anything then, and the
 * leader stops in time. */
static void silent_server(void **state)
{
    (void)state;
    ref_scene("silent server");
    const unsigned grants = grants_now();
    assert_true(renews());
    fake_kubernetes_freeze(&fake, true);
    usleep((unsigned)(ttl_ms * 900 + transition_ms * 500)); /* the length of the outage, which meets a renewal */
    fake_kubernetes_freeze(&fake, false);
    assert_true(renews());
    assert_kept(grants);
    fake_kubernetes_freeze(&fake, true);
    assert_true(REF_WITHIN(ARENA_LONG_MS, !arena.inside));
    assert_int_equal(arena.contenders[0].reason, SIMBA_REASON_EXPIRED);
    assert_int_equal(grants_now(), grants);
    fake_kubernetes_freeze(&fake, false);
    assert_hands_over();
}

/* Writes are carried out, and their answers are lost, or say that nobody knows; then the server fails to write at all. Renewals count once,
 * releases are passed on. */
static void lost_answers(void **state)
{
    (void)state;
    static const fake_kube_fault all[] = {FAKE_KUBE_LOST, FAKE_KUBE_UNSURE, FAKE_KUBE_BROKEN, FAKE_KUBE_TOO_MANY};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        ref_scene("lost answers");
        const unsigned grants = grants_now();
        fake_kubernetes_fail(&fake, all[i], "PATCH", 2);
        assert_true(REF_WITHIN(ARENA_LONG_MS, fake_kubernetes_has_failed(&fake)));
        assert_true(renews());
        assert_int_equal(grants_now(), grants);
        fake_kubernetes_fail(&fake, all[i], "PATCH", 1);
        assert_hands_over();
    }
}

/* All connections end at once, again and again, those of watches too. */
static void cut_connections(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        ref_scene("cut connections");
        fake_kubernetes_cut(&fake);
        assert_hands_over();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(short_outages, setup, teardown),
        cmocka_unit_test_setup_teardown(lossy_outages, setup_outages, teardown),
        cmocka_unit_test_setup_teardown(long_outage, setup, teardown),
        cmocka_unit_test_setup_teardown(silent_server, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_connections, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
