/* `simba hold MUTEX`: when it takes, keeps and gives back, and what it says. tests/cli/hold_lines is about --stdio. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static const char *await_held(const process *holder)
{
    await_text_in(holder->out_path, "acquired");
    assert_int_equal(RUN("run", "-n", "m", "--", "true"), 75);
    return out_of(holder);
}

/* It is free at once, and not when a lease ends. */
static void assert_free(void)
{
    assert_int_equal(RUN("run", "-n", "m", "--", "true"), 0);
}

/* The mutex is held while standard input is open, whatever comes from there, and given back at its end. */
static void the_end_of_input_gives_back(void **state)
{
    (void)state;
    set_lease("1s", "20s");
    process p = START("hold", "m");
    assert_int_equal(write(p.in, "{\"do\":\"release\",\"mutex\":\"m\"}\nbye\n", 33), 33);
    const char *said = await_held(&p);
    assert_memory_equal(said, "{\"event\":\"acquired\",\"mutex\":\"m\",\"token\":\"1", 42);
    assert_non_null(strstr(said, "\"valid_ms\":1"));
    assert_int_equal(finish(&p), 0);
    assert_free();
    assert_non_null(strstr(out_of(&p), "\n{\"event\":\"released\",\"mutex\":\"m\"}\n"));
    assert_int_equal(lines_in(p.out_path), 2);
    assert_string_equal(err_of(&p), "");
}

/* Renewals keep it, and are told on request. */
static void renewals_are_told_on_request(void **state)
{
    (void)state;
    process p = START("hold", "--renewals", "m");
    await_text_in(p.out_path, "renewed");
    await_held(&p);
    await_lines_in(p.out_path, 4);
    assert_int_equal(finish(&p), 0);
}

static void what_is_not_obtained_is_told(void **state)
{
    (void)state;
    process holder = START("hold", "m");
    await_held(&holder);
    process waiter = START("hold", "-n", "m");
    await_text_in(waiter.out_path, "{\"event\":\"error\",\"mutex\":\"m\",\"code\":\"SIMBA_ETIMEDOUT\"");
    assert_int_equal(finish(&waiter), 75);
    assert_int_equal(RUN("hold", "-E", "4", "m"), 4); /* its input has ended */
    waiter = START("hold", "--wait", "50ms", "-E", "3", "m");
    await_text_in(waiter.err_path, "not obtained");
    assert_int_equal(finish(&waiter), 3);
    /* A program that dies while it waits takes nothing. */
    waiter = START("hold", "m");
    assert_int_equal(finish(&waiter), 75);
    assert_int_equal(finish(&holder), 0);
    assert_free();
}

/* The store freezes: the loss is told by the holder's own clock, with time to stop in, before the lease ends for others. */
static void a_loss_is_told_in_time(void **state)
{
    (void)state;
    long left_ms = 0;
    set_lease("1s", "5s");
    process p = START("hold", "--grace", "2s", "m");
    await_held(&p);
    const pid_t freezer = start_helper("freeze", in_dir("store.db"), in_dir("frozen"));
    await_file(in_dir("frozen"));
    const int64_t end_ns = lease_end_ns("m");
    await_text_in(p.out_path, "\"lost\"");
    assert_true(now_ns() < end_ns);
    const char *left = strstr(out_of(&p), "\"reason\":\"expired\",\"left_ms\":");
    assert_non_null(left);
    assert_int_equal(sscanf(strrchr(left, ':'), ":%ld", &left_ms), 1);
    assert_in_range(left_ms, 1500, 3000);
    end_process(freezer);
    assert_int_equal(finish(&p), 79);
}

/* What an administrator takes away is lost at once. */
static void what_is_taken_away_is_lost(void **state)
{
    (void)state;
    process p = START("hold", "m");
    await_held(&p);
    assert_int_equal(RUN("release", "--force", "--yes", "m"), 0);
    await_text_in(p.out_path, "\"reason\":\"revoked\",\"left_ms\":0}");
    assert_int_equal(finish(&p), 79);
}

/* A signal tells the program that it must stop, which has the grace for it; another one ends that. */
static void a_signal_gives_back(void **state)
{
    (void)state;
    int status = 0;
    set_lease("1s", "20s");
    process p = START("hold", "--grace", "8s", "m");
    await_held(&p);
    kill(p.pid, SIGTERM);
    await_text_in(p.out_path, "\"reason\":\"stopped\",\"left_ms\":8000}");
    assert_int_equal(RUN("run", "-n", "m", "--", "true"), 75);
    kill(p.pid, SIGINT);
    await_text_in(p.out_path, "released");
    assert_free();
    assert_int_equal(finish(&p), 128 + SIGTERM);

    process holder = START("hold", "m");
    await_held(&holder);
    process waiter = START("hold", "--event-log", in_dir("events"), "m");
    await_text_in(in_dir("events"), "request acquire");
    kill(waiter.pid, SIGTERM);
    assert_int_equal(waitpid(waiter.pid, &status, 0), waiter.pid); /* although its input is open */
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
    assert_int_equal(finish(&holder), 0);
    assert_free();
}

static void close_reader(void)
{
    int ends[2];
    if (pipe(ends) < 0 || dup2(ends[1], STDOUT_FILENO) < 0 || close(ends[0]) < 0 || close(ends[1]) < 0)
        _exit(126);
}

/* A program that closes its end of standard output would not hear of a loss. */
static void without_a_reader_nothing_is_held(void **state)
{
    (void)state;
    set_lease("1s", "20s");
    before_simba = close_reader;
    process p = START("hold", "m");
    before_simba = NULL;
    await_text_in(p.err_path, "nobody reads standard output");
    assert_int_equal(finish(&p), 1);
    assert_free();
}

static void wrong_use_is_explained(void **state)
{
    (void)state;
    const char *const wrong[][6] = {{"hold"},
                                    {"hold", "--stdio", "m"},
                                    {"hold", "--stdio", "--wait", "1s"},
                                    {"hold", "-n", "--wait", "1s", "m"},
                                    {"hold", "--grace", "1h", "m"}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        process p = start(wrong[i]);
        assert_int_equal(finish(&p), 64);
        assert_int_equal(lines_in(p.out_path), 0);
        assert_int_equal(lines_in(p.err_path), 1);
    }
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(the_end_of_input_gives_back),      TEST(renewals_are_told_on_request), TEST(what_is_not_obtained_is_told),
        TEST(a_loss_is_told_in_time),           TEST(what_is_taken_away_is_lost),   TEST(a_signal_gives_back),
        TEST(without_a_reader_nothing_is_held), TEST(wrong_use_is_explained),
    };
    return cmocka_run_group_tests_name("hold", tests, NULL, NULL);
}
