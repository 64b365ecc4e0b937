/* Contenders on a real ZooKeeper server, each behind a network of its own that the test breaks, and the server killed under
 * them. Whatever happens, the referee must have nothing to complain about: one leader at a time, tokens that grow, callbacks
 * that alternate. */
#include <poll.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "lib/proxy.h"
#include "lib/raw_zookeeper.h"
#include "lib/referee.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

#include "client/client.h"
#include "stores/zookeeper/zookeeper.h"

#define LONG_MS (ref_scaled_ms(20000))
#define SESSION_MS (ref_scaled_ms(4000))
#define BRIEF_SESSION_MS (ref_scaled_ms(1000))
#define OP_TIMEOUT_MS (ref_scaled_ms(300))
#define LONG_SESSION_MS (ref_scaled_ms(8000))

enum { N = 2, WATCHDOG_S = 100 };

static server zookeeper;
static proxy networks[N];
static simba_client *clients[N], *outside;
static ref_arena arena;
static char mutex[32];
static unsigned round_number;

static simba_client *open_client(int port, int64_t session_ms)
{
    char url[128];
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.op_timeout_ms = OP_TIMEOUT_MS;
    simba_client *client = NULL;
    simba_error err = {0};
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/faults?session-timeout=%lldms", port, (long long)session_ms);
    if (simba_client_open(url, &options, &err, &client) < 0)
        fail_msg("%s", err.text);
    return client;
}

static void count_waiters(const simba_listing *row, void *user)
{
    if (!simba_owner_is_none(row->owner))
        *(int64_t *)user = row->waiters + 1;
}

/* How many children the mutex has, as one sees it who has no part in it. -1: the server does not say. */
static int64_t contenders_in_store(void)
{
    int64_t count = 0;
    return simba_client_list(outside, mutex, count_waiters, &count, NULL) < 0 ? -1 : count;
}

static void start_contender(unsigned i)
{
    assert_int_equal(ref_start(&arena.contenders[i]), 0);
}

static void begin(int64_t session_ms)
{
    ref_arena_init(&arena);
    ref_watchdog(WATCHDOG_S);
    snprintf(mutex, sizeof mutex, "orders-%u", ++round_number);
    outside = open_client(zookeeper.port, LONG_SESSION_MS);
    for (unsigned i = 0; i < N; i++) {
        simba_error err = {0};
        proxy_start(&networks[i], zookeeper.port);
        clients[i] = open_client(networks[i].port, session_ms);
        const simba_contender_options options = ref_options(&arena, i);
        assert_int_equal(simba_contender_new(clients[i], mutex, &options, &err, &arena.contenders[i].handle), 0);
    }
    start_contender(0);
    assert_true(REF_WITHIN(LONG_MS, arena.inside == &arena.contenders[0]));
    start_contender(1);
    assert_true(REF_WITHIN(LONG_MS, contenders_in_store() == 2));
}

static int setup(void **state)
{
    begin(SESSION_MS);
    return 0;
}

static int setup_brief(void **state)
{
    begin(BRIEF_SESSION_MS);
    return 0;
}

static int setup_long(void **state)
{
    begin(LONG_SESSION_MS);
    return 0;
}

static int teardown(void **state)
{
    for (unsigned i = 0; i < N; i++) {
        ref_stop(&arena.contenders[i]);
        ref_free(&arena.contenders[i]);
        simba_client_close(clients[i]);
        proxy_stop(&networks[i]);
    }
    simba_client_close(outside);
    ref_arena_check_end(&arena);
    ref_watchdog(0);
    return 0;
}

static bool keeps_leading(unsigned grants)
{
    ref_lock();
    const bool kept = arena.grants == grants && arena.inside == &arena.contenders[0];
    ref_unlock();
    return kept;
}

/* Let the leader of now go, and see the other one follow; and back. */
static void assert_hands_over(void)
{
    for (int i = 0; i < 2; i++) {
        assert_true(REF_WITHIN(LONG_MS, arena.inside != NULL));
        ref_lock();
        ref_contender *leader = &arena.contenders[arena.inside == &arena.contenders[0] ? 0 : 1];
        const unsigned grants = arena.grants;
        ref_unlock();
        ref_stop(leader); /* if it could not tell the store just now, that is made up for */
        assert_true(REF_WITHIN(LONG_MS, arena.grants > grants && arena.inside != NULL));
        assert_int_equal(ref_start(leader), 0);
        assert_true(REF_WITHIN(LONG_MS, contenders_in_store() == 2));
    }
    assert_int_equal(ref_complaints(), 0);
}

/* Under the lock: the next beat is due as soon as it is released. */
static bool beat_next(simba_client *client)
{
    zk_store *store = client->store;
    struct pollfd timer = {.fd = client->reactor.timer, .events = POLLIN};
    store->session.live.beat_at = client->now;
    client->host.timer_set(&client->host, &store->session.link.timer, client->now);
    simba__reactor_arm(&client->reactor, client->now);
    return poll(&timer, 1, (int)LONG_MS) == 1;
}

static bool has_beaten(simba_client *client, unsigned long long times)
{
    simba__lock(client);
    const zk_liveness *live = &((zk_store *)client->store)->session.live;
    const bool beaten = live->link == ZK_CONNECTED && live->answered >= times;
    simba__unlock(client);
    return beaten;
}

