/* Outages that docs/zookeeper.md calls free, at the shortest session for which it does: every packet of the leader is lost
 * for up to half of the session timeout, those of its new connections too. It goes on leading. */
#include <simba.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/proxy.h"
#include "lib/referee.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

#include "client/client.h"
#include "stores/zookeeper/zookeeper.h"

#define SESSION_MS (ref_scaled_ms(3000))
#define LONG_MS (ref_scaled_ms(20000))

static server zookeeper;

static bool is_proven_since(simba_client *client, int64_t from_ns)
{
    simba__lock(client);
    const zk_liveness *live = &((zk_store *)client->store)->session.live;
    const bool proven = live->link == ZK_CONNECTED && live->proven.ns > from_ns;
    simba__unlock(client);
    return proven;
}

static int64_t now_ns(simba_client *client)
{
    return client->host.now(&client->host).ns;
}

static void about_outages(void **state)
{
    static const int lengths[] = {200, 300, 380, 440, 500, 500, 500}; /* in thousandths of the session */
    char url[128];
    proxy network;
    ref_arena arena;
    simba_client *client = NULL;
    simba_error err = {0};
    ref_scene("packets are lost");
    ref_watchdog(100);
    ref_arena_init(&arena);
    proxy_start(&network, zookeeper.port);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d?session-timeout=%lldms", network.port, (long long)SESSION_MS);
    assert_int_equal(simba_client_open(url, NULL, &err, &client), 0);
    const simba_contender_options options = ref_options(&arena, 0);
    assert_int_equal(simba_contender_new(client, "m", &options, &err, &arena.contenders[0].handle), 0);
    assert_int_equal(ref_start(&arena.contenders[0]), 0);
    assert_true(REF_WITHIN(LONG_MS, arena.inside == &arena.contenders[0]));
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t begun_ns = now_ns(client);
        assert_true(REF_WITHIN(LONG_MS, is_proven_since(client, begun_ns)));
        usleep((unsigned)(SESSION_MS * 1000 / 8 * i / 7)); /* anywhere between two beats */
        proxy_set(&network, PROXY_LOSS);
        usleep((unsigned)(SESSION_MS * lengths[i])); /* the length of the outage */
        proxy_set(&network, PROXY_PASS);
        const int64_t over_ns = now_ns(client);
        assert_true(REF_WITHIN(LONG_MS, is_proven_since(client, over_ns)));
        ref_lock();
        const bool kept = arena.contenders[0].released == 0 && arena.grants == 1;
        ref_unlock();
        if (!kept)
            fail_msg("an outage of %d/1000 of the session, the %uth, cost the leadership", lengths[i], i);
    }
    ref_stop(&arena.contenders[0]);
    ref_free(&arena.contenders[0]);
    simba_client_close(client);
    proxy_stop(&network);
    ref_watchdog(0);
    assert_int_equal(ref_complaints(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(about_outages)};
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper);
}
