/* The Redis store, driven at its contract: what its operations do, what they leave in the server, who is woken. */
#include "backends/test_redis.h"

static size_t list(testhost *h, const char *pattern)
{
    h->listed_count = 0;
    ask(h, SIMBA_OP_LIST, pattern, NULL, 0, 0);
    return h->listed_count;
}

/* Somebody has waited for so long: for less than a day, after which waiters are forgotten. */
static void queue_up(const char *id, int seconds)
{
    say("ZADD simba:{orders}:contender %lld %s", (long long)time(NULL) - seconds, id);
}

static simba_verdict examined(testhost *h, const char *what)
{
    h->found_count = 0;
    ask(h, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    for (size_t i = 0; i < h->found_count; i++)
        if (strcmp(h->found[i].what, what) == 0)
            return h->found[i].verdict;
    fail_msg("nothing was said about %s", what);
    return SIMBA_VERDICT_BROKEN;
}

/* What a server is set up to do with locks is told: whether it may evict or forget them, and who copies them. */
static void about_examine(void **state)
{
    char url[96];
    open_store(&a);
    assert_int_equal(examined(&a, "server"), SIMBA_VERDICT_OK);
    assert_int_equal(examined(&a, "eviction"), SIMBA_VERDICT_OK);
    assert_int_equal(examined(&a, "durability"), SIMBA_VERDICT_WARNING);
    assert_int_equal(examined(&a, "replicas"), SIMBA_VERDICT_OK);
    say("CONFIG SET maxmemory 100mb maxmemory-policy volatile-lru appendonly yes");
    assert_int_equal(examined(&a, "eviction"), SIMBA_VERDICT_WARNING);
    assert_int_equal(examined(&a, "durability"), SIMBA_VERDICT_OK);
    say("CONFIG SET maxmemory 0 appendonly no");
    testhost_close(&a);
    snprintf(url, sizeof url, "%s&replicas=1", redis_url);
    open_at(&a, url);
    assert_int_equal(examined(&a, "replicas"), SIMBA_VERDICT_BROKEN);
    testhost_close(&a);
}

/* Ask until the server answers, or until it does not. */
static void await_read(bool answered)
{
    const int64_t end_ns = simba__clock_boot().ns + 20000 * SIMBA__NS_PER_MS;
    int status;
    do {
        testhost_request r = testhost_request_of(&a, SIMBA_OP_READ, "orders", NULL, 0, 0);
        testhost_ask(&a, &r);
        status = r.request.reply.status;
        testhost_pump(&a, NULL, 1);
    } while ((status == 0) != answered && simba__clock_boot().ns < end_ns);
    assert_int_equal(status == 0, answered);
}

/* How often a new client says that the server keeps nothing, once it has acquired and released something and lost its connection. */
static unsigned times_told(const char *url)
{
    open_at(&a, url);
    ask(&a, SIMBA_OP_READ, "orders", NULL, 0, 0);
    ask(&a, SIMBA_OP_READ, "orders", NULL, 0, 0);
    assert_int_equal(a.forgets, 0); /* looking does no harm */
    for (int i = 0; i < 2; i++) {
        const simba_reply won = acquire(&a, "orders", "me", 1);
        assert_mine(won);
        assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token)); /* answered after the question */
        assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token));
        say("CLIENT KILL TYPE normal SKIPME yes");
        await_read(false);
        await_read(true);
    }
    const unsigned told = a.forgets;
    testhost_close(&a);
    return told;
}

/* A server without any persistence forgets every grant when it restarts: a client that acquires is told so once. */
static void tells_that_it_forgets(void **state)
{
    char url[128];
    assert_int_equal(times_told(redis_url), 1);
    say("CONFIG SET appendonly yes");
    assert_int_equal(times_told(redis_url), 0);
    say("CONFIG SET appendonly no");
    redisReply *reply = redisCommand(raw, "CONFIG SET save %s", "3600 1");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    assert_int_equal(times_told(redis_url), 0);
    reply = redisCommand(raw, "CONFIG SET save %s", "");
    freeReplyObject(reply);
    assert_int_equal(times_told(redis_url), 1);
    /* Who may not ask does not know. */
    say("ACL SETUSER careful on >word ~* &* +@all -config");
    snprintf(url, sizeof url, "redis://careful:word@127.0.0.1:%d", redis.port);
    assert_int_equal(times_told(url), 0);
    say("ACL DELUSER careful");
}

