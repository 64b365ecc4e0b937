/* A Redis server that keeps nothing on disk: the commands that hold a mutex on it warn, once. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/server.h"
#include "support.h"

#define WORDS "warning: redis 127.0.0.1:"

static server redis;
static char url[96];

static unsigned count(const char *text, const char *words)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at += strlen(words))
        n++;
    return n;
}

/* A command that is over at once is no reason to be silent. */
static void run_warns_once(void **state)
{
    assert_int_equal(RUN("run", "--url", url, "m", "--", "true"), 0);
    assert_int_equal(count(err_of(&last), WORDS), 1);
    assert_non_null(strstr(err_of(&last), "the server keeps nothing on disk (appendonly no, save \"\")"));
    assert_non_null(strstr(err_of(&last), "set appendonly yes and appendfsync always"));
    assert_int_equal(RUN("run", "--url", url, "m", "--", "sh", "-c", "exit 3"), 3);
    assert_int_equal(count(err_of(&last), WORDS), 1);
}

/* Nor is it repeated when the server has restarted. */
static void elect_warns_once(void **state)
{
    process p = START("elect", "--url", url, "--on-acquired", "echo took it", "m");
    await_text_in(p.out_path, "took it\n");
    await_text_in(p.err_path, WORDS);
    server_signal(&redis, SIGKILL);
    assert_true(server_start(&redis));
    await_text_in(p.out_path, "superseded\nacquired");
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
    assert_int_equal(count(err_of(&p), WORDS), 1);
}

static void schedule_warns_once(void **state)
{
    process p = START("schedule", "--url", url, "m", "--every", "50ms", "--", "sh", "-c", "echo ran");
    await_text_in(p.out_path, "ran\nran\n");
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
    assert_int_equal(count(err_of(&p), WORDS), 1);
}

/* Looking does no harm; the doctor says it as a finding. */
static void others_do_not_warn(void **state)
{
    assert_int_equal(RUN("list", "--url", url), 0);
    assert_string_equal(err_of(&last), "");
    RUN("doctor", "--url", url);
    assert_non_null(strstr(out_of(&last), "appendonly is off: a server that restarts forgets who holds what"));
    assert_int_equal(count(err_of(&last), WORDS), 0);
}

/* The doctor does not suspect the network when a server that has just started grants nothing. */
static void doctor_knows_a_start(void **state)
{
    char waits[96];
    snprintf(waits, sizeof waits, "redis://127.0.0.1:%d?restart-wait=yes", redis.port);
    server_signal(&redis, SIGKILL);
    assert_true(server_start(&redis));
    assert_int_equal(RUN("doctor", "--url", waits), 69);
    assert_non_null(strstr(out_of(&last), " s ago and may have forgotten leases: waiting "));
    assert_non_null(strstr(out_of(&last), "Ask again then"));
    assert_null(strstr(out_of(&last), "firewall"));
}

/* A server that keeps what it acknowledges. */
static void no_reason_to_warn(void **state)
{
    server_tell_redis(&redis, "CONFIG SET appendonly yes");
    assert_int_equal(RUN("run", "--url", url, "m", "--", "true"), 0);
    assert_string_equal(err_of(&last), "");
    server_tell_redis(&redis, "CONFIG SET appendonly no");
}

static int start_server(void **state)
{
    server_init(&redis);
    if (!server_start_redis(&redis, NULL))
        return -1;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?ttl=1s&transition=2s&restart-wait=no", redis.port);
    return 0;
}

static int stop_server(void **state)
{
    server_fini(&redis);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(run_warns_once),     TEST(elect_warns_once),     TEST(schedule_warns_once),
        TEST(others_do_not_warn), TEST(doctor_knows_a_start), TEST(no_reason_to_warn),
    };
    helper_main(argc, argv);
    if (!server_has("redis-server")) {
        puts("1..0 # SKIP redis-server is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
