/* An ensemble of three ZooKeeper servers, one of which is cut off from the others and goes on serving its clients, as a follower or
 * as the leader that the others have replaced: whoever relies on it has to know in time. */
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <string.h>

#include "faults/arena.h"
#include "lib/server.h"

#define SESSION_MS (ref_scaled_ms(2500))
#define LONG_SESSION_MS 10000

static server ensemble;
static proxy networks[SERVER_ENSEMBLE - 1];

/* Each contender knows one server only; the first contender, which leads, knows this one. */
static void open_apart(unsigned first, int64_t sessions_of_others_ms)
{
    char texts[N][128];
    const char *urls[N];
    for (unsigned i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "zookeeper://127.0.0.1:%d/apart?session-timeout=%lldms",
                 server_nth(&ensemble, (first + i) % N)->port,
                 (long long)(i == 0 ? SESSION_MS : sessions_of_others_ms));
        urls[i] = texts[i];
    }
    open_arena_by(urls, (simba_timing)SIMBA_TIMING_INHERIT);
}

static int setup_follower(void **state)
{
    server_init(&ensemble);
    assert_true(server_start_ensemble(&ensemble, networks));
    open_apart(0, SESSION_MS);
    return 0;
}

/* The sessions of the others last for longer: when the server that leads finds one of them to be over, it has something to agree on
 * with the other servers, and does not answer any more. */
static int setup_leader(void **state)
{
    server_init(&ensemble);
    assert_true(server_start_ensemble_led(&ensemble, networks));
    open_apart(SERVER_ENSEMBLE - 1, LONG_SESSION_MS);
    return 0;
}

static int teardown(void **state)
{
    close_arena();
    server_fini(&ensemble);
    server_stop_networks(networks);
    memset(networks, 0, sizeof networks);
    return 0;
}

static bool is_a(server *s, const char *mode)
{
    char text[2048];
    return server_ask_zookeeper(s, "srvr", text, sizeof text) > 0 && strstr(text, mode);
}

static bool leads_first(void)
{
    ref_lock();
    const bool leads = arena.inside == &arena.contenders[0];
    ref_unlock();
    return leads;
}

/* The first one was told, and another one leads. */
static void assert_passed_on(unsigned grants)
{
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.grants > grants && arena.inside));
    ref_lock();
    const simba_reason reason = arena.contenders[0].reason;
    ref_unlock();
    assert_int_equal(reason, SIMBA_REASON_SESSION_LOST);
}

/* The server of the one that leads hears nothing of the others any more, and does not know yet: for thirty seconds it goes
 * on answering whatever it can answer by itself. Meanwhile the others end the session. */
static void server_cut_off(void **state)
{
    ref_scene("server cut off from its leader");
    assert_true(is_a(&ensemble, "Mode: follower"));
    for (int i = 0; i < 2; i++) {
        const unsigned grants = grants_now();
        for (unsigned n = 0; n < SERVER_ENSEMBLE - 1; n++)
            proxy_set(&networks[n], PROXY_FREEZE);
        assert_passed_on(grants);
        assert_true(is_a(&ensemble, "Mode: follower"));
        for (unsigned n = 0; n < SERVER_ENSEMBLE - 1; n++)
            proxy_set(&networks[n], PROXY_PASS);
        /* It comes back, stands in the queue, and leads again. */
        const int64_t deadline_ms = ref_now_ms() + ARENA_LONG_MS;
        while (!leads_first() && ref_now_ms() < deadline_ms)
            assert_hands_over();
        assert_true(leads_first());
    }
    assert_int_equal(ref_complaints(), 0);
}

enum { OLD_TIMEOUT_MS = 25000 };

/* The others begin anew, so that they do not wait for the leader they had; that one waits for thirty seconds. */
static void leader_cut_off(void **state)
{
    ref_scene("leader cut off from the others");
    server *old = server_nth(&ensemble, SERVER_ENSEMBLE - 1);
    assert_true(is_a(old, "Mode: leader"));
    const unsigned grants = grants_now();
    const int64_t before_ms = ref_now_ms();
    for (unsigned i = 0; i < SERVER_ENSEMBLE - 1; i++) {
        proxy_set(&networks[i], PROXY_FREEZE);
        server_signal(server_nth(&ensemble, i), SIGKILL);
    }
    for (unsigned i = 0; i < SERVER_ENSEMBLE - 1; i++)
        assert_true(server_start(server_nth(&ensemble, i)));
    assert_passed_on(grants);
    /* On a busy machine the others may take longer to start than that one waits for them. */
    if (ref_now_ms() - before_ms > OLD_TIMEOUT_MS && !is_a(old, "Mode: leader"))
        skip();
    assert_true(is_a(old, "Mode: leader"));
    assert_int_equal(ref_complaints(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(server_cut_off, setup_follower, teardown),
        cmocka_unit_test_setup_teardown(leader_cut_off, setup_leader, teardown),
    };
    if (!server_has_zookeeper()) {
        puts("1..0 # SKIP ZooKeeper and java are not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
