/* Calls over one connection, to a server that the test plays: their order, what becomes of them when the connection breaks, and what
 * the server may not do. */
#include "net/http.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/testhost.h"
#include "util/clock.h"

extern const simba_backend simba__backend_memory;

typedef struct played_call {
    simba__http_call call; /* first */
    unsigned done;
    int status; /* 0: it failed */
    bool sent;
    char body[256]; /* or the lines, with a bar after each */
    simba_error error;
    void (*then)(struct played_call *call); /* when it is done, or when a line has come */
} played_call;

static struct {
    testhost host;
    simba__links links;
    simba__http http;
    char path[64];
    int listening, server;
    unsigned ups, downs, accepted;
    played_call calls[4];
} f;

static void on_up(simba__http *http)
{
    f.ups++;
}

static void on_down(simba__http *http)
{
    f.downs++;
}

static void on_looked_up(simba__links *links)
{
}

static void on_done(simba__http_call *call, const simba__http_answer *answer, const simba_error *error)
{
    played_call *played = (played_call *)call;
    played->done++;
    played->sent = call->sent;
    played->status = answer ? answer->head.status : 0;
    if (answer) {
        assert_int_equal(answer->body[answer->length], '\0');
        strcat(played->body, answer->body);
    } else {
        played->error = *error;
    }
    if (played->then)
        played->then(played);
}

static void on_line(simba__http_call *call, const char *text, size_t length)
{
    played_call *played = (played_call *)call;
    strncat(played->body, text, length);
    strcat(played->body, "|");
    if (played->then)
        played->then(played);
}

static int setup(void **state)
{
    static const simba__http_events events = {.up = on_up, .down = on_down};
    char folder[] = "/tmp/simba-http-XXXXXX";
    simba_error err;
    memset(&f, 0, sizeof f);
    assert_non_null(mkdtemp(folder));
    snprintf(f.path, sizeof f.path, "%s/socket", folder);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, f.path);
    f.server = -1;
    f.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(f.listening, (const struct sockaddr *)(const void *)&address, sizeof address), 0);
    assert_int_equal(listen(f.listening, 4), 0);
    assert_int_equal(testhost_open(&f.host, &simba__backend_memory, "memory://http", &err), 0);
    f.links = (simba__links){.host = &f.host.host, .kind = "played", .looked_up = on_looked_up};
    assert_int_equal(simba__http_init(&f.http, &f.links, &events, NULL, 10 * INT64_C(1000000000)), 0);
    assert_int_equal(simba__endpoint_set_socket(&f.http.link.at, "played", f.path, &err), 0);
    for (size_t i = 0; i < sizeof f.calls / sizeof *f.calls; i++)
        f.calls[i].call = (simba__http_call){.done = on_done, .body_most = 100};
    return 0;
}

static int teardown(void **state)
{
    simba__http_close(&f.http);
    simba__http_fini(&f.http);
    testhost_close(&f.host);
    if (f.server >= 0)
        close(f.server);
    close(f.listening);
    unlink(f.path);
    *strrchr(f.path, '/') = '\0';
    rmdir(f.path);
    return 0;
}

static void send_call(size_t number, const char *target)
{
    assert_int_equal(simba__http_send(&f.http, &f.calls[number].call, "GET", target, NULL, NULL, 0), 0);
}

/* Wait until the client has a connection, and take it. */
static void server_accepts(void)
{
    for (int i = 0; i < 1000 && f.ups == f.accepted; i++)
        testhost_pump(&f.host, NULL, 10);
    assert_int_equal(f.ups, ++f.accepted);
    if (f.server >= 0)
        close(f.server);
    f.server = accept(f.listening, NULL, NULL);
    assert_true(f.server >= 0);
}

