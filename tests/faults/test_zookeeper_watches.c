/* A ZooKeeper server that does not take packets of the size that all watches of a client have together: the client sets them one by one
 * after a break, and keeps its session. */
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "lib/proxy.h"
#include "lib/referee.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

#define LONG_MS (ref_scaled_ms(30000))
#define SESSION_MS (ref_scaled_ms(1500))

enum { N = 100 };

static server zookeeper;
static unsigned held, losses;

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    ref_lock();
    held++;
    ref_unlock();
}

static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    ref_lock();
    held--;
    losses += reason == SIMBA_REASON_SESSION_LOST;
    ref_unlock();
}

static void many_watches(void **state)
{
    char url[128];
    proxy network;
    simba_client *client = NULL;
    simba_contender *contenders[N];
    proxy_start(&network, zookeeper.port);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d?session-timeout=%lldms", network.port, (long long)SESSION_MS);
    assert_int_equal(simba_client_open(url, NULL, NULL, &client), 0);
    for (int i = 0; i < N; i++) {
        char mutex[16];
        simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
        options.on_acquired = on_acquired;
        options.on_released = on_released;
        snprintf(mutex, sizeof mutex, "m%d", i);
        assert_int_equal(simba_contender_new(client, mutex, &options, NULL, &contenders[i]), 0);
        assert_int_equal(simba_contender_start(contenders[i]), 0);
    }
    assert_true(REF_WITHIN(LONG_MS, held == N && server_zookeeper_counter(&zookeeper, "zk_watch_count") >=
                                                     N)); /* each holder watches its own child */
    proxy_set(&network, PROXY_CUT);
    proxy_set(&network, PROXY_PASS);
    assert_true(REF_WITHIN(LONG_MS, server_zookeeper_counter(&zookeeper, "zk_watch_count") < N));
    assert_true(REF_WITHIN(LONG_MS, server_zookeeper_counter(&zookeeper, "zk_watch_count") >= N));
    assert_int_equal(held, N);
    assert_int_equal(losses, 0);
    for (int i = 0; i < N; i++)
        simba_contender_free(contenders[i]);
    simba_client_close(client);
    proxy_stop(&network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_watches)};
    setenv("JAVA_TOOL_OPTIONS", "-Djute.maxbuffer=6000", 1);
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper);
}
