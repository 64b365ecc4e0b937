/* `simba run` as its users meet it, when all goes well: exit codes, signals, input, terminals, waiting. What happens
 * when leadership ends is in test_run_lost.c. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* The command's exit code is ours, also when it was killed or could not be run. */
static void exit_code_is_the_commands(void **state)
{
    assert_int_equal(RUN("run", "m", "--", "true"), 0);
    assert_string_equal(err_of(&last), "");
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "exit 7"), 7);
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "kill -9 $$"), 128 + 9);
    assert_non_null(strstr(err_of(&last), "signal 9"));
    assert_int_equal(RUN("run", "m", "--", "no-such-program"), 127);
    assert_non_null(strstr(err_of(&last), "no-such-program"));
    assert_int_equal(RUN("run", "m", "--", "/etc/passwd"), 126);
    assert_int_equal(RUN("run", "m", "sh", "-c", "exit 8"), 8); /* the two dashes may be left out */
}

/* Mistakes are answered before anything runs. */
static void wrong_use_is_explained(void **state)
{
    assert_int_equal(RUN("run", "m"), 64);
    assert_int_equal(RUN("run", "--wait", "1s", "--no-wait", "m", "--", "true"), 64);
    static const char *const durations[] = {
        "", ".", "5.", ".5", "1.2.3", "5x", "-5", "0.00001", "99999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(durations); i++) {
        assert_int_equal(RUN("run", "--wait", durations[i], "m", "--", "true"), 64);
        assert_non_null(strstr(err_of(&last), "--wait wants a duration such as 5, 500ms, 1.5s or 2m"));
    }
    assert_int_equal(RUN("--url", "sqlite:///tmp/x?ttl=5", "run", "m", "--", "true"),
                     78); /* there the unit is required */
    assert_int_equal(RUN("run", "--grace", "1m", "m", "--", "true"), 64);
    assert_non_null(strstr(err_of(&last), "at most 425 ms"));
    assert_int_equal(RUN("--url", "zookeeper://127.0.0.1:1?session-timeout=9s", "run", "--grace", "1m", "m", "true"),
                     64);
    assert_non_null(strstr(err_of(&last), "with a session of 9000 ms at most 2750 ms do"));
    char url[300];
    snprintf(url, sizeof url, "sqlite://%s?ttl=10ms&transition=0ms", in_dir("short.db"));
    assert_int_equal(RUN("--url", url, "run", "m", "--", "true"), 64);
    assert_non_null(strstr(err_of(&last), "there is no time to stop a command in"));
    assert_int_equal(RUN("--url", "nosuch://x", "run", "m", "--", "true"), 78);
    assert_int_equal(RUN("run", "", "--", "true"), 78);
}

/* Up to N run at a time. Each command is told its slot, and another number is refused by name. */
static void slots(void **state)
{
    (void)state;
    const char *const print = "echo $SIMBA_MUTEX $SIMBA_SLOT; read line";
    process one = START("run", "--slots", "2", "m", "--", "sh", "-c", print);
    await_lines_in(one.out_path, 1);
    process two = START("run", "--slots", "2", "m", "--", "sh", "-c", print);
    await_lines_in(two.out_path, 1);
    assert_int_equal(RUN("run", "--slots", "2", "-n", "m", "--", "true"), 75);
    assert_non_null(strstr(err_of(&last), "all its 2 slots are taken"));
    assert_int_equal(RUN("run", "--slots", "3", "m", "--", "true"), 78);
    assert_non_null(strstr(err_of(&last), "m has 2 slots, not 3"));
    assert_int_equal(finish(&one), 0 + 1); /* `read` finds the end of its input */
    assert_int_equal(RUN("run", "--slots", "2", "-n", "m", "--", "sh", "-c", "exit $SIMBA_SLOT"),
                     out_of(&one)[4] - '0');
    assert_int_equal(finish(&two), 1);
    assert_int_not_equal(out_of(&one)[4], out_of(&two)[4]);
    assert_memory_equal(out_of(&one), "m#", 2);
    assert_int_equal(RUN("run", "--slots", "0", "m", "--", "true"), 64);
    assert_int_equal(RUN("run", "--slots", "257", "m", "--", "true"), 64);
    assert_int_equal(RUN("run", "--slots", "2", "--once-per", "1h", "m", "--", "true"), 64);
}

