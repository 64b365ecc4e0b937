/* The etcd store by itself: what its URL may say, what it stores, who contends beside it, whom etcd lets in. One real server for all. */
#include <pthread.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/proxy.h"
#include "lib/referee.h"
#include "lib/server.h"

#include "client/client.h"
#include "stores/etcd/etcd.h"

#define LONG_MS (ref_scaled_ms(20000))
#define SESSION "session-timeout=2s"

static server etcd;

static simba_client *open_at(int port, const char *login, const char *rest)
{
    char url[256];
    simba_client *client = NULL;
    simba_error err = {0};
    snprintf(url, sizeof url, "etcd://%s127.0.0.1:%d?%s", login, port, rest);
    if (simba_client_open(url, NULL, &err, &client) < 0)
        fail_msg("%s: %s", url, err.text);
    return client;
}

static simba_client *open_client(const char *rest)
{
    return open_at(etcd.port, "", rest);
}

static simba_locker *new_locker(simba_client *client, const char *mutex)
{
    simba_locker *locker = NULL;
    assert_int_equal(simba_locker_new(client, mutex, NULL, NULL, &locker), 0);
    return locker;
}

static simba_locker *hold(simba_client *client, const char *mutex)
{
    simba_locker *locker = new_locker(client, mutex);
    simba_error err = {0};
    if (simba_locker_acquire(locker, LONG_MS, &err) < 0)
        fail_msg("%s", err.text);
    return locker;
}

/* What etcdctl prints, without the line's end. The words are ours. */
static const char *etcdctl(const char *format, ...) __attribute__((format(printf, 1, 2)));

static const char *etcdctl(const char *format, ...)
{
    static char out[65536];
    char words[512];
    char command[700];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    snprintf(command, sizeof command, "ETCDCTL_API=3 etcdctl --endpoints http://127.0.0.1:%d %s 2>&1", etcd.port,
             words);
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): made of what is ours
    assert_non_null(pipe);
    size_t length = fread(out, 1, sizeof out - 1, pipe);
    pclose(pipe);
    while (length > 0 && out[length - 1] == '\n')
        length--;
    out[length] = '\0';
    return out;
}

/* A program that runs beside the test, and its first line. */
typedef struct beside {
    FILE *out;
    pid_t pid;
    char line[512];
} beside;

