/* The commands that go on: `simba schedule` and `simba elect`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

/* --- schedule --------------------------------------------------------------------------------------- */

/* It runs again and again, and ends when it is asked to. */
static void schedule_runs_again_and_again(void **state)
{
    const char *const kinds[] = {"--every", "--after"};
    for (size_t i = 0; i < 2; i++) {
        process p =
            START("schedule", kinds[i], "20ms", "m", "--", "sh", "-c", "echo $SIMBA_TOKEN >> \"$0\"", in_dir(kinds[i]));
        await_lines_in(in_dir(kinds[i]), 4);
        kill(p.pid, SIGTERM);
        assert_int_equal(finish(&p), 0);
        assert_string_equal(err_of(&p), "");
    }
}

/* A command that takes longer than the period, and fails: no two at once, and it goes on. */
static void schedule_never_overlaps(void **state)
{
    process p =
        START("schedule", "--every", "10ms", "m", "--", "sh", "-c",
              "mkdir \"$0\" && sleep 0.03 && rmdir \"$0\" && echo >> \"$1\"; exit 3", in_dir("alone"), in_dir("runs"));
    await_lines_in(in_dir("runs"), 5);
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
    assert_non_null(strstr(err_of(&p), "exited with 3"));
    assert_null(strstr(err_of(&p), "File exists"));
}

/* A command that takes longer than the lease, of either: the lease is kept, by the one thread there is. */
static void long_commands_keep_the_lease(void **state)
{
    char url[300];
    char script[400];
    snprintf(url, sizeof url, "sqlite://%s?ttl=300ms&transition=1500ms", in_dir("store.db"));
    snprintf(script, sizeof script, "sleep 3; echo done $SIMBA_TOKEN >> %s", in_dir("log"));
    process one = START("--url", url, "schedule", "--every", "1h", "a", "--", "sh", "-c", script);
    process two = START("--url", url, "elect", "b", "--on-acquired", script);
    await_lines_in(in_dir("log"), 2);
    kill(one.pid, SIGTERM);
    kill(two.pid, SIGTERM);
    assert_int_equal(finish(&one), 0);
    assert_int_equal(finish(&two), 0);
    assert_string_equal(err_of(&one), "");
    assert_string_equal(err_of(&two), "");
    assert_non_null(strstr(out_of(&two), ": stopped\n"));
}

/* That a command failed is said, also if its code is one that a signal could have caused. */
static void high_exit_codes_are_said(void **state)
{
    for (int i = 0; i < 2; i++) {
        process p = i == 0 ? START("schedule", "--every", "10ms", "m", "--", "sh", "-c", "exit 200")
                           : START("elect", "m", "--keep-leading", "--on-acquired", "exit 200");
        await_text_in(p.err_path, "exited with 200");
        kill(p.pid, SIGTERM);
        assert_int_equal(finish(&p), 0);
    }
}

/* Of two only one runs it; when that is killed, its command dies, and the other goes on. */
static void schedule_moves_to_the_next_leader(void **state)
{
    process one = START("schedule", "--every", "10ms", "m", "--", helper, "family", in_dir("parent"), in_dir("child"));
    await_file(in_dir("child"));
    process two = START("schedule", "--every", "10ms", "m", "--", helper, "stamp", in_dir("next"));
    kill(one.pid, SIGKILL);
    assert_int_equal(finish(&one), 1000 + SIGKILL);
    await_file(in_dir("next"));
    kill(two.pid, SIGTERM);
    assert_int_equal(finish(&two), 0);
    assert_true(number_in(in_dir("parent")) < number_in(in_dir("next")));
    assert_true(number_in(in_dir("child")) < number_in(in_dir("next")));
}

/* Ctrl-C while a command runs is for both: the command ends, and what would start it again does too. */
static void ctrl_c_ends_it_all(void **state)
{
    const char *const script = "echo on; exec sleep 1000";
    for (int i = 0; i < 2; i++) {
        terminal t = i == 0 ? START_ON_TERMINAL("schedule", "--every", "10ms", "m", "--", "sh", "-c", script)
                            : START_ON_TERMINAL("elect", "m", "--on-acquired", script);
        await_shown(&t, "on\r\n");
        assert_int_equal(write(t.fd, "\003", 1), 1);
        assert_int_equal(finish_terminal(&t), 0);
    }
}

