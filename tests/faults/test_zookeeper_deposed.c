/* An ensemble of three ZooKeeper servers, whose leader is cut off from the others. They elect another one, of which the first
 * knows nothing: whoever relies on it has to know in time. */
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <string.h>

#include "faults/arena.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

#define SESSION_MS (ref_scaled_ms(2500))
#define LONG_SESSION_MS 10000

static server ensemble;
static proxy networks[SERVER_ENSEMBLE - 1];

/* The one that leads is connected to the server that does. The sessions of the others last for longer: when that server finds
 * one of them to be over, it has something to agree on with the others, and does not answer any more. */
static int setup(void **state)
{
    (void)state;
    char texts[N][128];
    const char *urls[N];
    for (unsigned i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "zookeeper://127.0.0.1:%d/deposed?session-timeout=%lldms",
                 server_nth(&ensemble, N - 1 - i)->port, (long long)(i == 0 ? SESSION_MS : LONG_SESSION_MS));
        urls[i] = texts[i];
    }
    open_arena_by(urls, (simba_timing)SIMBA_TIMING_INHERIT);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_arena();
    return 0;
}

static bool leads(server *s)
{
    char text[2048];
    return server_ask_zookeeper(s, "srvr", text, sizeof text) > 0 && strstr(text, "Mode: leader");
}

enum { OLD_TIMEOUT_MS = 25000 };

/* The others begin anew, so that they do not wait for the leader they had; that one waits for thirty seconds. */
static void leader_cut_off(void **state)
{
    (void)state;
    ref_scene("leader cut off from the others");
    assert_true(leads(server_nth(&ensemble, 2)));
    const unsigned grants = grants_now();
    const int64_t before_ms = ref_now_ms();
    for (unsigned i = 0; i < SERVER_ENSEMBLE - 1; i++) {
        proxy_set(&networks[i], PROXY_FREEZE);
        server_signal(server_nth(&ensemble, i), SIGKILL);
    }
    for (unsigned i = 0; i < SERVER_ENSEMBLE - 1; i++)
        assert_true(server_start(server_nth(&ensemble, i)));
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.grants > grants && arena.inside));
    /* On a busy machine the others may take longer to start than that one waits for them. */
    if (ref_now_ms() - before_ms > OLD_TIMEOUT_MS && !leads(server_nth(&ensemble, 2)))
        skip();
    assert_true(leads(server_nth(&ensemble, 2)));
    ref_lock();
    const simba_reason reason = arena.contenders[0].reason;
    const unsigned released = arena.contenders[0].released;
    ref_unlock();
    assert_int_equal(released, 1);
    assert_int_equal(reason, SIMBA_REASON_SESSION_LOST);
    assert_int_equal(ref_complaints(), 0);
}

static bool start(server *s)
{
    return server_start_ensemble_led(s, networks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(leader_cut_off, setup, teardown)};
    const int failed = RUN_ZOOKEEPER_TESTS(tests, &ensemble, start);
    server_stop_networks(networks);
    return failed;
}
