/* redis+sentinel:// on a real master with a replica and three sentinels: finding the master, whichever sentinel is down,
 * ignorant or silent, and following it. What contenders make of a failover is in tests/faults. */
#include "backends/fake_redis.h"
#include "backends/test_redis.h"

static server group;
static char url[256];

static const char *url_of(const char *hosts, const char *rest)
{
    snprintf(url, sizeof url, "redis+sentinel://%s/%s", hosts, rest);
    return url;
}

static int start_group(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    server_init(&group);
    if (!server_start_redis_sentinel(&group))
        fail_msg("the sentinels do not start");
    return 0;
}

static int stop_group(void **state)
{
    server_fini(&group);
    return 0;
}

static int port_of(unsigned nth)
{
    return server_nth(&group, nth)->port;
}

/* Of the three, one is not there and one is frozen: that costs a moment. */
static void sentinels_down(void **state)
{
    char hosts[128];
    snprintf(hosts, sizeof hosts, "127.0.0.1:1,127.0.0.1:%d,localhost:%d", port_of(0), port_of(1));
    server_signal(server_nth(&group, 0), SIGSTOP);
    for (int i = 0; i < 3; i++) { /* they begin with any of them */
        open_at(&a, url_of(hosts, "orders?connect-timeout=1s"));
        assert_mine(acquire(&a, "orders", "me", 1));
        testhost_close(&a);
    }
    server_signal(server_nth(&group, 0), SIGCONT);
}

static void assert_says(const simba_error *error, const char *word)
{
    if (!strstr(error->text, word))
        fail_msg("\"%s\" does not say \"%s\"", error->text, word);
}

/* Whom a sentinel names has to be a master. */
static void no_master(void **state)
{
    char hosts[64];
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", port_of(0));
    server_tell_redis(&group, "SENTINEL MONITOR wrong 127.0.0.1 %d 2", port_of(4));
    open_at(&a, url_of(hosts, "wrong"));
    const simba_error error = refused(&a, SIMBA_OP_READ, "orders");
    assert_int_equal(error.code, SIMBA_EUNAVAILABLE);
    assert_says(&error, "this is no master");
    /* It is asked less and less often, although it answers. */
    const redis_conn *conn = &((redis_store *)a.store)->first->commands;
    for (int i = 0; i < 1000 && conn->link.failures < 3; i++)
        testhost_pump(&a, NULL, 10);
    assert_true(conn->link.failures >= 3);
    testhost_close(&a);
    server_tell_redis(&group, "SENTINEL REMOVE wrong");
}

static bool is_listened_to(const server *sentinel)
{
    for (int i = 0; i < 100; i++) {
        testhost_pump(&a, NULL, 5);
        if (strstr(server_tell_redis(sentinel, "CLIENT LIST"), "sub=1"))
            return true;
    }
    return false;
}

/* Of two sentinels one does the failover, and the other one never hears of it: whoever does is not led astray by it, although
 * the master of before still says that it is one. */
static void outdated_sentinel(void **state)
{
    char hosts[64];
    server old;
    server new;
    server_init(&old);
    server_init(&new);
    assert_true(server_start_redis(&old, NULL));
    assert_true(server_start_redis(&new, (const char *const[]){"--replicaof", "127.0.0.1", old.port_text, NULL}));
    assert_true(server_await_redis(&new, "INFO replication", "master_link_status:up"));
    for (unsigned i = 0; i < 2; i++)
        server_tell_redis(server_nth(&group, i), "SENTINEL MONITOR pair 127.0.0.1 %d 1", old.port);
    server_tell_redis(server_nth(&group, 1),
                      "SENTINEL SET pair auth-user nobody auth-pass wrong"); /* it hears nothing */
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d,127.0.0.1:%d", port_of(0), port_of(1));
    for (int i = 0; i < 50; i++) { /* it listens to any of them */
        open_at(&a, url_of(hosts, "pair"));
        assert_mine(acquire(&a, "before", "me", 1));
        if (is_listened_to(&group))
            break;
        testhost_close(&a);
    }
    assert_true(is_listened_to(&group));
    /* It has to know the replica, which takes it a moment. */
    for (int i = 0; i < 2000 && !strstr(server_tell_redis(&group, "SENTINEL FAILOVER pair"), "+OK"); i++)
        testhost_pump(&a, NULL, 5);
    for (int i = 0; i < 2000 && !strstr(server_tell_redis(&new, "ROLE"), "master"); i++)
        testhost_pump(&a, NULL, 5);
    assert_non_null(strstr(server_tell_redis(&new, "ROLE"), "master"));
    simba_reply reply = {.status = -1};
    for (int i = 0; i < 2000 && !strstr(server_tell_redis(&new, "EXISTS simba:{after}"), ":1"); i++) {
        testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "after", "me", 1, 0);
        testhost_ask(&a, &r);
        reply = r.request.reply;
        testhost_pump(&a, NULL, 5);
    }
    assert_int_equal(reply.status, 0);
    assert_non_null(strstr(server_tell_redis(&new, "EXISTS simba:{after}"), ":1"));
    assert_non_null(strstr(server_tell_redis(&old, "ROLE"), "master"));
    testhost_close(&a);
    for (unsigned i = 0; i < 2; i++)
        server_tell_redis(server_nth(&group, i), "SENTINEL REMOVE pair");
    server_fini(&new);
    server_fini(&old);
}