/* Asked while the subscription is under way: not queued yet, and told to ask again when it is confirmed. */
static void refused_while_it_is_confirmed(void **state)
{
    open_store(&a);
    acquire(&a, "orders", "me", 1);
    assert_int_equal(acquire_to_wait(&a, "orders", "you", 2).place, 0);
    assert_string_equal(say("EXISTS simba:{orders}:contender"), "0");
    assert_true(pushed_to(&a, 2, SIMBA_PUSH_CHANGED));
    assert_string_equal(say("PUBSUB NUMSUB simba:{orders}:you"), "simba:{orders}:you 1");
    assert_int_equal(acquire_to_wait(&a, "orders", "you", 2).place, 1);
    ask(&a, SIMBA_OP_RELEASE, "orders", "you", 2, 0);
    assert_int_equal(acquire_to_wait(&a, "orders", "you", 3).place, 1); /* its channel is still there */
    testhost_close(&a);
}

/* Mutexes whose keys somebody has damaged: each is named in the log, and all the others are shown. */
static void list_damaged(void **state)
{
    static const char *const bad[] = {"bad-grant", "bad-lock", "bad-note", "bad-owner", "bad-queue", "bad-token"};
    open_store(&a);
    acquire(&a, "a-good-one", "me", 1);
    acquire(&a, "good-too", "me", 1);
    say("LPUSH simba:{bad-lock} x");
    say("HSET simba:{bad-token}:grant token zz");
    say("SET simba:{bad-grant}:grant x");
    say("HSET simba:{bad-note}:note token zz bytes x");
    say("EVAL %s 1 simba:{bad-owner}", "redis.call('SET', KEYS[1], string.rep('x', 1048576), 'PX', 60000)");
    say("SET simba:{bad-queue} jvm PX 60000");
    say("SET simba:{bad-queue}:contender x");
    say("EVAL %s 1 simba:{for-ever}", "redis.call('SET', KEYS[1], 'jvm', 'PX', '9000000000000000000')");
    say("HSET simba:{half}:grant id jvm");
    say("SET simba:{half} jvm PX 60000");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(list(&a, bad[i]), 0);
        assert_int_equal(a.warnings, i + 1);
        if (!strstr(a.log, bad[i]))
            fail_msg("\"%s\" does not name %s", a.log, bad[i]);
    }
    a.warnings = 0;
    assert_int_equal(list(&a, NULL), 4);
    assert_int_equal(a.warnings, sizeof bad / sizeof *bad);
    assert_string_equal(a.listed[0].mutex, "a-good-one");
    assert_string_equal(a.listed[1].mutex, "for-ever");
    assert_true(a.listed[1].owner.transition_at_ms > a.listed[1].now_ms);
    assert_string_equal(a.listed[2].mutex, "good-too");
    assert_string_equal(a.listed[3].mutex, "half");
    assert_int_equal(a.listed[3].owner.token, 0);
    testhost_close(&a);
}

/* A release wakes the first waiter that is there; those in front of it that are not are dropped. Until that one has
 * come, nobody else is let in. */
static void release_wakes_a_live_waiter(void **state)
{
    open_store(&a);
    open_store(&b);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    acquire_or_wait(&b, "orders", "you", 2);
    queue_up("dead-1", 3);
    queue_up("dead-2", 2);
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token));
    assert_string_equal(say("EXISTS simba:{orders}:contender"), "0");
    assert_owned_by(acquire_or_wait(&a, "orders", "me", 3), "you"); /* it is kept for the one that was invited */
    assert_true(pushed_to(&b, 2, SIMBA_PUSH_RELEASED));
    assert_mine(acquire_or_wait(&b, "orders", "you", 2));
    testhost_close(&a);
    testhost_close(&b);
}

/* The one that was invited does not come: the others try by themselves after a moment. */
static void invitation_ignored(void **state)
{
    open_store(&a);
    open_store(&b);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    redisContext *frozen = redisConnect("127.0.0.1", redis.port);
    freeReplyObject(redisCommand(frozen, "SUBSCRIBE simba:{orders}:frozen"));
    acquire_or_wait(&b, "orders", "you", 2);
    queue_up("frozen", 3);
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token);
    assert_true(pushed_to(&b, 2, SIMBA_PUSH_CHANGED));
    assert_mine(acquire_or_wait(&b, "orders", "you", 2));
    redisFree(frozen);
    testhost_close(&a);
    testhost_close(&b);
}