static void schedule_explains_wrong_use(void **state)
{
    assert_int_equal(RUN("schedule", "m", "--", "true"), 64);
    assert_non_null(strstr(err_of(&last), "missing"));
    assert_int_equal(RUN("schedule", "--every", "1s", "--after", "1s", "m", "--", "true"), 64);
    assert_non_null(strstr(err_of(&last), "--every and --after contradict each other"));
    assert_int_equal(RUN("schedule", "--every", "0s", "m", "--", "true"), 64);
    assert_non_null(strstr(err_of(&last), "--every must be longer than 0"));
    assert_int_equal(RUN("schedule", "--every", "1s", "m", "--", "no-such-program"), 127);
}

/* --- elect ------------------------------------------------------------------------------------------- */

/* Leadership comes and goes: on standard output, in the status file, by the two commands. The next one leads only after
 * the release command of the first has ended. */
static void elect_tells_scripts(void **state)
{
    char up[500];
    char down[600];
    snprintf(up, sizeof up, "echo $SIMBA_ID up $SIMBA_TOKEN >> %s", in_dir("log"));
    snprintf(down, sizeof down, "sleep 0.2; echo $SIMBA_ID down $SIMBA_REASON >> %s", in_dir("log"));
    process one = START("--id", "one", "elect", "m", "--on-acquired", up, "--on-released", down, "--status-file",
                        in_dir("status-1"));
    await_text_in(in_dir("log"), "one up 1");
    await_text_in(in_dir("status-1"), "leader 1");
    process two = START("--id", "two", "elect", "--json", "m", "--on-acquired", up, "--on-released", down,
                        "--status-file", in_dir("status-2"));
    await_text_in(in_dir("status-2"), "follower");
    kill(one.pid, SIGTERM);
    await_text_in(in_dir("status-2"), "leader 1");
    assert_non_null(strstr(contents(in_dir("log")), "one down stopped\n"));
    assert_int_equal(finish(&one), 0);
    assert_memory_equal(out_of(&one), "acquired m token 1", 18);
    assert_non_null(strstr(out_of(&one), ": stopped\n"));
    assert_int_not_equal(access(in_dir("status-1"), F_OK), 0);
    await_text_in(in_dir("log"), "two up 1");
    kill(two.pid, SIGINT);
    assert_int_equal(finish(&two), 0);
    assert_non_null(strstr(out_of(&two), "\"event\":\"released\""));
    assert_non_null(strstr(out_of(&two), "\"reason\":\"stopped\""));
}

/* The status file says until when it is true, and that moves with the renewals. */
static void elect_status_has_an_end(void **state)
{
    process p = START("elect", "m", "--status-file", in_dir("status"));
    double first = 0;
    double later = 0;
    await_text_in(in_dir("status"), "leader");
    assert_int_equal(sscanf(contents(in_dir("status")), "leader %*s %lf", &first), 1);
    const double now = (double)now_ns() / 1e9;
    assert_true(first > now - 1 && first < now + 2.1);
    const int64_t until_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    do {
        assert_true(now_ns() < until_ns);
        sscanf(contents(in_dir("status")), "leader %*s %lf", &later);
    } while (later <= first);
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
}

/* The store freezes: the release command still runs, and is done before anybody else can lead. */
static void elect_releases_without_a_store(void **state)
{
    char down[500];
    set_lease("1s", "4s"); /* a busy machine must get to the command while there is time for it */
    snprintf(down, sizeof down, "echo $SIMBA_REASON > %s", in_dir("down"));
    process p = START("elect", "m", "--on-released", down, "--status-file", in_dir("status"));
    await_text_in(in_dir("status"), "leader");
    const pid_t freezer = start_helper("freeze", in_dir("store.db"), in_dir("frozen"));
    await_text_in(p.err_path, "the lease of m cannot be renewed; leadership will be given up in ");
    await_text_in(in_dir("down"), "expired");
    assert_string_equal(contents(in_dir("status")), "follower\n");
    end_process(freezer);
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
}

