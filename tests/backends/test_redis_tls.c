/* rediss://, against a server with a certificate of our own making, for the name "localhost" alone; and replicas=N. */
#include <sys/stat.h>

#include "backends/test_redis.h"

static server secure;  /* TLS */
static server strict;  /* TLS, and wants to see the client's certificate */
static server replica; /* of `redis` */
static char ca[96], cert[96], key[96];

static void name_certificates(const char *folder)
{
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
}

static void start_secure(server *s, const char *const *more)
{
    if (!server_start_redis_tls(s, secure.folder, "hunt3r", more))
        fail_msg("redis-server does not start with TLS; see %s/log", s->folder);
}

static int tls_setup(void **state)
{
    group_setup(state);
    server_init(&secure);
    server_init(&strict);
    server_init(&replica);
    assert_true(server_make_certificates(secure.folder));
    name_certificates(secure.folder);
    start_secure(&secure, NULL);
    start_secure(&strict, (const char *const[]){"--tls-auth-clients", "yes", NULL});
    return 0;
}

static int tls_teardown(void **state)
{
    server_fini(&secure);
    server_fini(&strict);
    server_fini(&replica);
    return group_teardown(state);
}

static void open_tls(const server *s, const char *host, const char *query)
{
    char url[512];
    snprintf(url, sizeof url, "rediss://:hunt3r@%s:%d%s", host, s->port, query);
    open_at(&a, url);
}

static const char *with_ca(const char *more)
{
    static char query[400];
    snprintf(query, sizeof query, "?ca=%s%s", ca, more);
    return query;
}

static void assert_fails(int code, const char *word)
{
    const simba_error error = refused(&a, SIMBA_OP_ACQUIRE, "orders");
    assert_string_equal(simba_error_name(error.code), simba_error_name(code));
    if (!strstr(error.text, word))
        fail_msg("\"%s\" does not say \"%s\"", error.text, word);
    testhost_close(&a);
}

/* The certificate has to be signed by whom we trust and be for the host that we named, unless told otherwise. */
static void about_verification(void **state)
{
    open_tls(&secure, "localhost", "");
    assert_fails(SIMBA_EPERM, "certificate");
    open_tls(&secure, "127.0.0.1", with_ca(""));
    assert_fails(SIMBA_EPERM, "mismatch");
    open_tls(&secure, "127.0.0.1", "?verify=no");
    assert_mine(acquire(&a, "lax", "me", 1));
    testhost_close(&a);
}

/* A server that wants to know who we are. */
static void client_certificate(void **state)
{
    char more[256];
    open_tls(&strict, "localhost", with_ca(""));
    assert_fails(SIMBA_EUNAVAILABLE, "localhost");
    snprintf(more, sizeof more, "&cert=%s&key=%s", cert, key);
    open_tls(&strict, "localhost", with_ca(more));
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);
}

/* One side talks TLS and the other does not. */
static void mixed_up(void **state)
{
    char url[96];
    open_tls(&redis, "localhost", with_ca("&connect-timeout=300ms"));
    assert_fails(SIMBA_ESTORE, "the server does not speak TLS at this port"); /* though it says nothing to a hello */
    server_signal(&redis, SIGSTOP);
    open_tls(&redis, "localhost", with_ca("&connect-timeout=300ms"));
    assert_fails(SIMBA_EUNAVAILABLE, "no answer"); /* nobody knows what it speaks */
    server_signal(&redis, SIGCONT);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", secure.port);
    open_at(&a, url);
    assert_fails(SIMBA_EUNAVAILABLE, "redis 127.0.0.1");
}

/* Files that are missing or are none, settings that do not belong together. */
static void bad_files(void **state)
{
    char urls[6][256];
    snprintf(urls[0], sizeof urls[0], "rediss://localhost?ca=/no/such/file");
    snprintf(urls[1], sizeof urls[1], "rediss://localhost?cert=%s", cert);
    snprintf(urls[2], sizeof urls[2], "rediss://localhost?cert=%s&key=%s", ca, key);
    snprintf(urls[3], sizeof urls[3], "rediss://localhost?verify=perhaps");
    snprintf(urls[4], sizeof urls[4], "redis://localhost?ca=%s", ca);
    snprintf(urls[5], sizeof urls[5], "redis://localhost?replicas=many");
    for (size_t i = 0; i < 6; i++) {
        simba_error err = {0};
        if (testhost_open(&a, &simba__backend_redis, urls[i], &err) != SIMBA_EURL)
            fail_msg("%s was taken", urls[i]);
    }
}

/* A cluster of one, whose server says by which name it is to be called: not by the address, for which the certificate is
 * not good. */
static void tls_cluster(void **state)
{
    char command[400];
    char bus[12];
    char url[256];
    server lone;
    server_init(&lone);
    snprintf(bus, sizeof bus, "%d", lone.port < 40000 ? lone.port + 20000 : lone.port - 20000);
    start_secure(&lone, (const char *const[]){"--cluster-enabled", "yes", "--cluster-port", bus, "--tls-cluster", "yes",
                                              "--cluster-announce-hostname", "localhost",
                                              "--cluster-preferred-endpoint-type", "hostname", NULL});
    snprintf(
        command, sizeof command,
        "REDISCLI_AUTH=hunt3r redis-cli --tls --cacert %s -h localhost -p %d CLUSTER ADDSLOTSRANGE 0 16383 >/dev/null",
        ca, lone.port);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): of our own making
    snprintf(url, sizeof url, "rediss+cluster://:hunt3r@localhost:%d?ca=%s", lone.port, ca);
    open_at(&a, url);
    bool works = false;
    for (int i = 0; i < 500 && !works; i++) { /* it is not up at once */
        testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
        testhost_ask(&a, &r);
        works = r.request.reply.status == 0;
        testhost_pump(&a, NULL, 10);
    }
    assert_true(works);
    testhost_close(&a);
    server_fini(&lone);
}

