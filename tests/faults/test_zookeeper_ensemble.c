/* An ensemble of three ZooKeeper servers, whose members die one after the other while contenders hand a mutex round: the
 * leader of the ensemble among them. Nobody loses anything: the session moves on to another server in time. */
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "faults/arena.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

#define SESSION_MS (ref_scaled_ms(12000))

static server ensemble;

static int setup(void **state)
{
    (void)state;
    char url[256];
    snprintf(url, sizeof url, "zookeeper://%s/deep/down?session-timeout=%lldms", ensemble.hosts, (long long)SESSION_MS);
    open_arena(url, (simba_timing)SIMBA_TIMING_INHERIT);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_arena();
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
    for (unsigned i = 0; i < N; i++)
        assert_hands_over();
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

static bool start(server *s)
{
    return server_start_ensemble(s, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_leader_killed, setup, teardown)};
    return RUN_ZOOKEEPER_TESTS(tests, &ensemble, start);
}
