/* What a PostgreSQL URL means: what libpq is told, what is refused, and what may not be weakened by accident. And what each
 * SQLSTATE means for a request. No server is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cm.h"
#include "stores/postgresql/postgresql.h"

#include "util/url.h"

static simba__pg_options options;
static simba_error err;

static int parse(const char *text)
{
    simba_url *url = NULL;
    memset(&options, 0, sizeof options);
    memset(&err, 0, sizeof err);
    assert_int_equal(simba_url_parse(text, &err, &url), 0);
    const int rc = simba__pg_options_parse(url, &options, &err);
    simba_url_free(url);
    return rc;
}

static void assert_option(const char *keyword, const char *value)
{
    assert_string_equal(simba__pg_option(&options, keyword), value);
}

/* Without a word about it, TLS is verified, a primary is wanted, and nothing asks Kerberos. */
static void about_defaults(void **state)
{
    assert_int_equal(parse("postgresql://me:secret@db.example/jobs"), 0);
    assert_option("sslmode", "verify-full");
    assert_option("require_auth", "");
    assert_option("target_session_attrs", "read-write");
    assert_option("gssencmode", "disable");
    assert_option("client_encoding", "UTF8");
    assert_option("keepalives_idle", "10");
    assert_option("user", "me");
    assert_option("password", "secret");
    assert_option("dbname", "jobs");
    assert_int_equal(options.host_count, 1);
    assert_string_equal(options.hosts[0].host, "db.example");
    assert_int_equal(options.hosts[0].port, 5432);
    assert_string_equal(options.table, "simba_mutex");
    assert_string_equal(options.schema, "");
    assert_string_equal(options.where, "db.example:5432");
    assert_int_equal(options.connect_timeout_ms, 2000);
    simba__pg_options_free(&options);
}

/* What is said counts: sslmode, hosts with their ports, a schema, timeouts in both spellings. */
static void about_said(void **state)
{
    assert_int_equal(parse("postgres://a:1,[::1]:2,c/d?sslmode=prefer&schema=locks&table=mine&create=yes&"
                           "connect-timeout=700ms&target_session_attrs=any&application_name=nightly"),
                     0);
    assert_option("sslmode", "prefer");
    assert_option("require_auth", PQlibVersion() >= 160000 ? "!password" : ""); /* no password in clear */
    assert_option("target_session_attrs", "any");
    assert_option("application_name", "nightly");
    assert_int_equal(options.host_count, 3);
    assert_string_equal(options.hosts[1].host, "::1");
    assert_int_equal(options.hosts[1].port, 2);
    assert_int_equal(options.hosts[2].port, 5432);
    assert_string_equal(options.where, "a:1,[::1]:2,c:5432");
    assert_string_equal(options.schema, "locks");
    assert_string_equal(options.table, "mine");
    assert_true(options.create);
    assert_int_equal(options.connect_timeout_ms, 700);
    simba__pg_options_free(&options);
    assert_int_equal(parse("postgresql://a/d?connect_timeout=9"), 0);
    assert_int_equal(options.connect_timeout_ms, 9000);
    simba__pg_options_free(&options);
}

/* A unix socket: by the setting host, by the authority, or where libpq looks when nobody is named. */
static void about_sockets(void **state)
{
    assert_int_equal(parse("postgresql:///jobs?host=/run/pg&port=6000"), 0);
    assert_string_equal(options.hosts[0].host, "/run/pg");
    assert_int_equal(options.hosts[0].port, 6000);
    simba__pg_options_free(&options);
    assert_int_equal(parse("postgresql://%2Frun%2Fpg/jobs"), 0);
    assert_string_equal(options.hosts[0].host, "/run/pg");
    simba__pg_options_free(&options);
    assert_int_equal(parse("postgresql:///jobs"), 0);
    assert_int_equal(options.hosts[0].host[0], '/');
    simba__pg_options_free(&options);
}

/* The service file fills in what the URL leaves out; "prefer" in it does not weaken TLS, "require" does. */
static void service_file(void **state)
{
    char path[] = "/tmp/simba-service-XXXXXX";
    char url[256];
    const int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    fputs("[jobs]\nhost=h1,h2\nport=7000\ndbname=locks\nuser=batch\nsslmode=prefer\n[weak]\nhost=h\nsslmode=require\n",
          file);
    fclose(file);
    setenv("PGSERVICEFILE", path, 1);
    assert_int_equal(parse("postgresql:///?service=jobs"), 0);
    assert_int_equal(options.host_count, 2);
    assert_string_equal(options.hosts[1].host, "h2");
    assert_int_equal(options.hosts[1].port, 7000);
    assert_option("dbname", "locks");
    assert_option("user", "batch");
    assert_option("sslmode", "verify-full");
    simba__pg_options_free(&options);
    assert_int_equal(parse("postgresql://other/?service=weak"), 0);
    assert_string_equal(options.hosts[0].host, "other");
    assert_option("sslmode", "require");
    simba__pg_options_free(&options);
    snprintf(url, sizeof url, "postgresql:///?service=none");
    assert_int_equal(parse(url), SIMBA_EURL);
    assert_non_null(strstr(err.text, "none"));
    simba__pg_options_free(&options);
    unsetenv("PGSERVICEFILE");
    unlink(path);
}

