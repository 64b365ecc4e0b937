/* An ensemble of three ZooKeeper servers, whose members die one after the other while contenders hand a mutex round: the
 * leader of the ensemble among them. Nobody loses anything: the session moves on to another server in time. */
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/referee.h"
#include "lib/server.h"

#if SIMBA_WITH_ZOOKEEPER

#define LONG_MS (ref_scaled_ms(30000))
#define SESSION_MS (ref_scaled_ms(12000))

enum { N = 3, WATCHDOG_S = 100 };

static server ensemble;
static simba_client *clients[N];
static ref_arena arena;

static int setup(void **state)
{
    (void)state;
    char url[256];
    ref_arena_init(&arena);
    ref_watchdog(WATCHDOG_S);
    snprintf(url, sizeof url, "zookeeper://%s/deep/down?session-timeout=%lldms", ensemble.hosts, (long long)SESSION_MS);
    for (unsigned i = 0; i < N; i++) {
        simba_error err = {0};
        if (simba_client_open(url, NULL, &err, &clients[i]) < 0)
            fail_msg("%s", err.text);
        const simba_contender_options options = ref_options(&arena, i);
        assert_int_equal(simba_contender_new(clients[i], "orders", &options, &err, &arena.contenders[i].handle), 0);
        assert_int_equal(ref_start(&arena.contenders[i]), 0);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < N; i++) {
        ref_stop(&arena.contenders[i]);
        ref_free(&arena.contenders[i]);
        simba_client_close(clients[i]);
    }
    ref_arena_check_end(&arena);
    ref_watchdog(0);
    return 0;
}

static server *leader_of_ensemble(void)
{
    for (int tries = 0; tries < 1000; tries++) {
        for (unsigned i = 0; i < SERVER_ENSEMBLE; i++) {
            char text[2048];
            server *s = server_nth(&ensemble, i);
            if (s->pid && server_ask_zookeeper(s, "srvr", text, sizeof text) > 0 && strstr(text, "Mode: leader"))
                return s;
        }
        usleep(10000);
    }
    fail_msg("the ensemble has no leader");
    return NULL;
}

/* Every contender leads once more. */
static void assert_goes_round(void)
{
    for (unsigned i = 0; i < N; i++) {
        assert_true(REF_WITHIN(LONG_MS, arena.inside != NULL));
        ref_lock();
        ref_contender *leader = NULL;
        for (unsigned n = 0; n < N; n++)
            if (arena.inside == &arena.contenders[n])
                leader = &arena.contenders[n];
        const unsigned grants = arena.grants;
        ref_unlock();
        assert_non_null(leader);
        ref_stop(leader);
        assert_true(REF_WITHIN(LONG_MS, arena.grants > grants && arena.inside != NULL));
        assert_int_equal(ref_start(leader), 0);
    }
    assert_int_equal(ref_complaints(), 0);
}

/* The leader dies, another is elected, the dead one comes back; and so on. */
static void test_leader_killed(void **state)
{
    (void)state;
    ref_scene("leader of the ensemble killed");
    assert_goes_round();
    for (int i = 0; i < 2; i++) {
        ref_lock();
        const unsigned grants = arena.grants;
        const ref_contender *inside = arena.inside;
        ref_unlock();
        server *victim = leader_of_ensemble();
        server_signal(victim, SIGKILL);
        leader_of_ensemble();
        ref_lock();
        const bool kept = arena.grants == grants && arena.inside == inside;
        ref_unlock();
        assert_true(kept);
        assert_goes_round();
        assert_true(server_restart_zookeeper(victim));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_leader_killed, setup, teardown)};
    if (!server_has_zookeeper()) {
        puts("1..0 # SKIP ZooKeeper and java are not installed");
        return 0;
    }
    server_init(&ensemble);
    if (!server_start_ensemble(&ensemble)) {
        puts("Bail out! the ensemble does not start");
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_fini(&ensemble);
    return failed;
}
#else
int main(void)
{
    puts("1..0 # SKIP built without zookeeper");
    return 0;
}
#endif
