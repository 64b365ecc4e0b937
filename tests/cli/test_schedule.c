/* `simba schedule` with a memory, and `simba run` once per period. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static void end(process *p)
{
    kill(p->pid, SIGTERM);
    assert_int_equal(finish(p), 0);
}

/* --- schedule ---------------------------------------------------------------------------------------- */

/* A run that was killed with its leader: the next one is told; at least once, it is the same run. */
static void the_command_learns_what_was(void **state)
{
    static const char script[] =
        "echo $SIMBA_DUE $SIMBA_MISSED $SIMBA_CUT_SHORT >> \"$0\"; [ -e \"$0.go\" ] || sleep 1000";
    for (int i = 0; i < 2; i++) {
        const char *log = in_dir(i == 0 ? "most" : "least");
        char go[320];
        const char *const kind = i == 0 ? "--every=1s" : "--at-least-once";
        snprintf(go, sizeof go, "%s.go", log);
        process one = START("schedule", "--every", "1s", kind, log + strlen(log) - 4, "--", "sh", "-c", script, log);
        await_lines_in(log, 1);
        kill(one.pid, SIGKILL);
        assert_int_equal(finish(&one), 1000 + SIGKILL);
        write_file(go, "x");
        process two = START("schedule", "--every", "1s", kind, log + strlen(log) - 4, "--", "sh", "-c", script, log);
        await_lines_in(log, 2);
        end(&two);
        char due[2][40];
        long missed[2];
        int cut[2];
        assert_int_equal(
            sscanf(contents(log), "%39s %ld %d %39s %ld %d", due[0], &missed[0], &cut[0], due[1], &missed[1], &cut[1]),
            6);
        assert_int_equal(cut[0], 0);
        assert_int_equal(cut[1], 1);
        assert_true((strcmp(due[0], due[1]) == 0) == (i == 1));
        assert_int_equal(strlen(due[0]) >= 20 && due[0][10] == 'T' && due[0][strlen(due[0]) - 1] == 'Z', 1);
    }
}

/* By the clock on the wall; and everybody can look up what is scheduled, and how it went. */
static void cron_and_list(void **state)
{
    process p = START("schedule", "--cron", "* * * * * *", "--tz", "Europe/Berlin", "--catch-up", "skip", "nightly",
                      "--", "sh", "-c", "echo >> \"$0\"", in_dir("runs"));
    process failing = START("schedule", "--every", "1h", "failing", "--", "sh", "-c", "exit 3");
    await_text_in(failing.err_path, "exited with 3");
    end(&failing); /* notes the end of the run before it leaves */
    await_lines_in(in_dir("runs"), 2);
    end(&p);
    assert_int_equal(RUN("schedule", "--list"), 0);
    assert_non_null(strstr(out_of(&last), "  ENDED  "));
    assert_non_null(strstr(out_of(&last), "nightly"));
    assert_non_null(strstr(out_of(&last), "failed (3)"));
    assert_non_null(strstr(out_of(&last), "cron * * * * * * in Europe/Berlin"));
    assert_int_equal(RUN("schedule", "--list", "--json", "fail*"), 0);
    assert_null(strstr(out_of(&last), "nightly"));
    assert_non_null(strstr(out_of(&last), "\"result\":3"));
    assert_non_null(strstr(out_of(&last), "\"next\":\"20"));
    assert_int_equal(RUN("schedule", "--list", "--json", "other*"), 0);
    assert_string_equal(out_of(&last), "[]\n");
}

/* A period is printed as it is written on the command line. */
static void periods_have_units(void **state)
{
    static const char *const periods[] = {"1s", "90s", "1500ms", "2h"};
    for (size_t i = 0; i < COUNT_OF(periods); i++) {
        char expected[32];
        process p = START("schedule", "--every", periods[i], periods[i], "--", "sh", "-c", "echo >> \"$0\"",
                          in_dir(periods[i]));
        await_lines_in(in_dir(periods[i]), 1);
        end(&p);
        assert_int_equal(RUN("schedule", "--list", periods[i]), 0);
        snprintf(expected, sizeof expected, "  every %s\n", periods[i]);
        assert_non_null(strstr(out_of(&last), expected));
    }
    assert_int_equal(RUN("run", "--once-per", "20h", "other", "--", "true"), 0);
    assert_int_equal(RUN("schedule", "--list", "other"), 0);
    assert_non_null(strstr(out_of(&last), "  once per 20h\n"));
}

