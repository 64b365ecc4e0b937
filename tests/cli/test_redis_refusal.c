/* What Redis refuses and waiting does not mend: from the first, it ends a command; later, the command is unhealthy and goes on
 * trying. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/server.h"
#include "support.h"

static server redis;

static const char *url_of(const char *login)
{
    static char url[128];
    snprintf(url, sizeof url, "redis://%s127.0.0.1:%d?ttl=1s&transition=9s&restart-wait=no", login, redis.port);
    return url;
}

/* A user who may do everything, and whom a test may restrict. */
static void make_keeper(void)
{
    assert_string_equal(server_tell_redis(&redis, "ACL SETUSER keeper on >word ~* &* +@all"), "+OK\r\n");
}

static int socket_at(const char *path, int type, int (*use)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const struct timeval timeout = {.tv_sec = TIMEOUT_MS / 1000};
    const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout), 0);
    if (use(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    close(fd);
    return -1;
}

/* The answer of --status-listen; "" if nobody listens. */
static const char *ask(const char *path, const char *page)
{
    static char answer[32768];
    char request[64];
    size_t length = 0;
    ssize_t got;
    const int fd = socket_at(path, SOCK_STREAM, connect);
    const int size = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n\r\n", page);
    answer[0] = '\0';
    if (fd < 0)
        return answer;
    assert_int_equal(send(fd, request, (size_t)size, MSG_NOSIGNAL), size);
    while ((got = recv(fd, answer + length, sizeof answer - 1 - length, 0)) > 0)
        length += (size_t)got;
    answer[length] = '\0';
    close(fd);
    return answer;
}

static void await_answer(const char *path, const char *page, const char *words)
{
    const int64_t end_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (strstr(ask(path, page), words) == NULL) {
        if (now_ns() > end_ns)
            fail_msg("%s does not say \"%s\": %s", page, words, ask(path, page));
        poll(NULL, 0, 5);
    }
}

/* All that systemd was told, a line each; with what was told before. */
static const char *hear(int manager)
{
    static char heard[8192];
    size_t length = strlen(heard);
    ssize_t got;
    while ((got = recv(manager, heard + length, sizeof heard - 2 - length, MSG_DONTWAIT)) > 0) {
        length += (size_t)got;
        strcpy(heard + length++, "\n");
    }
    return heard;
}

static void await_heard(int manager, const char *words)
{
    const int64_t end_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (strstr(hear(manager), words) == NULL) {
        if (now_ns() > end_ns)
            fail_msg("systemd does not hear \"%s\": %s", words, hear(manager));
        poll(NULL, 0, 5);
    }
}

/* A wrong password, and a user who may not use the keys. */
static void a_refused_login_ends_a_command(void **state)
{
    make_keeper();
    assert_all_refused(url_of("keeper:false@"), 77, "(WRONGPASS). Check the user, the password and ");
    server_tell_redis(&redis, "ACL SETUSER keeper resetkeys ~other:*");
    assert_int_equal(RUN("elect", "--url", url_of("keeper:word@"), "m"), 77);
    assert_non_null(strstr(err_of(&last), "(NOPERM)"));
    if (RUN("serve", "--help") == 0) {
        assert_int_equal(RUN("serve", "--listen", "127.0.0.1:0", "--url", url_of("keeper:false@")), 77);
        assert_non_null(strstr(err_of(&last), "(WRONGPASS). Check the user, "));
    }
}

/* The server says nothing to a hello of TLS. That may take a while, so it is found out when the time to connect is over. */
static void no_tls(void **state)
{
    char url[96];
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?connect-timeout=200ms&restart-wait=no", redis.port);
    assert_all_refused(url, 78, "give it TLS, or take that out of the URL");
}

/* The certificate is for "localhost". Somebody else may have the address: that is no matter of users and passwords. */
static void the_certificate_of_another_host(void **state)
{
    server secure;
    char url[192];
    server_init(&secure);
    assert_true(server_make_certificates(secure.folder));
    assert_true(server_start_redis_tls(&secure, secure.folder, "hunt3r", NULL));
    snprintf(url, sizeof url, "rediss://:hunt3r@127.0.0.1:%d?ca=%s/ca.pem", secure.port, secure.folder);
    assert_all_refused(url, 77, ". Does the URL name the certificates to trust");
    server_fini(&secure);
}

/* It was never ready. */
static void systemd_is_not_told_that_it_is_ready(void **state)
{
    make_keeper();
    setenv("NOTIFY_SOCKET", in_dir("notify"), 1);
    const int manager = socket_at(in_dir("notify"), SOCK_DGRAM, bind);
    assert_int_equal(RUN("elect", "--url", url_of("keeper:false@"), "m"), 77);
    await_heard(manager, "STOPPING=1");
    assert_null(strstr(hear(manager), "READY=1"));
    process p = START("elect", "--url", url_of("keeper:word@"), "m");
    await_heard(manager, "READY=1");
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
    unsetenv("NOTIFY_SOCKET");
    close(manager);
}

/* The password of a leader is changed, and comes back before the lease ends. */
static void a_later_refusal_is_unhealthy(void **state)
{
    make_keeper();
    setenv("NOTIFY_SOCKET", in_dir("notify"), 1);
    const int manager = socket_at(in_dir("notify"), SOCK_DGRAM, bind);
    process p = START("elect", "--url", url_of("keeper:word@"), "--status-listen", in_dir("s"), "m");
    await_text_in(p.out_path, "acquired m");
    await_answer(in_dir("s"), "/healthz", " 200 OK\r\n");
    assert_non_null(strstr(ask(in_dir("s"), "/metrics"), "\nsimba_store_refuses 0\n# EOF\n"));
    server_tell_redis(&redis, "ACL SETUSER keeper -@all");
    await_answer(in_dir("s"), "/healthz", " 503 Service Unavailable\r\n");
    assert_non_null(strstr(ask(in_dir("s"), "/healthz"), "The store refuses: renew m: redis 127.0.0.1:"));
    assert_non_null(strstr(ask(in_dir("s"), "/metrics"), "\nsimba_store_refuses 1\n# EOF\n"));
    await_heard(manager, "STATUS=Leads m, but the store refuses to renew its lease: renew m: redis ");
    server_tell_redis(&redis, "ACL SETUSER keeper +@all");
    await_answer(in_dir("s"), "/healthz", " 200 OK\r\n");
    assert_non_null(strstr(ask(in_dir("s"), "/metrics"), "\nsimba_store_refuses 0\n"));
    assert_non_null(strstr(ask(in_dir("s"), "/"), "\"leads\":true"));
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
    assert_int_equal(lines_in(p.out_path), 2); /* acquired and released, once each */
    unsetenv("NOTIFY_SOCKET");
    close(manager);
}

/* One that waits goes on too, and leads when it may again. */
static void a_waiter_goes_on(void **state)
{
    make_keeper();
    process owner = START("elect", "--url", url_of(""), "m");
    await_text_in(owner.out_path, "acquired m");
    process p = START("schedule", "--url", url_of("keeper:word@"), "--status-listen", in_dir("s"), "--every=1h", "m",
                      "--", "true");
    await_answer(in_dir("s"), "/", "\"owner\":\"");
    server_tell_redis(&redis, "ACL SETUSER keeper -@all");
    kill(owner.pid, SIGTERM);
    assert_int_equal(finish(&owner), 0);
    await_answer(in_dir("s"), "/healthz", " 503 Service Unavailable\r\n");
    server_tell_redis(&redis, "ACL SETUSER keeper +@all");
    await_answer(in_dir("s"), "/", "\"leads\":true");
    await_answer(in_dir("s"), "/healthz", " 200 OK\r\n");
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
}

static int start_server(void **state)
{
    server_init(&redis);
    return server_start_redis(&redis, NULL) ? 0 : -1;
}

static int stop_server(void **state)
{
    server_fini(&redis);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_refused_login_ends_a_command),  TEST(no_tls),
        TEST(the_certificate_of_another_host), TEST(systemd_is_not_told_that_it_is_ready),
        TEST(a_later_refusal_is_unhealthy),    TEST(a_waiter_goes_on),
    };
    helper_main(argc, argv);
    if (!server_has("redis-server")) {
        puts("1..0 # SKIP redis-server is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
