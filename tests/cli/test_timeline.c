/* `--event-log` and `simba timeline`: what happened in real runs, as a picture. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

/* Two runs, one log, one picture. */
static void real_runs_are_drawn(void **state)
{
    assert_int_equal(RUN("run", "--event-log", in_dir("events"), "--id", "first one", "m", "--", "true"), 0);
    assert_int_equal(RUN("run", "--event-log", in_dir("events"), "--id", "second", "m", "--", "true"), 0);
    const char *log = contents(in_dir("events"));
    assert_non_null(strstr(log, " m/first%20one start\n"));
    assert_non_null(strstr(log, " m/first%20one request acquire\n"));
    assert_non_null(strstr(log, " m/second lease "));
    assert_non_null(strstr(log, " m/second request release\n"));
    assert_int_equal(RUN("timeline", in_dir("events")), 0);
    assert_non_null(strstr(out_of(&last), "  m/first%20one  "));
    assert_non_null(strstr(out_of(&last), "owner"));
    assert_int_equal(RUN("timeline", in_dir("events"), "--svg", in_dir("a.svg"), "--title", "1 < 2"), 0);
    assert_int_equal(RUN("run", "--event-log", in_dir("evil"), "--id", "\302\233x\342\200\256", "m", "--", "true"), 0);
    assert_non_null(strstr(contents(in_dir("evil")), " m/%c2%9bx%e2%80%ae start\n"));
    const char *svg = contents(in_dir("a.svg"));
    assert_non_null(strstr(svg, "<svg xmlns"));
    assert_non_null(strstr(svg, "1 &lt; 2"));
    assert_non_null(strstr(svg, "</svg>"));
}

/* Every kind of line ends up in the picture; a lease that nobody renews shows both of its parts. */
static void all_that_can_happen_is_drawn(void **state)
{
    write_file(in_dir("a"),
               "# a comment\n"
               "0 a start\n0 a request acquire\n0 a lease 4000000000 8000000000 7\n0 a callback acquired\n"
               "1000000000 a returned\n2000000000 a fault cut 9000000000\n5000000000 a failed SIMBA_ETIMEDOUT\n"
               "8000000000 a lost expired\n8000000000 a callback released\n8500000000 a returned\n"
               "9000000000 a something-new\n");
    write_file(in_dir("b"), "0 b start\n9000000000 b push released\n9000000000 b lease 13000000000 17000000000 8\n"
                            "9000000000 b callback acquired\n10000000000 b killed\n");
    assert_int_equal(RUN("timeline", in_dir("b"), in_dir("a")), 0);
    setenv("LC_ALL", "C", 1);
    assert_int_equal(RUN("timeline", in_dir("b"), in_dir("a")), 0);
    const char *row = strstr(out_of(&last), "  a  ");
    assert_non_null(row);
    assert_int_equal(strncmp(row, "  a  >#######", 13), 0);
    assert_non_null(strstr(row, "#======"));
    assert_non_null(strstr(row, "!"));
    assert_non_null(strstr(row, "v"));
    assert_non_null(strstr(strstr(row, "\n  b  "), "...>"));
    assert_non_null(strstr(row, "X\n"));
    assert_int_equal(RUN("timeline", in_dir("a"), "--from", "4s", "--to", "8s"), 0);
    assert_null(strstr(out_of(&last), "#"));
}

/* Who was killed is not drawn as somebody who waits, though no line says that it is dead. */
static void silence_is_noticed(void **state)
{
    setenv("LC_ALL", "C", 1);
    write_file(in_dir("log"), "0 a start\n0 a request acquire\n0 a lease 3000000000 5000000000 7\n"
                              "3000000000 a request renew\n3000000000 a lease 6000000000 8000000000 7\n"
                              "0 b start\n8000000000 b lease 11000000000 13000000000 8\n16000000000 b stopped\n");
    assert_int_equal(RUN("timeline", in_dir("log")), 0);
    char row[200];
    snprintf(row, sizeof row, "%.*s", (int)strcspn(strstr(out_of(&last), "  a  "), "\n"),
             strstr(out_of(&last), "  a  "));
    assert_non_null(strstr(row, "##X---"));
    assert_null(strchr(row, '.'));
    /* It comes back under its name. That is its last line: what became of it is not known. */
    write_file(in_dir("more"), "12000000000 a start\n");
    assert_int_equal(RUN("timeline", in_dir("log"), in_dir("more")), 0);
    snprintf(row, sizeof row, "%.*s", (int)strcspn(strstr(out_of(&last), "  a  "), "\n"),
             strstr(out_of(&last), "  a  "));
    assert_non_null(strstr(row, "##X---"));
    assert_non_null(strstr(row, "-   "));
    assert_non_null(strstr(row, " ????"));
    /* The picture ends before the lease does: it may well live. */
    assert_int_equal(RUN("timeline", in_dir("log"), "--to", "7s"), 0);
    assert_null(strchr(strstr(out_of(&last), "  a  "), 'X'));
    unsetenv("LC_ALL");
}