/* The master changes while nobody listens, and the one of before is well and knows nothing of it. Whoever listens again asks,
 * and does not wait until something fails. */
static void deaf_during_failover(void **state)
{
    char replies[2][64];
    char hosts[32];
    server masters[2];
    fake_redis sentinel = {0};
    for (size_t i = 0; i < 2; i++) {
        server_init(&masters[i]);
        assert_true(server_start_redis(&masters[i], NULL));
        snprintf(replies[i], sizeof replies[i], "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(masters[i].port_text),
                 masters[i].port_text);
    }
    atomic_store(&sentinel.sentinel, replies[0]);
    fake_start(&sentinel);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", sentinel.port);
    open_at(&a, url_of(hosts, "pair"));
    assert_mine(acquire(&a, "before", "me", 1));
    testhost_pump(&a, NULL, 50); /* it listens by now */
    atomic_store(&sentinel.sentinel, replies[1]);
    fake_hang_up(&sentinel);
    const redis_conn *conn = &((redis_store *)a.store)->first->commands;
    const int64_t end_ns =
        simba__clock_boot().ns + 5000 * SIMBA__NS_PER_MS; /* it would notice silence after ten seconds */
    while (conn->link.at.port != masters[1].port && simba__clock_boot().ns < end_ns)
        testhost_pump(&a, NULL, 5);
    assert_int_equal(conn->link.at.port, masters[1].port);
    testhost_close(&a);
    fake_stop(&sentinel);
    for (size_t i = 0; i < 2; i++)
        server_fini(&masters[i]);
}

/* A sentinel may want a password of its own, which comes from a file and is shown nowhere. */
static void sentinel_password(void **state)
{
    char hosts[64];
    char rest[160];
    char path[96];
    snprintf(path, sizeof path, "%s/password", group.folder);
    FILE *file = fopen(path, "w");
    fputs("s3cr3t\n", file);
    fclose(file);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", port_of(0));
    snprintf(rest, sizeof rest, "orders?sentinel-user=simba&sentinel-password-file=%s", path);
    assert_string_equal(server_tell_redis(&group, "ACL SETUSER simba on >s3cr3t +@all"), "+OK\r\n");
    assert_string_equal(server_tell_redis(&group, "ACL SETUSER default -sentinel|get-master-addr-by-name"), "+OK\r\n");
    open_at(&a, url_of(hosts, rest));
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);
    open_at(&a, url_of(hosts, "orders"));
    const simba_error error = refused(&a, SIMBA_OP_ACQUIRE, "orders");
    assert_int_equal(error.code, SIMBA_EPERM);
    testhost_close(&a);
    server_tell_redis(&group, "ACL SETUSER default +@all");
}

static void bad_urls(void **state)
{
    static const struct {
        const char *url, *says;
    } cases[] = {
        {"redis+sentinel://h1,h2", "host,host/service"},
        {"redis+sentinel://h1,h2/a/b", "host,host/service"},
        {"redis+sentinel://h1:0/orders", "port"},
        {"redis+sentinel://h1/orders?db=x", "database"},
        {"redis+sentinel://h1/orders?sentinel-user=x", "sentinel-password-file"},
        {"redis+sentinel://h1/orders?sentinel-password-file=/no/such", "/no/such"},
        {"redis://h1?sentinel-user=x", "redis+sentinel://"},
        {"redis://h1,h2", "one host"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        simba_error err = {0};
        assert_int_equal(testhost_open(&a, &simba__backend_redis, cases[i].url, &err), SIMBA_EURL);
        assert_says(&err, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(sentinels_down),
        cmocka_unit_test(no_master),
        cmocka_unit_test(outdated_sentinel),
        cmocka_unit_test(deaf_during_failover),
        cmocka_unit_test(sentinel_password),
        /* last: the replica is the master after it */
    };
    return SERVER_RUN_TESTS("redis-server", tests, start_group, stop_group);
}