static void begin(beside *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void begin(beside *b, const char *format, ...)
{
    char words[256];
    char command[400];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    snprintf(command, sizeof command, "echo $$; exec env ETCDCTL_API=3 etcdctl --endpoints http://127.0.0.1:%d %s 2>&1",
             etcd.port, words);
    b->out = popen(command, "r"); // NOLINT(cert-env33-c): made of what is ours
    assert_non_null(b->out);
    assert_non_null(fgets(b->line, sizeof b->line, b->out));
    b->pid = (pid_t)strtol(b->line, NULL, 10);
}

static void await_line(beside *b)
{
    assert_non_null(fgets(b->line, sizeof b->line, b->out));
    b->line[strcspn(b->line, "\n")] = '\0';
}

static void end(beside *b, int number)
{
    kill(b->pid, number);
    pclose(b->out);
}

static void count_waiters(const simba_listing *row, void *user)
{
    *(int64_t *)user = simba_owner_is_none(row->owner) ? 0 : row->waiters + 1;
}

/* How many contend. */
static int64_t waiters_of(simba_client *client, const char *mutex)
{
    int64_t count = 0;
    assert_int_equal(simba_client_list(client, mutex, count_waiters, &count, NULL), 0);
    return count;
}

static void await_contenders(simba_client *client, const char *mutex, int64_t count)
{
    assert_true(REF_WITHIN(LONG_MS, waiters_of(client, mutex) == count));
}

/* --- what the URL may say ----------------------------------------------------------------------------------- */

static void bad_urls(void **state)
{
    (void)state;
    static const struct {
        const char *url, *says;
    } cases[] = {
        {"etcd://h:99999", "port of \"h:99999\""},
        {"etcd://h1,,h2", "host is missing"},
        {"etcd://user@h", "without the other"},
        {"etcd://h/locks", "?prefix=/locks"},
        {"etcd://h?prefix=%01", "control character"},
        {"etcd://h?session-timeout=1ms", "session-timeout"},
        {"etcd://h?session-timeout=soon", "session-timeout"},
        {"etcd://h?ttl=5s", "ttl does not apply"},
        {"etcd://h?transition=5s", "transition does not apply"},
        {"etcd://h?timeout=4s", "\"timeout\""},
        {"etcd://h?ca=/etc/ca.pem", "are for etcds://"},
        {"etcds://h?ca=/nowhere/ca.pem", "CA file /nowhere/ca.pem"},
        {"etcds://h?cert=/nowhere/cert.pem", "cert and key go together"},
        {"etcds://h?verify=perhaps", "verify is yes or no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        simba_client *client = NULL;
        simba_error err = {0};
        const int rc = simba_client_open(cases[i].url, NULL, &err, &client);
        if (rc >= 0 || !strstr(err.text, cases[i].says))
            fail_msg("%s: %d %s", cases[i].url, rc, err.text);
    }
}

/* A name that leads nowhere, and a server that is not there: words, and no password in them. */
static void about_unreachable(void **state)
{
    (void)state;
    static const char *const urls[] = {"etcd://u:topsecret@nowhere.invalid", "etcd://u:topsecret@127.0.0.1:1"};
    for (size_t i = 0; i < 2; i++) {
        simba_client *client = NULL;
        simba_error err = {0};
        assert_int_equal(simba_client_open(urls[i], NULL, &err, &client), 0);
        simba_locker *locker = new_locker(client, "m");
        assert_int_equal(simba_locker_acquire(locker, 0, &err), SIMBA_EUNAVAILABLE);
        assert_non_null(strstr(err.text, "etcd"));
        assert_null(strstr(err.text, "topsecret"));
        simba_locker_free(locker);
        simba_client_close(client);
    }
}

/* --- what is stored ----------------------------------------------------------------------------------------- */

/* The key is where etcdctl looks for it; it belongs to a lease; its create_revision is the token. */
static void about_keys(void **state)
{
    (void)state;
    simba_client *client = open_client(SESSION "&prefix=/keys/");
    simba_locker *locker = hold(client, "m");
    const uint64_t token = simba_locker_token(locker);
    const char *json = etcdctl("get --prefix /keys/m/ -w json");
    char revision[64];
    snprintf(revision, sizeof revision, "\"create_revision\":%llu,", (unsigned long long)token);
    assert_non_null(strstr(json, revision));
    assert_non_null(strstr(json, "\"lease\":"));
    assert_int_equal(simba_locker_release(locker, NULL), 0);
    assert_string_equal(etcdctl("get --prefix /keys/m/"), "");
    assert_int_equal(simba_locker_acquire(locker, LONG_MS, NULL), 0);
    assert_true(simba_locker_token(locker) > token);
    simba_locker_free(locker);
    simba_client_close(client);
    assert_string_equal(etcdctl("get --prefix /keys/"), "");
    assert_non_null(strstr(etcdctl("lease list"), "found 0 leases"));
}

/* A mutex whose name begins with that of another one, with a slash, is another one. */
static void about_slashes(void **state)
{
    (void)state;
    simba_client *client = open_client(SESSION);
    simba_locker *inner[20];
    char name[32];
    for (int i = 0; i < 20; i++) { /* more than a page of them */
        snprintf(name, sizeof name, "slash/%d", i);
        inner[i] = hold(client, name);
    }
    simba_locker *outer = hold(client, "slash");
    assert_int_equal(waiters_of(client, "slash"), 1);
    assert_int_equal(waiters_of(client, "slash/7"), 1);
    for (int i = 0; i < 20; i++)
        simba_locker_free(inner[i]);
    simba_locker_free(outer);
    simba_client_close(client);
}

typedef struct waiter {
    simba_client *client;
    uint64_t token;
} waiter;

static void *wait_and_pass(void *arg)
{
    waiter *w = arg;
    simba_locker *locker = hold(w->client, "deep");
    w->token = simba_locker_token(locker);
    simba_locker_free(locker);
    return NULL;
}

/* More waiters than a page, in one client: they lead one after the other, in the order in which they came. */
static void deep_queue(void **state)
{
    (void)state;
    enum { N = 40 };
    simba_client *client = open_client(SESSION);
    simba_client *other = open_client(SESSION);
    simba_locker *holder = hold(other, "deep");
    pthread_t threads[N];
    waiter waiters[N];
    for (int i = 0; i < N; i++) {
        waiters[i] = (waiter){.client = client};
        pthread_create(&threads[i], NULL, wait_and_pass, &waiters[i]);
        await_contenders(other, "deep", i + 2);
    }
    simba_locker_free(holder);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < N; i++)
        assert_true(waiters[i].token > waiters[i - 1].token);
    simba_client_close(client);
    simba_client_close(other);
}

static void count_rows(const simba_listing *row, void *user)
{
    assert_memory_equal(row->mutex, "list-", 5);
    assert_true(row->owner->token > 0);
    ++*(int *)user;
}

/* More mutexes than a page, among keys that are none. */
static void long_list(void **state)
{
    (void)state;
    enum { N = 530 };
    simba_client *client = open_client("prefix=long/");
    static simba_locker *lockers[N];
    char name[32];
    int count = 0;
    etcdctl("put long/list-x something");
    etcdctl("put long/list-x/1f something");
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "list-%d", i);
        lockers[i] = hold(client, name);
    }
    assert_int_equal(simba_client_list(client, NULL, count_rows, &count, NULL), 0);
    assert_int_equal(count, N);
    count = 0;
    assert_int_equal(simba_client_list(client, "list-1?", count_rows, &count, NULL), 0);
    assert_int_equal(count, 10);
    for (int i = 0; i < N; i++)
        simba_locker_free(lockers[i]);
    simba_client_close(client);
    etcdctl("del --prefix long/");
}