/* The row of a picture, from its first column on; good until the next call but one. */
static const char *row_of(const char *name)
{
    static char rows[2][400];
    static int turn;
    char begin[64];
    turn = !turn;
    snprintf(begin, sizeof begin, "\n  %s  ", name);
    const char *row = strstr(out_of(&last), begin);
    assert_non_null(row);
    row += strlen(begin);
    snprintf(rows[turn], sizeof rows[turn], "%.*s", (int)strcspn(row, "\n"), row);
    return rows[turn];
}

/* A log that just stops does not tell whether its process lives: not that it waits, and not that it was killed. */
static void an_end_of_a_log_is_unknown(void **state)
{
    setenv("LC_ALL", "C", 1);
    write_file(in_dir("other"),
               "0 z start\n1 z clock 1700000000000000000 1700000000000000000 0 host-z\n40000000000 z stopped\n");
    write_file(in_dir("waits"), "0 a clock 1700000000000000000 1700000000000000000 0 host-a\n0 a start\n"
                                "10000000000 a push changed\n");
    write_file(in_dir("leads"), "0 b clock 1700000000000000000 1700000000000000000 0 host-b\n0 b start\n"
                                "0 b lease 8000000000 20000000000 7\n");
    assert_int_equal(RUN("timeline", in_dir("other"), in_dir("waits"), in_dir("leads")), 0);
    const char *row = row_of("a");
    assert_int_equal(strspn(row, "."), strcspn(row, "?"));
    assert_int_equal(strlen(row), strcspn(row, "?") + strspn(strchr(row, '?'), "?"));
    row = row_of("b");
    assert_null(strchr(row, 'X'));
    assert_non_null(strstr(row, "--??"));
    assert_non_null(strstr(out_of(&last), "? unknown"));
    for (const char *line = out_of(&last); *line != '\0'; line += strcspn(line, "\n") + 1)
        assert_in_range(strcspn(line, "\n"), 0, 80);
    /* If the logs of its host go on, the owner is dead. */
    write_file(in_dir("same host"), "0 c clock 1700000000000000000 1700000000000000000 0 host-b\n0 c start\n"
                                    "30000000000 c stopped\n");
    assert_int_equal(RUN("timeline", in_dir("other"), in_dir("leads"), in_dir("same host")), 0);
    assert_int_equal(row_of("b")[0], 'X');
    assert_null(strchr(row_of("b"), '?'));
    /* A part of a log: who is heard of later waited all the time. */
    assert_int_equal(RUN("timeline", in_dir("waits"), "--to", "5s"), 0);
    assert_null(strchr(row_of("a"), '?'));
    unsetenv("LC_ALL");
}

