/* What PostgreSQL refuses and waiting does not mend ends every command that has had no answer yet. */
#include <stdio.h>

#include "lib/server.h"
#include "support.h"

static server postgresql;

static const char *url_of(const char *login, const char *rest)
{
    static char url[160];
    snprintf(url, sizeof url, "postgresql://%s@127.0.0.1:%d/%s", login, postgresql.port, rest);
    return url;
}

static void a_refused_login(void **state)
{
    (void)state;
    assert_all_refused(url_of("nobody", "simba?sslmode=disable"), 77,
                       "role \"nobody\" does not exist (28000). Check the user, ");
}

static void no_tls(void **state)
{
    (void)state;
    assert_all_refused(url_of("postgres", "simba"), 78, "add ?sslmode=disable to the URL if nobody can listen");
}

/* The default is to verify the server's certificate, and nobody has named an authority. */
static void no_authority(void **state)
{
    server secure;
    char url[96];
    (void)state;
    server_init(&secure);
    assert_true(server_start_postgresql_tls(&secure));
    snprintf(url, sizeof url, "postgresql://postgres@localhost:%d/simba", secure.port);
    assert_all_refused(url, 77, ". Does the URL name the certificates to trust");
    server_fini(&secure);
}

static void no_database(void **state)
{
    (void)state;
    assert_all_refused(url_of("postgres", "none?sslmode=disable"), 78, "create it, or correct the URL.");
}

static void no_table(void **state)
{
    (void)state;
    assert_all_refused(url_of("postgres", "simba?sslmode=disable"), 78, "run `simba init`");
}

static int start_server(void **state)
{
    (void)state;
    server_init(&postgresql);
    return server_start_postgresql(&postgresql, NULL) ? 0 : -1;
}

static int stop_server(void **state)
{
    (void)state;
    server_fini(&postgresql);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(a_refused_login), TEST(no_tls), TEST(no_authority), TEST(no_database),
                                       TEST(no_table)};
    helper_main(argc, argv);
    if (!server_has("psql")) {
        puts("1..0 # SKIP PostgreSQL is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
