/* Where the command gets its store from: the configuration file, and passwords. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

/* How passwords get into URLs is looked at directly; test_secret.c has a server that wants one. */
#include "../../cli/json.c"    /* NOLINT(bugprone-suspicious-include) */
#include "../../cli/log.c"     /* NOLINT(bugprone-suspicious-include) */
#include "../../cli/refusal.c" /* NOLINT(bugprone-suspicious-include) */
#include "../../cli/secret.c"  /* NOLINT(bugprone-suspicious-include) */
#include "../../cli/shown.c"   /* NOLINT(bugprone-suspicious-include) */

static char file[400];

/* Write the configuration file of this test, with the path of its store for %s. */
static void configure(const char *text)
{
    char made[2000];
    snprintf(file, sizeof file, "%s", in_dir("simba.conf"));
    snprintf(made, sizeof made, text, in_dir("configured.db"));
    write_file(file, made);
    unsetenv("SIMBA_URL");
}

/* A file that is named. */
static void config_names_the_store(void **state)
{
    configure("# the store of this host\n\nsimba.enabled = true\nsimba.sqlite.url: sqlite://%s\n"
              "simba.redis.enabled=false\nsimba.redis.url=redis://nowhere\n"
              "simba.sqlite.ttl=1s\nsimba.sqlite.transition = 1s\n");
    assert_int_equal(RUN("--config", file, "run", "m", "--", "true"), 0);
    assert_int_equal(access(in_dir("configured.db"), F_OK), 0);
    assert_int_equal(RUN("--config", file, "run", "--grace", "1m", "m", "--", "true"), 64);
    assert_non_null(strstr(err_of(&last), "a ttl of 1000 ms"));
    assert_int_equal(RUN("list", "--config", file), 0);
    assert_non_null(strstr(out_of(&last), "\nm "));
}

/* The user's own file is found by itself, but what names a store outright comes first. */
static void config_is_found(void **state)
{
    char dir[400];
    configure("");
    snprintf(dir, sizeof dir, "%s", in_dir("home"));
    setenv("XDG_CONFIG_HOME", dir, 1);
    assert_int_equal(system("mkdir -p \"$XDG_CONFIG_HOME/simba\""), 0); /* NOLINT(cert-env33-c) */
    snprintf(file, sizeof file, "%s/simba/simba.conf", dir);
    char text[600];
    snprintf(text, sizeof text, "simba.sqlite.url = sqlite://%s\n", in_dir("configured.db"));
    write_file(file, text);
    assert_int_equal(RUN("run", "m", "--", "true"), 0);
    assert_int_equal(access(in_dir("configured.db"), F_OK), 0);
    write_file(file, "nonsense\n");
    assert_int_equal(RUN("list"), 78);
    setenv("SIMBA_URL", "memory://x", 1);
    assert_int_equal(RUN("list"), 0);
    unsetenv("SIMBA_URL");
    assert_int_equal(RUN("list", "--url", "memory://x"), 0);
    unsetenv("XDG_CONFIG_HOME");
}

