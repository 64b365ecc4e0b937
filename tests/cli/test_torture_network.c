/* The network that `simba torture` breaks: its proxy, and the URLs that lead through it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/cm.h"
#include "torture/torture.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define MS INT64_C(1000000)

/* Time is what the test says it is. */
static int64_t time_ns;

/* --- the proxy ------------------------------------------------------------------------------------------ */

typedef struct scene {
    int listener;
    torture_target target;
    torture_proxy *proxy;
    int client;
    int server;
} scene;

static int listen_somewhere(struct sockaddr_in *ret_address)
{
    socklen_t size = sizeof *ret_address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)ret_address, size), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret_address, &size), 0);
    return fd;
}

/* Let the proxy work until it has nothing more to do, or until a descriptor of ours has something. */
static bool work_until(scene *s, int fd)
{
    struct pollfd fds[TORTURE_PROXY_FDS + 1];
    for (;;) {
        int64_t wake_ns = INT64_MAX;
        const unsigned count = torture_proxy_wait_for(s->proxy, fds, time_ns, &wake_ns);
        fds[count] = (struct pollfd){.fd = fd, .events = POLLIN};
        if (poll(fds, count + 1, 100) == 0)
            return false;
        if (fds[count].revents != 0)
            return true;
        torture_proxy_work(s->proxy, fds, time_ns);
    }
}

static int connect_through(scene *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)torture_proxy_port(s->proxy, 0));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int setup(void **state)
{
    static scene s;
    struct sockaddr_in address;
    s.listener = listen_somewhere(&address);
    snprintf(s.target.host, sizeof s.target.host, "127.0.0.1");
    snprintf(s.target.port, sizeof s.target.port, "%d", ntohs(address.sin_port));
    assert_int_equal(torture_target_find(&s.target), 0);
    s.proxy = torture_proxy_new(&s.target, 1);
    assert_non_null(s.proxy);
    s.client = connect_through(&s);
    assert_true(work_until(&s, s.listener));
    s.server = accept(s.listener, NULL, NULL);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    scene *s = *state;
    torture_proxy_free(s->proxy);
    close(s->client);
    close(s->server);
    close(s->listener);
    return 0;
}

/* Does what the one says reach the other? Then it is what was said. */
static bool reaches(scene *s, int from, int to, const char *text)
{
    char got[64];
    assert_int_equal(send(from, text, strlen(text), 0), strlen(text));
    if (!work_until(s, to))
        return false;
    assert_int_equal(recv(to, got, sizeof got, 0), strlen(text));
    assert_memory_equal(got, text, strlen(text));
    return true;
}

static void passes_both_ways(void **state)
{
    scene *s = *state;
    assert_true(reaches(s, s->client, s->server, "question"));
    assert_true(reaches(s, s->server, s->client, "answer"));
}

/* Nothing passes, not even the end of a connection, until it is healed; then all of it does, in order. */
static void stalls_both_ways(void **state)
{
    scene *s = *state;
    char got[64];
    torture_proxy_set(s->proxy, TORTURE_STALLED, 0);
    assert_false(reaches(s, s->client, s->server, "one,"));
    assert_false(reaches(s, s->client, s->server, "two"));
    assert_false(reaches(s, s->server, s->client, "three"));
    shutdown(s->client, SHUT_WR);
    assert_false(work_until(s, s->server));
    torture_proxy_set(s->proxy, TORTURE_PASS, 0);
    assert_true(work_until(s, s->server));
    assert_int_equal(recv(s->server, got, sizeof got, 0), 7);
    assert_memory_equal(got, "one,two", 7);
    assert_true(work_until(s, s->server));
    assert_int_equal(recv(s->server, got, sizeof got, 0), 0);
}

static void stalls_one_way(void **state)
{
    scene *s = *state;
    torture_proxy_set(s->proxy, TORTURE_NO_ANSWERS, 0);
    assert_true(reaches(s, s->client, s->server, "question"));
    assert_false(reaches(s, s->server, s->client, "answer"));
    torture_proxy_set(s->proxy, TORTURE_NO_REQUESTS, 0);
    assert_true(work_until(s, s->client));
    assert_false(reaches(s, s->client, s->server, "question"));
}

/* Connections end, and new ones do not come about. */
static void cuts(void **state)
{
    scene *s = *state;
    char got[8];
    torture_proxy_set(s->proxy, TORTURE_CLOSED, 0);
    assert_int_equal(recv(s->client, got, sizeof got, 0), 0);
    assert_int_equal(recv(s->server, got, sizeof got, 0), 0);
    const int again = connect_through(s);
    assert_true(work_until(s, again));
    assert_true(recv(again, got, sizeof got, 0) <= 0);
    assert_false(work_until(s, s->listener));
    close(again);
    torture_proxy_set(s->proxy, TORTURE_PASS, 0);
    const int healed = connect_through(s);
    assert_true(work_until(s, s->listener));
    close(healed);
}

/* It comes when it is due, and not before; the proxy says when that is. */
static void delays(void **state)
{
    scene *s = *state;
    struct pollfd fds[TORTURE_PROXY_FDS];
    int64_t wake_ns = INT64_MAX;
    torture_proxy_set(s->proxy, TORTURE_SLOW, 40 * MS);
    assert_false(reaches(s, s->client, s->server, "question"));
    torture_proxy_wait_for(s->proxy, fds, time_ns, &wake_ns);
    assert_int_equal(wake_ns, time_ns + 40 * MS);
    time_ns += 40 * MS - 1;
    assert_false(work_until(s, s->server));
    time_ns += 1;
    assert_true(work_until(s, s->server));
}

