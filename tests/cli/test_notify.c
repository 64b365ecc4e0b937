/* --notify: what systemd hears, on a socket of the test's own. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support.h"

static int manager = -1;
static char heard[16384]; /* all datagrams, a line each */

/* A path, or "@name" for an abstract socket. */
static void listen_at(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const struct timeval timeout = {.tv_sec = TIMEOUT_MS / 1000};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", name);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    if (name[0] == '@')
        at.sun_path[0] = '\0';
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(manager, (const struct sockaddr *)&at, length), 0);
    setsockopt(manager, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setenv("NOTIFY_SOCKET", name, 1);
    heard[0] = '\0';
}

static void stop_listening(void)
{
    close(manager);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static bool hear(int flags)
{
    char words[1024];
    const ssize_t got = recv(manager, words, sizeof words - 1, flags);
    if (got <= 0)
        return false;
    words[got] = '\0';
    const size_t length = strlen(heard);
    assert_true(length + (size_t)got + 2 < sizeof heard);
    sprintf(heard + length, "%s\n", words);
    return true;
}

static void await_heard(const char *text)
{
    while (strstr(heard, text) == NULL)
        assert_true(hear(0));
}

static int count(const char *text)
{
    int times = 0;
    for (const char *at = heard; (at = strstr(at, text)) != NULL; at += strlen(text))
        times++;
    return times;
}

/* Ready when it leads, if that is asked for: a waiter is not. The sentence says for whom it waits. */
static void readiness_is_leadership(void **state)
{
    process one = START("elect", "m", "--id", "the owner");
    await_text_in(one.out_path, "acquired m");
    listen_at(in_dir("notify"));
    process two = START("elect", "m", "--notify", "leading");
    await_heard("STATUS=Waits for m, which the owner owns.\n");
    assert_int_equal(count("READY=1\n"), 0);
    kill(one.pid, SIGTERM);
    assert_int_equal(finish(&one), 0);
    await_heard("READY=1\n");
    await_heard("STATUS=Leads m with token ");
    kill(two.pid, SIGTERM);
    await_heard("STOPPING=1\n");
    assert_int_equal(finish(&two), 0);
    assert_int_equal(count("READY=1\n"), 1);
    stop_listening();
}

/* Otherwise when it contends, also on an abstract socket. */
static void readiness_is_contention(void **state)
{
    char name[100];
    process one = START("elect", "m");
    await_text_in(one.out_path, "acquired m");
    snprintf(name, sizeof name, "@simba-test-%d", (int)getpid());
    listen_at(name);
    process two = START("schedule", "m", "--every", "1h", "--", "true");
    await_heard("READY=1\n");
    await_heard("STATUS=Waits for m");
    kill(one.pid, SIGTERM);
    kill(two.pid, SIGTERM);
    assert_int_equal(finish(&one), 0);
    assert_int_equal(finish(&two), 0);
    stop_listening();
}

/* Signs of life come from renewals: a store that is frozen stops them, though the process goes round its loop all the time. */
static void the_watchdog_is_fed_by_renewals(void **state)
{
    set_lease("1s", "4s");
    listen_at(in_dir("notify"));
    setenv("WATCHDOG_USEC", "400000", 1); /* a timer would tell five times a second and more */
    process p = START("run", "m", "--", "cat");
    await_heard("STATUS=Leads m");
    await_text_in(p.err_path, "WatchdogSec of the unit is 400 ms, and the lease is renewed every ");
    const pid_t freezer = start_helper("freeze", in_dir("store.db"), in_dir("frozen"));
    await_file(in_dir("frozen"));
    while (hear(MSG_DONTWAIT))
        ;
    heard[0] = '\0';
    await_heard("STATUS=Leads m, but cannot renew its lease.\n");
    assert_int_equal(count("WATCHDOG=1\n"), 0);
    end_process(freezer);
    await_heard("WATCHDOG=1\n");
    await_heard("STATUS=Leads m with token ");
    kill(p.pid, SIGTERM);
    finish(&p);
    stop_listening();
}

/* Who waits has nothing to renew, and is alive all the same. A watchdog of somebody else is none of ours. */
static void waiters_feed_the_watchdog(void **state)
{
    process one = START("elect", "m");
    await_text_in(one.out_path, "acquired m");
    listen_at(in_dir("notify"));
    setenv("WATCHDOG_USEC", "400000", 1);
    process two = START("run", "m", "--", "true");
    while (count("WATCHDOG=1\n") < 3)
        assert_true(hear(0));
    kill(two.pid, SIGTERM);
    finish(&two);
    heard[0] = '\0';
    setenv("WATCHDOG_PID", "1", 1);
    two = START("run", "m", "--", "true");
    await_heard("STATUS=Waits for m");
    kill(two.pid, SIGTERM);
    await_heard("STOPPING=1\n");
    finish(&two);
    kill(one.pid, SIGTERM);
    assert_int_equal(finish(&one), 0);
    stop_listening();
}

/* The socket is for us. A command gets it only if it is to speak for itself, and then we say nothing. */
static void commands_do_not_get_the_socket(void **state)
{
    listen_at(in_dir("notify"));
    setenv("WATCHDOG_USEC", "60000000", 1);
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "echo \"<$NOTIFY_SOCKET$WATCHDOG_USEC$WATCHDOG_PID>\""), 0);
    assert_string_equal(out_of(&last), "<>\n");
    await_heard("STOPPING=1\n");
    heard[0] = '\0';
    assert_int_equal(RUN("run", "m", "--notify", "child", "--", "sh", "-c", "echo $NOTIFY_SOCKET"), 0);
    assert_string_equal(out_of(&last), contents(last.out_path));
    assert_int_equal(strncmp(out_of(&last), in_dir("notify"), strlen(in_dir("notify"))), 0);
    assert_false(hear(MSG_DONTWAIT));
    stop_listening();
}

/* Nobody listens, or the name is none: that is said, and is no reason to hang or to lead less. */
static void a_missing_manager_is_said(void **state)
{
    setenv("NOTIFY_SOCKET", in_dir("nobody"), 1);
    assert_int_equal(RUN("run", "m", "--", "true"), 0);
    assert_non_null(strstr(err_of(&last), "systemd cannot be notified: "));
    setenv("NOTIFY_SOCKET", "vsock:2:1", 1);
    assert_int_equal(RUN("run", "m", "--", "true"), 78);
    assert_non_null(strstr(err_of(&last), "NOTIFY_SOCKET is neither a path nor an abstract socket"));
    unsetenv("NOTIFY_SOCKET");
    assert_int_equal(RUN("run", "m", "--notify", "leading", "--", "true"), 0);
    assert_int_equal(RUN("run", "m", "--notify", "x", "--", "true"), 64);
    assert_non_null(strstr(err_of(&last), "--notify wants contending, leading or child"));
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(readiness_is_leadership),   TEST(readiness_is_contention),        TEST(the_watchdog_is_fed_by_renewals),
        TEST(waiters_feed_the_watchdog), TEST(commands_do_not_get_the_socket), TEST(a_missing_manager_is_said),
    };
    return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