static void wrong_use_is_explained(void **state)
{
    static const struct {
        const char *arguments[10];
        int code;
        const char *says;
    } wrong[] = {
        {{"schedule", "--cron", "61 * * * *", "m", "--", "true"}, 64, "minute \"61\""},
        {{"schedule", "--cron", "@daily", "--tz", "Europe/Atlantis", "m", "--", "true"}, 64, "Europe/Atlantis"},
        {{"schedule", "--cron", "@daily", "--tz", "../passwd", "m", "--", "true"}, 64, "time zone"},
        {{"schedule", "--url", "redis://127.0.0.1:1", "--cron", "1 2 3", "m", "--", "true"}, 64, "has 3 fields"},
        {{"schedule", "--cron", "@daily", "--every", "1s", "m", "--", "true"}, 64, "--every and --cron contradict"},
        {{"schedule", "--every", "1s", "--tz", "UTC", "m", "--", "true"}, 64, "--tz is for --cron"},
        {{"schedule", "--after", "1s", "--at-least-once", "m", "--", "true"}, 64, "--after remembers nothing"},
        {{"schedule", "--every", "1s", "--catch-up", "all:x", "m", "--", "true"}, 64, "not \"all:x\""},
        {{"schedule", "--every", "1s", "--catch-up", "all:1001", "m", "--", "true"}, 64, "catch_up_limit"},
        {{"schedule", "--every", "1s", "m"}, 64, "missing"},
        {{"schedule", "--json", "m", "--", "true"}, 64, "--list"},
        {{"run", "--retry-failed", "m", "--", "true"}, 64, "--retry-failed is for --once-per"},
        {{"run", "-E", "256", "m", "--", "true"}, 64, "from 0 to 255"},
        {{"run", "-E"}, 64, "-E wants a value"},
        {{"run", "--url", "memory://x", "m", "--", "true"}, 78, "keep out nobody"},
        {{"elect", "--url", "memory://x", "m"}, 78, "keep out nobody"},
        {{"schedule", "--url", "memory://x", "--after", "1s", "m", "--", "true"}, 78, "keep out nobody"},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        last = start(wrong[i].arguments);
        const int code = finish(&last);
        if (code != wrong[i].code || strstr(err_of(&last), wrong[i].says) == NULL)
            fail_msg("case %zu: exit %d, %s", i, code, err_of(&last));
    }
}

/* --- run ------------------------------------------------------------------------------------------------- */

/* Ten machines whose clocks are off try one after the other: one runs it, and the others say nothing, for cron would mail it. */
static void once_per_period(void **state)
{
    for (int i = 0; i < 5; i++) {
        assert_int_equal(RUN("run", "--once-per", "20h", "m", "--", "sh", "-c", "echo >> \"$0\"", in_dir("runs")),
                         i == 0 ? 0 : 75);
        assert_string_equal(err_of(&last), "");
    }
    assert_int_equal(RUN("run", "-E", "0", "--once-per", "20h", "m", "--", "false"), 0);
    assert_int_equal(RUN("run", "-E7", "--once-per", "20h", "m", "--", "false"), 7);
    assert_int_equal(RUN("-v", "run", "--once-per", "20h", "m", "--", "false"), 75);
    assert_non_null(strstr(err_of(&last), "m was begun"));
    assert_int_equal(lines_in(in_dir("runs")), 1);
}