static void server_says(const char *text)
{
    assert_int_equal(send(f.server, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    testhost_settle(&f.host);
}

static void server_leaves(void)
{
    close(f.server);
    f.server = -1;
    testhost_settle(&f.host);
}

/* All that has come to the server, which is nothing if the text is empty. */
static void server_heard(const char *text)
{
    char heard[1024];
    testhost_settle(&f.host);
    const ssize_t length = recv(f.server, heard, sizeof heard - 1, MSG_DONTWAIT);
    heard[length > 0 ? length : 0] = '\0';
    assert_string_equal(heard, text);
}

static void server_heard_get(const char *target)
{
    char expected[128];
    snprintf(expected, sizeof expected, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
    server_heard(expected);
}

static void answered(size_t number, int status, const char *body)
{
    assert_int_equal(f.calls[number].done, 1);
    assert_int_equal(f.calls[number].status, status);
    assert_string_equal(f.calls[number].body, body);
}

static void failed(size_t number, bool sent, const char *why)
{
    assert_int_equal(f.calls[number].done, 1);
    assert_int_equal(f.calls[number].status, 0);
    assert_int_equal(f.calls[number].sent, sent);
    assert_int_equal(f.calls[number].error.code, SIMBA_EUNAVAILABLE);
    if (!strstr(f.calls[number].error.text, why) || !strstr(f.calls[number].error.text, "played /"))
        fail_msg("%s", f.calls[number].error.text);
}

static void calls_are_answered_one_after_the_other(void **state)
{
    static const char *const headers[] = {"Authorization", "Bearer x", "Content-Type", "a/b", NULL};
    assert_int_equal(simba__http_send(&f.http, &f.calls[0].call, "POST", "/a?b=c", headers, "hello", 5), 0);
    send_call(1, "/1");
    send_call(2, "/2");
    server_accepts();
    server_heard("POST /a?b=c HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nContent-Type: a/b\r\n"
                 "Content-Length: 5\r\n\r\nhello");
    server_says("HTTP/1.1 200 OK\r\nContent-Le");
    server_heard("");
    server_says("ngth: 2\r\n\r\nok");
    answered(0, 200, "ok");
    server_heard_get("/1");
    server_says("HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n");
    answered(1, 404, "no");
    server_heard_get("/2");
    server_says("HTTP/1.1 204 No Content\r\n\r\n");
    answered(2, 204, "");
    assert_int_equal(f.ups, 1);
    assert_int_equal(f.downs, 0);
}

static void send_again(played_call *played)
{
    played->then = NULL;
    send_call((size_t)(played - f.calls), "/again");
}

static void a_call_may_be_sent_again_when_it_is_done(void **state)
{
    f.calls[0].then = send_again;
    send_call(0, "/first");
    server_accepts();
    server_heard_get("/first");
    server_says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
    server_heard_get("/again");
    server_says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb");
    assert_int_equal(f.calls[0].done, 2);
    assert_string_equal(f.calls[0].body, "ab");
}

static void lines_come_while_the_body_goes_on(void **state)
{
    f.calls[0].call.line = on_line;
    send_call(0, "/watch");
    server_accepts();
    server_says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\none\n\ntwo\r\n");
    assert_string_equal(f.calls[0].body, "one|");
    server_says("4\r\n2\nth\r\n");
    assert_string_equal(f.calls[0].body, "one|two2|");
    assert_int_equal(f.calls[0].done, 0);
    server_says("0\r\n\r\n");
    answered(0, 200, "one|two2|th|");
}

/* An error is no line of the stream. */
static void the_body_of_a_refusal_is_collected(void **state)
{
    f.calls[0].call.line = on_line;
    send_call(0, "/watch");
    server_accepts();
    server_says("HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\na\nb\n");
    answered(0, 410, "a\nb\n");
}

static void a_body_may_last_until_the_connection_ends(void **state)
{
    send_call(0, "/0");
    send_call(1, "/1");
    server_accepts();
    server_says("HTTP/1.0 200 OK\r\n\r\nhello");
    assert_int_equal(f.calls[0].done, 0);
    server_leaves();
    answered(0, 200, "hello");
    server_accepts();
    server_heard_get("/1");
}

static void the_server_may_close_after_an_answer(void **state)
{
    send_call(0, "/0");
    send_call(1, "/1");
    server_accepts();
    server_says("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    answered(0, 200, "");
    server_accepts();
    server_heard_get("/1");
    assert_int_equal(f.downs, 0);
}

/* Nobody knows of the first call whether it was carried out; the second one was not, and goes by the next connection. */
static void a_call_that_was_sent_fails_with_the_connection(void **state)
{
    send_call(0, "/0");
    send_call(1, "/1");
    server_accepts();
    server_heard_get("/0");
    server_says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    server_leaves();
    failed(0, true, "connection lost: the server closed it");
    assert_int_equal(f.calls[1].done, 0);
    assert_int_equal(f.downs, 1);
    server_accepts();
    server_heard_get("/1");
}

static void calls_fail_when_no_connection_can_be_made(void **state)
{
    close(f.listening);
    f.listening = -1;
    send_call(0, "/0");
    send_call(1, "/1");
    assert_int_equal(f.calls[0].done, 0); /* not by the call that asks for it */
    testhost_pump(&f.host, NULL, 50);
    failed(0, false, "cannot connect");
    failed(1, false, "cannot connect");
    assert_true(f.downs > 0);
}

/* Nobody hears of it in the middle of sending, but soon after. */
static void a_connection_that_breaks_while_sending_is_told_later(void **state)
{
    send_call(0, "/0");
    server_accepts();
    server_says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    close(f.server);
    f.server = -1;
    send_call(1, "/1");
    assert_int_equal(f.calls[1].done, 0);
    for (int i = 0; i < 1000 && f.calls[1].done == 0; i++)
        testhost_pump(&f.host, NULL, 10);
    failed(1, true, "connection lost");
    assert_int_equal(f.downs, 1);
}

static void a_cancelled_call_takes_its_connection_along(void **state)
{
    char byte;
    send_call(0, "/0");
    send_call(1, "/1");
    send_call(2, "/2");
    server_accepts();
    server_heard_get("/0");
    simba__http_cancel(&f.calls[1].call); /* was not sent */
    server_heard("");
    simba__http_cancel(&f.calls[0].call);
    assert_int_equal(recv(f.server, &byte, 1, MSG_DONTWAIT), 0);
    server_accepts();
    server_heard_get("/2");
    server_says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    answered(2, 200, "");
    assert_int_equal(f.calls[0].done + f.calls[1].done, 0);
    simba__http_cancel(&f.calls[2].call); /* is over */
    assert_int_equal(f.http.link.state, SIMBA__LINK_UP);
}

static void cancel_itself(played_call *played)
{
    simba__http_cancel(&played->call);
}

static void a_line_may_be_the_last_that_its_call_wants(void **state)
{
    f.calls[0].call.line = on_line;
    f.calls[0].then = cancel_itself;
    send_call(0, "/watch");
    server_accepts();
    server_says("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\none\ntwo\n");
    assert_string_equal(f.calls[0].body, "one|");
    assert_int_equal(f.calls[0].done, 0);
    assert_int_equal(f.http.link.state, SIMBA__LINK_CLOSED);
}

static void a_silent_server_is_given_up(void **state)
{
    f.calls[0].call.silence_ns = 5 * INT64_C(1000000000);
    send_call(0, "/0");
    server_accepts();
    testhost_advance(&f.host, 4000);
    server_says("HTTP/1.1 200 OK\r\n");
    testhost_advance(&f.host, 4000);
    assert_int_equal(f.calls[0].done, 0);
    testhost_advance(&f.host, 1100);
    failed(0, true, "the server has been silent for 5");
    server_accepts();
    send_call(1, "/1"); /* has no limit */
    testhost_advance(&f.host, 3600000);
    assert_int_equal(f.calls[1].done, 0);
}

/* The server has the beginning of the body, and answers, while the rest is still to come. */
static void a_body_may_go_on(void **state)
{
    f.calls[0].call.line = on_line;
    f.calls[0].call.streams = true;
    assert_int_equal(simba__http_send(&f.http, &f.calls[0].call, "POST", "/watch", NULL, NULL, 0), 0);
    assert_int_equal(simba__http_more(&f.calls[0].call, "one", 3), 0);
    server_accepts();
    server_heard("POST /watch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n3\r\none\r\n");
    server_says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n");
    assert_string_equal(f.calls[0].body, "a|");
    assert_int_equal(simba__http_more(&f.calls[0].call, "the second", 10), 0);
    server_heard("a\r\nthe second\r\n");
    assert_int_equal(f.calls[0].done, 0);
}

/* Its caller does not know yet that the connection is gone. */
static void what_comes_too_late_does_not_begin_the_next_connection(void **state)
{
    f.calls[0].call.streams = true;
    assert_int_equal(simba__http_send(&f.http, &f.calls[0].call, "POST", "/watch", NULL, NULL, 0), 0);
    server_accepts();
    close(f.server);
    f.server = -1;
    assert_int_equal(simba__http_more(&f.calls[0].call, "one", 3), 0);
    assert_int_equal(f.http.link.state, SIMBA__LINK_WAITING);
    assert_int_equal(simba__http_more(&f.calls[0].call, "two", 3), 0);
    send_call(1, "/1");
    server_accepts();
    failed(0, true, "connection lost");
    server_heard_get("/1");
}

/* A body that would last until the end is not whole only because we gave up. */
static void what_was_given_up_is_no_whole_answer(void **state)
{
    f.calls[0].call.silence_ns = 5 * INT64_C(1000000000);
    send_call(0, "/0");
    server_accepts();
    server_says("HTTP/1.1 200 OK\r\n\r\nhel");
    testhost_advance(&f.host, 5100);
    failed(0, true, "silent");
}

static void what_a_server_may_not_do_costs_the_connection(void **state)
{
    static const struct {
        const char *says, *why;
        bool lines;
    } servers[] = {
        {"+PONG\r\n", "an answer is not HTTP/1.1: it does not begin like", false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5000000000\r\n\r\n", "larger than any", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n", "larger than any", false},
        {"HTTP/1.1 200 OK\r\n\r\na\n", "larger than any", true},
    };
    char answer[600];
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        f.calls[0] =
            (played_call){.call = {.done = on_done, .body_most = 300, .line = servers[i].lines ? on_line : NULL}};
        send_call(0, "/0");
        server_accepts();
        snprintf(answer, sizeof answer, "%s%0400d", servers[i].says, 0);
        server_says(answer);
        failed(0, true, servers[i].why);
    }
    server_accepts();
    server_says("HTTP/1.1 200 OK\r\n"); /* nobody has asked */
    assert_int_equal(f.http.link.state, SIMBA__LINK_WAITING);
    assert_non_null(strstr(f.http.link.error.text, "nobody has asked for"));
}

static void requests_are_one_line_each(void **state)
{
    static const char *const injected[] = {"A", "b\r\nC: d", NULL};
    assert_int_equal(simba__http_send(&f.http, &f.calls[0].call, "GET", "/a b", NULL, NULL, 0), SIMBA_EINVAL);
    assert_int_equal(simba__http_send(&f.http, &f.calls[0].call, "GET", "/a\r\nb", NULL, NULL, 0), SIMBA_EINVAL);
    assert_int_equal(simba__http_send(&f.http, &f.calls[0].call, "GET", "/\xC3\xA4", NULL, NULL, 0), SIMBA_EINVAL);
    assert_int_equal(simba__http_send(&f.http, &f.calls[0].call, "GET", "/a", injected, NULL, 0), SIMBA_EINVAL);
    assert_int_equal(f.http.calls.count, 0);
    assert_int_equal(f.http.link.state, SIMBA__LINK_CLOSED);
}

static void the_host_is_named_as_in_a_url(void **state)
{
    static const struct {
        const char *host;
        int port;
        const char *tls_name, *line;
    } hosts[] = {
        {"example.org", 2379, NULL, "Host: example.org:2379\r\n"},
        {"::1", 443, NULL, "Host: [::1]:443\r\n"},
        {"10.0.0.1", 443, "example.org", "Host: example.org:443\r\n"},
    };
    char heard[256];
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        send_call(0, "/");
        server_accepts();
        recv(f.server, heard, sizeof heard, MSG_DONTWAIT);
        server_says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        /* As if the connection were to such a place. */
        const simba__endpoint at = f.http.link.at;
        f.http.link.at.port = hosts[i].port;
        strcpy(f.http.link.at.host, hosts[i].host);
        f.http.link.tls_name = hosts[i].tls_name;
        send_call(0, "/");
        f.http.link.at = at;
        const ssize_t length = recv(f.server, heard, sizeof heard - 1, MSG_DONTWAIT);
        assert_true(length > 0);
        heard[length] = '\0';
        assert_non_null(strstr(heard, hosts[i].line));
        simba__http_close(&f.http);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(calls_are_answered_one_after_the_other),
        CASE(a_call_may_be_sent_again_when_it_is_done),
        CASE(lines_come_while_the_body_goes_on),
        CASE(the_body_of_a_refusal_is_collected),
        CASE(a_body_may_last_until_the_connection_ends),
        CASE(the_server_may_close_after_an_answer),
        CASE(a_call_that_was_sent_fails_with_the_connection),
        CASE(calls_fail_when_no_connection_can_be_made),
        CASE(a_connection_that_breaks_while_sending_is_told_later),
        CASE(a_cancelled_call_takes_its_connection_along),
        CASE(a_line_may_be_the_last_that_its_call_wants),
        CASE(a_silent_server_is_given_up),
        CASE(a_body_may_go_on),
        CASE(what_comes_too_late_does_not_begin_the_next_connection),
        CASE(what_was_given_up_is_no_whole_answer),
        CASE(what_a_server_may_not_do_costs_the_connection),
        CASE(requests_are_one_line_each),
        CASE(the_host_is_named_as_in_a_url),
    };
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
