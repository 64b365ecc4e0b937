/* redis+cluster:// on three real masters: finding them, slots that move, servers that are not what was expected. What
 * contenders make of it is in tests/faults. */
#include "backends/test_redis.h"

static server group;
static char url[256];

static const char *url_of(const char *rest)
{
    snprintf(url, sizeof url, "redis+cluster://%s%s", group.hosts, rest);
    return url;
}

static int start_group(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    server_init(&group);
    if (!server_start_redis_cluster(&group))
        fail_msg("the cluster does not start");
    return 0;
}

static int stop_group(void **state)
{
    server_fini(&group);
    return 0;
}

static int empty(void **state)
{
    for (unsigned i = 0; i < 3; i++)
        server_tell_redis(server_nth(&group, i), "FLUSHALL");
    return 0;
}

static void assert_says(const char *text, const char *word)
{
    if (!strstr(text, word))
        fail_msg("\"%s\" does not say \"%s\"", text, word);
}

/* Which master has a mutex, at the beginning. */
static server *home_of(const char *mutex)
{
    const unsigned nth = simba__redis_slot(mutex) / 5461;
    return server_nth(&group, nth > 2 ? 2 : nth);
}

static void about_names(void **state)
{
    simba_url *parsed;
    simba_error err = {0};
    assert_int_equal(simba_url_parse("redis+cluster://h", &err, &parsed), 0);
    assert_int_equal(simba__backend_redis.accepts(parsed, "orders", &err), 0);
    assert_int_equal(simba__backend_redis.accepts(parsed, "}{", &err), SIMBA_EINVAL);
    assert_says(err.text, "begins with \"}\"");
    simba_url_free(parsed);
    assert_int_equal(simba_url_parse("redis://h", &err, &parsed), 0);
    assert_int_equal(simba__backend_redis.accepts(parsed, "}{", &err), 0);
    simba_url_free(parsed);
}

/* Those that are no help are passed over; and if there are only such, the error says so. */
static void about_seeds(void **state)
{
    char hosts[128];
    server lone;
    server_init(&lone);
    assert_true(server_start_redis(&lone, NULL));
    snprintf(hosts, sizeof hosts, "redis+cluster://127.0.0.1:1,127.0.0.1:%d,localhost:%d", lone.port, group.port);
    open_at(&a, hosts);
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);
    snprintf(hosts, sizeof hosts, "redis+cluster://127.0.0.1:1,127.0.0.1:%d", lone.port);
    open_at(&a, hosts);
    const simba_error error = refused(&a, SIMBA_OP_ACQUIRE, "orders");
    assert_says(error.text, "127.0.0.1:1: cannot connect");
    assert_says(error.text, "cluster support disabled");
    assert_true(refused(&a, SIMBA_OP_LIST, NULL).code < 0);
    testhost_close(&a);
    server_fini(&lone);
    /* And without the right kind of URL. */
    snprintf(hosts, sizeof hosts, "redis://127.0.0.1:%d",
             server_nth(&group, home_of("orders") == &group ? 1 : 0)->port);
    open_at(&a, hosts);
    const simba_error moved = refused(&a, SIMBA_OP_ACQUIRE, "orders");
    assert_int_equal(moved.code, SIMBA_ESTORE);
    assert_says(moved.text, "redis+cluster://");
    testhost_close(&a);
    simba_error err = {0};
    assert_int_equal(testhost_open(&a, &simba__backend_redis, "redis+cluster://h1/2", &err), SIMBA_EURL);
    assert_says(err.text, "database");
}

static const char *id_of(const server *s)
{
    static char ids[2][48];
    static unsigned next;
    char *id = ids[next++ % 2];
    sscanf(server_tell_redis(s, "CLUSTER MYID"), "$40\r\n%40s", id);
    return id;
}

static bool renews(simba_reply granted)
{
    testhost_request r = testhost_request_of(&a, SIMBA_OP_RENEW, "orders", "me", 1, granted.owner.token);
    testhost_ask(&a, &r);
    return r.request.reply.status == 0 && r.request.reply.outcome == SIMBA_MINE;
}

/* A slot moves to another server: a lease can be renewed at every stage, pushes come all along, and in the end everything
 * is at the new place. */
