/* Each thing that a Redis server can say or do instead of answering, on a real one where it can be made to, and what
 * becomes of the request: the table is in src/stores/redis/reply.c. */
#include "backends/fake_redis.h"
#include "backends/test_redis.h"

static void assert_refused(testhost *h, int code, const char *word)
{
    const simba_error error = refused(h, SIMBA_OP_ACQUIRE, "orders");
    assert_string_equal(simba_error_name(error.code), simba_error_name(code));
    if (!strstr(error.text, word))
        fail_msg("\"%s\" does not say \"%s\"", error.text, word);
}

/* Ask again until it works; the store connects again by itself. */
static void assert_recovers(testhost *h)
{
    for (int i = 0; i < 200; i++) {
        testhost_request r = testhost_request_of(h, SIMBA_OP_READ, "orders", NULL, 0, 0);
        testhost_ask(h, &r);
        if (r.request.reply.status == 0)
            return;
        testhost_pump(h, NULL, 20);
    }
    fail_msg("it does not recover");
}

static void about_readonly(void **state)
{
    open_store(&a);
    assert_mine(acquire(&a, "orders", "me", 1));
    say("REPLICAOF 127.0.0.1 1");
    assert_refused(&a, SIMBA_EUNAVAILABLE, "READONLY");
    say("REPLICAOF NO ONE");
    assert_recovers(&a);
    testhost_close(&a);
}

static void out_of_memory(void **state)
{
    open_store(&a);
    ask(&a, SIMBA_OP_READ, "orders", NULL, 0, 0);
    say("CONFIG SET maxmemory 1");
    assert_refused(&a, SIMBA_EUNAVAILABLE, "OOM");
    say("CONFIG SET maxmemory 0");
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);
}

/* Nothing that is shown anywhere has the password in it. */
static void about_login(void **state)
{
    char url[160];
    say("ACL SETUSER app on >s3cr3t ~simba:* &simba:* +@connection +@pubsub +@scripting +@string +@hash +@sortedset "
        "+@keyspace +time +wait +info"); /* as docs/redis.md has it */
    say("ACL SETUSER narrow on >s3cr3t ~other:* +@all");
    say("CONFIG SET requirepass hunt3r");
    say("AUTH hunt3r");

    open_store(&a);
    assert_refused(&a, SIMBA_EPERM, "the server wants a password");
    testhost_close(&a);

    snprintf(url, sizeof url, "redis://app:wr0ng-s3cr3t@127.0.0.1:%d", redis.port);
    open_at(&a, url);
    const simba_error error = refused(&a, SIMBA_OP_ACQUIRE, "orders");
    assert_int_equal(error.code, SIMBA_EPERM);
    assert_null(strstr(error.text, "s3cr3t"));
    assert_null(strstr(a.log, "s3cr3t"));
    testhost_close(&a);

    snprintf(url, sizeof url, "redis://:wrong@127.0.0.1:%d", redis.port);
    open_at(&a, url);
    assert_refused(&a, SIMBA_EPERM, "WRONGPASS");
    testhost_close(&a);

    snprintf(url, sizeof url, "redis://app:s3cr3t@127.0.0.1:%d/2", redis.port);
    open_at(&a, url);
    assert_mine(acquire(&a, "orders", "me", 1));
    simba_watch watched = {.mutex = "orders"};
    watch(&a, &watched);
    testhost_unwatch(&a, &watched);
    testhost_close(&a);

    /* A user of this name, not whoever one is without one. */
    say("ACL SETUSER anybody on nopass ~* &* +@all");
    snprintf(url, sizeof url, "redis://anybody:@127.0.0.1:%d", redis.port);
    open_at(&a, url);
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);

    snprintf(url, sizeof url, "redis://:hunt3r@127.0.0.1:%d", redis.port);
    open_at(&a, url);
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);

    snprintf(url, sizeof url, "redis://narrow:s3cr3t@127.0.0.1:%d", redis.port);
    open_at(&a, url);
    assert_refused(&a, SIMBA_EPERM, "NOPERM");
    testhost_close(&a);
    say("CONFIG SET requirepass %s", "");
}