/* --- others that contend ------------------------------------------------------------------------------------ */

static void *acquire_later(void *arg)
{
    simba_locker *locker = arg;
    return simba_locker_acquire(locker, LONG_MS, NULL) == 0 ? locker : NULL;
}

/* `etcdctl lock` and `elect`, which are Go's Mutex and Election, wait for a holder of this library, and the other way round. */
static void beside_etcdctl(void **state)
{
    (void)state;
    static const char *const commands[] = {"lock --ttl 5 beside", "elect beside me"};
    simba_client *client = open_client(SESSION);
    for (size_t i = 0; i < 2; i++) {
        beside b;
        pthread_t thread;
        void *won = NULL;
        simba_locker *locker = hold(client, "beside");
        begin(&b, "%s", commands[i]);
        await_contenders(client, "beside", 2);
        assert_int_equal(simba_locker_release(locker, NULL), 0);
        await_line(&b); /* it leads */
        assert_memory_equal(b.line, "beside/", 7);
        assert_int_equal(simba_locker_acquire(locker, 0, NULL), SIMBA_ETIMEDOUT);
        simba_owner owner;
        assert_int_equal(simba_locker_owner(locker, &owner), 0);
        assert_string_equal(owner.id, i == 0 ? b.line + strlen("beside/") : "me");
        pthread_create(&thread, NULL, acquire_later, locker);
        await_contenders(client, "beside", 2);
        end(&b, SIGTERM);
        pthread_join(thread, &won);
        assert_ptr_equal(won, locker);
        simba_locker_free(locker);
    }
    simba_client_close(client);
}

/* --- losses ------------------------------------------------------------------------------------------------- */

static ref_arena arena;

static simba_contender *start_leader(simba_client *client, const char *mutex)
{
    ref_arena_init(&arena);
    const simba_contender_options options = ref_options(&arena, 0);
    assert_int_equal(simba_contender_new(client, mutex, &options, NULL, &arena.contenders[0].handle), 0);
    assert_int_equal(ref_start(&arena.contenders[0]), 0);
    assert_true(REF_WITHIN(LONG_MS, arena.inside == &arena.contenders[0]));
    return arena.contenders[0].handle;
}

static void stop_leader(void)
{
    ref_stop(&arena.contenders[0]);
    ref_free(&arena.contenders[0]);
    ref_arena_check_end(&arena);
}