static redisContext *listen_as(const char *id)
{
    redisContext *ear = redisConnect("127.0.0.1", redis.port);
    freeReplyObject(redisCommand(ear, "SUBSCRIBE simba:{orders}:%s", id));
    return ear;
}

static const char *granted(const char *field)
{
    return say("HGET simba:{orders}:grant %s", field);
}

/* Who stands by is told once, and looks after the hand-overs that follow as well: here the second one is ignored. */
static void standby_for_many_hand_overs(void **state)
{
    open_store(&a);
    open_store(&b);
    acquire(&a, "orders", "me", 1);
    redisContext *quick = listen_as("quick");
    redisContext *frozen = listen_as("frozen");
    queue_up("quick", 3);
    queue_up("frozen", 2);
    acquire_or_wait(&b, "orders", "you", 2);
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, 0);
    assert_string_equal(granted("next"), "quick");
    say("HSET simba:{orders}:grant standby_until 9999999999999"); /* machines may be slow */
    assert_mine(acquire(&a, "orders", "quick", 3));
    ask(&a, SIMBA_OP_RELEASE, "orders", "quick", 3, 0);
    assert_string_equal(granted("next"), "frozen");
    assert_string_equal(granted("standby_until"), "9999999999999");

    assert_true(pushed_to(&b, 2, SIMBA_PUSH_CHANGED));
    simba_reply reply = acquire_or_wait(&b, "orders", "you", 2);
    for (int i = 0; i < 1000 && reply.outcome != SIMBA_MINE; i++) {
        assert_owned_by(reply, "frozen"); /* for whom it is kept, a tenth of a second */
        assert_int_equal(reply.place, 1);
        usleep(1000);
        reply = acquire_or_wait(&b, "orders", "you", 2);
    }
    assert_mine(reply);
    assert_string_equal(granted("next"), "(nil)");
    redisFree(quick);
    redisFree(frozen);
    testhost_close(&a);
    testhost_close(&b);
}

/* Whoever leaves after it was invited passes the invitation on. */
static void invitation_passed_on(void **state)
{
    open_store(&a);
    open_store(&b);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    acquire_or_wait(&a, "orders", "first", 2);
    acquire_or_wait(&b, "orders", "second", 3);
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token);
    ask(&a, SIMBA_OP_RELEASE, "orders", "first", 2, 0);
    assert_true(pushed(&b, SIMBA_PUSH_RELEASED, 80)); /* sooner than by itself */
    testhost_close(&a);
    testhost_close(&b);
}

/* The databases of a server share their channels: a release of a mutex of the same name in another one is no news. */
static void about_databases(void **state)
{
    char url[96];
    snprintf(url, sizeof url, "%s&db=2", redis_url);
    const char *const urls[] = {redis_url, url};
    for (int i = 0; i < 2; i++) {
        open_at(&a, urls[i]);
        open_at(&b, urls[1 - i]);
        simba_watch watched = {.mutex = "orders", .observed = true};
        watch(&b, &watched);
        assert_mine(acquire(&a, "orders", "me", 1));
        assert_mine(acquire(&b, "orders", "you", 2));
        assert_true(testhost_await_pushes(&b, 2)); /* both announced by the message that JVM contenders get */
        b.push_count = 0;
        assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, 0));
        say("PUBLISH simba:{orders} acquired@@fence"); /* comes after whatever the release has published */
        assert_true(testhost_await_pushes(&b, 1));
        testhost_pump(&b, NULL, 30);
        assert_int_equal(b.push_count, 1);
        b.push_count = 0;
        assert_mine(ask(&b, SIMBA_OP_RELEASE, "orders", "you", 2, 0));
        assert_true(testhost_await_pushes(&b, 1));
        testhost_unwatch(&b, &watched);
        testhost_close(&a);
        testhost_close(&b);
    }
}

/* Tokens grow by one and stay whole up to the last one that a script can tell from the next. Then nothing is granted, and the
 * error says so. */
static void last_token(void **state)
{
    open_store(&a);
    say("HSET simba:{orders}:grant token 9007199254740989");
    assert_int_equal(acquire(&a, "orders", "me", 1).owner.token, INT64_C(9007199254740990));
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, INT64_C(9007199254740990)));
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, 0));
    assert_int_equal(acquire(&a, "orders", "me", 2).owner.token, INT64_C(9007199254740991));
    const simba_error spent = refused(&a, SIMBA_OP_ACQUIRE, "orders");
    assert_int_equal(spent.code, SIMBA_ECORRUPT);
    assert_non_null(strstr(spent.text, "2^53"));
    assert_non_null(strstr(spent.text, "simba:{orders}:grant"));
    testhost_close(&a);
}

