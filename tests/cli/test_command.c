/* The command as its users meet it: real processes, real exit codes, what is on stdout and what on stderr. */
#include <fcntl.h>
#include <inttypes.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/referee.h"

enum { OUTPUT_MAX = 65536 };

static char out[OUTPUT_MAX];
static char err[OUTPUT_MAX];

static void slurp(int fd, char *buffer)
{
    size_t length = 0;
    ssize_t got;
    while (length < OUTPUT_MAX - 1 && (got = read(fd, buffer + length, OUTPUT_MAX - 1 - length)) > 0)
        length += (size_t)got;
    buffer[length] = '\0';
    close(fd);
}

/* Run the command and return its exit code; its output is in `out` and `err`. */
static int simba(const char *arguments[])
{
    const char *argv[16] = {SIMBA_TEST_COMMAND};
    for (size_t i = 0; arguments[i]; i++)
        argv[i + 1] = arguments[i];
    FILE *errors = tmpfile();
    int pipe_[2];
    assert_non_null(errors);
    assert_int_equal(pipe2(pipe_, O_CLOEXEC), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipe_[1], STDOUT_FILENO);
        dup2(fileno(errors), STDERR_FILENO);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(pipe_[1]);
    slurp(pipe_[0], out);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    rewind(errors);
    err[fread(err, 1, OUTPUT_MAX - 1, errors)] = '\0';
    fclose(errors);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define SIMBA(...) simba((const char *[]){__VA_ARGS__, NULL})

/* The main job: the demo was judged, and it prints the verdict. */
static void demo_shows_and_checks(void **state)
{
    char lease[24];
    snprintf(lease, sizeof lease, "%" PRId64 "ms", ref_scaled_ms(500));
    assert_int_equal(SIMBA("demo", "--ttl", lease, "--transition", lease), 0);
    assert_non_null(strstr(out, "every promise was kept"));
    assert_non_null(strstr(out, "fail-over"));
    assert_non_null(strstr(out, "hand-over"));
    assert_null(strstr(out, "\033[")); /* no colours into a pipe */
    assert_string_equal(err, "");
}

/* Help goes to stdout, fits on a screen, and begins with the commands that most people come for, each below its purpose. */
static void help_fits_on_a_screen(void **state)
{
    const char *const commands[] = {"--help", "help"};
    const char *const order[] = {"\nHold a mutex:\n  run ",
                                 "\n  elect ",
                                 "\nLook:\n  list ",
                                 "\nAdminister:\n  init ",
                                 "\n  forget ",
                                 "\nTest a store:\n  bench ",
                                 "\n  torture ",
                                 "\nLearn:\n  demo ",
                                 "\n\nOptions"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(SIMBA(commands[i]), 0);
        assert_non_null(strstr(out, "Usage: simba"));
        int lines = 0;
        for (const char *c = out; *c; c++)
            lines += *c == '\n';
        assert_in_range(lines, 5, 45);
        const char *at = out;
        for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
            at = strstr(at, order[k]);
            assert_non_null(at);
        }
    }
    assert_int_equal(SIMBA("demo", "--help"), 0);
    assert_non_null(strstr(out, "demo"));
}

/* The version is that of the library. */
static void version_is_printed(void **state)
{
    assert_int_equal(SIMBA("version"), 0);
    assert_non_null(strstr(out, simba_version()));
    assert_int_equal(SIMBA("--version"), 0);
    assert_non_null(strstr(out, simba_version()));
    assert_int_equal(SIMBA("version", "--json"), 0);
    assert_memory_equal(out, "{\"command\":\"", 12);
}