/* The connection breaks just before a sign of life is due: that belongs to neither this connection nor the next. */
static void breaks_before_beat(void **state)
{
    ref_scene("breaks before a beat");
    const unsigned grants = arena.grants;
    simba__lock(clients[0]);
    const bool due = beat_next(clients[0]);
    struct pollfd socket = {.fd = clients[0]->reactor.first->fd, .events = POLLRDHUP};
    proxy_set(&networks[0], PROXY_CUT);
    const int hung_up = poll(&socket, 1, (int)LONG_MS);
    proxy_set(&networks[0], PROXY_PASS);
    simba__unlock(clients[0]);
    assert_true(due);
    assert_int_equal(hung_up, 1);
    assert_true(REF_WITHIN(LONG_MS, has_beaten(clients[0], ZK_BEATS + 2)));
    assert_true(keeps_leading(grants));
    assert_hands_over();
}

/* For longer than the session: the holder is told before the other one leads, which the referee watches, and enters the
 * queue again when the network is back. */
static void long_freeze(void **state)
{
    ref_scene("long freeze");
    proxy_set(&networks[0], PROXY_FREEZE);
    assert_true(REF_WITHIN(LONG_MS, arena.contenders[0].released == 1));
    ref_lock();
    const simba_reason reason = arena.contenders[0].reason;
    const bool alone = arena.contenders[1].acquired == 0;
    ref_unlock();
    assert_int_equal(reason, SIMBA_REASON_SESSION_LOST);
    assert_true(alone);
    assert_int_equal(simba_contender_held_for_ms(arena.contenders[0].handle), 0);
    assert_true(REF_WITHIN(LONG_MS, arena.inside == &arena.contenders[1]));
    proxy_set(&networks[0], PROXY_PASS);
    assert_true(REF_WITHIN(LONG_MS, contenders_in_store() == 2));
    assert_hands_over();
}

/* Answers are lost, among them those to creates and deletes; nothing stays behind. */
static void lost_answers(void **state)
{
    ref_scene("lost answers");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ref_stop(&arena.contenders[1]), 0);
        const unsigned before = proxy_accepted(&networks[1]);
        proxy_set(&networks[1], PROXY_DEAF);
        start_contender(1); /* its child is made, and it does not know */
        assert_true(REF_WITHIN(LONG_MS, contenders_in_store() == 2));
        if (i % 2) {
            ref_stop(&arena.contenders[1]); /* it gives up before it can know */
            assert_true(REF_WITHIN(LONG_MS, contenders_in_store() <= 2));
        }
        proxy_set(&networks[1], PROXY_CUT);
        proxy_set(&networks[1], PROXY_PASS);
        assert_true(REF_WITHIN(LONG_MS, proxy_accepted(&networks[1]) > before));
        if (i % 2) {
            assert_true(REF_WITHIN(LONG_MS, contenders_in_store() == 1));
            start_contender(1);
        }
        assert_true(REF_WITHIN(LONG_MS, contenders_in_store() == 2));
    }
    assert_hands_over();
}

/* And too late. */
static void slow_restart(void **state)
{
    ref_scene("slow restart");
    server_signal(&zookeeper, SIGKILL);
    assert_true(REF_WITHIN(LONG_MS, arena.contenders[0].released == 1));
    assert_int_equal(arena.contenders[0].reason, SIMBA_REASON_SESSION_LOST);
    assert_true(server_restart_zookeeper(&zookeeper));
    assert_true(REF_WITHIN(LONG_MS, arena.inside != NULL));
    assert_hands_over();
}

static clientid_t session_of(simba_client *client)
{
    simba__lock(client);
    const zk_session *session = &((zk_store *)client->store)->session;
    clientid_t id = {.client_id = session->id};
    memcpy(id.passwd, session->password, sizeof id.passwd);
    simba__unlock(client);
    return id;
}

/* Somebody takes over a session by its id and password, and ends it; while its client is cut off, so that it does not take
 * it back. */
static void steal_session_of(unsigned nth)
{
    const clientid_t id = session_of(clients[nth]);
    proxy_set(&networks[nth], PROXY_CUT);
    zookeeper_close(raw_zookeeper_open(zookeeper.port, &id));
    proxy_set(&networks[nth], PROXY_PASS);
}

/* The holder's session is ended behind its back. The other leads at once, and that cannot be helped; the holder learns when
 * it is connected again, and everybody goes on. */
static void stolen_session(void **state)
{
    ref_scene("stolen session");
    ref_force(&arena);
    steal_session_of(0);
    assert_true(REF_WITHIN(LONG_MS, arena.contenders[0].released == 1));
    assert_true(arena.contenders[0].reason == SIMBA_REASON_SESSION_LOST);
    assert_true(REF_WITHIN(LONG_MS, ref_settled(&arena)));
    assert_true(REF_WITHIN(LONG_MS, contenders_in_store() == 2));
    assert_hands_over();
    /* That of one who waits, too. */
    assert_true(REF_WITHIN(LONG_MS, arena.inside != NULL));
    steal_session_of(arena.inside == &arena.contenders[0] ? 1 : 0);
    assert_true(REF_WITHIN(LONG_MS, contenders_in_store() == 2));
    assert_hands_over();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(breaks_before_beat, setup, teardown),
        cmocka_unit_test_setup_teardown(long_freeze, setup_brief, teardown),
        cmocka_unit_test_setup_teardown(lost_answers, setup_long, teardown),
        cmocka_unit_test_setup_teardown(stolen_session, setup_long, teardown),
        cmocka_unit_test_setup_teardown(slow_restart, setup_brief, teardown),
    };
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper);
}