/* Whatever does not fit is an error that names the line. */
static void config_mistakes_are_named(void **state)
{
    const struct {
        const char *text;
        const char *complaint;
    } cases[] = {
        {"\nsimba.redis.tll = 5s\n", "simba.conf:2: there is no key \"simba.redis.tll\""},
        {"simba.sqlite.url=sqlite://%s\nsimba.sqlite.url=x\n", "simba.conf:2: simba.sqlite.url was already given"},
        {"simba.sqlite.url=sqlite://%s\nsimba.redis.url=redis://x\n", "simba.conf:2: there are two stores"},
        {"simba.enabled=false\n", "simba.conf:1: simba.enabled is false"},
        {"simba.enabled=maybe\n", "simba.conf:1: \"maybe\""},
        {"simba.redis.url = mysql://host/db\n", "simba.conf:1: simba.redis.url is not a URL of that store (redis://"},
        {"simba.redis.url = redisx+sentinel://host\n", "simba.conf:1: simba.redis.url is not a URL of that store"},
        {"simba.redis.url =\n", "simba.conf:1: simba.redis.url is empty"},
        {"simba.sqlite.url=sqlite://%s\nsimba.sqlite.ttl=5\n", "simba.conf:2: \"5\" is not a duration"},
        {"simba.sqlite.ttl=5s\n", "simba.conf:1: simba.sqlite.ttl has no use"},
        {"hello\n", "simba.conf:1: this is neither"},
        {"simba.sqlite.url=sqlite://%s\nsimba.sqlite.password-file=/no/such\n",
         "simba.conf:2: /no/such cannot be read"},
        {"simba.sqlite.url=sqlite://%s\nsimba.sqlite.password-env=NO_SUCH\n", "simba.conf:2: the environment"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        configure(cases[i].text);
        assert_int_equal(RUN("--config", file, "list"), 78);
        if (strstr(err_of(&last), cases[i].complaint) == NULL)
            fail_msg("%s: %s", cases[i].complaint, err_of(&last));
    }
    assert_int_equal(RUN("--config", "/no/such/file", "list"), 78);
    assert_int_equal(RUN("--config", "/", "list"), 78);
    assert_non_null(strstr(err_of(&last), "/ cannot be read"));
    assert_int_equal(RUN("--config", file, "version"), 64);
}

/* A password from elsewhere goes where a URL has room for one, and nowhere else. */
static void passwords_go_into_urls(void **state)
{
    const struct {
        const char *url;
        const char *made;
    } cases[] = {
        {"redis://host:6379/1", "redis://:p%40%2F%25@host:6379/1"},
        {"redis://me@host/1?ttl=5s", "redis://me:p%40%2F%25@host/1?ttl=5s"},
        {"redis://me:own@host", "redis://me:own@host"},
        {"sqlite:///a@b/c", "sqlite:///a@b/c"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *made = secret_into_url(cases[i].url, "p@/%");
        assert_string_equal(made, cases[i].made);
        free(made);
    }
    struct {
        char url[40];
        const char *shown;
    } hidden[] = {
        {"redis://me:own@host/1", "redis://me:***@host/1"},
        {"redis://:a/b?c@host/1", "redis://:*****@host/1"},
        {"redis//me:own@host/1", "redis//me:***@host/1"},
        {"sqlite:///a:b/c", "sqlite:///a:b/c"},
    };
    for (size_t i = 0; i < COUNT_OF(hidden); i++) {
        secret_hide(hidden[i].url);
        assert_string_equal(hidden[i].url, hidden[i].shown);
    }

    struct {
        char url[40];
        const char *left;
    } stripped[] = {
        {"redis://me:own@host/1", "redis://me@host/1"}, {"redis://:own@host/1?ttl=1s", "redis://host/1?ttl=1s"},
        {"redis://:a/b?c@host/1", "redis://host/1"},    {"redis://me@[::1]:1", "redis://me@[::1]:1"},
        {"sqlite:///a:b/c", "sqlite:///a:b/c"},
    };
    for (size_t i = 0; i < COUNT_OF(stripped); i++) {
        secret_strip(stripped[i].url);
        assert_string_equal(stripped[i].url, stripped[i].left);
    }

    const char *secret = NULL;
    const char *path = NULL;
    write_file(in_dir("password"), "hush\nmore\n");
    setenv("SIMBA_PASSWORD_FILE", in_dir("password"), 1);
    assert_int_equal(secret_from_environment("list", &secret, &path), 0);
    assert_string_equal(secret, "hush");
    setenv("SIMBA_PASSWORD", "direct", 1);
    assert_int_equal(secret_from_environment("list", &secret, &path), 0);
    assert_string_equal(secret, "direct");
    unsetenv("SIMBA_PASSWORD");
    setenv("SIMBA_PASSWORD_FILE", "/no/such", 1);
    assert_int_equal(RUN("list"), 78);
    unsetenv("SIMBA_PASSWORD_FILE");
}

/* Every scheme of a store is one of its own. */
static void schemes_of_a_store(void **state)
{
    const char *const lines[] = {"simba.redis.url = rediss+sentinel://127.0.0.1:1/m",
                                 "simba.mysql.url = mariadb://127.0.0.1:1/db",
                                 "simba.jdbc.url = mysql://127.0.0.1:1/db"};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        configure(lines[i]);
        RUN("--config", file, "run", "--no-wait", "m", "--", "true");
        assert_null(strstr(err_of(&last), "not a URL of that store"));
    }
}

/* A file that everybody can read is no place for a password, and that is said; without one nothing is. */
static void exposed_passwords_are_said(void **state)
{
    configure("simba.sqlite.url = sqlite://%s\n");
    chmod(file, 0644);
    assert_int_equal(RUN("--config", file, "init"), 0);
    assert_int_equal(RUN("--config", file, "list"), 0);
    assert_string_equal(err_of(&last), "");
    configure("simba.redis.url = redis://:hush@127.0.0.1:1\n");
    for (int exposed = 0; exposed < 2; exposed++) {
        chmod(file, exposed ? 0644 : 0640);
        RUN("--config", file, "list");
        assert_int_equal(exposed, strstr(err_of(&last), "simba.conf:1: everybody can read this password") != NULL);
        assert_null(strstr(err_of(&last), "hush"));
    }
    setenv("SIMBA_URL", "redis://127.0.0.1:1", 1);
    setenv("SIMBA_PASSWORD_FILE", in_dir("password"), 1);
    write_file(in_dir("password"), "hush\n");
    for (int exposed = 0; exposed < 2; exposed++) {
        chmod(in_dir("password"), exposed ? 0604 : 0640);
        RUN("list");
        assert_int_equal(exposed, strstr(err_of(&last), "everybody can read the password in") != NULL);
    }
    unsetenv("SIMBA_PASSWORD_FILE");
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(config_names_the_store), TEST(config_is_found),    TEST(config_mistakes_are_named),
        TEST(passwords_go_into_urls), TEST(schemes_of_a_store), TEST(exposed_passwords_are_said),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
