/* The command on ZooKeeper, whose server decides how long a session lasts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/run_zookeeper.h"
#include "support.h"

static server zookeeper;

/* Thirty seconds are asked for and ten are granted: the limit of the server is twenty ticks. */
static void ask_for_more_than_granted(void)
{
    char url[96];
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/cli?session-timeout=30s", zookeeper.port);
    setenv("SIMBA_URL", url, 1);
}

/* The grace is chosen by what the server grants, so the mutex is obtained. */
static void a_shorter_session_is_enough(void **state)
{
    ask_for_more_than_granted();
    assert_int_equal(RUN("run", "--wait", "10s", "m", "--", "true"), 0);
    assert_null(strstr(err_of(&last), "grace")); /* a server that is slow to answer has a warning shown */
    assert_int_equal(RUN("run", "--no-wait", "m", "--", "true"), 0);
    process scheduled = START("schedule", "--every", "1h", "m", "--", "sh", "-c", "echo done > \"$0\"", in_dir("done"));
    await_file(in_dir("done"));
    kill(scheduled.pid, SIGTERM);
    assert_int_equal(finish(&scheduled), 0);
    assert_null(strstr(err_of(&scheduled), "cannot"));
    process elected = START("elect", "m");
    await_text_in(elected.out_path, "acquired m");
    kill(elected.pid, SIGTERM);
    assert_int_equal(finish(&elected), 0);
    assert_null(strstr(err_of(&elected), "cannot"));
}

/* One that was asked for and does not fit is refused by what the server grants. */
static void a_grace_for_the_longer_session_is_refused(void **state)
{
    ask_for_more_than_granted();
    assert_int_equal(RUN("run", "--grace", "8s", "m", "--", "true"), 64);
    assert_non_null(strstr(err_of(&last), "with a session of 10000 ms at most"));
}

/* The mutexes are in nodes that only another user may use: that ends a command that has had no answer yet. */
static void somebody_elses_nodes_are_refused(void **state)
{
    char url[96];
    snprintf(url, sizeof url, "zookeeper://keeper:word@127.0.0.1:%d/kept?acl=creator", zookeeper.port);
    setenv("SIMBA_URL", url, 1);
    assert_int_equal(RUN("run", "m", "--", "true"), 0);
    snprintf(url, sizeof url, "zookeeper://keeper:false@127.0.0.1:%d/kept", zookeeper.port);
    assert_all_refused(url, 77, ". Check the user, the password and ");
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {TEST(a_shorter_session_is_enough),
                                       TEST(a_grace_for_the_longer_session_is_refused),
                                       TEST(somebody_elses_nodes_are_refused)};
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper);
}
