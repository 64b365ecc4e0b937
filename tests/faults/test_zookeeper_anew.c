/* An ensemble that is set up anew, without its data, under a client that runs: its servers have seen less than the client, and so refuse
 * the client's session for as long as that is so. Once nobody can hold anything by that session, the client begins another. */
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "lib/referee.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

#define LONG_MS (ref_scaled_ms(30000))
#define SESSION_MS (ref_scaled_ms(1500))

static server zookeeper;
static unsigned acquired, released;

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    ref_lock();
    acquired++;
    ref_unlock();
}

static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    ref_lock();
    released += reason == SIMBA_REASON_SESSION_LOST;
    ref_unlock();
}

static void forget_data(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s/version-2", zookeeper.folder);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): made of what is ours
}

static void set_up_anew(void **state)
{
    char url[128];
    simba_client *client = NULL;
    simba_contender *contender = NULL;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    ref_watchdog(100);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/a?session-timeout=%lldms", zookeeper.port,
             (long long)SESSION_MS);
    assert_int_equal(simba_client_open(url, NULL, NULL, &client), 0);
    assert_int_equal(simba_contender_new(client, "m", &options, NULL, &contender), 0);
    assert_int_equal(simba_contender_start(contender), 0);
    assert_true(REF_WITHIN(LONG_MS, acquired == 1));
    for (unsigned i = 1; i <= 2; i++) {
        server_signal(&zookeeper, SIGKILL);
        forget_data();
        assert_true(server_restart_zookeeper(&zookeeper));
        assert_true(REF_WITHIN(LONG_MS, released == i));
        assert_true(REF_WITHIN(LONG_MS, acquired == i + 1));
    }
    simba_contender_free(contender);
    simba_client_close(client);
    ref_watchdog(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(set_up_anew)};
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper);
}