/* A sentinel that speaks TLS, too, and names the master by its name. */
static void tls_sentinel(void **state)
{
    char path[96];
    char url[256];
    server sentinel;
    server_init(&sentinel);
    snprintf(path, sizeof path, "%s/sentinel.conf", sentinel.folder);
    FILE *file = fopen(path, "w");
    fprintf(file,
            "port 0\ntls-port %d\nbind 127.0.0.1\ndir %s\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\n"
            "tls-auth-clients no\ntls-replication yes\nsentinel resolve-hostnames yes\n"
            "sentinel announce-hostnames yes\nsentinel monitor orders localhost %d 1\n"
            "sentinel auth-pass orders hunt3r\n",
            sentinel.port, sentinel.folder, cert, key, ca, secure.port);
    fclose(file);
    chmod(path, 0666); // NOLINT(cert-err33-c): it rewrites it, as nobody
    const char *const argv[] = {"redis-server", path, "--sentinel", NULL};
    memcpy(sentinel.argv, argv, sizeof argv);
    assert_true(server_start(&sentinel));
    snprintf(url, sizeof url, "rediss+sentinel://:hunt3r@localhost:%d/orders?ca=%s", sentinel.port, ca);
    open_at(&a, url);
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);
    server_fini(&sentinel);
}

/* --- replicas ------------------------------------------------------------------------------------------- */

/* Ask until the replica confirms it. The server waits for 50 ms, and a busy machine may take longer. */
static simba_reply ask_until_confirmed(simba_op op, uint64_t token)
{
    testhost_request r;
    int i = 0;
    do {
        a.warnings = 0;
        r = testhost_request_of(&a, op, "orders", "me", 1, token);
        testhost_ask(&a, &r);
    } while (r.request.reply.status < 0 && strstr(r.error.text, "replicas") && ++i < 200);
    if (r.request.reply.status < 0)
        fail_msg("%s", r.error.text);
    return r.request.reply;
}

/* A grant or renewal counts once a replica has it. The contender of a grant that none has asks again, or gives it back. */
static void about_replicas(void **state)
{
    char url[96];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?replicas=1", redis.port);
    open_at(&a, url);
    simba_error error = refused(&a, SIMBA_OP_ACQUIRE, "orders");
    assert_int_equal(error.code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(error.text, "0 of 1 replicas"));
    assert_string_equal(say("EXISTS simba:{orders}"), "1");
    const uint64_t token = strtoull(say("HGET simba:{orders}:grant token"), NULL, 10);

    assert_true(server_start_redis(&replica, (const char *const[]){"--replicaof", "127.0.0.1", redis.port_text, NULL}));
    for (int i = 0; i < 1000 && !strstr(say("INFO replication"), "state=online"); i++)
        usleep(10000);
    const simba_reply won = ask_until_confirmed(SIMBA_OP_ACQUIRE, 0);
    assert_mine(won);
    assert_int_equal(won.owner.token, token); /* the same grant, confirmed later */
    assert_mine(ask_until_confirmed(SIMBA_OP_RENEW, won.owner.token));

    server_signal(&replica, SIGSTOP);
    testhost_request renew = testhost_request_of(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token);
    renew.request.deadline.ns = simba__clock_boot().ns + 400 * SIMBA__NS_PER_MS;
    testhost_ask(&a, &renew);
    assert_int_equal(renew.error.code, SIMBA_EUNAVAILABLE);
    assert_string_equal(say("GET simba:{orders}"), "me"); /* there is time to try again */
    /* While a grant waits for the replica, others wait for a moment. */
    testhost_request slow = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "invoices", "me", 1, 0);
    testhost_submit(&a, &slow);
    testhost_flush(&a);
    for (int i = 0; i < 3; i++)
        ask(&a, SIMBA_OP_READ, "orders", NULL, 0, 0);
    assert_true(slow.done);
    assert_int_equal(slow.error.code, SIMBA_EUNAVAILABLE);
    server_signal(&replica, SIGCONT);
    for (int i = 0; i < 2; i++)
        assert_mine(ask_until_confirmed(SIMBA_OP_RENEW, won.owner.token));
    assert_int_equal(a.warnings, 0); /* that it is over is good news */
    assert_non_null(strstr(a.log, "confirm grants again"));
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_verification),
        cmocka_unit_test(client_certificate),
        cmocka_unit_test(mixed_up),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(tls_cluster),
        cmocka_unit_test(tls_sentinel),
        cmocka_unit_test_setup(about_replicas, setup),
    };
    if (!server_has("redis-server") || !server_has("openssl")) {
        puts("1..0 # SKIP redis-server or openssl is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, tls_setup, tls_teardown);
}