/* Its key is deleted while the lease lives: by force, or by hand. The holder hears of it, and comes back. */
static void about_revocation(void **state)
{
    (void)state;
    simba_client *client = open_client(SESSION);
    simba_client *other = open_client(SESSION);
    start_leader(client, "revoked");
    for (unsigned i = 0; i < 4; i++) {
        ref_lock();
        const unsigned grants = arena.grants;
        ref_unlock();
        ref_force(&arena);
        if (i % 2 == 0)
            assert_int_equal(simba_client_force_release(other, "revoked", NULL), 0);
        else
            assert_string_equal(etcdctl("del --prefix revoked/"), "1");
        assert_true(REF_WITHIN(LONG_MS, arena.grants > grants && arena.inside));
        assert_int_equal(arena.contenders[0].reason, SIMBA_REASON_REVOKED);
    }
    stop_leader();
    simba_client_close(client);
    simba_client_close(other);
}

/* The lease is revoked: that is the end of the session, and another begins. */
static void about_lost_leases(void **state)
{
    (void)state;
    simba_client *client = open_client(SESSION);
    start_leader(client, "lost");
    for (unsigned i = 0; i < 2; i++) {
        const unsigned grants = arena.grants;
        simba__lock(client);
        const int64_t lease = ((etcd_store *)client->store)->session.lease;
        simba__unlock(client);
        ref_force(&arena);
        assert_non_null(strstr(etcdctl("lease revoke %llx", (unsigned long long)lease), "revoked"));
        assert_true(REF_WITHIN(LONG_MS, arena.grants > grants && arena.inside));
        assert_int_equal(arena.contenders[0].reason, SIMBA_REASON_SESSION_LOST);
    }
    stop_leader();
    simba_client_close(client);
}

/* A key of this client's lease that no contender knows: its put was carried out after the contender had gone. */
static void about_orphans(void **state)
{
    (void)state;
    simba_client *client = open_client(SESSION);
    simba_client *other = open_client(SESSION);
    simba_locker *first = hold(client, "elsewhere");
    simba__lock(client);
    const int64_t lease = ((etcd_store *)client->store)->session.lease;
    simba__etcd_session_doubt(client->store);
    simba__unlock(client);
    assert_string_equal(etcdctl("put --lease=%llx orphan/%llx-0000000000000007 me", (unsigned long long)lease,
                                (unsigned long long)lease),
                        "OK");
    simba_locker *locker = hold(other, "orphan");
    simba_locker_free(locker);
    simba_locker_free(first);
    simba_client_close(client);
    simba_client_close(other);
}

/* The stream of watches breaks, and etcd forgets what has happened meanwhile: the waiter looks. */
static void about_compaction(void **state)
{
    (void)state;
    proxy network = {0};
    pthread_t thread;
    void *won = NULL;
    proxy_start(&network, etcd.port);
    simba_client *client = open_at(network.port, "", "session-timeout=30s");
    simba_client *other = open_client(SESSION);
    simba_locker *holder = hold(other, "compacted");
    simba_locker *locker = new_locker(client, "compacted");
    pthread_create(&thread, NULL, acquire_later, locker);
    await_contenders(other, "compacted", 2);
    proxy_set(&network, PROXY_CUT);
    simba_locker_free(holder);
    const char *found = strstr(etcdctl("put x y -w json"), "\"revision\":");
    assert_non_null(found);
    etcdctl("compact %lld", strtoll(found + strlen("\"revision\":"), NULL, 10));
    proxy_set(&network, PROXY_PASS);
    pthread_join(thread, &won);
    assert_ptr_equal(won, locker);
    simba_locker_free(locker);
    simba_client_close(client);
    simba_client_close(other);
    proxy_stop(&network);
}

/* --- who may, and what the administrator should know -------------------------------------------------------- */

static void note_finding(const simba_finding *finding, void *user)
{
    char *all = user;
    snprintf(all + strlen(all), 2048 - strlen(all), "%d %s %s|", (int)finding->verdict, finding->what, finding->text);
}

static void about_findings(void **state)
{
    (void)state;
    simba_client *client = open_client(SESSION);
    char all[2048] = "";
    assert_int_equal(simba_client_examine(client, note_finding, all, NULL), 0);
    assert_non_null(strstr(all, "0 gateway "));
    assert_non_null(strstr(all, " version "));
    assert_non_null(strstr(all, "1 login The URL names no user"));
    simba_client_close(client);
}