/* What makes no sense is refused with a sentence that names it. */
static void about_refused(void **state)
{
    static const char *const bad[][2] = {
        {"postgresql://a/d?sslmode=maybe", "sslmode"},
        {"postgresql://a/d?target_session_attrs=standby", "target_session_attrs"},
        {"postgresql://a/d?table=x;drop", "table"},
        {"postgresql://a/d?schema=\"s\"", "schema"},
        {"postgresql://a/d?create=perhaps", "create"},
        {"postgresql://a/d?connect-timeout=0", "connect-timeout"},
        {"postgresql://a/d?host=b", "twice"},
        {"postgresql:///d?host=a,b&port=1,2", "port"},
        {"postgresql://a:99999/d", "port"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(bad[i][0]), SIMBA_EURL);
        if (!strstr(err.text, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], err.text);
        simba__pg_options_free(&options);
    }
}

/* Settings that would show a secret, or that are ours to choose, are no settings of a URL. */
static void about_keys(void **state)
{
    static const char *const none[] = {"password", "sslpassword", "client_encoding", "hostaddr", "dbname", "user"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        for (const char *const *key = simba__pg_keys; *key; key++)
            assert_string_not_equal(*key, none[i]);
}

/* Every class of the table at the top of errors.c. */
static void about_errors(void **state)
{
    static const struct {
        const char *sqlstate;
        int code;
        simba__sql_effect effect;
    } known[] = {
        {"08006", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY},  {"08P01", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY},
        {"0A000", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY},  {"22003", SIMBA_ESTORE, SIMBA__SQL_ALONE},
        {"23505", SIMBA_ESTORE, SIMBA__SQL_ALONE},       {"25006", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY},
        {"25P03", SIMBA_EUNAVAILABLE, SIMBA__SQL_LOST},  {"28P01", SIMBA_EPERM, SIMBA__SQL_AWAY},
        {"28000", SIMBA_EPERM, SIMBA__SQL_AWAY},         {"3D000", SIMBA_ESTORE, SIMBA__SQL_AWAY},
        {"3F000", SIMBA_ESTORE, SIMBA__SQL_AWAY},        {"40001", SIMBA_ETIMEDOUT, SIMBA__SQL_AGAIN},
        {"40P01", SIMBA_ETIMEDOUT, SIMBA__SQL_AGAIN},    {"40003", SIMBA_EUNAVAILABLE, SIMBA__SQL_TELL},
        {"42501", SIMBA_EPERM, SIMBA__SQL_TELL},         {"42P01", SIMBA_ESTORE, SIMBA__SQL_AWAY},
        {"42703", SIMBA_ESTORE, SIMBA__SQL_AWAY},        {"53100", SIMBA_EUNAVAILABLE, SIMBA__SQL_ALONE},
        {"53200", SIMBA_EUNAVAILABLE, SIMBA__SQL_ALONE}, {"53300", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY},
        {"54000", SIMBA_ESTORE, SIMBA__SQL_ALONE},       {"55P03", SIMBA_ETIMEDOUT, SIMBA__SQL_AGAIN},
        {"57014", SIMBA_EUNAVAILABLE, SIMBA__SQL_TELL},  {"57P01", SIMBA_EUNAVAILABLE, SIMBA__SQL_LOST},
        {"57P02", SIMBA_EUNAVAILABLE, SIMBA__SQL_LOST},  {"57P03", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY},
        {"57P05", SIMBA_EUNAVAILABLE, SIMBA__SQL_LOST},  {"58030", SIMBA_EUNAVAILABLE, SIMBA__SQL_ALONE},
        {"XX001", SIMBA_ECORRUPT, SIMBA__SQL_ALONE},     {"XX000", SIMBA_ESTORE, SIMBA__SQL_TELL},
        {"42601", SIMBA_ESTORE, SIMBA__SQL_TELL},        {"", SIMBA_ESTORE, SIMBA__SQL_TELL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        simba__sql_effect effect;
        if (simba__pg_error_code(known[i].sqlstate, &effect) != known[i].code || effect != known[i].effect)
            fail_msg("%s", known[i].sqlstate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_defaults), cmocka_unit_test(about_said),    cmocka_unit_test(about_sockets),
        cmocka_unit_test(service_file),   cmocka_unit_test(about_refused), cmocka_unit_test(about_keys),
        cmocka_unit_test(about_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