static void slot_moves(void **state)
{
    const unsigned slot = simba__redis_slot("orders");
    server *from = home_of("orders");
    server *to = server_nth(&group, from == &group ? 1 : 0);
    open_at(&a, url_of(""));
    open_at(&b, url_of(""));
    const simba_reply granted = acquire(&a, "orders", "me", 1);
    assert_mine(granted);
    simba_watch watched = {.mutex = "orders"};
    watch(&b, &watched);

    server_tell_redis(to, "CLUSTER SETSLOT %u IMPORTING %s", slot, id_of(from));
    server_tell_redis(from, "CLUSTER SETSLOT %u MIGRATING %s", slot, id_of(to));
    assert_true(renews(granted));                                                       /* still where it was */
    assert_int_equal(refused(&b, SIMBA_OP_ACQUIRE, "orders").code, SIMBA_EUNAVAILABLE); /* TRYAGAIN */
    assert_string_equal(
        server_tell_redis(from, "MIGRATE 127.0.0.1 %d \"\" 0 5000 KEYS simba:{orders} simba:{orders}:grant", to->port),
        "+OK\r\n");
    assert_true(renews(granted)); /* by ASK */
    const char *new_id = id_of(to);
    for (unsigned i = 0; i < 3; i++)
        server_tell_redis(server_nth(&group, i), "CLUSTER SETSLOT %u NODE %s", slot, new_id);
    assert_true(renews(granted)); /* by MOVED */
    /* The old server ends the subscription, and before it asks for anything the other client listens where the slot is. */
    for (int i = 0; i < 3000 && !strstr(server_tell_redis(to, "PUBSUB SHARDCHANNELS"), "simba:{orders}@@"); i++)
        testhost_pump(&b, NULL, 10);
    assert_says(server_tell_redis(to, "PUBSUB SHARDCHANNELS"), "simba:{orders}@@");
    assert_owned_by(acquire_or_wait(&b, "orders", "you", 2), "me");
    for (int i = 0; i < 3000 && !strstr(server_tell_redis(to, "PUBSUB CHANNELS"), "simba:{orders}:you"); i++)
        testhost_pump(&b, NULL, 10);
    assert_says(server_tell_redis(to, "PUBSUB CHANNELS"), "simba:{orders}:you"); /* the subscription has moved, too */
    assert_null(strstr(server_tell_redis(from, "PUBSUB CHANNELS"), "simba:{orders}:you"));
    assert_says(server_tell_redis(to, "PUBSUB SHARDCHANNELS"), "simba:{orders}:you");
    b.push_count = 0;
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, granted.owner.token));
    assert_true(pushed(&b, SIMBA_PUSH_RELEASED, 5000));
    const simba_reply next = acquire(&b, "orders", "you", 2);
    assert_mine(next);
    assert_true(next.owner.token > granted.owner.token);
    testhost_unwatch(&b, &watched);
    testhost_close(&b);
    testhost_close(&a);
}

/* Two servers that each take the other for the owner: the request does not go round for ever. */
static void ping_pong(void **state)
{
    const unsigned slot = simba__redis_slot("accounts");
    server *home = home_of("accounts");
    server *other = server_nth(&group, home == &group ? 1 : 0);
    open_at(&a, url_of(""));
    const char *id = id_of(home);
    assert_string_equal(server_tell_redis(home, "CLUSTER SETSLOT %u NODE %s", slot, id_of(other)), "+OK\r\n");
    const simba_error error = refused(&a, SIMBA_OP_ACQUIRE, "accounts");
    assert_int_equal(error.code, SIMBA_EUNAVAILABLE);
    assert_says(error.text, "from one server of the cluster to the other");
    assert_string_equal(server_tell_redis(home, "CLUSTER SETSLOT %u NODE %s", slot, id), "+OK\r\n");
    assert_mine(acquire(&a, "accounts", "me", 1));
    testhost_close(&a);
}

/* A master that is frozen does not refuse, and its connection does not break: silence alone makes the client ask the others
 * who has the slot now. The take-over is played: the others are told that one of them has it. */
static void frozen_master(void **state)
{
    const unsigned slot = simba__redis_slot("ledger");
    server *home = home_of("ledger");
    open_at(&a, url_of("?timeout=60s&connect-timeout=1s"));
    assert_mine(acquire(&a, "ledger", "me", 1));
    server *const first = server_nth(&group, 0);
    server *const second = server_nth(&group, 1);
    server *const third = server_nth(&group, 2);
    server *const others[2] = {first == home ? second : first, third == home ? second : third};
    const char *new_id = id_of(others[0]);
    server_signal(home, SIGSTOP);
    for (unsigned i = 0; i < 2; i++)
        assert_string_equal(server_tell_redis(others[i], "CLUSTER SETSLOT %u NODE %s", slot, new_id), "+OK\r\n");
    testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "ledger", "you", 2, 0);
    r.request.deadline.ns = simba__clock_boot().ns + 200 * SIMBA__NS_PER_MS;
    testhost_ask(&a, &r);
    assert_int_equal(r.error.code, SIMBA_ETIMEDOUT);
    bool won = false;
    for (int i = 0; i < 20 && !won; i++) {
        r = testhost_request_of(&a, SIMBA_OP_READ, "ledger", NULL, 0, 0);
        r.request.deadline.ns = simba__clock_boot().ns + 200 * SIMBA__NS_PER_MS;
        testhost_ask(&a, &r);
        won = r.request.reply.status == 0;
    }
    server_signal(home, SIGCONT);
    assert_true(won); /* long before the connection would have been given up */
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_names), cmocka_unit_test_setup(about_seeds, empty),
        /* nobody has been given one yet */
        cmocka_unit_test_setup(ping_pong, empty),
        cmocka_unit_test_setup(slot_moves, empty),    /* late: it is elsewhere after it */
        cmocka_unit_test_setup(frozen_master, empty), /* last: the servers do not agree after it */
    };
    return SERVER_RUN_TESTS("redis-server", tests, start_group, stop_group);
}
