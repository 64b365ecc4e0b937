/* What others have left in a store, or in a log, and what the command makes of it: names and ids that would move the
 * cursor of a terminal, bytes that are not UTF-8, and times that no clock has. */
#include <arpa/inet.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.h"

/* ESC and a colour, a line of its own, a byte that is not UTF-8, a CSI in one character, and one that turns the text. */
#define EVIL_HEX                                                                                                       \
    "61"                                                                                                               \
    "1b5b33316d"                                                                                                       \
    "0a"                                                                                                               \
    "ff"                                                                                                               \
    "c29b"                                                                                                             \
    "e280ae"                                                                                                           \
    "7a"
#define EVIL_SHOWN "a\\x1B[31m\\x0A\\xFF\\xC2\\x9B\\xE2\\x80\\xAEz"
#define EVIL_JSON "a\\u001b[31m\\u000a\\ufffd\\u009b\\u202ez"

static int has_plain_bytes_only(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++)
        if ((*c < 0x20 && *c != '\n' && *c != '\r') || *c >= 0x7f)
            return 0;
    return 1;
}

/* Write a row past the library: name and id as hexadecimal digits, the times of the lease, which ends in an hour. */
static void plant(const char *mutex_hex, const char *id_hex, int64_t acquired_at, int64_t ttl_at, int64_t transition_at)
{
    char sql[1024];
    char boot_id[64];
    sqlite3 *db;
    snprintf(boot_id, sizeof boot_id, "%.36s", contents("/proc/sys/kernel/random/boot_id"));
    snprintf(sql, sizeof sql,
             "INSERT INTO simba_lock (mutex, owner_id, acquired_at, ttl_at, transition_at, token, nonce, until_boot_ns,"
             " boot_id) VALUES (CAST(x'%s' AS TEXT), CAST(x'%s' AS TEXT), %lld + %d, %lld, %lld, 7, 7, %lld, '%s')",
             mutex_hex, id_hex, (long long)acquired_at + (acquired_at == INT64_MIN), -(acquired_at == INT64_MIN),
             (long long)ttl_at, (long long)transition_at, (long long)(now_ns() + INT64_C(3600000000000)), boot_id);
    assert_int_equal(RUN("init"), 0);
    assert_int_equal(sqlite3_open(in_dir("store.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void plant_evil(const char *mutex_hex)
{
    plant(mutex_hex, EVIL_HEX, 1700000000000, 1700000100000, 1700000200000);
}

/* On a terminal without colours, so that every escape in what it shows is somebody else's. */
static terminal start_plain(const char *const arguments[])
{
    setenv("NO_COLOR", "1", 1);
    setenv("LC_ALL", "C", 1);
    const terminal t = start_on_terminal_with(arguments);
    unsetenv("NO_COLOR");
    unsetenv("LC_ALL");
    return t;
}

/* A name and an id are shown, and have no effect: in a pipe and on a terminal. */
static void list_escapes_names_and_ids(void **state)
{
    plant_evil(EVIL_HEX);
    assert_int_equal(RUN("list"), 0);
    assert_non_null(strstr(out_of(&last), "\n" EVIL_SHOWN "  " EVIL_SHOWN "  "));
    assert_true(has_plain_bytes_only(out_of(&last)));
    assert_int_equal(lines_in(last.out_path), 2);
    terminal t = start_plain((const char *const[]){"list", NULL});
    assert_int_equal(finish_terminal(&t), 0);
    assert_non_null(strstr(t.text, EVIL_SHOWN));
    assert_true(has_plain_bytes_only(t.text));
}

/* JSON has escapes of its own, keeps what is UTF-8, and is always UTF-8. */
static void json_stays_json(void **state)
{
    plant_evil(EVIL_HEX);
    assert_int_equal(RUN("list", "--json"), 0);
    assert_non_null(strstr(out_of(&last), "{\"mutex\":\"" EVIL_JSON "\",\"owner\":\"" EVIL_JSON "\""));
    assert_true(has_plain_bytes_only(out_of(&last)));
}

static void watch_escapes_ids(void **state)
{
    plant_evil("6d"); /* m */
    process plain = START("watch", "m");
    await_text_in(plain.out_path, "m  " EVIL_SHOWN "  token 7\n");
    assert_true(has_plain_bytes_only(out_of(&plain)));
    kill(plain.pid, SIGTERM);
    assert_int_equal(finish(&plain), 128 + SIGTERM);
    process json = START("watch", "--json", "m");
    await_text_in(json.out_path, "\"owner\":\"" EVIL_JSON "\"");
    kill(json.pid, SIGTERM);
    assert_int_equal(finish(&json), 128 + SIGTERM);
    terminal t = start_plain((const char *const[]){"watch", "m", NULL});
    await_shown(&t, "token 7");
    assert_true(has_plain_bytes_only(t.text));
    assert_int_equal(write(t.fd, "\003", 1), 1);
    finish_terminal(&t);
}

/* Whoever is asked whether to take it away reads whom from. */
static void release_escapes_ids(void **state)
{
    plant_evil("6d");
    terminal t = start_plain((const char *const[]){"release", "--force", "m", NULL});
    await_shown(&t, "[y/N]");
    assert_non_null(strstr(t.text, "from " EVIL_SHOWN "?"));
    assert_true(has_plain_bytes_only(t.text));
    assert_int_equal(write(t.fd, "n\n", 2), 2);
    assert_int_equal(finish_terminal(&t), 1);
}

/* The sentences of the library, too: who has the mutex that somebody waits for. */
static void errors_escape_ids(void **state)
{
    plant_evil("6d");
    assert_int_equal(RUN("run", "--wait", "0ms", "m", "--", "true"), 75);
    assert_non_null(strstr(err_of(&last), EVIL_SHOWN));
    assert_true(has_plain_bytes_only(err_of(&last)));
    /* At a terminal, where there may be more to say while it waits. */
    terminal t = start_plain((const char *const[]){"run", "--wait", "100ms", "m", "--", "true", NULL});
    assert_int_equal(finish_terminal(&t), 75);
    assert_non_null(strstr(t.text, EVIL_SHOWN));
    assert_true(has_plain_bytes_only(t.text));
}

static _Noreturn void serve(int listening, const char *words)
{
    char request[4096];
    for (;;) {
        const int fd = accept(listening, NULL, NULL);
        while (fd >= 0 && read(fd, request, sizeof request) > 0)
            (void)!send(fd, words, strlen(words), MSG_NOSIGNAL);
        close(fd);
    }
}

/* A server on a port of its own that answers whatever it is sent with these words. Returns its process. */
static pid_t start_server(const char *words, char *ret_url, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listening, 16), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &length), 0);
    snprintf(ret_url, size, "redis://127.0.0.1:%d?restart-wait=no", ntohs(address.sin_port));
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        serve(listening, words);
    close(listening);
    return pid;
}

/* What a server says comes with the error, and has no effect. */
static void words_of_servers_are_escaped(void **state)
{
    char url[64];
    const pid_t server = start_server("-ERR no \033[31mred\377 today\r\n", url, sizeof url);
    assert_int_not_equal(RUN("list", "--url", url), 0);
    assert_non_null(strstr(err_of(&last), "no \\x1B[31mred\\xFF today"));
    assert_true(has_plain_bytes_only(err_of(&last)));
    assert_int_not_equal(RUN("run", "-vv", "--wait", "50ms", "--url", url, "m", "--", "true"), 0);
    assert_true(has_plain_bytes_only(err_of(&last)));
    assert_int_not_equal(RUN("doctor", "--url", url), 0);
    assert_true(has_plain_bytes_only(out_of(&last)));
    assert_non_null(strstr(out_of(&last), "no \\x1B[31mred\\xFF today"));
    end_process(server);
}

/* What is wrong with the arguments is said in one line, whatever is in them. */
static void mistakes_are_escaped(void **state)
{
    assert_int_equal(RUN("a\033[31m\n"), 64);
    assert_non_null(strstr(err_of(&last), "\"a\\x1B[31m\\x0A\""));
    assert_int_equal(RUN("list", "--\033"), 64);
    assert_non_null(strstr(err_of(&last), "--\\x1B"));
    assert_int_equal(RUN("run", "m\033", "--", "true"), 78);
    assert_true(has_plain_bytes_only(err_of(&last)));
    assert_int_not_equal(RUN("doctor", "--url", "sqlite:///proc/\033[31m/x.db"), 0);
    assert_true(has_plain_bytes_only(out_of(&last)));
}

/* A foreign contender does not say since when it has the mutex: a dash, and null. */
static void since_when_may_be_unknown(void **state)
{
    plant("6d", "6a766d", 0, 1700000100000, 1700000200000);
    assert_int_equal(RUN("list"), 0);
    assert_non_null(strstr(out_of(&last), "m      jvm         -  "));
    assert_int_equal(RUN("list", "--json"), 0);
    assert_non_null(strstr(out_of(&last), "\"owner\":\"jvm\",\"token\":\"7\",\"held_ms\":null,"));
}

/* Put something into a column of the mutex m that does not belong there. */
static void damage(const char *column, const char *value)
{
    char sql[200];
    sqlite3 *db;
    snprintf(sql, sizeof sql, "UPDATE simba_lock SET %s = %s WHERE mutex = 'm'", column, value);
    assert_int_equal(sqlite3_open(in_dir("store.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* One damaged row is named, on standard error, and the others are listed. */
static void a_damaged_row_is_named(void **state)
{
    plant_evil("6d");
    plant("6e", "78", 1, 2, 3);
    damage("until_boot_ns", "'zz'");
    assert_int_equal(RUN("list"), 0);
    assert_null(strstr(out_of(&last), "\nm "));
    assert_non_null(strstr(out_of(&last), "\nn "));
    assert_non_null(strstr(err_of(&last), "simba list: warning: "));
    assert_non_null(strstr(err_of(&last), "mutex m: "));
    assert_int_equal(lines_in(last.err_path), 1);
    assert_int_equal(RUN("list", "--json"), 0);
    assert_null(strstr(out_of(&last), "{\"mutex\":\"m\""));
    assert_int_equal(lines_in(last.err_path), 1);
}

/* Times that lie apart further than can be counted neither overflow nor fill the screen. */
static void extreme_times_are_bounded(void **state)
{
    static const int64_t times[][3] = {
        {1, INT64_MAX - 1, 1700000200000},
        {INT64_MAX, 1700000100000, 1700000200000},
        {INT64_MIN, INT64_MAX - 1, 1},
        {INT64_MIN + 1, INT64_MIN + 1, 1700000200000},
        {1700000000000, INT64_MAX - 1, INT64_MAX},
        {1, 0, INT64_MAX - 1},
    };
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        assert_int_equal(test_teardown(state), 0);
        assert_int_equal(test_setup(state), 0);
        plant("6d", "78", times[i][0], times[i][1], times[i][2]);
        assert_int_equal(RUN("list"), 0);
        assert_int_equal(RUN("list", "--json"), 0);
        assert_null(strstr(out_of(&last), ":-"));
        terminal t = start_plain((const char *const[]){"list", NULL});
        assert_int_equal(finish_terminal(&t), 0);
        const char *row = strstr(t.text, "\nm ");
        assert_non_null(row);
        assert_in_range(strcspn(row + 1, "\n"), 10, 100);
    }
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(list_escapes_names_and_ids),   TEST(json_stays_json),           TEST(a_damaged_row_is_named),
        TEST(release_escapes_ids),          TEST(watch_escapes_ids),         TEST(errors_escape_ids),
        TEST(mistakes_are_escaped),         TEST(since_when_may_be_unknown), TEST(extreme_times_are_bounded),
        TEST(words_of_servers_are_escaped),
    };
    return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