/* A grant whose token is no number that a script can compute with. */
static void damaged_grant(void **state)
{
    static const char *const bad[] = {"9007199254740992", "18446744073709551615", "1e300", "x", "-1", "1.5", "nan", ""};
    open_store(&a);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        say("HSET simba:{orders}:grant token %s", bad[i]);
        assert_int_equal(refused(&a, SIMBA_OP_READ, "orders").code, SIMBA_ECORRUPT);
        const simba_error error = refused(&a, SIMBA_OP_ACQUIRE, "orders");
        assert_int_equal(error.code, SIMBA_ECORRUPT);
        assert_non_null(strstr(error.text, "delete"));
        assert_non_null(strstr(error.text, "simba:{orders}:grant"));
        assert_string_equal(say("EXISTS simba:{orders}"), "0");
        say("DEL simba:{orders}:grant");
    }
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);
}

/* Braces in names do no harm: every name has keys of its own. */
static void about_braces(void **state)
{
    static const char *const names[] = {"{a}", "a}b", "}", "{", "a}:contender", "}{", "a"};
    open_store(&a);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_mine(acquire(&a, names[i], "me", i));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_owned_by(acquire(&a, names[i], "you", 99), "me");
    assert_string_equal(say("GET simba:{{a}}"), "me");
    testhost_close(&a);
}

/* Other ways to the server: a socket file, IPv6, a name, another database. */
static void about_ways(void **state)
{
    char urls[5][192];
    static server other;
    server_init(&other);
    char path[96];
    snprintf(path, sizeof path, "%s/redis.sock", other.folder);
    assert_true(server_start_redis(&other, (const char *const[]){"--unixsocket", path, NULL}));
    assert_true(server_await_redis(&other, "PING", "PONG")); /* the socket file comes after the port */
    snprintf(urls[0], sizeof urls[0], "redis+unix://%s?db=3", path);
    snprintf(urls[1], sizeof urls[1], "redis://[::1]:%d/3", redis.port);
    snprintf(urls[2], sizeof urls[2], "redis://localhost:%d/3", redis.port);
    snprintf(urls[3], sizeof urls[3], "redis://localhost:%d?db=3", redis.port);
    snprintf(urls[4], sizeof urls[4], "redis://127.0.0.1:%d/3?timeout=1s&connect-timeout=1s", redis.port);
    for (size_t i = 0; i < 5; i++) {
        open_at(&a, urls[i]);
        assert_mine(acquire(&a, "orders", "me", i < 2 ? i : 1));
        testhost_close(&a);
    }
    assert_string_equal(say("EXISTS simba:{orders}"), "0");
    server_fini(&other);
}

/* URLs that say something else than they should. */
static void bad_urls(void **state)
{
    static const char *const urls[] = {
        "redis://host:0",
        "redis://host:65536",
        "redis://host:x",
        "redis://h1,h2",
        "redis://::1",
        "redis://[::1",
        "redis://[::1]x",
        "redis://host/db",
        "redis://host/1?db=2",
        "redis://user@host",
        "redis+unix://host/x",
        "redis+unix://",
        "redis+unix:///",
        "redis://host?timeout=0s",
        "redis://host?timeout=soon",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        simba_error err = {0};
        if (testhost_open(&a, &simba__backend_redis, urls[i], &err) != SIMBA_EURL)
            fail_msg("%s was taken", urls[i]);
        assert_true(err.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(about_examine, setup),
        cmocka_unit_test_setup(tells_that_it_forgets, setup),
        cmocka_unit_test_setup(refused_while_it_is_confirmed, setup),
        cmocka_unit_test_setup(list_damaged, setup),
        cmocka_unit_test_setup(release_wakes_a_live_waiter, setup),
        cmocka_unit_test_setup(invitation_ignored, setup),
        cmocka_unit_test_setup(standby_for_many_hand_overs, setup),
        cmocka_unit_test_setup(invitation_passed_on, setup),
        cmocka_unit_test_setup(about_databases, setup),
        cmocka_unit_test_setup(last_token, setup),
        cmocka_unit_test_setup(damaged_grant, setup),
        cmocka_unit_test_setup(about_braces, setup),
        cmocka_unit_test_setup(about_ways, setup),
        cmocka_unit_test_setup(bad_urls, setup),
    };
    return RUN_REDIS_TESTS(tests);
}
