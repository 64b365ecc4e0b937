/* --check of `simba elect`, `schedule` and `hold`: a mutex is held only while a command of the user succeeds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

#define EVERY "--check-every=250ms" /* and so long may one run take, also on a busy machine */

/* The check of these tests: there is a file. */
static const char *file_is_there(void)
{
    static char script[500];
    snprintf(script, sizeof script, "test -e '%s'", in_dir("well"));
    return script;
}

static void set_well(bool well)
{
    if (well)
        write_file(in_dir("well"), "");
    else
        assert_int_equal(unlink(in_dir("well")), 0);
}

/* It contends when the check succeeds, gives back when that fails, and stands behind the others when it succeeds again. */
static void elect_leads_while_it_succeeds(void **state)
{
    (void)state;
    set_lease("2s", "20s");
    process one = START("elect", "m", "--check", file_is_there(), EVERY);
    await_text_in(one.err_path, "the check failed: it exited with 1.");
    assert_int_equal(RUN("run", "-n", "m", "--", "true"), 0);
    set_well(true);
    await_text_in(one.out_path, "acquired m");
    process two = START("--id", "two", "elect", "m", "--event-log", in_dir("events"));
    await_text_in(in_dir("events"), "request acquire");
    set_well(false);
    await_text_in(two.out_path, "acquired m");
    await_text_in(one.out_path, ": stopped");
    set_well(true);
    await_lines_in(one.err_path, 4); /* it failed, succeeds again, and both once more */
    assert_int_equal(lines_in(one.out_path), 2);
    kill(two.pid, SIGTERM);
    await_lines_in(one.out_path, 3);
    kill(one.pid, SIGTERM);
    assert_int_equal(finish(&two), 0);
    assert_int_equal(finish(&one), 0);
    assert_int_equal(lines_in(one.err_path), 4); /* only changes are said */
}

/* A command that runs under the lease is stopped before the mutex is given back; later it runs again. */
static void commands_are_stopped(void **state)
{
    (void)state;
    char script[1000];
    const char *const kinds[] = {"elect", "schedule"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(script, sizeof script, "trap 'echo stopped >> %s; exit 0' TERM; echo began >> %s; sleep 1000 & wait",
                 in_dir(kinds[i]), in_dir(kinds[i]));
        set_lease("2s", "20s");
        set_well(true);
        process p = i == 0 ? START("elect", "m", "--on-acquired", script, "--check", file_is_there(), EVERY)
                           : START("schedule", "--every", "20ms", "--check", file_is_there(), EVERY, "m", "--", "sh",
                                   "-c", script);
        await_text_in(in_dir(kinds[i]), "began\n");
        set_well(false);
        await_text_in(in_dir(kinds[i]), "began\nstopped\n");
        assert_int_equal(RUN("run", "--wait", "10s", "m", "--", "true"), 0);
        set_well(true);
        await_text_in(in_dir(kinds[i]), "began\nstopped\nbegan\n");
        set_well(false);
        await_text_in(in_dir(kinds[i]), "began\nstopped\nbegan\nstopped\n");
        kill(p.pid, SIGTERM);
        assert_int_equal(finish(&p), 0);
        assert_non_null(strstr(err_of(&p), "leadership of m ended (stopped); the command was stopped, with SIGTERM"));
    }
}

/* The program of `simba hold` hears of it, and has the grace; without having held anything it was not obtained. */
static void hold_ends_when_it_fails(void **state)
{
    (void)state;
    set_lease("2s", "20s");
    assert_int_equal(RUN("hold", "--check", "exit 3", "m"), 75);
    assert_string_equal(out_of(&last), "");
    set_well(true);
    process p = START("hold", "--grace", "6s", "--check", file_is_there(), EVERY, "m");
    await_text_in(p.out_path, "acquired");
    assert_int_equal(RUN("run", "-n", "m", "--", "true"), 75);
    set_well(false);
    await_text_in(p.out_path, "\"reason\":\"check failed\",\"left_ms\":6000}");
    assert_int_equal(RUN("run", "-n", "m", "--", "true"), 75);
    assert_int_equal(finish(&p), 79);
    assert_int_equal(RUN("run", "-n", "m", "--", "true"), 0);
}

/* A check that hangs has failed, and is killed with all that it has started. What it prints is no event, and it has no input. */
static void a_check_is_bounded(void **state)
{
    (void)state;
    char script[1500];
    snprintf(script, sizeof script,
             "cat; echo noise; if test ! -e '%s'; then sleep 1000 & echo $! > '%s'; exit 0; fi;"
             "'%s' beat '%s' & echo $! > '%s'; exec '%s' beat '%s'",
             in_dir("hang"), in_dir("left"), helper, in_dir("a"), in_dir("pid"), helper, in_dir("b"));
    process p = START("elect", "m", "--check", script, "--check-every", "500ms");
    await_text_in(p.out_path, "acquired m");
    await_death((pid_t)number_in(in_dir("left")));
    write_file(in_dir("hang"), "");
    await_text_in(p.err_path, "the check failed: it took too long.");
    await_text_in(p.out_path, ": stopped");
    await_death((pid_t)number_in(in_dir("pid")));
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
    assert_int_equal(lines_in(p.out_path), 2);
    assert_non_null(strstr(err_of(&p), "noise\n"));
}

/* Neither the password nor a token reaches it. */
static void its_environment_is_that_of_commands(void **state)
{
    (void)state;
    setenv("SIMBA_PASSWORD", "secret", 1);
    process p = START("hold", "--check", "test \"$SIMBA_MUTEX\" = m -a -z \"$SIMBA_PASSWORD$SIMBA_TOKEN\"", "m");
    await_text_in(p.out_path, "acquired");
    unsetenv("SIMBA_PASSWORD");
    assert_int_equal(finish(&p), 0);
    assert_int_equal(RUN("elect", "--check-every", "1s", "m"), 64);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(elect_leads_while_it_succeeds),
        TEST(commands_are_stopped),
        TEST(hold_ends_when_it_fails),
        TEST(a_check_is_bounded),
        TEST(its_environment_is_that_of_commands),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
