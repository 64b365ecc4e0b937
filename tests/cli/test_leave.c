/* How long the command takes to leave a server that says something now and then, but never what was asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/fake_redis.h"
#include "lib/fake_mysql.h"
#include "lib/fake_zookeeper.h"
#include "lib/referee.h"
#include "support.h"

/* From the signal or the limit to the end. Requests have 3 to 4 s for their answers, so who waits for one is seen. */
#define LEAVES_MS ref_scaled_ms(2200)

/* --- servers that do not answer --------------------------------------------------------------------- */

static fake_redis mute_redis = {.answer = NULL};
static fake_redis halting_redis = {.first = "$40\r\nhalf of an answer"};
static fake_mysql dripping_mysql = {.drip_ms = 200};
static fake_mysql slow_mysql = {.lets_in = true};
static fake_zookeeper mute_zookeeper;

static struct {
    const char *scheme;
    const int *port;
} servers[] = {
    {"redis", &mute_redis.port}, {"redis", &halting_redis.port},      {"mysql", &dripping_mysql.port},
    {"mysql", &slow_mysql.port}, {"zookeeper", &mute_zookeeper.port},
};

static int start_servers(void **state)
{
    fake_start(&mute_redis);
    fake_start(&halting_redis);
    fake_mysql_start(&dripping_mysql);
    fake_mysql_start(&slow_mysql);
    fake_zookeeper_start(&mute_zookeeper, (fake_odd){.request = FAKE_CREATE2, .manner = FAKE_MUTE});
    return 0;
}

static int stop_servers(void **state)
{
    fake_stop(&mute_redis);
    fake_stop(&halting_redis);
    fake_mysql_stop(&dripping_mysql);
    fake_mysql_stop(&slow_mysql);
    fake_zookeeper_stop(&mute_zookeeper);
    return 0;
}

static void use_server(size_t i)
{
    char url[128];
    snprintf(url, sizeof url, "%s://user:pass@127.0.0.1:%d/db", servers[i].scheme, *servers[i].port);
    if (strcmp(servers[i].scheme, "mysql") != 0)
        snprintf(url, sizeof url, "%s://127.0.0.1:%d", servers[i].scheme, *servers[i].port);
    setenv("SIMBA_URL", url, 1);
}

/* Has somebody connected to this port of the machine itself? */
static bool is_connected(int port)
{
    char line[256];
    char client_side[32]; /* its end of the connection: the remote port, and the state ESTABLISHED */
    bool found = false;
    FILE *connections = fopen("/proc/net/tcp", "re");
    assert_non_null(connections);
    snprintf(client_side, sizeof client_side, " 0100007F:%04X 01 ", (unsigned)port);
    while (!found && fgets(line, sizeof line, connections) != NULL)
        found = strstr(line, client_side) != NULL;
    fclose(connections);
    return found;
}

static void await_connection(size_t server)
{
    const struct timespec pause = {0, 2000000};
    const int64_t until_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (!is_connected(*servers[server].port)) {
        assert_true(now_ns() < until_ns);
        nanosleep(&pause, NULL);
    }
}

/* --- leaving them ------------------------------------------------------------------------------------ */

static void assert_left(const char *what, size_t server, int64_t since_ns)
{
    const int64_t took_ms = (now_ns() - since_ns) / 1000000;
    if (took_ms > LEAVES_MS)
        fail_msg("%s took %lld ms to leave %s, server %zu", what, (long long)took_ms, servers[server].scheme, server);
}

/* The wait is over when it is over. */
static void a_limit_wins(void **state)
{
    for (size_t i = 0; i < COUNT_OF(servers); i++) {
        use_server(i);
        const int64_t start_ns = now_ns();
        if (RUN("run", "--wait", "500ms", "m", "--", "true") != 69)
            fail_msg("%s: %s", servers[i].scheme, err_of(&last));
        assert_left("run --wait", i, start_ns + 500000000);
    }
}

/* Whoever waits in vain is free to go. */
static void a_signal_wins(void **state)
{
    static const struct {
        const char *arguments[5];
        int number;
        int code;
    } commands[] = {
        {{"run", "m", "--", "true"}, SIGINT, 128 + SIGINT},
        {{"elect", "m"}, SIGTERM, 0},
        {{"schedule", "--after=1s", "m", "--", "true"}, SIGINT, 0},
        {{"watch", "m"}, SIGINT, 128 + SIGINT},
    };
    for (size_t i = 0; i < COUNT_OF(servers); i++)
        for (size_t j = 0; j < COUNT_OF(commands); j++) {
            use_server(i);
            const char *arguments[6] = {NULL};
            memcpy(arguments, commands[j].arguments, sizeof commands[j].arguments);
            process p = start(arguments);
            await_connection(i);
            const int64_t start_ns = now_ns();
            kill(p.pid, commands[j].number);
            assert_int_equal(finish(&p), commands[j].code);
            assert_left(commands[j].arguments[0], i, start_ns);
        }
}

static bool has_open(pid_t pid, const char *path)
{
    for (int fd = 3; fd < 32; fd++) {
        char link[64];
        char target[400] = "";
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
        if (readlink(link, target, sizeof target - 1) > 0 && strcmp(target, path) == 0)
            return true;
    }
    return false;
}

/* Opening a file that somebody else has locked takes long, and can be interrupted. */
static void opening_can_be_interrupted(void **state)
{
    static const char *const commands[][6] = {
        {"run", "m", "--", "true"}, {"elect", "m"}, {"schedule", "--after=1s", "m", "--", "true"}, {"watch", "m"}};
    const struct timespec pause = {0, 2000000};
    const pid_t freezer = start_helper("freeze", in_dir("store.db"), in_dir("frozen"));
    await_file(in_dir("frozen"));
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        process p = start(commands[i]);
        while (!has_open(p.pid, in_dir("store.db")))
            nanosleep(&pause, NULL);
        const int64_t start_ns = now_ns();
        kill(p.pid, SIGTERM);
        assert_int_equal(finish(&p), 1000 + SIGTERM);
        assert_true(now_ns() - start_ns < LEAVES_MS * 1000000);
    }
    end_process(freezer);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {TEST(a_limit_wins), TEST(a_signal_wins), TEST(opening_can_be_interrupted)};
    return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
