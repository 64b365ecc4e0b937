/* How the PostgreSQL store gets to its server: users, passwords, TLS, and several hosts. */
#include "backends/test_postgresql.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of one line in the server's folder. */
static const char *write_file(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
static const char *write_file(const char *name, const char *format, ...)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", postgresql.folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    va_list args;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    fclose(file);
    return path;
}

static void set_logins(const char *of_keeper)
{
    const char *path =
        write_file("data/pg_hba.conf", "host all keeper 127.0.0.1/32 %s\nhost all all 127.0.0.1/32 trust\n", of_keeper);
    if (geteuid() == 0)
        assert_int_equal(chmod(path, 0644), 0); /* the server runs as another user */
    say("select pg_reload_conf()");
}

/* The password may stand in libpq's password file. A wrong one is told as such, and so is a missing one; no password is told. */
static void password_file(void **state)
{
    static const char *const words[] = {"a-secret-word", "a-secret-mistake", NULL};
    static const char *const said[] = {"", "28P01", "the server wants a password, and the URL has none"};
    say("create role keeper login password 'a-secret-word'");
    say("grant create on schema public to keeper");
    set_logins("scram-sha-256");
    for (int i = 0; i < 3; i++) {
        char url[320];
        const char *path = words[i]
                               ? write_file("passwords", "127.0.0.1:%d:simba:keeper:%s\n", postgresql.port, words[i])
                               : write_file("passwords", "\n");
        snprintf(url, sizeof url, "postgresql://keeper@127.0.0.1:%d/simba?sslmode=disable&create=yes&passfile=%s",
                 postgresql.port, path);
        open_at(&a, url);
        testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
        testhost_ask(&a, &r);
        assert_int_equal(r.request.reply.status, i == 0 ? 0 : SIMBA_EPERM);
        assert_in(i == 0 ? "" : r.error.text, said[i]);
        assert_null(strstr(r.error.text, "secret"));
        testhost_close(&a);
    }
    set_logins("trust");
    say("drop owned by keeper");
    say("drop role keeper");
}

/* Of several hosts, one that is away may be the one that speaks TLS: that is worth waiting for. */
static void no_tls_at_one_of_them(void **state)
{
    char url[200];
    server closed;
    server_init(&closed);
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d,127.0.0.1:%d/simba?sslmode=require", closed.port,
             postgresql.port);
    open_at(&a, url);
    assert_int_equal(refused(&a, SIMBA_OP_ACQUIRE, "orders", "me").code, SIMBA_EUNAVAILABLE);
    testhost_close(&a);
    server_fini(&closed);
}

/* Of several hosts the one that answers is taken, in time: one refuses, one has no such name. */
static void several_hosts(void **state)
{
    char url[200];
    server closed;
    server_init(&closed);
    snprintf(
        url, sizeof url,
        "postgresql://postgres@127.0.0.1:%d,no-such-host.invalid:5432,localhost:%d/simba?sslmode=disable&create=yes",
        closed.port, postgresql.port);
    open_at(&a, url);
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);
    server_fini(&closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(password_file, setup),
        cmocka_unit_test_setup(no_tls_at_one_of_them, setup),
        cmocka_unit_test_setup(several_hosts, setup),
    };
    return RUN_POSTGRESQL_TESTS(tests);
}
