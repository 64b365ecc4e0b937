/* --status-listen: what a load balancer is answered, while all is well, while the store is frozen, and by whoever means harm. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support.h"

static char answer[32768];

static int connect_to(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const struct timeval timeout = {.tv_sec = TIMEOUT_MS / 1000};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) < 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    return fd;
}

/* Until the other side closes. */
static void read_answer(int fd)
{
    size_t length = 0;
    ssize_t got;
    while ((got = recv(fd, answer + length, sizeof answer - 1 - length, 0)) > 0)
        length += (size_t)got;
    answer[length] = '\0';
    assert_true(got == 0 || errno == ECONNRESET);
    close(fd);
}

/* The code of the answer, which is in `answer`; 0: nobody listens; -1: the connection was closed without one. */
static int ask_with(const char *path, const char *request)
{
    const int fd = connect_to(path);
    if (fd < 0)
        return 0;
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    read_answer(fd);
    int code = -1;
    assert_int_equal(answer[0] == '\0' || sscanf(answer, "HTTP/1.1 %d ", &code) == 1, 1);
    return code;
}

static int ask(const char *path)
{
    return ask_with(path, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
}

static void await_code(const char *path, int code)
{
    const int64_t end_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (ask(path) != code) {
        assert_true(now_ns() < end_ns);
        poll(NULL, 0, 5);
    }
}

/* Who leads says 200 and its token, who waits 503 and for whom; each has its metrics. */
static void leaders_and_waiters_are_told_apart(void **state)
{
    char token[64];
    process one = START("elect", "m", "--id", "one", "--status-listen", in_dir("one"));
    await_code(in_dir("one"), 200);
    assert_non_null(strstr(answer, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(answer, "{\"mutex\":\"m\",\"id\":\"one\",\"leads\":true,\"token\":\""));
    assert_int_equal(sscanf(out_of(&one), "acquired m token %63s", token), 1);
    assert_non_null(strstr(answer, token));
    process two =
        START("schedule", "m", "--id", "two", "--every", "1h", "--status-listen", in_dir("two"), "--", "true");
    await_code(in_dir("two"), 503);
    const int64_t end_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (
        strstr(answer,
               "\"leads\":false,\"token\":null,\"held_for_ms\":0,\"left_ms\":0,\"overdue\":false,\"owner\":\"one\"}") ==
        NULL) {
        assert_true(now_ns() < end_ns);
        assert_int_equal(ask(in_dir("two")), 503);
    }
    process three = START("run", "m", "--status-listen", in_dir("three"), "--", "cat");
    await_code(in_dir("three"), 503);
    assert_int_equal(ask_with(in_dir("one"), "GET /metrics HTTP/1.1\r\n\r\n"), 200);
    assert_non_null(strstr(answer, "\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
    assert_non_null(strstr(answer, "\nsimba_held{mutex=\"m\"} 1\n"));
    assert_string_equal(answer + strlen(answer) - 6, "# EOF\n");
    assert_non_null(strstr(answer, "\nsimba_losses_total{mutex=\"m\",reason=\"expired\"} 0\n"));
    assert_int_equal(ask_with(in_dir("two"), "GET /metrics HTTP/1.1\r\n\r\n"), 200);
    assert_non_null(strstr(answer, "\nsimba_held{mutex=\"m\"} 0\n"));
    kill(one.pid, SIGTERM);
    assert_int_equal(finish(&one), 0);
    assert_int_equal(ask(in_dir("one")), 0);
    assert_int_equal(access(in_dir("one"), F_OK), -1);
    kill(two.pid, SIGTERM);
    assert_int_equal(finish(&two), 0);
    await_code(in_dir("three"), 200); /* while its command runs */
    assert_int_equal(finish(&three), 0);
}

/* The store freezes: it is red before the lease ends, though the process, and what it was told last, are as they were. */
static void a_renewal_that_hangs_turns_it_red(void **state)
{
    set_lease("1s", "4s");
    process p = START("run", "m", "--status-listen", in_dir("s"), "--", "cat");
    await_code(in_dir("s"), 200);
    const pid_t freezer = start_helper("freeze", in_dir("store.db"), in_dir("frozen"));
    await_file(in_dir("frozen"));
    const int64_t end_ns = lease_end_ns("m");
    assert_int_equal(ask(in_dir("s")), 200);
    assert_true(now_ns() < end_ns);
    await_code(in_dir("s"), 503);
    assert_true(now_ns() < end_ns);
    end_process(freezer);
    kill(p.pid, SIGTERM);
    finish(&p);
}

/* The token in the answer. */
static uint64_t token_told(void)
{
    unsigned long long token = 0;
    const char *at = strstr(answer, "\"token\":\"");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"token\":\"%llu\"", &token), 1);
    return token;
}

/* A process that is stopped cannot say that it still leads when it goes on. It may lead again, under another token: nobody else
 * wants the mutex, and on a busy machine it may get that far before it answers. */
static void a_frozen_process_wakes_up_red(void **state)
{
    process p = START("elect", "m", "--status-listen", in_dir("s"));
    await_code(in_dir("s"), 200);
    const uint64_t token = token_told();
    kill(p.pid, SIGSTOP);
    await_time(lease_end_ns("m"));
    const int fd = connect_to(in_dir("s"));
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    kill(p.pid, SIGCONT);
    read_answer(fd);
    assert_true(strncmp(answer, "HTTP/1.1 503 ", 13) == 0 || token_told() > token);
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
}

/* The supervisor outlives a process that was killed: it must not keep the clients of that process waiting. */
static void a_killed_process_refuses(void **state)
{
    process p =
        START("run", "m", "--status-listen", in_dir("s"), "--", "sh", "-c", "echo > \"$0\"; cat", in_dir("ran"));
    await_file(in_dir("ran"));
    assert_int_equal(ask(in_dir("s")), 200);
    const pid_t supervisor = child_of(p.pid);
    assert_true(supervisor > 0);
    kill(supervisor, SIGSTOP);
    kill(p.pid, SIGKILL);
    finish(&p);
    assert_int_equal(ask(in_dir("s")), 0);
    kill(supervisor, SIGCONT);
    await_death(supervisor);
}

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    getsockname(fd, (struct sockaddr *)&at, &length);
    close(fd);
    return ntohs(at.sin_port);
}

/* A port by itself is one of the loopback interface, and nowhere else. */
static void a_port_is_on_the_loopback_interface(void **state)
{
    char port[16];
    struct sockaddr_in to = {.sin_family = AF_INET};
    const int number = free_port();
    snprintf(port, sizeof port, "%d", number);
    process p = START("elect", "m", "--status-listen", port);
    await_text_in(p.out_path, "acquired m");
    to.sin_port = htons((in_port_t)number);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    read_answer(fd);
    assert_int_equal(strncmp(answer, "HTTP/1.1 200 ", 13), 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1); /* answered if it listened to all addresses */
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), -1);
    close(fd);
    assert_int_equal(RUN("elect", "n", "--status-listen", port), 78);
    assert_non_null(strstr(err_of(&last), "cannot listen at "));
    assert_non_null(strstr(err_of(&last), "Address already in use"));
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
}

