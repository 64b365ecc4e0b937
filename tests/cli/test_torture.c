/* `simba torture` on SQLite: what it says, what it leaves behind, and how it is told what to do. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static char url[400];

/* The same file as SIMBA_URL, without a timing of its own. */
static const char *store(void)
{
    snprintf(url, sizeof url, "sqlite://%s", in_dir("store.db"));
    return url;
}

static void assert_nothing_is_left(void)
{
    assert_int_equal(RUN("list"), 0);
    assert_null(strstr(out_of(&last), "torture-"));
}

/* A store that is well gets through: exit code 0, and each promise is named. */
static void healthy(void **state)
{
    process p = START("torture", store(), "--duration", "2s", "--ttl", "150ms", "--transition", "150ms", "--seed", "5",
                      "--mutexes", "2", "--history", in_dir("history"), "--svg", in_dir("worst.svg"));
    const int code = finish(&p);
    if (code != 0)
        print_message("# %s\n", out_of(&p));
    assert_int_equal(code, 0);
    assert_non_null(strstr(out_of(&p), "seed 5: 4 contenders, 2 mutexes"));
    assert_non_null(strstr(out_of(&p), "no cuts: there is no network"));
    assert_non_null(strstr(out_of(&p), "never two leaders at once\n"));
    assert_non_null(strstr(out_of(&p), "every promise was kept"));
    assert_non_null(strstr(contents(in_dir("worst.svg")), "the longest time without a leader"));
    assert_string_equal(err_of(&p), "");
    assert_nothing_is_left();

    /* What it has written can be judged again. */
    assert_int_equal(RUN("torture", "--judge", in_dir("history"), "-q"), 0);
    assert_string_equal(out_of(&last), "");
    assert_int_equal(RUN("torture", "--judge", in_dir("history"), "--json"), 0);
    assert_non_null(strstr(out_of(&last), "{\"kept\":true,\"seed\":\"5\",\"contenders\":4,\"mutexes\":2,"));
}

/* A history with two leaders: exit code 1 whether or not somebody reads, the moment is told and drawn. */
static void judges_what_others_wrote(void **state)
{
    static const char *const history =
        "{\"kind\":\"run\",\"contenders\":2,\"mutexes\":1,\"lease\":2000000000,\"takeover\":5000000000,"
        "\"handover\":2000000000}\n"
        "{\"at\":0,\"kind\":\"contends\",\"contender\":0}\n{\"at\":0,\"kind\":\"contends\",\"contender\":1}\n"
        "{\"at\":10,\"kind\":\"holds\",\"contender\":0,\"mutex\":0,\"token\":\"7\",\"seen\":20,\"to\":900000000,"
        "\"until\":"
        "2000000000}\n"
        "{\"at\":800000000,\"kind\":\"holds\",\"contender\":1,\"mutex\":0,\"token\":\"8\",\"seen\":800000001,\"to\":"
        "900000000,"
        "\"until\":2500000000}\n";
    write_file(in_dir("history"), history);
    assert_int_equal(RUN("torture", "--judge", in_dir("history"), "-q", "--svg", in_dir("worst.svg")), 1);
    assert_non_null(strstr(out_of(&last), "never two leaders at once: broken 1 time\n"));
    assert_non_null(strstr(out_of(&last), "at 0.800 s: contender 0 (token 7) and contender 1 (token 8) both acted"));
    assert_non_null(strstr(out_of(&last), "contender-1"));
    assert_non_null(strstr(contents(in_dir("worst.svg")), "both acted as leader of mutex 0"));
    assert_int_equal(RUN("torture", "--judge", in_dir("nosuch")), 64);
}

#define FIRST_LINE                                                                                                     \
    "{\"kind\":\"run\",\"contenders\":2,\"mutexes\":1,\"lease\":2,\"takeover\":5,\"handover\":5}\n"                    \
    "{\"at\":0,\"kind\":\"contends\",\"contender\":1}\n"

/* A file that is no history: the line and what is wrong with it are named, whatever it says. */
static void names_what_is_wrong_with_a_history(void **state)
{
    static const struct {
        const char *text, *said;
    } bad[] = {
        {"", "line 1 of "},
        {"\n", "line 1 of "},
        {FIRST_LINE "{\"at\":0,\"kind\":\"contends\",\"contender\":2}\n",
         "\"contender\" is 2, and the first line says that"},
        {FIRST_LINE "{\"at\":0,\"kind\":\"holds\",\"contender\":0,\"mutex\":1,\"token\":\"1\",\"seen\":0,\"to\":0,"
                    "\"until\":0}\n",
         "\"mutex\" is 1, and the first line says that there are 1"},
        {FIRST_LINE "{\"at\":18446744073709551616,\"kind\":\"end\"}\n", "\"at\" is 18446744073709551616"},
        {FIRST_LINE "{\"at\":1,\"kin", "line 3 of "},
        {FIRST_LINE "{\"at\":\"\\u001b[2J\",\"kind\":\"end\"}", "\"at\" is "},
        {FIRST_LINE "\n", "line 3 of "},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        write_file(in_dir("history"), bad[i].text);
        assert_int_equal(RUN("torture", "--judge", in_dir("history")), 64);
        if (strstr(err_of(&last), bad[i].said) == NULL || strchr(err_of(&last), '\x1b') != NULL)
            fail_msg("of %s it is said: %s", bad[i].text, err_of(&last));
    }
    assert_int_equal(RUN("torture", "--judge", "/dev/zero"), 64);
    assert_non_null(strstr(err_of(&last), "line 1 of /dev/zero is not a line of a history: it has a zero byte."));
    static char endless[20000];
    memset(endless, ' ', sizeof endless - 1);
    write_file(in_dir("history"), endless);
    assert_int_equal(RUN("torture", "--judge", in_dir("history")), 64);
    assert_non_null(strstr(err_of(&last), "it has more than 16383 bytes"));
}