/* 1 is the command's own: what keeps it from being run has other codes. */
static void failures_have_codes_of_their_own(void **state)
{
    char url[500];
    assert_int_equal(RUN("--url", "sqlite:///dev/pts/store.db", "run", "m", "--", "true"), 77);
    assert_non_null(strstr(err_of(&last), "Permission denied"));
    snprintf(url, sizeof url, "sqlite://%s", in_dir("text"));
    write_file(in_dir("text"), "this is a file, but no database, and long enough to be told from an empty one\n");
    assert_int_equal(RUN("--url", url, "run", "m", "--", "true"), 78);
    assert_int_equal(RUN("demo", "--url", "redis://127.0.0.1:1"), 69);
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "exit 1"), 1);
}

/* What the command is told about its lease. */
static void environment_names_the_lease(void **state)
{
    setenv("SIMBA_TOKEN", "stale", 1);
    assert_int_equal(RUN("--id", "me", "run", "m x", "--", "sh", "-c", "echo $SIMBA_MUTEX,$SIMBA_ID,$SIMBA_TOKEN"), 0);
    unsetenv("SIMBA_TOKEN");
    assert_memory_equal(out_of(&last), "m x,me,1", 8);
}

/* The store's password is not for the command, unless that is asked for. A simba in the command finds the store all the
 * same. */
static void passwords_are_kept_from_the_command(void **state)
{
    char config[600];
    char url[500];
    snprintf(url, sizeof url, "sqlite://%s", in_dir("store.db"));
    snprintf(config, sizeof config, "simba.sqlite.url = %s\nsimba.sqlite.password-env = HUSH\n", url);
    write_file(in_dir("simba.conf"), config);
    setenv("SIMBA_PASSWORD", "secret-1", 1);
    setenv("HUSH", "secret-2", 1);
    setenv("SIMBA_URL", "", 1);
    assert_int_equal(RUN("--config", in_dir("simba.conf"), "run", "m", "--", "env"), 0);
    assert_null(strstr(out_of(&last), "secret"));
    setenv("SIMBA_URL", "redis://me:secret-3@host/1?ttl=9s", 1);
    assert_int_equal(RUN("--url", url, "run", "m", "--", "env"), 0);
    assert_null(strstr(out_of(&last), "secret-1"));
    assert_null(strstr(out_of(&last), "secret-3"));
    assert_non_null(strstr(out_of(&last), "\nSIMBA_URL=redis://me@host/1?ttl=9s\n"));
    setenv("SIMBA_URL", "redis://:secret-3@host", 1);
    assert_int_equal(RUN("--url", url, "run", "m", "--", "env"), 0);
    assert_non_null(strstr(out_of(&last), "\nSIMBA_URL=redis://host\n"));
    assert_int_equal(RUN("--url", url, "run", "--keep-password", "m", "--", "env"), 0);
    assert_non_null(strstr(out_of(&last), "secret-1"));
    assert_non_null(strstr(out_of(&last), "secret-2"));
    assert_non_null(strstr(out_of(&last), "secret-3"));
    unsetenv("SIMBA_PASSWORD");
    unsetenv("HUSH");
}

/* Input reaches the command, and very long arguments and environments do. */
static void input_and_long_arguments_arrive(void **state)
{
    static char text[120001];
    memset(text, 'x', sizeof text - 1);
    setenv("LONG", text, 1);
    process p = START("run", "m", "--", "sh", "-c", "cat; echo ${#LONG} ${#1}", "sh", text);
    unsetenv("LONG");
    assert_int_equal(write(p.in, "typed\n", 6), 6);
    assert_int_equal(finish(&p), 0);
    assert_string_equal(out_of(&p), "typed\n120000 120000\n");
}

