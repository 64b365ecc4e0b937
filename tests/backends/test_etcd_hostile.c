/* An etcd server that does not mean well. Whatever it says, a client must not crash, nor hang beyond the time that it was given, nor hold
 * a mutex. The server is a process of its own that answers every request with the same words. */
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/referee.h"

enum { TRY_MS = 300, CONNECTIONS = 32, REQUEST_MOST = 65536 };

/* Answer each request, as soon as its head is there, with `length` bytes; close the connection behind it if `closes`. */
static void serve(int listening, const char *answer, size_t length, bool closes)
{
    struct pollfd fds[CONNECTIONS + 1] = {{.fd = listening, .events = POLLIN}};
    static char heard[CONNECTIONS + 1][4096];
    nfds_t count = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (poll(fds, count, -1) > 0) {
        if (fds[0].revents && count <= CONNECTIONS) {
            fds[count] = (struct pollfd){.fd = accept(listening, NULL, NULL), .events = POLLIN};
            heard[count++][0] = '\0';
        }
        for (nfds_t i = 1; i < count; i++) {
            if (!fds[i].revents)
                continue;
            const ssize_t got = recv(fds[i].fd, heard[i], sizeof heard[i] - 1, 0);
            if (got > 0) {
                heard[i][got] = '\0';
                if (strncmp(heard[i], "POST ", 5) == 0)
                    (void)!send(fds[i].fd, answer, length, MSG_NOSIGNAL);
            }
            if (got <= 0 || closes) {
                close(fds[i].fd);
                fds[i] = fds[--count];
                memcpy(heard[i], heard[count], sizeof heard[i]);
                i--;
            }
        }
    }
    _exit(0);
}

static pid_t start(const char *answer, size_t length, bool closes, int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listening, (const struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listening, CONNECTIONS), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    const pid_t pid = fork();
    if (pid == 0)
        serve(listening, answer, length, closes);
    close(listening);
    return pid;
}

static void ignore_row(const simba_listing *row, void *user)
{
    (void)row, (void)user;
}

static void ignore_change(simba_observer *observer, const simba_state *state, void *user)
{
    (void)observer, (void)state, (void)user;
}

/* What a program asks for. Nothing of it may succeed in holding the mutex. */
static void use(const char *what, int port)
{
    char url[96];
    simba_client *client = NULL;
    simba_locker *locker = NULL;
    simba_observer *observer = NULL;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_observer_options observing = SIMBA_OBSERVER_OPTIONS_INIT;
    simba_error err = {0};
    options.op_timeout_ms = TRY_MS;
    observing.on_changed = ignore_change;
    ref_scene("%s", what);
    ref_watchdog(60);
    snprintf(url, sizeof url, "etcd://127.0.0.1:%d?session-timeout=2s", port);
    assert_int_equal(simba_client_open(url, &options, &err, &client), 0);
    assert_int_equal(simba_observer_new(client, "m", &observing, &err, &observer), 0);
    simba_observer_start(observer);
    assert_int_equal(simba_locker_new(client, "m", NULL, &err, &locker), 0);
    if (simba_locker_acquire(locker, TRY_MS, &err) == 0)
        fail_msg("%s: holds the mutex", what);
    simba_client_list(client, NULL, ignore_row, NULL, &err);
    simba_client_forget(client, "m", &err);
    simba_client_force_release(client, "m", &err);
    simba_locker_free(locker);
    simba_observer_free(observer);
    simba_client_close(client);
    ref_watchdog(0);
}

#define OK "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#define HEADER "\"header\":{\"cluster_id\":\"1\",\"member_id\":\"2\",\"revision\":\"7\",\"raft_term\":\"2\"}"

/* A body with its length before it. */
static void say(const char *what, const char *head, const char *body, bool closes)
{
    static char answer[4 * 65536];
    int port;
    const int length = snprintf(answer, sizeof answer, "%sContent-Length: %zu\r\n\r\n%s", head, strlen(body), body);
    const pid_t pid = start(answer, (size_t)length, closes, &port);
    use(what, port);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void about_bodies(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "",
        "{}",
        "[]",
        "nonsense",
        "{" HEADER "}",
        "{" HEADER ",\"ID\":\"1\",\"TTL\":\"99999999999\"}",
        "{" HEADER ",\"ID\":\"-1\",\"TTL\":\"-5\"}",
        "{\"result\":{" HEADER ",\"TTL\":\"5\"}}",
        "{" HEADER ",\"succeeded\":true,\"responses\":[]}",
        "{" HEADER ",\"succeeded\":true,\"responses\":[{},{},{}]}",
        "{" HEADER ",\"kvs\":[{\"key\":\"bS8x\",\"create_revision\":\"3\"}],\"more\":true}",
        "{" HEADER ",\"kvs\":[{\"key\":\"%%%\",\"create_revision\":\"x\"}]}",
        "{" HEADER ",\"kvs\":[],\"more\":true}",
        "{\"header\":{\"revision\":\"-9223372036854775808\",\"raft_term\":\"9223372036854775807\"}}",
        "{\"error\":\"why\",\"code\":5,\"message\":\"etcdserver: requested lease not found\"}",
        "{\"error\":{\"grpc_code\":14,\"message\":\"etcdserver: no leader\"}}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        say(bodies[i], OK, bodies[i], false);
}

static void about_statuses(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "HTTP/1.1 401 Unauthorized\r\n",
        "HTTP/1.1 404 Not Found\r\n",
        "HTTP/1.1 500 Oops\r\n",
        "HTTP/1.1 503 Unavailable\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n",
        "HTTP/1.1 412 Precondition Failed\r\n",
    };
    static const char *const bodies[] = {
        "",
        "{\"error\":\"why\",\"code\":16,\"message\":\"etcdserver: invalid auth token\"}",
        "{\"error\":\"why\",\"code\":9,\"message\":\"etcdserver: lease already exists\"}",
        "{\"error\":\"why\",\"code\":14,\"message\":\"etcdserver: request timed out\"}",
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (size_t j = 0; j < sizeof bodies / sizeof *bodies; j++)
            say(heads[i], heads[i], bodies[j], j % 2);
}

/* Bytes that are no HTTP, an endless line, a body that ends too early, and nothing at all. */
static void about_bytes(void **state)
{
    (void)state;
    static char endless[200000];
    static const struct {
        const char *what, *bytes;
    } cases[] = {
        {"nothing", ""},
        {"a bell", "\a\a\a\a\n"},
        {"HTTP/0.9", "hello\n"},
        {"early end", OK "Content-Length: 100\r\n\r\n{"},
        {"negative", OK "Content-Length: -1\r\n\r\n{}"},
        {"bad chunks", OK "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"},
        {"endless", NULL},
    };
    const size_t head = (size_t)snprintf(endless, sizeof endless, OK "\r\n");
    memset(endless + head, '{', sizeof endless - 1 - head);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *bytes = cases[i].bytes ? cases[i].bytes : endless;
        int port;
        for (int closes = 0; closes < 2; closes++) {
            const pid_t pid = start(bytes, strlen(bytes), closes, &port);
            use(cases[i].what, port);
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(about_bodies), cmocka_unit_test(about_statuses),
                                       cmocka_unit_test(about_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