/* A leader that could not do its work lets others try, and tries again itself after a lease. */
static void elect_gives_back_what_it_cannot_use(void **state)
{
    char script[500];
    snprintf(script, sizeof script, "echo >> %s; test $(wc -l < %s) -gt 1", in_dir("tries"), in_dir("tries"));
    process one = START("elect", "m", "--on-acquired", script, "--on-released", "echo $SIMBA_REASON >&2");
    await_text_in(one.err_path, "failed; leadership of m is given back");
    await_text_in(one.out_path, "released m");
    await_text_in(one.err_path, "\nstopped\n");
    assert_int_equal(RUN("run", "--wait", "10s", "m", "--", "true"), 0);
    await_lines_in(in_dir("tries"), 2);
    await_lines_in(one.out_path, 3);
    assert_int_equal(RUN("run", "--no-wait", "m", "--", "true"), 75); /* this time it did */
    kill(one.pid, SIGTERM);
    assert_int_equal(finish(&one), 0);

    process two = START("elect", "m", "--keep-leading", "--on-acquired", "exit 3");
    await_text_in(two.err_path, "exited with 3");
    assert_int_equal(RUN("run", "--no-wait", "m", "--", "true"), 75);
    kill(two.pid, SIGTERM);
    assert_int_equal(finish(&two), 0);
}

/* The status file: a folder that is not there is said at once, and a link that somebody has put in the way is replaced,
 * not followed. */
static void elect_status_file_is_its_own(void **state)
{
    char link[500];
    assert_int_equal(RUN("elect", "m", "--status-file", in_dir("no/such/status")), 78);
    assert_non_null(strstr(err_of(&last), "No such file"));
    assert_string_equal(out_of(&last), "");
    assert_int_equal(RUN("elect", "m", "--status-file", "/dev/pts/status"), 77);

    write_file(in_dir("precious"), "precious\n");
    process p = START("elect", "m", "--status-file", in_dir("status"));
    snprintf(link, sizeof link, "%s.%d", in_dir("status"), (int)p.pid);
    await_text_in(in_dir("status"), "leader");
    char *before = strdup(contents(in_dir("status")));
    assert_non_null(before);
    if (symlink(in_dir("precious"), link) < 0)
        assert_int_equal(errno, EEXIST); /* it was just being written */
    const int64_t until_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (strcmp(before, contents(in_dir("status"))) == 0)
        assert_true(now_ns() < until_ns);
    free(before);
    assert_string_equal(contents(in_dir("precious")), "precious\n");
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
}

/* It was asked to end, and is frozen while --on-released runs: the command is dead before the lease ends in the store. */
static void elect_frozen_while_it_releases(void **state)
{
    char down[1000];
    set_lease("1s", "4s");
    snprintf(down, sizeof down, "exec '%s' beat '%s'", helper, in_dir("beat"));
    process p = START("elect", "m", "--on-released", down, "--status-file", in_dir("status"));
    await_text_in(in_dir("status"), "leader");
    kill(p.pid, SIGTERM);
    await_file(in_dir("beat"));
    kill(p.pid, SIGSTOP);
    const int64_t end_ns = lease_end_ns("m");
    assert_true(end_ns > now_ns());
    await_time(end_ns);
    assert_true(number_in(in_dir("beat")) < end_ns - 50000000);
    kill(p.pid, SIGCONT);
    assert_int_equal(finish(&p), 0);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(schedule_runs_again_and_again),
        TEST(long_commands_keep_the_lease),
        TEST(schedule_never_overlaps),
        TEST(schedule_moves_to_the_next_leader),
        TEST(schedule_explains_wrong_use),
        TEST(elect_tells_scripts),
        TEST(elect_status_has_an_end),
        TEST(elect_releases_without_a_store),
        TEST(ctrl_c_ends_it_all),
        TEST(elect_gives_back_what_it_cannot_use),
        TEST(elect_status_file_is_its_own),
        TEST(elect_frozen_while_it_releases),
        TEST(high_exit_codes_are_said),
    };
    return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
