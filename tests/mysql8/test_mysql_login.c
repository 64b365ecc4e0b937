/* Logging in to Oracle's MySQL 8, whose accounts are of the kind caching_sha2_password unless somebody says otherwise: with TLS,
 * with the server's public key, through the socket file, and not without one of them. */
#include <stdio.h>
#include <string.h>

#include "backends/asking.h"
#include "lib/server.h"
#include "stores/mysql/mysql.h"
#include <mysql.h>

static server mysql8;
static testhost h;

static simba_error log_in(const char *user, const char *place, const char *options)
{
    char url[512];
    simba_error err = {0};
    snprintf(url, sizeof url, "mysql://%s@%s/simba?create=yes%s", user, place, options);
    if (testhost_open(&h, &simba__backend_mysql, url, &err) < 0)
        fail_msg("%s", err.text);
    testhost_request r = testhost_request_of(&h, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    testhost_ask(&h, &r);
    if (r.request.reply.status == 0)
        assert_mine(r.request.reply);
    testhost_close(&h);
    return r.error;
}

static const char *by_tcp(void)
{
    static char place[32];
    snprintf(place, sizeof place, "localhost:%d", mysql8.port);
    return place;
}

static void assert_in_by(const char *user, const char *place, const char *format)
{
    char options[256];
    snprintf(options, sizeof options, format, mysql8.folder); // NOLINT(clang-diagnostic-format-nonliteral)
    const simba_error error = log_in(user, place, options);
    if (error.code != 0)
        fail_msg("%s%s: %s", place, options, error.text);
}

/* Without TLS the password might go to anybody: it does not go out. */
static void sha2_in_clear(void **state)
{
    const simba_error error = log_in("sha2:a-secret-word", by_tcp(), "");
    assert_int_equal(error.code, SIMBA_EPERM);
    assert_non_null(strstr(error.text, "tls=yes"));
    assert_null(strstr(error.text, "a-secret-word"));
}

/* An older client library would ask the server for a key all the same, and is not used with one. */
static bool keys_are_used(void)
{
    return mysql_get_client_version() >= 30320;
}

/* The first time the server wants the password itself, after that it knows it: both ways, by each of the means. */
static void sha2_in_secret(void **state)
{
    for (int i = 0; i < 2; i++) {
        if (keys_are_used())
            assert_in_by("sha2:a-secret-word", by_tcp(), "&server-public-key=%s/data/public_key.pem");
        assert_in_by("sha2:a-secret-word", by_tcp(), "&tls=yes&ca=%s/ca.pem");
        assert_in_by("sha2:a-secret-word", by_tcp(), "&tls=yes&verify=no");
        assert_in_by("sha2:a-secret-word", "", "&socket=%s/my.sock");
    }
}

/* A wrong password is said to be one, by whatever way it came. */
static void wrong_password(void **state)
{
    char options[256];
    snprintf(options, sizeof options, "&server-public-key=%s/data/public_key.pem", mysql8.folder);
    for (int tls = !keys_are_used(); tls < 2; tls++) {
        const simba_error error = log_in("sha2:wrong-word", by_tcp(), tls ? "&tls=yes&verify=no" : options);
        assert_int_equal(error.code, SIMBA_EPERM);
        assert_non_null(strstr(error.text, "denied"));
        assert_null(strstr(error.text, "wrong-word"));
    }
}

/* Who has no password has none to lose; and accounts of the older kind work as they always did. */
static void about_others(void **state)
{
    char place[32];
    snprintf(place, sizeof place, "127.0.0.1:%d", mysql8.port);
    assert_in_by("root", place, "");
    assert_in_by("native:a-secret-word", by_tcp(), "");
}

static int group_setup(void **state)
{
    server_init(&mysql8);
    if (!server_start_mysql8(&mysql8)) {
        server_show_log(&mysql8);
        fail_msg("MySQL 8 does not start");
    }
    return 0;
}

static int group_teardown(void **state)
{
    server_fini(&mysql8);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha2_in_clear),
        cmocka_unit_test(sha2_in_secret),
        cmocka_unit_test(wrong_password),
        cmocka_unit_test(about_others),
    };
    if (!server_has(server_kind_mysql8.program)) {
        puts("1..0 # SKIP MySQL 8 is not to be had; see scripts/mysql8");
        return 0;
    }
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