/* Descriptors that were handed to us reach the command, and none of ours do. */
static void descriptors_are_passed_on(void **state)
{
    const int fd = open(in_dir("handed"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(dup2(fd, 77), 77);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    process p = START("run", "m", "--", "sh", "-c", "echo here > /proc/self/fd/77; ls -l /proc/$$/fd");
    close(77);
    close(fd);
    assert_int_equal(finish(&p), 0);
    assert_string_equal(contents(in_dir("handed")), "here\n");
    assert_non_null(strstr(out_of(&p), "/handed"));
    assert_null(strstr(out_of(&p), "store.db"));
    assert_null(strstr(out_of(&p), "anon_inode"));
}

/* A parent that does not care for its children leaves that behind in us; the exit code is not lost by it. */
static void an_ignored_sigchld_does_no_harm(void **state)
{
    signal(SIGCHLD, SIG_IGN);
    process p = START("run", "m", "--", "sh", "-c", "exit 7");
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(finish(&p), 7);
}

/* A command may take longer than a lease: that is renewed, and the supervisor knows. */
static void a_long_command_is_left_alone(void **state)
{
    assert_int_equal(RUN("run", "m", "--", "sleep", "2.5"), 0);
    assert_string_equal(err_of(&last), "");
}

/* Somebody else has it: 75 and a line that says who. */
static void a_taken_mutex_is_not_obtained(void **state)
{
    process holder = START("--id", "holder", "run", "m", "--", "sh", "-c", "echo > \"$0\"; cat", in_dir("held"));
    await_file(in_dir("held"));
    assert_int_equal(RUN("run", "--no-wait", "m", "--", "true"), 75);
    assert_non_null(strstr(err_of(&last), "holder"));
    assert_int_equal(RUN("run", "--wait", "100ms", "m", "--", "true"), 75);
    assert_non_null(strstr(err_of(&last), "100 ms"));
    assert_int_equal(RUN("run", "--wait", "0.2", "m", "--", "true"), 75); /* seconds, as for flock and sleep */
    assert_non_null(strstr(err_of(&last), "not obtained within 200 ms"));
    assert_int_equal(RUN("run", "--no-wait", "other", "--", "true"), 0);
    assert_int_equal(finish(&holder), 0);
    assert_int_equal(RUN("run", "--no-wait", "m", "--", "true"), 0);
}

/* Whoever waits gets it when it is given back. */
static void a_waiter_comes_next(void **state)
{
    process first = START("run", "m", "--", "sh", "-c", "echo > \"$0\"; cat", in_dir("held"));
    await_file(in_dir("held"));
    process second = START("run", "--wait", "20s", "m", "--", "sh", "-c", "echo > \"$0\"", in_dir("next"));
    assert_int_equal(number_in(in_dir("next")), 0);
    assert_int_equal(finish(&first), 0);
    await_file(in_dir("next"));
    assert_int_equal(finish(&second), 0);
}

/* A person at a terminal hears within a second for whom it waits, and for how long that lease lasts; in a pipe nothing is
 * said. With -v the library says what it does. The lease lasts longer than the test: when it has ended, nobody says how much is left
 * of it. */
static void waiting_is_said_at_a_terminal(void **state)
{
    set_lease("60s", "1s");
    process holder = START("--id", "holder", "-v", "run", "m", "--", "sh", "-c", "echo > \"$0\"; cat", in_dir("held"));
    await_file(in_dir("held"));
    assert_non_null(strstr(err_of(&holder), "info: contends; mutex=m id=holder"));
    assert_non_null(strstr(err_of(&holder), "info: the store answers; store=\"sqlite://"));
    assert_non_null(strstr(err_of(&holder), "info: leads; mutex=m id=holder token="));
    assert_int_equal(RUN("-v", "--id", "me", "run", "--wait", "50ms", "m", "--", "true"), 75);
    assert_non_null(strstr(err_of(&last), "info: waits for its owner; mutex=m id=me owner=holder left_ms="));
    assert_int_equal(RUN("run", "--wait", "1500ms", "m", "--", "true"), 75);
    assert_null(strstr(err_of(&last), "waiting for"));
    const int64_t started_ns = now_ns();
    terminal run = START_ON_TERMINAL("run", "m", "--", "true");
    terminal elect = START_ON_TERMINAL("elect", "m");
    terminal schedule = START_ON_TERMINAL("schedule", "--every", "1h", "m", "--", "true");
    await_shown(&run, "simba run: waiting for m, which is owned by holder for another ");
    await_shown(&elect, "simba elect: waiting for m, which is owned by holder for another ");
    await_shown(&schedule, "simba schedule: waiting for m, which is owned by holder for another ");
    assert_true(now_ns() - started_ns < INT64_C(20000000000));
    assert_int_equal(write(schedule.fd, "\003", 1), 1);
    assert_int_equal(finish_terminal(&schedule), 0);
    assert_int_equal(write(elect.fd, "\003", 1), 1);
    assert_int_equal(finish_terminal(&elect), 0);
    assert_int_equal(finish(&holder), 0);
    assert_int_equal(finish_terminal(&run), 0);
}

/* A signal ends the wait, and nothing is run. */
static void a_signal_ends_the_wait(void **state)
{
    process first = START("run", "m", "--", "sh", "-c", "echo > \"$0\"; cat", in_dir("held"));
    await_file(in_dir("held"));
    process second = START("run", "m", "--", "sh", "-c", "echo > \"$0\"", in_dir("next"));
    kill(second.pid, SIGTERM);
    const int code = finish(&second); /* it may not have come to blocking the signal yet */
    assert_true(code == 128 + SIGTERM || code == 1000 + SIGTERM);
    assert_int_equal(finish(&first), 0);
    assert_int_not_equal(access(in_dir("next"), F_OK), 0);
}

/* Who waits for a store that is not there is told so, while it waits; who gives up soon, once. */
static void waiting_for_no_store_is_said(void **state)
{
    process p = START("--url", "redis://127.0.0.1:1", "run", "m", "--", "true");
    await_text_in(p.err_path, "127.0.0.1:1: cannot connect");
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 128 + SIGTERM);
    assert_int_equal(RUN("--url", "redis://127.0.0.1:1", "run", "--no-wait", "m", "--", "true"), 69);
    const char *said = err_of(&last);
    assert_ptr_equal(strchr(said, '\n') + 1, said + strlen(said)); /* one line */
}

/* Signals reach the command, which decides what they mean. */
static void signals_are_passed_on(void **state)
{
    const struct {
        const char *name;
        int number;
    } signals[] = {{"INT", SIGINT},   {"TERM", SIGTERM}, {"HUP", SIGHUP},
                   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        char script[200];
        snprintf(script, sizeof script, "trap 'echo got %s; exit 9' %s; echo > \"$0\"; sleep 1000 & wait",
                 signals[i].name, signals[i].name);
        process p = START("run", "m", "--", "sh", "-c", script, in_dir(signals[i].name));
        await_file(in_dir(signals[i].name));
        kill(p.pid, signals[i].number);
        assert_int_equal(finish(&p), 9);
        assert_memory_equal(out_of(&p), "got ", 4);
    }
    process p = START("run", "m", "--", "sh", "-c", "echo > \"$0\"; exec sleep 1000", in_dir("plain"));
    await_file(in_dir("plain"));
    kill(p.pid, SIGSTOP);
    kill(p.pid, SIGTERM);
    kill(p.pid, SIGCONT); /* as timeout(1) and systemd do it */
    assert_int_equal(finish(&p), 128 + SIGTERM);
    assert_string_equal(err_of(&p), ""); /* no news to whoever sent it */
}

/* nohup means it: a hang-up that was ignored before stays so. */
static void an_ignored_hangup_stays_ignored(void **state)
{
    signal(SIGHUP, SIG_IGN);
    process p = START("run", "m", "--", "sh", "-c", "echo > \"$0\"; cat", in_dir("held"));
    signal(SIGHUP, SIG_DFL);
    await_file(in_dir("held"));
    kill(p.pid, SIGHUP);
    assert_int_equal(write(p.in, "on\n", 3), 3);
    assert_int_equal(finish(&p), 0);
    assert_string_equal(out_of(&p), "on\n");
}

/* What the command leaves behind does not run on without the mutex, not even in a session of its own. */
static void nothing_is_left_behind(void **state)
{
    process p = START("run", "--grace", "100ms", "m", "--", "sh", "-c", "\"$0\" family \"$1\" \"$2\" & cat", helper,
                      in_dir("one"), in_dir("two"));
    await_file(in_dir("one"));
    await_file(in_dir("two"));
    assert_int_equal(finish(&p), 0);
    assert_non_null(strstr(err_of(&p), "left processes behind"));
    assert_int_equal(RUN("run", "m", "--", helper, "stamp", in_dir("after")), 0);
    assert_true(number_in(in_dir("one")) < number_in(in_dir("after")));
    assert_true(number_in(in_dir("two")) < number_in(in_dir("after")));
}

/* --- terminals ------------------------------------------------------------------------------------ */

static terminal start_on_terminal(const char *script)
{
    return START_ON_TERMINAL("run", "m", "--", "sh", "-c", script);
}

/* The terminal is the command's: it reads from it, knows its size, and Ctrl-C is for it. */
static void the_terminal_is_the_commands(void **state)
{
    terminal t = start_on_terminal("stty size; read x; echo got $x; trap 'echo broke; exit 5' INT; echo on; read y");
    await_shown(&t, "33 77");
    assert_int_equal(write(t.fd, "word\n", 5), 5);
    await_shown(&t, "got word");
    await_shown(&t, "on\r\n");
    assert_int_equal(write(t.fd, "\003", 1), 1);
    await_shown(&t, "broke");
    assert_int_equal(finish_terminal(&t), 5);
}

/* Ctrl-Z stops the command and the wrapper; both go on together. */
static void job_control_works(void **state)
{
    terminal t = start_on_terminal("echo ready; read x; echo got $x; exit 4");
    int status;
    await_shown(&t, "ready");
    assert_int_equal(write(t.fd, "\032", 1), 1);
    assert_int_equal(waitpid(t.pid, &status, WUNTRACED), t.pid);
    assert_true(WIFSTOPPED(status));
    kill(t.pid, SIGCONT);
    assert_int_equal(write(t.fd, "word\n", 5), 5);
    await_shown(&t, "got word");
    assert_int_equal(finish_terminal(&t), 4);
}

/* A terminal that is closed hangs up on the command. */
static void a_closed_terminal_hangs_up(void **state)
{
    char script[500];
    snprintf(script, sizeof script,
             "trap 'echo 1 > %s; exit 6' HUP; echo ready; while :; do read x || sleep 1000 & wait; done",
             in_dir("hung-up"));
    terminal t = start_on_terminal(script);
    await_shown(&t, "ready");
    close(t.fd);
    await_file(in_dir("hung-up"));
    process p = {.pid = t.pid, .in = -1, .err_path = "/dev/null"};
    const int code = finish(&p);
    assert_true(code == 6 || code == 128 + SIGHUP);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(exit_code_is_the_commands),
        TEST(wrong_use_is_explained),
        TEST(slots),
        TEST(failures_have_codes_of_their_own),
        TEST(environment_names_the_lease),
        TEST(passwords_are_kept_from_the_command),
        TEST(input_and_long_arguments_arrive),
        TEST(descriptors_are_passed_on),
        TEST(an_ignored_sigchld_does_no_harm),
        TEST(a_long_command_is_left_alone),
        TEST(a_taken_mutex_is_not_obtained),
        TEST(a_waiter_comes_next),
        TEST(waiting_is_said_at_a_terminal),
        TEST(a_signal_ends_the_wait),
        TEST(waiting_for_no_store_is_said),
        TEST(signals_are_passed_on),
        TEST(an_ignored_hangup_stays_ignored),
        TEST(nothing_is_left_behind),
        TEST(the_terminal_is_the_commands),
        TEST(job_control_works),
        TEST(a_closed_terminal_hangs_up),
    };
    return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