/* The contenders of a run that goes on. */
static unsigned find_contenders(pid_t pid, pid_t ret_pids[8])
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (count < 8 && fscanf(file, "%d", &ret_pids[count]) == 1)
        count++;
    fclose(file);
    return count;
}

static process start_long(const char *ttl)
{
    const process p = START("torture", store(), "--duration", "1h", "--ttl", ttl, "--transition", "150ms", "--faults",
                            "pause", "--history", in_dir("history"));
    await_text_in(in_dir("history"), "\"pause\"");
    return p;
}

/* Ctrl-C ends it with a verdict, and leaves no process and no mutex. Paused contenders end too, long before anybody would lose
 * patience with them. */
static void ends_when_asked(void **state)
{
    pid_t pids[8];
    process p = start_long("2s");
    const unsigned count = find_contenders(p.pid, pids);
    assert_int_equal(count, 4);
    const int64_t asked_ns = now_ns();
    kill(p.pid, SIGINT);
    assert_int_equal(finish(&p), 130);
    assert_true(now_ns() - asked_ns < 8 * INT64_C(1000000000));
    for (unsigned i = 0; i < count; i++)
        await_death(pids[i]);
    assert_non_null(strstr(out_of(&p), "every promise was kept"));
    assert_nothing_is_left();
}

/* Nor does it leave any when it has no chance to end them: not the leader, which would notice that nobody listens, and not those
 * that wait. */
static void contenders_do_not_outlive_it(void **state)
{
    pid_t pids[8];
    process p = start_long("10m");
    const unsigned count = find_contenders(p.pid, pids);
    kill(p.pid, SIGKILL);
    assert_int_equal(finish(&p), 1000 + SIGKILL);
    for (unsigned i = 0; i < count; i++)
        await_death(pids[i]);
}

/* A contender that somebody else kills has ended by itself, and that is a broken promise. */
static void notices_a_death(void **state)
{
    pid_t pids[8];
    process p = START("torture", store(), "--duration", "1h", "--faults", "handover", "--history", in_dir("history"));
    await_text_in(in_dir("history"), "\"holds\"");
    assert_int_equal(find_contenders(p.pid, pids), 4);
    kill(pids[3], SIGKILL);
    await_text_in(in_dir("history"), "\"ended\"");
    kill(p.pid, SIGINT);
    assert_int_equal(finish(&p), 130);
    assert_non_null(strstr(out_of(&p), "ended by itself: signal 9"));
}

/* What is wrong is said in a sentence, before anything is started. */
static void wrong_arguments(void **state)
{
    static const struct {
        const char *arguments[6];
        int code;
        const char *words;
    } cases[] = {
        {{"torture", "--contenders", "1"}, 64, "--contenders is from 2 to 64"},
        {{"torture", "--contenders", "many"}, 64, "--contenders wants a whole number, not \"many\""},
        {{"torture", "--mutexes", "17"}, 64, "--mutexes is from 1 to 16"},
        {{"torture", "--duration", "25h"}, 64, "--duration is from 1ms to 24h"},
        {{"torture", "--seed", "-1"}, 64, "--seed wants a whole number, not \"-1\""},
        {{"torture", "--seed", "18446744073709551616"}, 64, "--seed wants a whole number"},
        {{"torture", "--faults", "kill,rm"}, 64, "--faults has no \"rm\""},
        {{"torture", "--url", "sqlite:///x", "sqlite:///y"}, 64, "the URL is given twice"},
        {{"torture", "--judge", "x", "sqlite:///y"}, 64, "--judge takes no URL"},
        {{"torture", "memory://x"}, 78, "is seen by one process only"},
        {{"torture", "nosuch://me:geheim@host"}, 78, "nosuch"},
        {{"torture", "redis://me:geheim@127.0.0.1:1"}, 69, "127.0.0.1:1"},
        {{"torture", "sqlite:///nosuch/folder/x.db"}, 78, "no folder /nosuch"},
        {{"torture", "--faults", "cut", "sqlite:///x"}, 78, "no cuts: there is no network"},
        {{"torture", "--history", "/nosuch/file", "sqlite:///x"}, 1, "/nosuch/file cannot be written"},
        {{"torture-contender", "--number", "64", "m"}, 64, "it is started by `simba torture`"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        process p = start(cases[i].arguments);
        const int code = finish(&p);
        if (code != cases[i].code || strstr(err_of(&p), cases[i].words) == NULL)
            fail_msg("case %zu: %d, %s", i, code, err_of(&p));
        assert_null(strstr(err_of(&p), "geheim"));
        assert_null(strstr(out_of(&p), "geheim"));
    }
    unsetenv("SIMBA_URL");
    assert_int_equal(RUN("torture"), 64);
    assert_non_null(strstr(err_of(&last), "the URL of the store is missing"));
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(healthy),         TEST(judges_what_others_wrote), TEST(names_what_is_wrong_with_a_history),
        TEST(ends_when_asked), TEST(wrong_arguments),          TEST(contenders_do_not_outlive_it),
        TEST(notices_a_death),
    };
    return cmocka_run_group_tests_name("torture", tests, NULL, NULL);
}