/* What the store has recorded of the run of m, as `schedule --list` prints it; "ENDED" is when. */
static bool is_listed(const char *result, bool has_ended)
{
    char begun[32], ended[32], word[16];
    assert_int_equal(RUN("schedule", "--list", "m"), 0);
    const char *line = strchr(out_of(&last), '\n');
    assert_non_null(line);
    assert_int_equal(sscanf(line, " m %31s %31s %15s", begun, ended, word), 3);
    begun[strcspn(begun, "Z")] = ended[strcspn(ended, "Z")] =
        '\0'; /* a whole second has no fraction: ".5Z" is before "Z" */
    return strcmp(word, result) == 0 && (strcmp(ended, "-") != 0) == has_ended &&
           (!has_ended || strcmp(ended, begun) >= 0);
}

#define ONCE(...) RUN("run", "--once-per", "20h", __VA_ARGS__)
#define AGAIN(...) ONCE("--retry-failed", "m", "--", __VA_ARGS__)

/* A failure keeps others from trying, unless they are told to try again. A success keeps them all from it. */
static void a_failed_run_begins_again(void **state)
{
    assert_int_equal(AGAIN("sh", "-c", "exit 3"), 3);
    assert_true(is_listed("failed", true));
    assert_non_null(strstr(out_of(&last), "failed (3)"));
    assert_int_equal(ONCE("m", "--", "touch", in_dir("ran")), 75);
    assert_int_equal(access(in_dir("ran"), F_OK), -1);
    assert_int_equal(RUN("-v", "run", "--once-per", "20h", "m", "--", "true"), 75);
    assert_non_null(strstr(err_of(&last), "ago and failed (3); "));
    assert_int_equal(AGAIN("/nowhere"), 127);
    assert_int_equal(RUN("schedule", "--list", "--json", "m"), 0);
    assert_non_null(strstr(out_of(&last), "\"result\":127"));
    assert_null(strstr(out_of(&last), "\"ended\":null"));
    assert_int_equal(AGAIN("true"), 0);
    assert_true(is_listed("ok", true));
    assert_int_equal(AGAIN("touch", in_dir("ran")), 75);
    assert_int_equal(ONCE("m", "--", "touch", in_dir("ran")), 75);
    assert_int_equal(access(in_dir("ran"), F_OK), -1);
}

/* A command that simba stops has failed, and so has one whose note is too long. */
static void a_stopped_run_has_failed(void **state)
{
    process p =
        START("run", "--once-per", "20h", "m", "--", "sh", "-c", "echo >> \"$0\"; exec sleep 1000", in_dir("runs"));
    await_lines_in(in_dir("runs"), 1);
    assert_true(is_listed("unfinished", false));
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 128 + SIGTERM);
    assert_true(is_listed("failed", true));
    assert_non_null(strstr(out_of(&last), "failed (143)"));
    assert_int_equal(ONCE("--retry-failed", "--max-hold", "50ms", "m", "--", "sleep", "1000"), 79);
    assert_true(is_listed("failed", true));
    assert_non_null(strstr(out_of(&last), "failed (79)"));
    assert_int_equal(AGAIN("sh", "-c", "head -c 2000 /dev/zero > \"$SIMBA_NOTE_FILE\""), 65);
    assert_true(is_listed("failed", true));
    assert_int_equal(AGAIN("sh", "-c", "echo kept > \"$SIMBA_NOTE_FILE\""), 0);
    assert_true(is_listed("ok", true));
    assert_int_equal(RUN("note", "get", "m"), 0);
    assert_non_null(strstr(out_of(&last), "kept"));
}

/* A run that was killed has no end. Whoever waits for it to end finds that nobody runs it any more, and runs it. */
static void a_run_that_was_cut_short_begins_again(void **state)
{
    process p =
        START("run", "--once-per", "20h", "m", "--", "sh", "-c", "echo >> \"$0\"; exec sleep 1000", in_dir("runs"));
    await_lines_in(in_dir("runs"), 1);
    assert_int_equal(ONCE("--retry-failed", "-n", "m", "--", "true"), 75);
    process waiting =
        START("run", "--once-per", "20h", "--retry-failed", "m", "--", "sh", "-c", "echo >> \"$0\"", in_dir("runs"));
    kill(p.pid, SIGKILL);
    assert_int_equal(finish(&p), 1000 + SIGKILL);
    assert_int_equal(ONCE("m", "--", "true"), 75);
    assert_int_equal(finish(&waiting), 0);
    assert_int_equal(lines_in(in_dir("runs")), 2);
    assert_true(is_listed("ok", true));
    assert_int_equal(AGAIN("true"), 75);
}