/* A server that lets us in but does not let us listen: the pauses grow, and it is said once. */
static void no_channels(void **state)
{
    char url[160];
    say("ACL SETUSER deaf on >s3cr3t ~* resetchannels +@all");
    snprintf(url, sizeof url, "redis://deaf:s3cr3t@127.0.0.1:%d", redis.port);
    open_at(&a, url);
    const redis_store *store = a.store;
    simba_watch watched = {.mutex = "orders"};
    assert_int_equal(testhost_watch(&a, &watched), 0);
    for (int i = 0; i < 200 && store->first->pushes.link.failures < 4; i++)
        testhost_pump(&a, NULL, 10);
    assert_int_equal(store->first->pushes.link.failures, 4);
    assert_int_equal(a.warnings, 1);
    assert_non_null(strstr(a.log, "NOPERM"));
    testhost_unwatch(&a, &watched);
    testhost_close(&a);
}

static void refused_connection(void **state)
{
    open_at(&a, "redis://127.0.0.1:1");
    assert_refused(&a, SIMBA_EUNAVAILABLE, "127.0.0.1:1");
    assert_refused(&a, SIMBA_EUNAVAILABLE, "refused"); /* at once, while it waits to try again */
    testhost_close(&a);
    open_at(&a, "redis://no-such-host.invalid");
    assert_refused(&a, SIMBA_EUNAVAILABLE, "no-such-host.invalid");
    testhost_close(&a);
    open_at(&a, "redis+unix:///no/such.sock");
    assert_refused(&a, SIMBA_EUNAVAILABLE, "/no/such.sock");
    testhost_close(&a);
}

/* --- a server that says what it should not ------------------------------------------------------------ */

/* It says this to whatever it gets; NULL: nothing. */
static void against_fake_by(const char *scheme, const char *says, int code, const char *word)
{
    char url[128];
    fake_redis fake = {.first = says};
    fake_start(&fake);
    snprintf(url, sizeof url, "%s://127.0.0.1:%d%s?timeout=500ms&connect-timeout=500ms", scheme, fake.port,
             strstr(scheme, "sentinel") ? "/orders" : "");
    open_at(&a, url);
    assert_refused(&a, code, word);
    testhost_close(&a);
    fake_stop(&fake);
}

static void against_fake(const char *says, int code, const char *word)
{
    against_fake_by("redis", says, code, word);
}

/* What answers is neither a sentinel nor a member of a cluster, or not in its right mind. */
static void odd_guides(void **state)
{
    static const char *const maps[] = {
        "+OK\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:-1\r\n:4\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:4\r\n*2\r\n$1\r\nh\r\n:0\r\n",
        "*1\r\n*3\r\n:0\r\n:4\r\n*2\r\n:1\r\n:1\r\n",
    };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        against_fake_by("redis+cluster", maps[i], SIMBA_EUNAVAILABLE, "odd answer to CLUSTER SLOTS");
        against_fake_by("redis+sentinel", maps[i], SIMBA_EUNAVAILABLE, "odd answer for a sentinel");
    }
    against_fake_by("redis+cluster", "*0\r\n", SIMBA_EUNAVAILABLE, "no slots");
    against_fake_by("redis+cluster", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\n?\r\n:1\r\n", SIMBA_EUNAVAILABLE,
                    "has the slot");
    against_fake_by("redis+cluster", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:1\r\n", SIMBA_EUNAVAILABLE,
                    "127.0.0.1:1: cannot connect");
    against_fake_by("redis+sentinel", "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n0\r\n", SIMBA_EUNAVAILABLE, "odd answer");
    against_fake_by("redis+sentinel", "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n", SIMBA_EUNAVAILABLE, "127.0.0.1:1");
    against_fake_by("redis+sentinel", "-NOAUTH Authentication required.\r\n", SIMBA_EPERM, "wants a password");
    against_fake_by("redis+sentinel", NULL, SIMBA_EUNAVAILABLE, "no answer");
}

