/* `simba torture` on a real Redis: one that is well, one that forgets everything when it is restarted, and one with a contender
 * that cannot tell the time. The last two have to be found out, and the first has not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/server.h"
#include "support.h"

#define PASSWORD "geheim"
#define MINUTE_NS (60 * INT64_C(1000000000))

static server redis;
static char url[96];

/* How often a check was broken, by the object that was printed. */
static int broken(const process *p, const char *check)
{
    char member[32];
    const char *found = strstr(out_of(p), "\"broken\":{");
    assert_non_null(found);
    snprintf(member, sizeof member, "\"%s\":", check);
    found = strstr(found, member);
    assert_non_null(found);
    return (int)strtol(found + strlen(member), NULL, 10);
}

/* Among its arguments, which everybody on the host can read? */
static bool shows_password(pid_t pid)
{
    char path[64];
    char text[2048];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false; /* it was killed, as is the custom here */
    const size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    return memmem(text, length, PASSWORD, strlen(PASSWORD)) != NULL;
}

/* Every kind of fault, through the proxy, and no false alarm; nothing is left in the store, and nobody sees the password. */
static void healthy(void **state)
{
    process p = START("torture", url, "--duration", "3s", "--ttl", "200ms", "--transition", "600ms", "--seed", "7",
                      "--json", "--history", in_dir("history"), "--svg", in_dir("worst.svg"));
    await_text_in(in_dir("history"), "\"contends\"");
    assert_false(shows_password(p.pid));
    assert_false(shows_password(child_of(p.pid)));
    const int code = finish(&p);
    if (code != 0)
        print_message("# %s\n", out_of(&p));
    assert_int_equal(code, 0);
    assert_non_null(strstr(out_of(&p), "\"kept\":true"));
    assert_non_null(strstr(out_of(&p), "\"no_cuts\":null"));
    assert_null(strstr(out_of(&p), PASSWORD));
    assert_null(strstr(contents(in_dir("history")), PASSWORD));
    assert_string_equal(err_of(&p), "");
    assert_non_null(strstr(contents(in_dir("worst.svg")), "</svg>"));
    assert_int_equal(RUN("list", "--url", url), 0);
    assert_null(strstr(out_of(&last), "torture-"));
}

/* A server without persistence is restarted, and another contender is granted what the first one still holds. */
static void forgetful_server(void **state)
{
    const int64_t begun_ns = now_ns();
    process p = START("torture", url, "--duration", "3s", "--ttl", "1s", "--transition", "3s", "--seed", "1", "--json",
                      "--faults", "delay", "--history", in_dir("history"));
    await_text_in(in_dir("history"), "\"holds\"");
    server_signal(&redis, SIGKILL);
    assert_true(server_start(&redis));
    assert_int_equal(finish(&p), 1);
    assert_true(broken(&p, "overlaps") + broken(&p, "tokens") + broken(&p, "forgotten") > 0);
    assert_non_null(strstr(out_of(&p), "\"kept\":false"));
    assert_true(now_ns() - begun_ns < MINUTE_NS);
}

static void load_slow_clock(void)
{
    setenv("LD_PRELOAD", SIMBA_TEST_SLOW_CLOCK, 1);
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
}

/* A contender whose clock stands almost still goes on acting when its lease has ended. The plan of this seed is to leave the leader
 * alone for longer than its lease, to have it hand over, and to leave the next one alone: one of them has such a clock. */
static void ignored_clock(void **state)
{
    const int64_t begun_ns = now_ns();
    before_simba = load_slow_clock;
    process p = START("torture", url, "--duration", "5s", "--ttl", "300ms", "--transition", "300ms", "--seed", "179904",
                      "--faults", "handover,delay", "--json");
    const int code = finish(&p);
    if (code != 1)
        print_message("# %s\n", out_of(&p));
    assert_int_equal(code, 1);
    assert_true(broken(&p, "overlaps") > 0);
    assert_non_null(strstr(out_of(&p), "both acted as leader"));
    assert_true(now_ns() - begun_ns < MINUTE_NS);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    if (!server_has("redis-server")) {
        puts("1..0 # SKIP redis-server is not installed");
        return 0;
    }
    server_init(&redis);
    if (!server_start_redis(&redis, (const char *const[]){"--requirepass", PASSWORD, NULL})) {
        puts("Bail out! Redis does not start");
        return 1;
    }
    snprintf(url, sizeof url, "redis://:" PASSWORD "@127.0.0.1:%d/1?restart-wait=no", redis.port);
    const struct CMUnitTest tests[] = {TEST(healthy), TEST(forgetful_server), TEST(ignored_clock)};
    const int failed = cmocka_run_group_tests_name("redis_torture", tests, NULL, NULL);
    server_fini(&redis);
    return failed;
}