/* The command is done, or simba killed, and the mutex is still taken. */
static void others_are_kept_out(void **state)
{
    const int64_t start_ns = now_ns();
    assert_int_equal(RUN("run", "--min-hold", "3s", "a", "--", "true"), 0);
    assert_true(lease_end_ns("a") >= start_ns + INT64_C(3000000000));
    process p = START("run", "--min-hold", "3s", "b", "--", "sh", "-c", "echo >> \"$0\"; sleep 1000", in_dir("runs"));
    await_lines_in(in_dir("runs"), 1);
    const pid_t supervisor = child_of(p.pid);
    kill(p.pid, SIGKILL);
    assert_int_equal(finish(&p), 1000 + SIGKILL);
    await_death(supervisor);
    assert_int_equal(RUN("run", "-n", "-E", "3", "b", "--", "true"), 3);
    assert_true(lease_end_ns("b") >= start_ns + INT64_C(3000000000));
}

/* Whoever names no store is told, at a terminal, whom the default one covers. It is one user, whatever the host. */
static void the_reach_is_said_at_a_terminal(void **state)
{
    terminal t = START_ON_TERMINAL("run", "m", "--", "true");
    assert_int_equal(finish_terminal(&t), 0);
    assert_null(strstr(t.text, "covers"));
    assert_int_equal(chmod(in_dir("store.db"), 0666), 0);
    assert_int_equal(chmod(in_dir("."), 0777), 0);
    assert_int_equal(RUN("doctor"), 0);
    assert_non_null(strstr(out_of(&last), "This store covers the users of this host who may write its file;"));
    unsetenv("SIMBA_URL");
    setenv("XDG_STATE_HOME", in_dir("state"), 1);
    setenv("XDG_CONFIG_HOME", in_dir("config"), 1);
    t = START_ON_TERMINAL("run", "m", "--", "true");
    await_shown(&t, "no store was named; this one covers the processes of user");
    assert_int_equal(finish_terminal(&t), 0);
    assert_int_equal(RUN("doctor"), 0);
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_CONFIG_HOME");
    assert_non_null(strstr(out_of(&last), "This store covers the processes of user "));
    assert_non_null(strstr(out_of(&last), "several users need ?mode=0660"));
}

/* A mutex has one schedule. `run --once-per` leaves that of another command alone, also if it is not due. */
static void once_per_leaves_a_schedule_alone(void **state)
{
    process p = START("schedule", "--cron", "* * * * * *", "m", "--", "sh", "-c", "echo >> \"$0\"", in_dir("runs"));
    await_lines_in(in_dir("runs"), 1);
    end(&p);
    assert_int_equal(RUN("run", "--once-per", "1h", "m", "--", "touch", in_dir("ran")), 78);
    assert_non_null(strstr(err_of(&last), "m has a schedule, whose record a run once per period would replace"));
    assert_int_equal(access(in_dir("ran"), F_OK), -1);
    assert_int_equal(RUN("schedule", "--list"), 0);
    assert_non_null(strstr(out_of(&last), "cron * * * * * * in UTC"));
    assert_int_equal(RUN("run", "m", "--", "true"), 0);
    assert_int_equal(RUN("forget", "m"), 0);
    assert_int_equal(RUN("run", "--once-per", "1h", "m", "--", "true"), 0);
    assert_int_equal(RUN("run", "--once-per", "2h", "m", "--", "true"), 75);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(the_command_learns_what_was),
        TEST(cron_and_list),
        TEST(periods_have_units),
        TEST(wrong_use_is_explained),
        TEST(once_per_period),
        TEST(a_failed_run_begins_again),
        TEST(a_stopped_run_has_failed),
        TEST(a_run_that_was_cut_short_begins_again),
        TEST(once_per_leaves_a_schedule_alone),
        TEST(others_are_kept_out),
        TEST(the_reach_is_said_at_a_terminal),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
