/* ZooKeeper by TLS: a server with a secureClientPort, which wants a certificate from its clients. The whole kit runs there too; here is
 * who is refused, and what is said about it. */
#include <simba.h>
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"
#include "lib/referee.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

static server zookeeper;

static int try_by(const char *host, const char *files, simba_error *err)
{
    char url[512];
    simba_client *client = NULL;
    simba_locker *locker = NULL;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.op_timeout_ms = (int64_t)ref_scaled_ms(4000);
    snprintf(url, sizeof url, "%s:%d/tls?%s", host, zookeeper.port, files);
    int rc = simba_client_open(url, &options, err, &client);
    if (rc < 0)
        return rc;
    assert_int_equal(simba_locker_new(client, "m", NULL, NULL, &locker), 0);
    rc = simba_locker_acquire(locker, ref_scaled_ms(4000), err);
    if (rc == 0)
        assert_int_equal(simba_locker_release(locker, err), 0);
    simba_locker_free(locker);
    simba_client_close(client);
    return rc;
}

/* The certificate of the server has to be for the name in the URL, not for its address; and both sides want one. */
static void who_is_let_in(void **state)
{
    char all[384];
    char none[128];
    char unverified[384];
    simba_error err = {0};
    const char *folder = zookeeper.folder;
    snprintf(all, sizeof all, "ca=%s/ca.pem&cert=%s/cert.pem&key=%s/key.pem", folder, folder, folder);
    snprintf(unverified, sizeof unverified, "verify=no&cert=%s/cert.pem&key=%s/key.pem", folder, folder);
    snprintf(none, sizeof none, "ca=%s/ca.pem", folder);
    if (try_by("zookeepers://localhost", all, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(try_by("zookeepers://localhost", all + strcspn(all, "&") + 1, &err), SIMBA_EPERM);
    assert_int_equal(try_by("zookeepers://127.0.0.1", all, &err), SIMBA_EPERM);
    assert_non_null(strstr(err.text, "TLS"));
    assert_int_equal(try_by("zookeepers://127.0.0.1", unverified, &err), 0);
    assert_int_equal(try_by("zookeepers://localhost", none, &err), SIMBA_EUNAVAILABLE);
    assert_int_equal(try_by("zookeeper://localhost", "session-timeout=4s", &err), SIMBA_EUNAVAILABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_is_let_in)};
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper_tls);
}