/* What is held back is bounded: the sender notices when nobody takes it. */
static void holds_back_a_bounded_amount(void **state)
{
    scene *s = *state;
    enum { BOUND = 16 * 1024 * 1024 }; /* a megabyte, and what the sockets hold */
    static char text[65536];
    size_t sent = 0;
    torture_proxy_set(s->proxy, TORTURE_SLOW, 1000 * MS);
    /* Until the socket is full although the proxy has taken what it would. */
    for (bool worked = false; sent <= BOUND;) {
        const ssize_t length = send(s->client, text, sizeof text, MSG_DONTWAIT);
        if (length <= 0 && worked)
            break;
        sent += length > 0 ? (size_t)length : 0;
        worked = length <= 0;
        if (worked)
            assert_false(work_until(s, s->server));
    }
    assert_in_range(sent, BOUND / 16, BOUND);
}

/* --- the URLs ------------------------------------------------------------------------------------------- */

/* Which can be led through a proxy, to whom, and why the others cannot. */
static void urls(void **state)
{
    static const struct {
        const char *url;
        const char *targets; /* NULL: none */
        const char *words;   /* the rewritten URL, or part of the reason */
    } cases[] = {
        {"redis://h", "h 6379", "redis://127.0.0.1:1001"},
        {"redis://u:p%40ss@h:77/2?ttl=1s", "h 77", "redis://u:p%40ss@127.0.0.1:1001/2?ttl=1s"},
        {"redis://[::1]:77", "::1 77", "redis://127.0.0.1:1001"},
        {"redis://[::1]", "::1 6379", "redis://127.0.0.1:1001"},
        {"redis://?ttl=1s", "127.0.0.1 6379", "redis://127.0.0.1:1001?ttl=1s"},
        {"rediss://h?verify=no", "h 6379", "rediss://127.0.0.1:1001?verify=no"},
        {"mysql://root@h/db", "h 3306", "mysql://root@127.0.0.1:1001/db"},
        {"mariadb://root@h/db?tls=yes&verify=no", "h 3306", "mariadb://root@127.0.0.1:1001/db?tls=yes&verify=no"},
        {"postgres://h1,h2:77/db?sslmode=require", "h1 5432,h2 77",
         "postgres://127.0.0.1:1001,127.0.0.1:1002/db?sslmode=require"},
        {"zookeeper://a,b,c:9/x", "a 2181,b 2181,c 9", "zookeeper://127.0.0.1:1001,127.0.0.1:1002,127.0.0.1:1003/x"},
        {"sqlite:///x", NULL, "there is no network"},
        {"memory://x", NULL, "there is no network"},
        {"redis+unix:///x", NULL, "socket file"},
        {"redis+sentinel://a,b/x", NULL, "name each other"},
        {"redis+cluster://a,b", NULL, "name each other"},
        {"rediss://h", NULL, "the name of the server"},
        {"zookeepers://h", NULL, "the name of the server"},
        {"kubernetes://h/x", NULL, "the name of the server"},
        {"kubernetes://h/x?tls=no", "h 6443", "kubernetes://127.0.0.1:1001/x?tls=no"},
        {"kubernetes://h:9/x?verify=no", "h 9", "kubernetes://127.0.0.1:1001/x?verify=no"},
        {"zookeepers://h:9?verify=no", "h 9", "zookeepers://127.0.0.1:1001?verify=no"},
        {"mysql://h/db?socket=/x", NULL, "socket file"},
        {"mysql://h/db?tls=yes", NULL, "the name of the server"},
        {"mysql://h/db?ca=/x", NULL, "the name of the server"},
        {"postgresql://h/db", NULL, "the name of the server"},
        {"postgresql://h/db?sslmode=verify-full", NULL, "the name of the server"},
        {"postgresql:///db?sslmode=disable", NULL, "socket file"},
        {"postgresql://u@/db?host=/x&sslmode=disable", NULL, "socket file"},
        {"nosuch://h", NULL, "not known"},
        {"redis:", NULL, "not known"},
        {"zookeeper://a,b,c,d,e,f,g,h,i", NULL, "too many"},
    };
    static const int ports[] = {1001, 1002, 1003};
    static torture_target targets[TORTURE_TARGETS_MAX];
    unsetenv("PGSSLMODE");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[128] = "";
        const char *reason = NULL;
        const unsigned count = torture_targets(cases[i].url, targets, &reason);
        for (unsigned k = 0; k < count; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %s", k > 0 ? "," : "", targets[k].host,
                     targets[k].port);
        if (cases[i].targets == NULL) {
            assert_int_equal(count, 0);
            if (strstr(reason, cases[i].words) == NULL)
                fail_msg("%s: %s", cases[i].url, reason);
            continue;
        }
        assert_null(reason);
        assert_string_equal(text, cases[i].targets);
        char *rewritten = torture_rewrite(cases[i].url, ports, count);
        assert_string_equal(rewritten, cases[i].words);
        free(rewritten);
    }
}

#define SCENE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(passes_both_ways), SCENE(stalls_both_ways),
        SCENE(stalls_one_way),   SCENE(cuts),
        SCENE(delays),           SCENE(holds_back_a_bounded_amount),
        cmocka_unit_test(urls),
    };
    return cmocka_run_group_tests_name("torture_network", tests, NULL, NULL);
}