/* Without its gateway etcd answers 404. */
static void without_gateway(void **state)
{
    (void)state;
    server bare;
    simba_error err = {0};
    server_init(&bare);
    assert_true(server_start_etcd_without_gateway(&bare));
    simba_client *client = open_at(bare.port, "", SESSION);
    simba_locker *locker = new_locker(client, "m");
    assert_int_equal(simba_locker_acquire(locker, LONG_MS, &err), SIMBA_ESTORE);
    assert_non_null(strstr(err.text, "no JSON gateway"));
    simba_locker_free(locker);
    simba_client_close(client);
    server_fini(&bare);
}

/* With a user: his password counts; a token that etcd has forgotten is asked for anew; what he may not do is told. */
static void about_users(void **state)
{
    (void)state;
    simba_error err = {0};
    server plain = etcd; /* etcdctl is for this server from here on */
    server_init(&etcd);
    assert_true(server_start_etcd(&etcd));
    etcdctl("user add root:rootword");
    etcdctl("user grant-role root root");
    etcdctl("user add simba:secret");
    etcdctl("role add locks");
    etcdctl("role grant-permission --prefix locks readwrite locks/");
    etcdctl("role grant-permission --prefix locks readwrite simba-notes/locks/");
    etcdctl("user grant-role simba locks");
    assert_non_null(strstr(etcdctl("auth enable"), "Enabled"));

    simba_client *client = open_at(etcd.port, "simba:secret@", "session-timeout=30s&prefix=locks/");
    simba_locker *locker = hold(client, "m");
    assert_int_equal(simba_locker_note_set(locker, "n", 1, NULL), 0);
    simba_client *looker = open_at(etcd.port, "simba:secret@", "prefix=locks/");
    int64_t count = 0;
    assert_int_equal(simba_client_list(looker, NULL, count_waiters, &count, NULL), 0);
    /* Its tokens are gone, and so is nothing else. */
    server_signal(&etcd, SIGKILL);
    assert_true(server_restart_etcd(&etcd));
    if (simba_client_list(looker, NULL, count_waiters, &count, &err) < 0)
        fail_msg("%s", err.text);
    simba_client_close(looker);
    if (simba_locker_note_set(locker, "o", 1, &err) < 0)
        fail_msg("%s", err.text);
    simba_locker_free(locker);
    simba_client_close(client);

    client = open_at(etcd.port, "simba:wrong@", SESSION "&prefix=locks/");
    locker = new_locker(client, "m");
    assert_int_equal(simba_locker_acquire(locker, LONG_MS, &err), SIMBA_EPERM);
    assert_null(strstr(err.text, "wrong"));
    simba_locker_free(locker);
    simba_client_close(client);

    client = open_at(etcd.port, "simba:secret@", SESSION "&prefix=others/");
    locker = new_locker(client, "m");
    assert_int_equal(simba_locker_acquire(locker, LONG_MS, &err), SIMBA_EPERM);
    assert_non_null(strstr(err.text, "permission"));
    simba_locker_free(locker);
    simba_client_close(client);
    server_fini(&etcd);
    etcd = plain;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_urls),        cmocka_unit_test(about_unreachable), cmocka_unit_test(about_keys),
        cmocka_unit_test(about_slashes),   cmocka_unit_test(deep_queue),        cmocka_unit_test(long_list),
        cmocka_unit_test(beside_etcdctl),  cmocka_unit_test(about_revocation),  cmocka_unit_test(about_lost_leases),
        cmocka_unit_test(about_orphans),   cmocka_unit_test(about_compaction),  cmocka_unit_test(about_findings),
        cmocka_unit_test(without_gateway), cmocka_unit_test(about_users),
    };
    if (!server_has("etcd") || !server_has("etcdctl")) {
        puts("1..0 # SKIP etcd and etcdctl are not installed");
        return 0;
    }
    server_init(&etcd);
    const int failed = server_start_etcd(&etcd) ? cmocka_run_group_tests(tests, NULL, NULL)
                                                : (puts("Bail out! etcd does not start"), 1);
    server_fini(&etcd);
    return failed;
}