/* Two hosts whose clocks have nothing in common, and one of whose wall clocks is an hour off: the store's puts them in order. */
static void hosts_are_put_together_by_the_stores_clock(void **state)
{
    setenv("LC_ALL", "C", 1);
    setenv("TZ", "UTC", 1);
    write_file(in_dir("a"), "5000000000 m/a clock 1700000000000000000 - - host-a\n5000000000 m/a start\n"
                            "5000000000 m/a clock 1700000000000000000 50000000000 2000000000 host-a\n"
                            "6000000000 m/a clock 1700000001000000000 51000000000 0 host-a\n"
                            "6000000000 m/a lease 15000000000 16000000000 1\n16000000000 m/a lost expired\n"
                            "26000000000 m/a stopped\n");
    write_file(in_dir("b"), "905000000000 m/b clock 1700003600000000000 50000000000 0 host-b\n905000000000 m/b start\n"
                            "916000000000 m/b lease 925000000000 926000000000 2\n926000000000 m/b stopped\n");
    assert_int_equal(RUN("timeline", in_dir("a"), in_dir("b")), 0);
    assert_string_equal(err_of(&last), "");
    const char *a = row_of("m/a");
    const char *b = row_of("m/b");
    /* One lease follows the other. */
    assert_int_equal(strcspn(a, "v"), strcspn(b, "#"));
    assert_non_null(strstr(out_of(&last), "2023-11-14, UTC+0000"));
    assert_non_null(strstr(out_of(&last), "22:13:25"));
    assert_non_null(strstr(out_of(&last), "22:13:35"));
    /* Without the store's clock it is the wall clocks that count, and that is said. */
    write_file(in_dir("c"), "5 m/c clock 1700000000000000000 - - host-c\n5 m/c start\n9 m/c stopped\n");
    assert_int_equal(RUN("timeline", in_dir("a"), in_dir("c")), 0);
    assert_non_null(strstr(err_of(&last), "by their wall clocks"));
    /* Nor can lines be put in order that know of no clock. */
    write_file(in_dir("old"), "5 m/c start\n9 m/c stopped\n");
    assert_int_equal(RUN("timeline", in_dir("a"), in_dir("b"), in_dir("old")), 0);
    assert_non_null(strstr(err_of(&last), "do not tell their clock"));
    unsetenv("TZ");
    unsetenv("LC_ALL");
}

/* A real run tells its clocks: the wall clock is on the axis. */
static void a_run_tells_its_clocks(void **state)
{
    assert_int_equal(RUN("run", "--event-log", in_dir("events"), "--id", "a", "m", "--", "true"), 0);
    char wall[32];
    char boot[64];
    const char *log = contents(in_dir("events"));
    assert_int_equal(sscanf(log, "%*s m/a clock %31s - - %63s\n", wall, boot), 2);
    assert_int_equal(strlen(boot), 36);
    const char *answer = strstr(strstr(log, "start\n"), " m/a clock ");
    assert_non_null(answer);
    long long at[3];
    assert_int_equal(sscanf(answer, " m/a clock %lld %lld %lld ", &at[0], &at[1], &at[2]), 3);
    assert_true(llabs(at[0] - at[1]) < 60000000000); /* the store's is that of this host */
    assert_true(at[2] >= 0 && at[2] < 60000000000);
    assert_int_equal(RUN("timeline", in_dir("events")), 0);
    assert_non_null(strstr(out_of(&last), ", UTC"));
}

/* A part of a log has the times that it has in the whole, and is as long as it was asked for. */
static void a_part_keeps_the_axis(void **state)
{
    setenv("LC_ALL", "C", 1);
    write_file(in_dir("log"), "0 a start\n0 a lease 3000000000 5000000000 7\n20000000000 a stopped\n");
    assert_int_equal(RUN("timeline", in_dir("log"), "--from", "10s", "--to", "40s"), 0);
    assert_non_null(strstr(out_of(&last), " 10s "));
    assert_non_null(strstr(out_of(&last), " 35s"));
    assert_null(strstr(out_of(&last), " 0s"));
    assert_int_equal(RUN("timeline", in_dir("log"), "--from", "10s", "--to", "10s"), 64);
    assert_non_null(strstr(err_of(&last), "--from must be before --to"));
    assert_int_equal(RUN("timeline", in_dir("log"), "--from", "20s"), 1);
    assert_non_null(strstr(err_of(&last), "nothing to draw"));
    unsetenv("LC_ALL");
}

/* The picture on standard output, and below it only the symbols that it has. */
static void svg_is_written_to_standard_output(void **state)
{
    write_file(in_dir("log"), "0 a start\n0 a lease 3000000000 5000000000 7\n2000000000 a stopped\n");
    assert_int_equal(RUN("timeline", in_dir("log"), "--svg", "-"), 0);
    const char *svg = out_of(&last);
    assert_int_equal(strncmp(svg, "<svg ", 5), 0);
    assert_non_null(strstr(svg, ">lease, within ttl</text>"));
    assert_null(strstr(svg, ">killed</text>"));
    assert_null(strstr(svg, ">lease that is not renewed</text>"));
    assert_null(strstr(svg, ">unknown</text>"));
    assert_null(strstr(svg, ">callback runs</text>"));
    assert_null(strstr(svg, ">no answer</text>"));
}

