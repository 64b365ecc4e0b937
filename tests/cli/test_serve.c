/* `simba serve`, asked by raw sockets: what it answers, whom it lets in, and that a slow or greedy client harms nobody. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define AUTHORIZED "Authorization: Bearer " TOKEN "\r\n"

/* --- the server and its clients ------------------------------------------------------------------------- */

typedef struct serving {
    process p;
    int port;
} serving;

static serving await_serving(process p)
{
    serving s = {.p = p};
    await_text_in(p.err_path, "/ shows ");
    const char *url = strstr(err_of(&p), "http://");
    assert_non_null(url);
    assert_int_equal(sscanf(url, "http://127.0.0.1:%d/", &s.port), 1);
    return s;
}

#define SERVE(...) await_serving(START("serve", "--listen", "127.0.0.1:0" __VA_OPT__(, ) __VA_ARGS__))

static serving serve_with_token(void)
{
    write_file(in_dir("token"), TOKEN "\n");
    return SERVE("--token-file", in_dir("token"), "--allow-release");
}

static void end(serving *s)
{
    kill(s->p.pid, SIGTERM);
    assert_int_equal(finish(&s->p), 0);
}

static int connect_to(const serving *s, int receive_buffer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (receive_buffer > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void send_text(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What has come on a connection so far. */
typedef struct answer {
    int fd;
    size_t length;
    bool has_ended;
    char text[262144];
} answer;

static answer got;

/* False: it has ended, or the time is over. */
static bool receive(answer *a, int64_t until_ns)
{
    struct pollfd ready = {.fd = a->fd, .events = POLLIN};
    const int64_t left_ms = (until_ns - now_ns()) / 1000000;
    if (left_ms <= 0 || poll(&ready, 1, (int)left_ms) <= 0)
        return false;
    const ssize_t length = recv(a->fd, a->text + a->length, sizeof a->text - 1 - a->length, 0);
    a->has_ended = length <= 0;
    a->length += length > 0 ? (size_t)length : 0;
    a->text[a->length] = '\0';
    return length > 0;
}

/* Until it has come; fails the test otherwise. */
static void await_answer(answer *a, const char *text)
{
    const int64_t until_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (strstr(a->text, text) == NULL) {
        if (!receive(a, until_ns))
            fail_msg("no \"%s\" in: %s", text, a->text);
    }
}

static void begin(const serving *s, answer *a, const char *request)
{
    a->fd = connect_to(s, 0);
    a->length = 0;
    a->has_ended = false;
    a->text[0] = '\0';
    send_text(a->fd, request);
}

/* Ask, and wait for the end of the answer; the status. It is in `got`. */
static int ask(const serving *s, const char *line, const char *headers)
{
    char request[4096];
    snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n%s\r\n", line, s->port,
             headers);
    begin(s, &got, request);
    const int64_t until_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (receive(&got, until_ns))
        continue;
    close(got.fd);
    return strncmp(got.text, "HTTP/1.1 ", 9) == 0 ? (int)strtol(got.text + 9, NULL, 10) : 0;
}

#define GET(s, path) ask(s, "GET " path, "")

static void assert_got(const char *text)
{
    if (strstr(got.text, text) == NULL)
        fail_msg("no \"%s\" in: %s", text, got.text);
}

static process hold(const char *id, const char *mutex)
{
    char name[64];
    snprintf(name, sizeof name, "held-%s", id);
    process p = START("--id", id, "run", mutex, "--", "sh", "-c", "echo > \"$0\"; cat", in_dir(name));
    await_file(in_dir(name));
    return p;
}

/* Until the list has it. */
static void await_listed(const serving *s, const char *headers, const char *text)
{
    const int64_t until_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    do {
        assert_true(now_ns() < until_ns);
        assert_int_equal(ask(s, "GET /api/v1/mutexes", headers), 200);
    } while (strstr(got.text, text) == NULL);
}

/* --- answers ---------------------------------------------------------------------------------------------- */

static void answers_what_there_is(void **state)
{
    process one = hold("first", "a \"b\"/c");
    serving s = SERVE();
    await_listed(&s, "", "{\"mutex\":\"a \\\"b\\\"/c\",\"owner\":\"first\",\"token\":\"");
    assert_got("\"answers\":true");
    assert_got("Content-Security-Policy: default-src 'none'");
    assert_int_equal(GET(&s, "/api/v1/mutexes/a%20%22b%22%2Fc"), 200);
    assert_got("\"state\":{\"mutex\":\"a \\\"b\\\"/c\"");
    assert_int_equal(GET(&s, "/api/v1/mutexes/other"), 404);
    assert_int_equal(GET(&s, "/api/v1/mutexes?limit=x"), 400);
    assert_int_equal(GET(&s, "/healthz"), 200);
    assert_int_equal(GET(&s, "/readyz"), 200);
    assert_int_equal(GET(&s, "/metrics"), 200);
    assert_got("\nsimba_store_owned 1\n");
    assert_got("# EOF\n");
    assert_int_equal(GET(&s, "/"), 200);
    assert_got("<title>simba</title>");
    assert_int_equal(GET(&s, "/app.js"), 200);
    assert_int_equal(GET(&s, "/../etc/passwd"), 404);
    assert_int_equal(ask(&s, "POST /api/v1/mutexes", "Content-Length: 0\r\n"), 405);
    assert_int_equal(finish(&one), 0);
    end(&s);
}

/* Changes come as events, and whoever comes back is told what was missed. */
static void events_resume(void **state)
{
    static answer stream;
    char request[300];
    serving s = SERVE();
    process one = hold("first", "orders");
    await_listed(&s, "", "first");
    begin(&s, &stream, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await_answer(&stream, "event: store\n");
    char *id = strstr(stream.text, "\nid: ");
    assert_non_null(id);
    char known[64];
    assert_int_equal(sscanf(id, "\nid: %63s", known), 1);
    close(stream.fd);
    assert_int_equal(finish(&one), 0);
    await_listed(&s, "", "\"mutex\":\"orders\",\"owner\":null");

    snprintf(request, sizeof request, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: %s\r\n\r\n",
             known);
    begin(&s, &stream, request);
    await_answer(&stream, "\"kind\":\"released\",\"mutex\":\"orders\",\"before\":{\"id\":\"first\"");
    assert_null(strstr(stream.text, "event: reset"));
    process two = hold("second", "orders");
    await_answer(&stream, "\"kind\":\"acquired\",\"mutex\":\"orders\",\"before\":null,\"after\":{\"id\":\"second\"");
    close(stream.fd);

    /* Of another process, or of nobody: it has to begin anew. */
    begin(&s, &stream, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 00000000-1\r\n\r\n");
    await_answer(&stream, "event: reset\n");
    close(stream.fd);
    assert_int_equal(finish(&two), 0);
    end(&s);
}

/* --- access ------------------------------------------------------------------------------------------------- */

static void others_have_to_know_the_token(void **state)
{
    assert_int_equal(RUN("serve", "--listen", "0.0.0.0:0"), 64);
    assert_non_null(strstr(err_of(&last), "--token-file"));
    assert_int_equal(RUN("serve", "--allow-release"), 64);
    assert_int_equal(RUN("serve", "--listen", "nonsense"), 64);
    write_file(in_dir("short"), "secret\n");
    assert_int_equal(RUN("serve", "--token-file", in_dir("short")), 78);
    assert_null(strstr(err_of(&last), "secret"));

    serving s = serve_with_token();
    assert_int_equal(GET(&s, "/api/v1/mutexes"), 401);
    assert_int_equal(GET(&s, "/metrics"), 401);
    assert_int_equal(GET(&s, "/api/v1/events"), 401);
    assert_int_equal(GET(&s, "/"), 200);
    assert_int_equal(GET(&s, "/healthz"), 200);
    assert_int_equal(ask(&s, "GET /api/v1/mutexes?token=" TOKEN, ""), 401);
    assert_int_equal(ask(&s, "GET /api/v1/mutexes", AUTHORIZED), 200);
    end(&s);
}

static void another_name_is_refused(void **state)
{
    serving s = SERVE();
    begin(&s, &got, "GET /api/v1/mutexes HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    await_answer(&got, "HTTP/1.1 421 ");
    close(got.fd);
    end(&s);
}

/* A forced release wants to be allowed, the token, and a page of ours; it tells the owner, and takes no other grant. */
static void releases_by_the_token_only(void **state)
{
    process one = hold("first", "orders");
    serving s = serve_with_token();
    await_listed(&s, AUTHORIZED, "first");
    const char *release = "POST /api/v1/release?mutex=orders";
    assert_int_equal(ask(&s, release, "Content-Length: 0\r\n"), 401);
    assert_int_equal(ask(&s, release, AUTHORIZED "Content-Length: 0\r\nSec-Fetch-Site: cross-site\r\n"), 403);
    assert_int_equal(ask(&s, release, AUTHORIZED "Content-Length: 0\r\nOrigin: http://evil.example\r\n"), 403);
    assert_int_equal(ask(&s, "GET /api/v1/release?mutex=orders", AUTHORIZED), 404);
    assert_int_equal(ask(&s, "POST /api/v1/release?mutex=orders&token=1", AUTHORIZED "Content-Length: 0\r\n"), 409);
    assert_int_equal(ask(&s, "POST /api/v1/release?mutex=other", AUTHORIZED "Content-Length: 0\r\n"), 404);
    assert_int_equal(ask(&s, "GET /api/v1/mutexes/orders", AUTHORIZED), 200);
    assert_got("\"owner\":\"first\"");
    assert_int_equal(ask(&s, release, AUTHORIZED "Content-Length: 0\r\n"), 200);
    assert_got("\"state\":{\"mutex\":\"orders\",\"owner\":null");
    await_text_in(one.err_path, "revoked");
    assert_int_equal(finish(&one), 79);
    end(&s);

    process two = hold("second", "orders");
    serving without = SERVE();
    await_listed(&without, "", "second");
    assert_int_equal(ask(&without, release, AUTHORIZED "Content-Length: 0\r\n"), 403);
    assert_int_equal(finish(&two), 0);
    end(&without);
}

/* --- limits --------------------------------------------------------------------------------------------------- */

static void big_requests_are_refused(void **state)
{
    static char header[40000];
    serving s = SERVE();
    memset(header, 'x', sizeof header - 1);
    got.fd = connect_to(&s, 0);
    got.length = 0;
    got.text[0] = '\0';
    send_text(got.fd, "GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
    send(got.fd, header, sizeof header - 1, MSG_NOSIGNAL); /* it may be cut off before */
    const int64_t until_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (receive(&got, until_ns))
        continue;
    assert_true(now_ns() < until_ns);
    assert_null(strstr(got.text, "HTTP/1.1 200"));
    close(got.fd);

    char body[6000];
    snprintf(body, sizeof body,
             "POST /api/v1/release HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n%5000s", "");
    begin(&s, &got, body);
    while (receive(&got, until_ns))
        continue;
    assert_true(now_ns() < until_ns);
    close(got.fd);
    assert_int_equal(GET(&s, "/healthz"), 200);
    end(&s);
}

/* More than there is room for, each with half a request: who comes with a whole one is answered all the same. */
static void many_connections_shut_out_nobody(void **state)
{
    enum { MANY = 600 };
    static int fds[MANY];
    serving s = SERVE();
    const int64_t begun_ns = now_ns();
    for (int i = 0; i < MANY; i++) {
        fds[i] = connect_to(&s, 0);
        send(fds[i], "GET / HT", 8, MSG_NOSIGNAL);
    }
    assert_int_equal(GET(&s, "/healthz"), 200);
    assert_true(now_ns() - begun_ns < 4 * INT64_C(1000000000)); /* before the time of any of them is over */
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    end(&s);
}

static long memory_kib_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    const char *line = strstr(contents(path), "VmRSS:");
    return line != NULL ? strtol(line + 6, NULL, 10) : 0;
}

/* Those who follow the events and do not read cost a bounded amount, and delay nobody; when there are too many, one more is
 * told so. */
static void streams_that_nobody_reads(void **state)
{
    enum { MANY = 128 };
    static int fds[MANY];
    serving s = SERVE();
    process one = hold("first", "orders");
    await_listed(&s, "", "first");
    const long before_kib = memory_kib_of(s.p.pid);
    for (int i = 0; i < MANY; i++) {
        fds[i] = connect_to(&s, 4096);
        send_text(fds[i], "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    const int64_t until_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (GET(&s, "/api/v1/events?limit=1") == 200)
        assert_true(now_ns() < until_ns);
    assert_got("503");
    assert_true(memory_kib_of(s.p.pid) - before_kib < 64 * 1024);
    assert_int_equal(GET(&s, "/api/v1/mutexes"), 200);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    assert_int_equal(finish(&one), 0);
    end(&s);
}

/* A client that sends a byte now and then is always about to ask. It has five seconds. */
static void a_slow_request_is_cut_off(void **state)
{
    serving s = SERVE();
    const int64_t begun_ns = now_ns();
    begin(&s, &got, "GET / HTTP/1.1\r\nX: ");
    while (now_ns() - begun_ns < TIMEOUT_MS * INT64_C(1000000)) {
        if (send(got.fd, "x", 1, MSG_NOSIGNAL) < 0)
            break;
        if (!receive(&got, now_ns() + 200 * INT64_C(1000000)) && got.has_ended)
            break;
    }
    assert_in_range(now_ns() - begun_ns, 4 * INT64_C(1000000000), 12 * INT64_C(1000000000));
    close(got.fd);
    end(&s);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST_WITH_STORE(answers_what_there_is),
        TEST_WITH_STORE(events_resume),
        TEST_WITH_STORE(others_have_to_know_the_token),
        TEST_WITH_STORE(another_name_is_refused),
        TEST_WITH_STORE(releases_by_the_token_only),
        TEST_WITH_STORE(big_requests_are_refused),
        TEST_WITH_STORE(many_connections_shut_out_nobody),
        TEST_WITH_STORE(streams_that_nobody_reads),
        TEST_WITH_STORE(a_slow_request_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
