/* An ensemble of three ZooKeeper servers, one of which is cut off from the others and goes on serving its clients: whoever
 * relies on it has to know in time. */
#include <simba.h>
#include <stdio.h>
#include <string.h>

#include "faults/arena.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

#define SESSION_MS (ref_scaled_ms(2500))

static server ensemble;
static proxy networks[SERVER_ENSEMBLE - 1];

/* Each contender knows one server only. */
static int setup(void **state)
{
    (void)state;
    char texts[N][128];
    const char *urls[N];
    for (unsigned i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "zookeeper://127.0.0.1:%d/apart?session-timeout=%lldms",
                 server_nth(&ensemble, i)->port, (long long)SESSION_MS);
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

static void set_networks(proxy_mode mode)
{
    for (unsigned i = 0; i < SERVER_ENSEMBLE - 1; i++)
        proxy_set(&networks[i], mode);
}

static bool leads_first(void)
{
    ref_lock();
    const bool leads = arena.inside == &arena.contenders[0];
    ref_unlock();
    return leads;
}

/* The server of the one that leads hears nothing of the others any more, and does not know yet: for thirty seconds it goes
 * on answering whatever it can answer by itself. Meanwhile the others end the session. */
static void server_cut_off(void **state)
{
    (void)state;
    ref_scene("server cut off from its leader");
    char text[2048];
    assert_true(server_ask_zookeeper(&ensemble, "srvr", text, sizeof text) > 0 && strstr(text, "Mode: follower"));
    for (int i = 0; i < 2; i++) {
        const unsigned grants = grants_now();
        set_networks(PROXY_FREEZE);
        assert_true(REF_WITHIN(ARENA_LONG_MS, arena.grants > grants && arena.inside));
        assert_true(server_ask_zookeeper(&ensemble, "srvr", text, sizeof text) > 0 && strstr(text, "Mode: follower"));
        ref_lock();
        const simba_reason reason = arena.contenders[0].reason;
        ref_unlock();
        assert_int_equal(reason, SIMBA_REASON_SESSION_LOST);
        set_networks(PROXY_PASS);
        /* It comes back, stands in the queue, and leads again. */
        const int64_t deadline_ms = ref_now_ms() + ARENA_LONG_MS;
        while (!leads_first() && ref_now_ms() < deadline_ms)
            assert_hands_over();
        assert_true(leads_first());
    }
    assert_int_equal(ref_complaints(), 0);
}

static bool start(server *s)
{
    return server_start_ensemble(s, networks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(server_cut_off, setup, teardown)};
    const int failed = RUN_ZOOKEEPER_TESTS(tests, &ensemble, start);
    server_stop_networks(networks);
    return failed;
}
