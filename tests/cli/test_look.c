/* Looking at a store and meddling with it: `simba list`, `simba watch`, `simba release`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "support.h"

static process hold(const char *id, const char *mutex)
{
    char name[64];
    snprintf(name, sizeof name, "held-%s", id);
    process p = START("--id", id, "run", mutex, "--", "sh", "-c", "echo > \"$0\"; cat", in_dir(name));
    await_file(in_dir(name));
    return p;
}

/* One line for each, free ones too, and nothing for a pattern that fits none. */
static void list_shows_owners(void **state)
{
    assert_int_equal(RUN("list"), 0);
    assert_string_equal(out_of(&last), "");
    process one = hold("first-one", "orders");
    process two = hold("the \"second\"", "reports");
    assert_int_equal(RUN("list"), 0);
    assert_non_null(strstr(out_of(&last), "MUTEX"));
    assert_non_null(strstr(out_of(&last), "first-one"));
    assert_null(strstr(out_of(&last), "\033["));
    assert_int_equal(RUN("list", "ord*", "--json"), 0);
    assert_memory_equal(out_of(&last), "[{\"mutex\":\"orders\",\"owner\":\"first-one\",\"token\":\"1", 47);
    assert_null(strstr(out_of(&last), "reports"));
    assert_int_equal(RUN("list", "reports", "--json"), 0);
    assert_non_null(strstr(out_of(&last), "\"the \\\"second\\\"\""));
    assert_int_equal(finish(&one), 0);
    assert_int_equal(finish(&two), 0);
    assert_int_equal(RUN("list", "orders", "--json"), 0);
    assert_non_null(strstr(out_of(&last), "\"owner\":null"));
    assert_non_null(strstr(out_of(&last), "\"waiters\":0,\"next\":null,\"note\":null}"));
    assert_int_equal(RUN("list", "nothing*", "--json"), 0);
    assert_string_equal(out_of(&last), "[]\n");
}

/* On a terminal there is a bar, and with NO_COLOR it has no colours. */
static void list_draws_bars_on_a_terminal(void **state)
{
    process one = hold("first-one", "orders");
    setenv("NO_COLOR", "1", 1);
    setenv("LC_ALL", "C", 1);
    terminal t = start_on_terminal_of(100, (const char *const[]){"list", NULL});
    unsetenv("NO_COLOR");
    unsetenv("LC_ALL");
    assert_int_equal(finish_terminal(&t), 0);
    assert_non_null(strstr(t.text, "==="));
    assert_null(strchr(t.text, '\033'));
    assert_int_equal(finish(&one), 0);
}

/* The bar and the note get what the other columns leave, or nothing. */
static void list_fits_its_terminal(void **state)
{
    static const unsigned widths[] = {68, 77, 100, 200};
    char note[301];
    memset(note, 'n', sizeof note - 1);
    note[sizeof note - 1] = '\0';
    assert_int_equal(RUN("note", "set", "orders", note), 0);
    process one = hold("first-one", "orders");
    for (size_t i = 0; i < COUNT_OF(widths); i++) {
        setenv("NO_COLOR", "1", 1);
        setenv("LC_ALL", "C", 1);
        terminal t = start_on_terminal_of(widths[i], (const char *const[]){"list", NULL});
        unsetenv("NO_COLOR");
        unsetenv("LC_ALL");
        assert_int_equal(finish_terminal(&t), 0);
        const char *row = strstr(t.text, "orders");
        assert_non_null(row);
        assert_in_range(strcspn(row, "\r\n"), 60, widths[i]);
    }
    assert_int_equal(finish(&one), 0);
}

/* Changes come as they happen, beginning with what is; a signal ends it. */
static void watch_tells_changes(void **state)
{
    process watcher = START("watch", "--json", "orders", "reports");
    await_text_in(watcher.out_path, "\"mutex\":\"orders\",\"before\":null,\"owner\":null");
    await_text_in(watcher.out_path, "\"mutex\":\"reports\"");
    process one = hold("first-one", "orders");
    await_text_in(watcher.out_path, "\"mutex\":\"orders\",\"before\":null,\"owner\":\"first-one\",\"token\":\"1");
    assert_int_equal(finish(&one), 0);
    await_text_in(watcher.out_path, "\"mutex\":\"orders\",\"before\":\"first-one\",\"owner\":null");
    kill(watcher.pid, SIGINT);
    assert_int_equal(finish(&watcher), 128 + SIGINT);

    process plain = START("watch", "orders");
    await_text_in(plain.out_path, "orders  free\n");
    kill(plain.pid, SIGTERM);
    assert_int_equal(finish(&plain), 128 + SIGTERM);
}

/* By force, with a yes or with --yes; the holder learns why. */
static void release_takes_it_away(void **state)
{
    assert_int_equal(RUN("release", "orders"), 64);
    assert_int_equal(RUN("release", "--force", "orders"), 64); /* nobody to ask */
    assert_non_null(strstr(err_of(&last), "--yes"));
    assert_int_equal(RUN("release", "--force", "--yes", "orders"), 1);
    process one = START("run", "orders", "--", "sh", "-c", "echo > \"$0\"; exec sleep 1000", in_dir("held"));
    await_file(in_dir("held"));
    assert_int_equal(RUN("release", "--force", "--yes", "orders"), 0);
    assert_int_equal(finish(&one), 79);
    assert_non_null(strstr(err_of(&one), "revoked"));
}

/* Asked at a terminal, anything but a yes leaves all as it is. */
static void release_asks(void **state)
{
    process one = hold("first-one", "orders");
    terminal t = START_ON_TERMINAL("release", "--force", "orders");
    await_shown(&t, "first-one?");
    assert_int_equal(write(t.fd, "n\n", 2), 2);
    assert_int_equal(finish_terminal(&t), 1);
    assert_int_equal(finish(&one), 0);
}

/* Whoever only looks makes no store: an empty one would hide that its path is mistyped. */
static void looking_makes_no_store(void **state)
{
    char url[500];
    snprintf(url, sizeof url, "sqlite://%s?ttl=1s", in_dir("stoer.db"));
    const char *const commands[][5] = {
        {"list"},
        {"watch", "m"},
        {"serve", "--listen", "0"},
        {"note", "get", "m"},
        {"schedule", "--list"},
        {"forget", "m"},
        {"release", "--force", "--yes", "m"},
    };
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        const char *const *c = commands[i];
        assert_int_equal(RUN("--url", url, c[0], c[1], c[2], c[3]), 78);
        assert_non_null(strstr(err_of(&last), "there is no database"));
        assert_non_null(strstr(err_of(&last), "stoer.db; correct the URL, or make it by `simba init`."));
        assert_int_equal(access(in_dir("stoer.db"), F_OK), -1);
        assert_int_equal(access(in_dir("stoer.db-wake"), F_OK), -1);
    }
    assert_int_equal(RUN("--url", url, "note", "set", "m", "text"), 0);
    assert_int_equal(RUN("--url", url, "list"), 0);
    assert_non_null(strstr(out_of(&last), "text"));
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(looking_makes_no_store),
        TEST_WITH_STORE(list_shows_owners),
        TEST_WITH_STORE(list_draws_bars_on_a_terminal),
        TEST_WITH_STORE(list_fits_its_terminal),
        TEST_WITH_STORE(watch_tells_changes),
        TEST_WITH_STORE(release_takes_it_away),
        TEST_WITH_STORE(release_asks),
    };
    return cmocka_run_group_tests_name("look", tests, NULL, NULL);
}