static void odd_servers(void **state)
{
    against_fake("-LOADING Redis is loading the dataset in memory\r\n", SIMBA_EUNAVAILABLE, "LOADING");
    against_fake("-MASTERDOWN Link with MASTER is down\r\n", SIMBA_EUNAVAILABLE, "MASTERDOWN");
    against_fake("-ERR max number of clients reached\r\n", SIMBA_EUNAVAILABLE, "max number");
    against_fake("-ERR unknown command 'EVALSHA'\r\n", SIMBA_ESTORE, "unknown command");
    against_fake("-MOVED 1234 10.0.0.1:6379\r\n", SIMBA_ESTORE, "MOVED");
    against_fake("HTTP/1.1 400 Bad Request\r\n\r\n", SIMBA_EUNAVAILABLE, "protocol");
    against_fake("+OK\r\n", SIMBA_ECORRUPT, "none of the scripts");
    against_fake("*3\r\n:1\r\n:2\r\n:3\r\n", SIMBA_ECORRUPT, "none of the scripts");
    against_fake("*1048576\r\n$-1\r\n*-1\r\n:1\r\n$5\r\nab\r\n", SIMBA_EUNAVAILABLE, "");
    against_fake("$40\r\n0123456789012345678901234567890123456789\r\n+what\r\n", SIMBA_ECORRUPT, "none of the scripts");
    against_fake("", SIMBA_EUNAVAILABLE, "no answer for 500 ms");
}

/* --- breaking the real one ---------------------------------------------------------------------------- */

/* A server that does not know AUTH repeats what it was told. */
static void login_unknown(void **state)
{
    char url[160];
    server_signal(&redis, SIGKILL);
    start_redis((const char *const[]){"--rename-command", "AUTH", "LOGIN", NULL});
    snprintf(url, sizeof url, "redis://app:s3cr3t@127.0.0.1:%d", redis.port);
    open_at(&a, url);
    const simba_error error = refused(&a, SIMBA_OP_ACQUIRE, "orders");
    assert_non_null(strstr(error.text, "unknown command 'AUTH'"));
    assert_null(strstr(error.text, "s3cr3t"));
    assert_null(strstr(a.log, "s3cr3t"));
    testhost_close(&a);
    server_signal(&redis, SIGKILL);
    start_redis(NULL);
}

/* Only the subscription is cut: it comes back, and says that something may have been missed. */
static void subscription_cut(void **state)
{
    open_store(&a);
    simba_watch watched = {.mutex = "orders", .observed = true};
    watch(&a, &watched);
    assert_string_equal(say("CLIENT KILL TYPE pubsub"), "1");
    assert_mine(acquire(&a, "orders", "me", 1));
    assert_true(pushed(&a, SIMBA_PUSH_CHANGED, 5000));
    a.push_count = 0;
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, 0));
    assert_true(pushed(&a, SIMBA_PUSH_CHANGED, 5000));
    testhost_unwatch(&a, &watched);
    testhost_close(&a);
}

/* A contender whose request ran out of time may have stopped by the time the refusal comes: nobody is subscribed for it then. */
static void a_late_refusal_makes_no_waiter(void **state)
{
    open_store(&a);
    assert_mine(acquire(&a, "orders", "me", 1));
    simba_watch watched = {.mutex = "orders"};
    watch(&a, &watched);
    server_signal(&redis, SIGSTOP);
    testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "you", 2, 0);
    r.request.queue = true;
    r.request.deadline.ns = a.host.now(&a.host).ns + 50 * SIMBA__NS_PER_MS;
    testhost_submit(&a, &r);
    testhost_flush(&a);
    assert_true(testhost_pump(&a, &r.done, 5000));
    assert_int_equal(r.request.reply.status, SIMBA_ETIMEDOUT);
    assert_int_equal(a.window.outstanding.count, 1);
    server_signal(&redis, SIGCONT);
    ask(&a, SIMBA_OP_READ, "orders", NULL, 0, 0);
    assert_int_equal(a.window.outstanding.count, 0);
    testhost_pump(&a, NULL, 20);
    assert_string_equal(say("PUBSUB CHANNELS simba:{orders}:*"), "");
    testhost_unwatch(&a, &watched);
    testhost_close(&a);
}

