/* A server that has just started may have forgotten leases. And a server with the keys of an earlier version. */
#include "backends/test_redis.h"

static char waiting_url[128];

static simba_reply ask_lease(testhost *h, const char *id, uint64_t nonce, int64_t lease_ms, simba_error *ret_error)
{
    testhost_request r = testhost_request_of(h, SIMBA_OP_ACQUIRE, "orders", id, nonce, 0);
    r.request.ttl_ms = lease_ms - 1;
    r.request.transition_ms = 1;
    r.request.queue = true;
    testhost_ask(h, &r);
    *ret_error = r.error;
    return r.request.reply;
}

static int64_t ms_since(int64_t ns)
{
    return (simba__clock_boot().ns - ns) / SIMBA__NS_PER_MS;
}

/* Killed and back empty: nobody is granted what another contender holds by its own clock. The refusal says how long it lasts, and is
 * the same one all the time; then the waiter is told, and is granted it. */
static void waits_for_one_lease(void **state)
{
    simba_error error;
    server_signal(&redis, SIGKILL);
    start_redis(NULL);
    const int64_t started_ns = simba__clock_boot().ns;
    open_at(&a, waiting_url);
    assert_int_equal(ask_lease(&a, "you", 2, 1500, &error).status, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(error.text, " s ago and may have forgotten leases: waiting "));
    assert_non_null(strstr(error.text, "?restart-wait=no"));
    assert_string_equal(say("EXISTS simba:{orders}"), "0");
    simba_error again;
    assert_int_equal(ask_lease(&a, "you", 2, 1500, &again).status, SIMBA_EUNAVAILABLE);
    assert_string_equal(again.text, error.text);
    a.push_count = 0;
    assert_true(pushed_to(&a, 2, SIMBA_PUSH_CHANGED));
    int64_t waited_ms;
    do
        waited_ms = ms_since(started_ns);
    while (ask_lease(&a, "you", 2, 1500, &error).status < 0 && waited_ms < 20000);
    assert_in_range(waited_ms, 1480, 19999);
    testhost_close(&a);
}

/* What goes on meanwhile: a renewal, a refusal, the queue, and the same nonce. Who says no does not wait. */
static void all_else_goes_on(void **state)
{
    simba_error error;
    server_signal(&redis, SIGKILL);
    start_redis(NULL);
    open_store(&b);
    const simba_reply won = acquire(&b, "orders", "me", 1);
    assert_mine(won);
    open_at(&a, waiting_url);
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    assert_mine(acquire(&a, "orders", "me", 1));
    assert_int_equal(acquire_or_wait(&a, "orders", "you", 2).place, 1);
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token));
    assert_true(pushed_to(&a, 2, SIMBA_PUSH_RELEASED));
    assert_int_equal(ask_lease(&a, "you", 2, 60000, &error).status, SIMBA_EUNAVAILABLE);
    testhost_close(&a);
    testhost_close(&b);
}

/* --- the keys of an earlier version ------------------------------------------------------------------- */

#define OLD_GRANT "3000000000000007 00000000000000000001 001795000016000 0000000000000000 001795000000000 6000@@me@@"

/* Both versions refuse the other's keys, so that neither grants what the other holds. */
static void mixed_fleet(void **state)
{
    open_store(&a);
    say("SET simba:{orders} me PX 60000");
    say("SET simba:{orders}:grant %s", OLD_GRANT);
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW, SIMBA_OP_RELEASE, SIMBA_OP_FORCE_RELEASE};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const simba_error error = refused(&a, ops[i], "orders");
        assert_int_equal(error.code, SIMBA_ECORRUPT);
        assert_non_null(strstr(error.text, "made by an earlier simba: end its programs and run `simba init`"));
        assert_non_null(strstr(error.text, "the wrong kind of value)"));
    }
    assert_mine(acquire(&a, "invoices", "me", 1));
    redisReply *reply = redisCommand(raw, "GET simba:{invoices}:grant"); /* its scripts begin with that */
    assert_int_equal(strncmp(reply->str, "WRONGTYPE", 9), 0);
    freeReplyObject(reply);
    testhost_close(&a);
}

/* What EXAMINE says of such keys; NULL: nothing. */
static const testhost_found *examined(void)
{
    a.found_count = 0;
    ask(&a, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    for (size_t i = 0; i < a.found_count; i++)
        if (strcmp(a.found[i].what, "keys") == 0)
            return &a.found[i];
    return NULL;
}

/* EXAMINE names mutexes that have such keys, and no others: the lock is a string in each version. */
static void examine(void **state)
{
    (void)state;
    open_store(&a);
    assert_mine(acquire(&a, "invoices", "me", 1));
    say("SET simba:{locked} me PX 60000");
    assert_null(examined());
    say("SET simba:{orders}:grant %s", OLD_GRANT);
    say("SET simba:{orders}:note old");
    say("SET simba:{mail}:note old");
    const testhost_found *found = examined();
    assert_non_null(found);
    assert_int_equal(found->verdict, SIMBA_VERDICT_WARNING);
    assert_non_null(strstr(found->text, "which has made these mutexes: mail, orders."));
    say("SET simba:{a}:note old");
    say("SET simba:{b}:note old");
    found = examined();
    assert_non_null(found);
    assert_non_null(strstr(found->text, ": a, b, mail, and others."));
    say("DEL simba:{orders}:grant simba:{orders}:note simba:{mail}:note simba:{a}:note simba:{b}:note");
    assert_null(examined());
    testhost_close(&a);
}

/* PREPARE goes over them, keeps token and note, and refuses while somebody has such a mutex. */
static void upgrade(void **state)
{
    open_store(&a);
    say("SET simba:{orders} me PX 60000");
    say("SET simba:{orders}:grant %s", OLD_GRANT);
    say("SET simba:{orders}:note %s", "3000000000000006 00000000000000000003 001795000000000 what is done");
    testhost_request r = testhost_request_of(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    testhost_ask(&a, &r);
    assert_int_equal(r.request.reply.status, SIMBA_ESTATE);
    assert_non_null(strstr(r.error.text, "1 mutexes of an earlier simba are held"));
    assert_string_equal(say("GET simba:{orders}:grant"), OLD_GRANT);
    say("DEL simba:{orders}");
    ask(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    ask(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0); /* nothing to do */
    assert_true(atoi(say("TTL simba:{orders}:grant")) > 0);
    a.listed_count = 0;
    ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(a.listed_count, 1);
    assert_int_equal(a.listed[0].owner.id[0], '\0');
    assert_string_equal(say("HMGET simba:{orders}:note token number at bytes"),
                        "3000000000000006 3 1795000000000 what is done");
    const simba_reply won = acquire(&a, "orders", "me", 1);
    assert_mine(won);
    assert_true(won.owner.token > 3000000000000007);
    testhost_close(&a);
}

static int restart_setup(void **state)
{
    group_setup(state);
    snprintf(waiting_url, sizeof waiting_url, "redis://127.0.0.1:%d?restart-wait=yes", redis.port);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(waits_for_one_lease, setup),
        cmocka_unit_test_setup(all_else_goes_on, setup),
        cmocka_unit_test_setup(mixed_fleet, setup),
        cmocka_unit_test_setup(examine, setup),
        cmocka_unit_test_setup(upgrade, setup),
    };
    return SERVER_RUN_TESTS("redis-server", tests, restart_setup, group_teardown);
}
