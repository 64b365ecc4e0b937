/* The tools around a store: `simba init`, `simba doctor`, `simba bench`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

/* The store is there afterwards, and a second time changes nothing. */
static void init_makes_the_store(void **state)
{
    (void)state;
    assert_int_equal(RUN("init"), 0);
    assert_int_equal(access(in_dir("store.db"), F_OK), 0);
    assert_int_equal(RUN("run", "m", "--", "true"), 0);
    assert_int_equal(RUN("init"), 0);
    assert_non_null(strstr(out_of(&last), "has 1 mutex."));
    assert_int_equal(RUN("init", "--url", "sqlite:///proc/no/such.db"), 69);
}

/* All is well, something is doubtful, something is broken. */
static void doctor_finds_what_is_wrong(void **state)
{
    (void)state;
    assert_int_equal(RUN("doctor"), 0);
    assert_non_null(strstr(out_of(&last), "from SIMBA_URL"));
    assert_non_null(strstr(out_of(&last), "ok       schema "));
    assert_null(strstr(out_of(&last), "warning"));
    setenv("SIMBA_URL", "memory://doctor", 1);
    assert_int_equal(RUN("doctor", "--transition", "0ms", "--json"), 0);
    assert_non_null(strstr(out_of(&last), "\"check\":\"transition\",\"verdict\":\"warning\""));
    assert_non_null(strstr(out_of(&last), "\"remedy\":\"Set a transition"));
    assert_int_equal(test_teardown(state), 0);
    assert_int_equal(test_setup(state), 0);
    assert_int_equal(RUN("init"), 0);
    const pid_t freezer = start_helper("freeze", in_dir("store.db"), in_dir("frozen"));
    await_file(in_dir("frozen"));
    assert_int_equal(RUN("doctor"), 69);
    assert_non_null(strstr(out_of(&last), "broken"));
    end_process(freezer);
}

/* A store that cannot even be opened is a finding too, with a remedy, and no password in it. */
static void doctor_explains_what_cannot_be_opened(void **state)
{
    (void)state;
    assert_int_equal(RUN("doctor", "--url", "sqlite:///proc/no/such.db"), 69);
    assert_non_null(strstr(out_of(&last), "from --url"));
    assert_non_null(strstr(out_of(&last), "broken   store "));
    assert_non_null(strstr(out_of(&last), "Is it there"));
    setenv("SIMBA_URL", "nosuch://me:geheim@host", 1);
    assert_int_equal(RUN("doctor", "--json"), 78);
    assert_non_null(strstr(out_of(&last), "\"check\":\"store\",\"verdict\":\"broken\""));
    assert_non_null(strstr(out_of(&last), "simba-url(5)"));
    assert_null(strstr(out_of(&last), "geheim"));
    assert_string_equal(err_of(&last), "");
}

static void bench_prints_numbers(void **state)
{
    (void)state;
    assert_int_equal(RUN("bench", "--for", "50ms", "--json"), 0);
    double rate = 0;
    assert_int_equal(sscanf(out_of(&last), "{\"pairs\":%*u,\"pairs_per_s\":%lf,", &rate), 1);
    assert_true(rate > 1);
    assert_int_equal(RUN("bench", "--for", "50ms"), 0);
    assert_non_null(strstr(out_of(&last), "median"));
}

/* Every command explains itself within a screen. */
static void every_command_is_explained(void **state)
{
    (void)state;
    const char *const commands[] = {"run",  "schedule", "elect", "list", "watch", "release",
                                    "init", "doctor",   "bench", "demo", "tck",   "timeline"};
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        char page[64];
        assert_int_equal(RUN(commands[i], "--help"), 0);
        assert_in_range(lines_in(last.out_path), 5, 24);
        snprintf(page, sizeof page, "Usage: simba %s", commands[i]);
        assert_non_null(strstr(out_of(&last), page));
    }
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(init_makes_the_store), TEST(doctor_finds_what_is_wrong), TEST(doctor_explains_what_cannot_be_opened),
        TEST(bench_prints_numbers), TEST(every_command_is_explained),
    };
    return cmocka_run_group_tests_name("tools", tests, NULL, NULL);
}