/* A list whose time is over asks nothing more, and ends when the server has answered what it was asked. */
static void an_expired_list_ends(void **state)
{
    open_store(&a);
    for (int i = 0; i < TESTHOST_LISTED; i++)
        say("SET simba:{m%d} somebody PX 60000", i);
    ask(&a, SIMBA_OP_READ, "orders", NULL, 0, 0);
    for (int steps = 0; steps < 6; steps++) { /* before the scan, in it, among the rows, after all */
        testhost_request r = testhost_request_of(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
        testhost_submit(&a, &r);
        testhost_flush(&a);
        for (int i = 0; i < steps && !r.done; i++)
            testhost_pump(&a, &r.done, 1);
        if (!r.done)
            testhost_expire(&a, &r);
        for (int i = 0; i < 1000 && a.window.outstanding.count > 0; i++)
            testhost_pump(&a, NULL, 5);
        assert_int_equal(a.window.outstanding.count, 0);
        a.listed_count = 0;
    }
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);
}

/* Closing with a request under way, a name being looked up, or a connection being made. */
static void close_early(void **state)
{
    static const char *const urls[] = {NULL,
                                       "redis://localhost:6379",
                                       "redis://127.0.0.1:1",
                                       "redis://192.0.2.1",
                                       "redis+sentinel://127.0.0.1:1,192.0.2.1,localhost:1/orders",
                                       "redis+cluster://127.0.0.1:1,192.0.2.1,localhost:1"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        open_at(&a, urls[i] ? urls[i] : redis_url);
        testhost_request r = testhost_request_of(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
        simba_watch watched = {.mutex = "orders"};
        testhost_watch(&a, &watched);
        testhost_submit(&a, &r);
        testhost_flush(&a);
        if (i == 0)
            testhost_pump(&a, NULL, 3);
        testhost_unwatch(&a, &watched);
        testhost_close(&a);
        assert_true(r.done);
    }
}

/* Given up while its name is looked up, which goes on all the same. */
static void given_up_while_looked_up(void **state)
{
    open_at(&a, "redis://localhost:1");
    redis_store *store = a.store;
    testhost_request r = testhost_request_of(&a, SIMBA_OP_READ, "orders", NULL, 0, 0);
    testhost_submit(&a, &r);
    testhost_flush(&a);
    assert_int_equal(store->conns.links.lookups, 1);
    simba__link_fail(&store->first->commands.link, SIMBA_EUNAVAILABLE, "given up");
    assert_true(r.done);
    testhost_run_jobs(&a);
    assert_int_equal(store->conns.links.lookups, 0);
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(about_readonly, setup),
        cmocka_unit_test_setup(out_of_memory, setup),
        cmocka_unit_test_setup(about_login, setup),
        cmocka_unit_test_setup(no_channels, setup),
        cmocka_unit_test_setup(refused_connection, setup),
        cmocka_unit_test_setup(odd_servers, setup),
        cmocka_unit_test_setup(odd_guides, setup),
        cmocka_unit_test_setup(login_unknown, setup),
        cmocka_unit_test_setup(subscription_cut, setup),
        cmocka_unit_test_setup(a_late_refusal_makes_no_waiter, setup),
        cmocka_unit_test_setup(an_expired_list_ends, setup),
        cmocka_unit_test_setup(close_early, setup),
        cmocka_unit_test_setup(given_up_while_looked_up, setup),
    };
    return RUN_REDIS_TESTS(tests);
}