/* Anybody can write a log: what stands in it is shown and has no effect, and times cannot overflow. */
static void hostile_logs_are_drawn(void **state)
{
    write_file(in_dir("log"), "0 a\033[31m\377<b>&\"/x start\n5 a\033[31m\377<b>&\"/x failed \033]0;\001]]>\302\233\n"
                              "6 c fault \033x -9223372036854775808\n7 c fault x 9223372036854775807\n"
                              "8 c lease 9223372036854775807 -9223372036854775808 1\n"
                              "9 c lease 4611686018427387904 4611686018427387904 99999999999999999999\n"
                              "4611686018427387904 c stopped\n"
                              "1 d clock 4611686018427387904 4611686018427387904 0 x\n1 d start\n"
                              "4611686018427387904 e clock 0 0 4611686018427387904 y\n4611686018427387904 e start\n"
                              "1 e clock\n1 e clock - - -\n1 e clock 1 -1 99999999999999999999 z\n");
    assert_int_equal(RUN("timeline", in_dir("log")), 0);
    assert_null(strpbrk(out_of(&last), "\033\377\001"));
    assert_non_null(strstr(out_of(&last), "  a\\x1B[31m\\xFF<b>&\"/x  "));
    assert_int_equal(RUN("timeline", in_dir("log"), "--svg", in_dir("a.svg"), "--title", "\033\302\233\377 & <"), 0);
    const char *svg = contents(in_dir("a.svg"));
    assert_null(strpbrk(svg, "\033\377\001\233"));
    assert_non_null(strstr(svg, "a\\x1B[31m\\xFF&lt;b&gt;&amp;"));
    assert_non_null(strstr(svg, "\\x1B\\xC2\\x9B\\xFF &amp; &lt;"));
    assert_int_equal(RUN("timeline", in_dir("log"), "--from", "3650d", "--to", "87600h"), 64);
    assert_int_equal(RUN("timeline", in_dir("log"), "--from", "87599h", "--to", "87600h"), 0);
    static const char *const bad[] = {"-1 a start\n", "9223372036854775807 a start\n",
                                      "99999999999999999999 a start\n"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        write_file(in_dir("bad"), bad[i]);
        assert_int_equal(RUN("timeline", in_dir("bad")), 64);
        assert_non_null(strstr(err_of(&last), "line 1 of "));
    }
}

/* A mistake is named. */
static void mistakes_are_named(void **state)
{
    write_file(in_dir("bad"), "1 a start\nnonsense\n");
    write_file(in_dir("empty"), "");
    assert_int_equal(RUN("timeline", in_dir("bad")), 64);
    assert_non_null(strstr(err_of(&last), "line 2 of "));
    assert_int_equal(RUN("timeline", in_dir("empty")), 1);
    assert_non_null(strstr(err_of(&last), "nothing to draw"));
    assert_int_equal(RUN("timeline", in_dir("missing")), 64);
    assert_non_null(strstr(err_of(&last), "missing cannot be read"));
    assert_int_equal(RUN("timeline", in_dir("no\033[31m")), 64);
    assert_non_null(strstr(err_of(&last), "no\\x1B[31m cannot be read"));
    assert_int_equal(RUN("timeline", "/tmp"), 64);
    assert_non_null(strstr(err_of(&last), "/tmp cannot be read: Is a directory."));
    write_file(in_dir("good"), "1 a start\n2 a stopped\n");
    assert_int_equal(RUN("timeline", in_dir("good"), "--svg", "/proc/no/such.svg"), 1);
    assert_non_null(strstr(err_of(&last), "/proc/no/such.svg cannot be written"));
    assert_int_equal(RUN("run", "--event-log", "/proc/no/such.log", "m", "--", "true"), 64);
    assert_non_null(strstr(err_of(&last), "the event log /proc/no/such.log cannot be opened"));
    assert_int_equal(RUN("list", "--event-log", "x"), 64);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(real_runs_are_drawn),
        TEST(all_that_can_happen_is_drawn),
        TEST(silence_is_noticed),
        TEST(hostile_logs_are_drawn),
        TEST(mistakes_are_named),
        TEST(an_end_of_a_log_is_unknown),
        TEST(hosts_are_put_together_by_the_stores_clock),
        TEST(a_run_tells_its_clocks),
        TEST(a_part_keeps_the_axis),
        TEST(svg_is_written_to_standard_output),
    };
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
