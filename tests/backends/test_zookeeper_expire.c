/* What becomes of requests whose time is over, at the level of the contract: a request keeps its place until its calls under way
 * are answered or their connection has ended, and a silent server does not keep it for long. One real server, behind a network
 * that the test breaks. */
#include <stdio.h>

#include "lib/cm.h"
#include "lib/proxy.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

#include "backends/asking.h"
#include "stores/zookeeper/zookeeper.h"

enum { NONCE = 7, TIMEOUT_MS = 20000 };

static server zookeeper;
static proxy network;
static testhost h;

static zk_session *session(void)
{
    return &((zk_store *)h.store)->session;
}

/* The session is so long that beats do not find out soon that the server is silent. */
static int setup(void **state)
{
    char url[96];
    simba_error err = {0};
    proxy_start(&network, zookeeper.port);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d?session-timeout=1h", network.port);
    if (testhost_open(&h, &simba__backend_zookeeper, url, &err) < 0)
        fail_msg("%s", err.text);
    return 0;
}

static int teardown(void **state)
{
    testhost_close(&h);
    proxy_stop(&network);
    return 0;
}

static size_t outstanding(void)
{
    return h.window.outstanding.count;
}

static void pump_until_none_is_outstanding(void)
{
    for (int ms = 0; outstanding() > 0; ms++) {
        assert_true(ms < TIMEOUT_MS);
        testhost_pump(&h, NULL, 1);
    }
}

/* The server has said something since the request was made, so it may still be working on it. */
static void keeps_its_place(void **state)
{
    ask(&h, SIMBA_OP_READ, "m", "me", NONCE, 0);
    proxy_set(&network, PROXY_FREEZE);
    testhost_request read = testhost_request_of(&h, SIMBA_OP_READ, "m", "me", NONCE, 0);
    testhost_request list = testhost_request_of(&h, SIMBA_OP_LIST, NULL, "me", NONCE, 0);
    testhost_request enter = testhost_request_of(&h, SIMBA_OP_ACQUIRE, "m", "me", NONCE, 0);
    testhost_submit(&h, &read);
    testhost_submit(&h, &list);
    testhost_submit(&h, &enter);
    testhost_flush(&h);
    session()->heard.ns = INT64_MAX;
    testhost_expire(&h, &read);
    testhost_expire(&h, &list);
    testhost_expire(&h, &enter);
    assert_int_equal(outstanding(), 3);
    proxy_set(&network, PROXY_PASS);
    pump_until_none_is_outstanding();
    /* The next request of this contender finds what that one has made. */
    assert_mine(acquire(&h, "m", "me", NONCE));
    assert_mine(ask(&h, SIMBA_OP_RELEASE, "m", "me", NONCE, 0));
}

/* Not a byte has come since the request was made: another connection may do better. */
static void silent_server(void **state)
{
    assert_mine(acquire(&h, "s", "me", NONCE));
    const unsigned connections = proxy_accepted(&network);
    proxy_set(&network, PROXY_FREEZE);
    testhost_request read = testhost_request_of(&h, SIMBA_OP_READ, "s", "me", NONCE, 0);
    testhost_request leave = testhost_request_of(&h, SIMBA_OP_RELEASE, "s", "me", NONCE, 0);
    testhost_submit(&h, &read);
    testhost_submit(&h, &leave);
    testhost_flush(&h);
    assert_int_equal(outstanding(), 2);
    testhost_expire(&h, &read);
    assert_int_equal(outstanding(), 1);
    assert_false(leave.done); /* its time is not over: it goes on with the next connection */
    testhost_expire(&h, &leave);
    assert_int_equal(outstanding(), 0);
    proxy_set(&network, PROXY_PASS);
    /* It is given back all the same. */
    while (ask(&h, SIMBA_OP_READ, "s", "me", NONCE, 0).owner.id[0] != '\0')
        ;
    assert_true(proxy_accepted(&network) > connections);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_its_place, setup, teardown),
        cmocka_unit_test_setup_teardown(silent_server, setup, teardown),
    };
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper);
}
