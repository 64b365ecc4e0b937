/* What MariaDB refuses and waiting does not mend ends every command that has had no answer yet. */
#include <stdio.h>

#include "lib/server.h"
#include "support.h"

static server mariadb;

static const char *url_of(const char *login, const char *rest)
{
    static char url[160];
    snprintf(url, sizeof url, "mysql://%s@127.0.0.1:%d/%s", login, mariadb.port, rest);
    return url;
}

static void a_refused_login(void **state)
{
    (void)state;
    assert_all_refused(url_of("nobody", "simba"), 77, "(1045). Check the user, the password and ");
}

static void no_tls(void **state)
{
    (void)state;
    assert_all_refused(url_of("root", "simba?tls=yes"), 78, "give it TLS, or take that out of the URL");
}

static void no_database(void **state)
{
    (void)state;
    assert_all_refused(url_of("root", "none"), 78, "create it, or correct the URL.");
}

static void no_table(void **state)
{
    (void)state;
    assert_all_refused(url_of("root", "simba"), 78, "run `simba init`");
}

static int start_server(void **state)
{
    (void)state;
    server_init(&mariadb);
    return server_start_mariadb(&mariadb, NULL) ? 0 : -1;
}

static int stop_server(void **state)
{
    (void)state;
    server_fini(&mariadb);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(a_refused_login), TEST(no_tls), TEST(no_database), TEST(no_table)};
    helper_main(argc, argv);
    if (!server_has("mariadbd")) {
        puts("1..0 # SKIP MariaDB is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
