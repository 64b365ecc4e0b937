/* The ZooKeeper store by itself: what its URL may say, how names become nodes, who may touch them, what it costs the server.
 * One real server for all. */
#include <pthread.h>
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

static server zookeeper;

static simba_client *open_client(const char *login, const char *rest)
{
    char url[256];
    simba_client *client = NULL;
    simba_error err = {0};
    snprintf(url, sizeof url, "zookeeper://%s127.0.0.1:%d%s", login, zookeeper.port, rest);
    if (simba_client_open(url, NULL, &err, &client) < 0)
        fail_msg("%s: %s", url, err.text);
    return client;
}

static simba_locker *new_locker(simba_client *client, const char *mutex)
{
    simba_locker *locker = NULL;
    assert_int_equal(simba_locker_new(client, mutex, NULL, NULL, &locker), 0);
    return locker;
}

/* --- what the URL may say ------------------------------------------------------------------------------- */

static void bad_urls(void **state)
{
    static const struct {
        const char *url, *says;
    } cases[] = {
        {"zookeeper://h:99999", "port of \"h:99999\""},
        {"zookeeper://h:", "port"},
        {"zookeeper://h1,,h2", "host is missing"},
        {"zookeeper://::1", "brackets"},
        {"zookeeper://[::1", "brackets"},
        {"zookeeper://user@h", "without the other"},
        {"zookeeper://h/a//b", "empty"},
        {"zookeeper://h/a/../b", "\"..\""},
        {"zookeeper://h?acl=mine", "acl"},
        {"zookeeper://h?acl=creator", "acl=creator needs a user"},
        {"zookeeper://h?session-timeout=1ms", "session-timeout"},
        {"zookeeper://h?session-timeout=soon", "session-timeout"},
        {"zookeeper://h?ttl=5s", "ttl does not apply"},
        {"zookeeper://h?transition=5s", "transition does not apply"},
        {"zookeeper://h?stop-margin=4s", "stop margin"},
        {"zookeeper://h?timeout=4s", "\"timeout\""},
        {"zookeeper://h?ca=/etc/ca.pem", "are for zookeepers://"},
        {"zookeepers://h?ca=/nowhere/ca.pem", "CA file /nowhere/ca.pem"},
        {"zookeepers://h?cert=/nowhere/cert.pem", "cert and key go together"},
        {"zookeepers://h?verify=perhaps", "verify is yes or no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        simba_client *client = NULL;
        simba_error err = {0};
        const int rc = simba_client_open(cases[i].url, NULL, &err, &client);
        if (rc >= 0 || !strstr(err.text, cases[i].says))
            fail_msg("%s: %d %s", cases[i].url, rc, err.text);
    }
}

/* --- names ------------------------------------------------------------------------------------------------ */

/* The node of a mutex is named as on the JVM; what cannot be a node is refused, with the reason. */
static void about_names(void **state)
{
    static const char *const good[] = {
        "orders", "a b%c:{d}",   "50%",       "a/b",         "a/b/c",     "a%2Fb",        "...",          "a/...",
        ".a",     "caf\xc3\xa9", "x-latch-1", "x-latch-1/y", "\xc2\xa0x", "\xed\x9f\xbf", "\xef\xbf\xaf",
    };
    static const struct {
        const char *mutex, *says;
    } bad[] = {
        {"/", "slash"},
        {"/a", "slash"},
        {"a/", "slash"},
        {"a//b", "slash"},
        {".", "\".\""},
        {"a/..", "\"..\""},
        {"./a", "\".\""},
        {"\xc2\x85", "character"},
        {"a\xee\x80\x80", "character"},
        {"\xef\xbf\xbd", "character"},
        {"\xf0\x9f\xa6\x81", "character"},
        {"a/x-latch-0000000001", "latch-"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        simba_error err = {0};
        if (simba__zk_check_mutex(good[i], &err) < 0)
            fail_msg("%s: %s", good[i], err.text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        simba_error err = {0};
        assert_int_equal(simba__zk_check_mutex(bad[i].mutex, &err), SIMBA_EINVAL);
        if (!strstr(err.text, bad[i].says) || !strstr(err.text, "ZooKeeper"))
            fail_msg("%s: %s", bad[i].mutex, err.text);
    }
    char one[ZK_PREFIX_MAX];
    char other[ZK_PREFIX_MAX];
    simba__zk_prefix(UINT64_C(0x0123456789abcdef), "x", one);
    assert_int_equal(strncmp(one, "_c_01234567-89ab-cdef-", 22), 0);
    assert_int_equal(strlen(one), strlen("_c_") + 36 + strlen("-latch-"));
    simba__zk_prefix(UINT64_C(0x0123456789abcdef), "y", other);
    assert_string_not_equal(one, other);
    assert_true(simba__zk_order("_c_z-latch-0000000001", "_c_a-latch-0000000002") < 0);
    assert_true(simba__zk_order("_c_latch-9-latch-0000000010", "_c_a-latch-0000000009") > 0);
    assert_true(simba__zk_order("_c_a-latch-0000000009", "0") < 0); /* contenders before others */
    assert_true(simba__zk_is_contender(one));
    assert_false(simba__zk_is_contender("b"));
}

struct seen {
    unsigned rows;
    char text[512]; /* "mutex=owner+waiters " of each */
};

static void note_row(const simba_listing *row, void *user)
{
    struct seen *seen = user;
    const size_t length = strlen(seen->text);
    seen->rows++;
    snprintf(seen->text + length, sizeof seen->text - length, "%s=%s+%lld ", row->mutex, row->owner->id,
             (long long)row->waiters);
}

static void assert_listed(simba_client *client, const char *pattern, const char *text)
{
    struct seen seen = {0};
    simba_error err = {0};
    if (simba_client_list(client, pattern, note_row, &seen, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(seen.text, text);
}

/* A contender of Simba on the JVM: the node of mutex `a/b` is /simba/a/b, and "%" means nothing special there. */
static void excludes_jvm_for_any_name(void **state)
{
    static const char *const mutexes[] = {"plain", "a/b", "a%2Fb", "100%41"};
    simba_error err = {0};
    zhandle_t *raw = raw_zookeeper_open(zookeeper.port, NULL);
    simba_client *client = open_client("", "/jvm");
    raw_zookeeper_create(raw, "/jvm", "", ZOO_PERSISTENT);
    raw_zookeeper_create(raw, "/jvm/simba", "", ZOO_PERSISTENT);
    raw_zookeeper_create(raw, "/jvm/simba/a", "", ZOO_PERSISTENT);
    for (size_t i = 0; i < sizeof mutexes / sizeof *mutexes; i++) {
        char path[128];
        snprintf(path, sizeof path, "/jvm/simba/%s", mutexes[i]);
        assert_int_equal(raw_zookeeper_create(raw, path, "", ZOO_PERSISTENT), ZOK);
        strcat(path, "/_c_0-latch-");
        assert_int_equal(raw_zookeeper_create(raw, path, "jvm", ZOO_EPHEMERAL_SEQUENTIAL), ZOK);
        simba_locker *locker = new_locker(client, mutexes[i]);
        assert_int_equal(simba_locker_acquire(locker, 0, &err), SIMBA_ETIMEDOUT);
        assert_non_null(strstr(err.text, "jvm"));
        simba_locker_free(locker);
    }
    zookeeper_close(raw);
    simba_client_close(client);
}

/* `a` and `a/b` are two mutexes: neither is taken for a contender of the other, by those who lock and those who list. */
static void nested_names(void **state)
{
    simba_error err = {0};
    simba_client *client = open_client("", "/nested");
    static const char *const names[] = {"a/b", "a", "a/0", "x/y/z"};
    simba_locker *lockers[4];
    for (size_t i = 0; i < 4; i++) {
        simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
        options.id = names[i];
        assert_int_equal(simba_locker_new(client, names[i], &options, NULL, &lockers[i]), 0);
        assert_int_equal(simba_locker_acquire(lockers[i], 0, &err), 0);
    }
    assert_listed(client, "a", "a=a+0 ");
    assert_listed(client, "*/b", "a/b=a/b+0 ");
    assert_listed(client, "a/0", "a/0=a/0+0 ");
    assert_listed(client, "x*", "x/y/z=x/y/z+0 "); /* x and x/y have no contenders */
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(simba_locker_release(lockers[i], &err), 0);
        assert_int_equal(simba_locker_acquire(lockers[i], 0, &err), 0);
        simba_locker_free(lockers[i]);
    }
    assert_listed(client, "a", ""); /* only a/b and a/0 show that it may have been one */
    assert_listed(client, "a/b", "a/b=+0 ");
    simba_client_close(client);
}

static char warned[512];

/* What was logged last at the level that `user` points to. */
static void note_warning(void *user, simba_log_level level, const char *text)
{
    ref_lock();
    if (level == *(const simba_log_level *)user)
        snprintf(warned, sizeof warned, "%s", text);
    ref_unlock();
}

/* Nobody tells a LeaderLatch that its node was removed, so whoever removes it is warned; not so for one of ours. */
static void warns_of_jvm_owner(void **state)
{
    char url[64];
    simba_error err = {0};
    simba_client *client = NULL;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_log_level warning = SIMBA_LOG_WARN;
    options.log = note_warning;
    options.log_user = &warning;
    warned[0] = '\0';
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/warns", zookeeper.port);
    assert_int_equal(simba_client_open(url, &options, &err, &client), 0);
    simba_locker *locker = new_locker(client, "m");
    assert_int_equal(simba_locker_acquire(locker, 0, &err), 0);
    assert_int_equal(simba_client_force_release(client, "m", &err), 0);
    assert_null(strstr(warned, "LeaderLatch")); /* that the holder has lost it may have been logged by now */
    simba_locker_free(locker);
    zhandle_t *raw = raw_zookeeper_open(zookeeper.port, NULL);
    const char latch[] = "/warns/simba/m/_c_3c3a3b34-8f3a-4b6e-9d5a-3f7a0c4f5e11-latch-";
    assert_int_equal(raw_zookeeper_create(raw, latch, "jvm", ZOO_EPHEMERAL_SEQUENTIAL), ZOK);
    assert_int_equal(simba_client_force_release(client, "m", &err), 0);
    assert_non_null(strstr(warned, "LeaderLatch"));
    zookeeper_close(raw);
    simba_client_close(client);
}

/* The server grants less than was asked for, by its own limit of twenty ticks. Whose stop margin does not fit any more is told,
 * and nobody can be made with such a margin from then on. */
static void shorter_session(void **state)
{
    char url[96];
    simba_error err = {0};
    simba_client *client = NULL;
    simba_contender *early = NULL;
    simba_contender *late = NULL;
    simba_log_level level = SIMBA_LOG_ERROR;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_contender_options contender = SIMBA_CONTENDER_OPTIONS_INIT;
    options.log = note_warning;
    options.log_user = &level;
    contender.timing.stop_margin_ms = 9000;
    warned[0] = '\0';
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/shorter?session-timeout=30s", zookeeper.port);
    assert_int_equal(simba_client_open(url, &options, &err, &client), 0);
    assert_int_equal(simba_contender_new(client, "m", &contender, &err, &early), 0);
    assert_int_equal(simba_contender_start(early), 0);
    assert_true(
        REF_WITHIN(LONG_MS, strstr(warned, "; mutex=m id=") && strstr(warned, " session_ms=10000 margin_ms=9000")));
    assert_int_equal(simba_contender_new(client, "m", &contender, &err, &late), SIMBA_EINVAL);
    assert_non_null(strstr(err.text, "10000 ms"));
    contender.timing.stop_margin_ms = 3000;
    assert_int_equal(simba_contender_new(client, "m", &contender, &err, &late), 0);
    simba_contender_free(late);
    simba_contender_free(early);
    simba_client_close(client);
}

/* --- rights ------------------------------------------------------------------------------------------------- */

static void about_rights(void **state)
{
    simba_error err = {0};
    simba_client *owner = open_client("app:secret@", "/closed?acl=creator");
    simba_client *friend = open_client("app:secret@", "/closed?acl=creator");
    simba_client *stranger = open_client("app:wrong@", "/closed");
    simba_locker *held = new_locker(owner, "m");
    simba_locker *waiting = new_locker(friend, "m");
    simba_locker *refused = new_locker(stranger, "m");
    assert_int_equal(simba_locker_acquire(held, 5000, &err), 0);
    assert_int_equal(simba_locker_acquire(waiting, 0, &err), SIMBA_ETIMEDOUT);
    assert_non_null(strstr(err.text, simba_locker_id(held)));
    assert_int_equal(simba_locker_acquire(refused, 5000, &err), SIMBA_EPERM);
    assert_null(strstr(err.text, "wrong"));
    assert_int_equal(simba_client_force_release(stranger, "m", &err), SIMBA_EPERM);
    assert_int_equal(simba_locker_release(held, &err), 0);
    simba_locker_free(held);
    simba_locker_free(waiting);
    simba_locker_free(refused);
    simba_client_close(owner);
    simba_client_close(friend);
    simba_client_close(stranger);
}

/* --- what it costs the server -------------------------------------------------------------------------------- */

static double counter(const char *name)
{
    return server_zookeeper_counter(&zookeeper, name);
}

static unsigned grants;
static simba_contender *leader;

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    ref_lock();
    leader = contender;
    grants++;
    ref_unlock();
}

/* Thirty contenders of one client share one session, and a hand-over between them fires one watch. */
static void no_herd(void **state)
{
    enum { N = 30, HAND_OVERS = 20 };
    simba_contender *contenders[N];
    const double sessions = counter("zk_global_sessions");
    simba_client *client = open_client("", "/herd");
    for (int i = 0; i < N; i++) {
        simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
        options.on_acquired = on_acquired;
        assert_int_equal(simba_contender_new(client, "m", &options, NULL, &contenders[i]), 0);
        assert_int_equal(simba_contender_start(contenders[i]), 0);
    }
    assert_true(REF_WITHIN(LONG_MS, counter("zk_watch_count") >= N - 1));
    assert_true(counter("zk_global_sessions") == sessions + 1);
    const double fired = counter("zk_sum_node_deleted_watch_count");
    for (unsigned i = 1; i <= HAND_OVERS; i++) {
        assert_int_equal(simba_contender_stop(leader), 0);
        assert_true(REF_WITHIN(LONG_MS, grants > i));
    }
    assert_true(REF_WITHIN(LONG_MS, counter("zk_sum_node_deleted_watch_count") >= fired + HAND_OVERS));
    assert_true(counter("zk_sum_node_deleted_watch_count") == fired + HAND_OVERS);
    for (int i = N - 1; i >= 0; i--)
        simba_contender_free(contenders[i]);
    simba_client_close(client);
}

/* --- who polls ------------------------------------------------------------------------------------------ */

static void ignore_row(const simba_listing *row, void *user)
{
}

static void *list_all(void *client)
{
    simba_client_list(client, NULL, ignore_row, NULL, NULL); /* may fail when the connection does */
    return NULL;
}

static bool is_polled_from(simba_client *client)
{
    simba__lock(client);
    const bool polled = client->polled_for != NULL;
    simba__unlock(client);
    return polled;
}

/* The connection breaks under a thread of the application that polls, because it waits for an answer and nobody else polls. */
static void breaks_under_a_poller(void **state)
{
    char url[64];
    proxy network;
    pthread_t thread;
    simba_client *client = NULL;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.dispatch = SIMBA_DISPATCH_FD;
    proxy_start(&network, zookeeper.port);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d", network.port);
    assert_int_equal(simba_client_open(url, &options, NULL, &client), 0);
    list_all(client);
    proxy_set(&network, PROXY_FREEZE);
    assert_int_equal(pthread_create(&thread, NULL, list_all, client), 0);
    assert_true(REF_WITHIN(LONG_MS, is_polled_from(client)));
    proxy_set(&network, PROXY_CUT);
    proxy_set(&network, PROXY_PASS);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(REF_WITHIN(LONG_MS, simba_client_list(client, NULL, ignore_row, NULL, NULL) == 0));
    simba_client_close(client);
    proxy_stop(&network);
}

/* --- the end --------------------------------------------------------------------------------------------------- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(about_names),
        cmocka_unit_test(excludes_jvm_for_any_name),
        cmocka_unit_test(nested_names),
        cmocka_unit_test(warns_of_jvm_owner),
        cmocka_unit_test(shorter_session),
        cmocka_unit_test(about_rights),
        cmocka_unit_test(no_herd),
        cmocka_unit_test(breaks_under_a_poller),
    };
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper);
}