/* Mistakes are named before anything is contended for. What a killed process left is replaced, somebody's file is not. */
static void addresses_are_checked(void **state)
{
    static const char *const wrong[] = {"",       "x",     "0",       "65536", "-1", "80x", "example.org:80",
                                        "::1:80", "[::1]", "[::1:80", ":",     "@"};
    char full[200];
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(RUN("elect", "m", "--status-listen", wrong[i]), 64);
        assert_non_null(strstr(err_of(&last), "--status-listen wants a port"));
    }
    memset(full, 'a', sizeof full);
    full[0] = '/';
    full[sizeof full - 1] = '\0';
    assert_int_equal(RUN("elect", "m", "--status-listen", full), 64);
    assert_int_equal(RUN("list", "--status-listen", "80"), 64);
    write_file(in_dir("file"), "mine");
    assert_int_equal(RUN("run", "m", "--status-listen", in_dir("file"), "--", "true"), 78);
    assert_string_equal(contents(in_dir("file")), "mine");
    assert_int_equal(RUN("run", "m", "--status-listen", "/proc/no/such", "--", "true"), 78);
    assert_non_null(strstr(err_of(&last), "cannot listen at /proc/no/such: "));
    process p = START("elect", "m", "--status-listen", in_dir("s"));
    await_code(in_dir("s"), 200);
    assert_int_equal(RUN("elect", "n", "--status-listen", in_dir("s")), 78);
    kill(p.pid, SIGKILL);
    finish(&p);
    assert_int_equal(access(in_dir("s"), F_OK), 0);
    p = START("elect", "n", "--status-listen", in_dir("s"));
    await_code(in_dir("s"), 200);
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(leaders_and_waiters_are_told_apart),  TEST(a_renewal_that_hangs_turns_it_red),
        TEST(a_frozen_process_wakes_up_red),       TEST(a_killed_process_refuses),
        TEST(a_port_is_on_the_loopback_interface), TEST(addresses_are_checked),
    };
    return cmocka_run_group_tests_name("status_listen", tests, NULL, NULL);
}