/* Whoever calls it wrongly gets 64 and a sentence on stderr that names what is wrong. */
static void wrong_use_is_explained(void **state)
{
    assert_int_equal(SIMBA("lokc"), 64);
    assert_non_null(strstr(err, "lokc"));
    assert_int_equal(SIMBA("demo", "--tll", "5s"), 64);
    assert_non_null(strstr(err, "--tll"));
    assert_int_equal(SIMBA("demo", "--ttl", "5x"), 64);
    assert_non_null(strstr(err, "5"));
    assert_int_equal(SIMBA("run", "--max-hold", "9223372036854775807ms", "m", "--", "true"), 64);
    assert_non_null(strstr(err, "ten years"));
    assert_int_equal(SIMBA("list", "--url", ""), 64);
    assert_non_null(strstr(err, "--url is empty"));
    assert_int_equal(SIMBA("lsit"), 64);
    assert_non_null(strstr(err, "did you mean \"list\"?"));
    assert_int_equal(SIMBA("help", "timelin"), 64);
    assert_non_null(strstr(err, "did you mean \"timeline\"?"));
    assert_int_equal(SIMBA("demo", "--tll", "5s"), 64);
    assert_non_null(strstr(err, "did you mean --ttl?"));
    assert_int_equal(SIMBA("list", "--jsno=x"), 64);
    assert_non_null(strstr(err, "did you mean --json?"));
    assert_int_equal(SIMBA("list", "--url", "redsi://host"), 78);
    assert_non_null(strstr(err, "did you mean redis://?"));
    assert_int_equal(SIMBA("list", "--url", "mongodb://host"), 78);
    assert_null(strstr(err, "did you mean"));
    assert_int_equal(SIMBA("demo", "--ttl"), 64);
    assert_string_equal(out, "");
}

/* A store that cannot be had: 78 when the URL is wrong, and no password in the words. */
static void a_bad_store_is_explained(void **state)
{
    assert_int_equal(SIMBA("tck", "nosuch://user:secret@host"), 78);
    assert_non_null(strstr(err, "nosuch"));
    assert_null(strstr(err, "secret"));
    assert_int_equal(SIMBA("tck", "memory://x?colour=red"), 78);
    assert_non_null(strstr(err, "colour"));
}

/* No store at all: 69, said once, and not by every case of the kit. */
static void a_store_that_is_not_there_is_said_once(void **state)
{
    assert_int_equal(SIMBA("tck", "redis://127.0.0.1:1"), 69);
    assert_non_null(strstr(err, "127.0.0.1:1"));
    assert_string_equal(out, "");
    const char *const commands[] = {"list", "init", "bench"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        assert_int_equal(SIMBA(commands[i], "--url", "redis://127.0.0.1:1"), 69);
        assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1); /* one line */
    }
}

/* The kit by the command: TAP on stdout, 0 when all is well. */
static void tck_prints_tap(void **state)
{
    assert_int_equal(SIMBA("tck", "memory://command", "--only", "start-stop"), 0);
    assert_non_null(strstr(out, "1..1\n"));
    assert_non_null(strstr(out, "ok 1 - start-stop"));
    assert_int_equal(SIMBA("tck", "memory://command", "--only", "nosuch*"), 64);
    assert_string_equal(out, "");
    assert_non_null(strstr(err, "no case matches \"nosuch*\""));
}

static unsigned rows_of(const char *url)
{
    unsigned rows = 0;
    assert_int_equal(SIMBA("list", "--json", "--url", url), 0);
    for (const char *at = out; (at = strstr(at, "\"mutex\"")) != NULL; at++)
        rows++;
    return rows;
}

/* A run of the kit removes its mutexes, those that a killed run of its slot has left, and none of a run at the same time. */
static void tck_removes_its_mutexes(void **state)
{
    char dir[] = "/tmp/simba-tck-XXXXXX";
    char url[64];
    char file[64];
    assert_non_null(mkdtemp(dir));
    snprintf(url, sizeof url, "sqlite://%s/a.db", dir);
    assert_int_equal(SIMBA("note", "set", "tck-0-left", "x", "--url", url), 0);
    assert_int_equal(SIMBA("note", "set", "mine", "x", "--url", url), 0);
    assert_int_equal(
        SIMBA("run", "tck-slot-0", "--url", url, "--", SIMBA_TEST_COMMAND, "tck", url, "--only", "names-are-exact"), 0);
    assert_int_equal(rows_of(url), 3); /* also the slot's, which the wrapper held */
    assert_int_equal(SIMBA("tck", url, "--only", "names-*"), 0);
    assert_int_equal(rows_of(url), 1);
    static const char *const suffixes[] = {"", "-wal", "-shm", "-wake"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(file, sizeof file, "%s/a.db%s", dir, suffixes[i]);
        remove(file);
    }
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demo_shows_and_checks),    cmocka_unit_test(help_fits_on_a_screen),
        cmocka_unit_test(version_is_printed),       cmocka_unit_test(wrong_use_is_explained),
        cmocka_unit_test(a_bad_store_is_explained), cmocka_unit_test(a_store_that_is_not_there_is_said_once),
        cmocka_unit_test(tck_prints_tap),           cmocka_unit_test(tck_removes_its_mutexes),
    };
    return cmocka_run_group_tests_name("command", tests, NULL, NULL);
}
