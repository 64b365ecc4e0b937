/* The tools around a store: `simba init`, `simba doctor`, `simba bench`. */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* The store is there afterwards, and a second time changes nothing. */
static void init_makes_the_store(void **state)
{
    assert_int_equal(RUN("init"), 0);
    assert_int_equal(access(in_dir("store.db"), F_OK), 0);
    assert_int_equal(RUN("run", "m", "--", "true"), 0);
    assert_int_equal(RUN("init"), 0);
    assert_non_null(strstr(out_of(&last), "has 1 mutex."));
    assert_int_equal(RUN("init", "--url", "redis://127.0.0.1:1"), 69);
}

/* Run `simba init` on this URL as a user who owns nothing; its exit code, and its words in the file. */
static int init_as_nobody(const char *url, const char *words)
{
    int status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(open(words, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDERR_FILENO);
        if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
            _exit(99);
        execl(SIMBA_TEST_COMMAND, "simba", "init", "--url", url, (char *)NULL);
        _exit(98);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Whoever may only read is told so, by the name of the file or folder: that store is not ready. */
static void init_needs_to_write(void **state)
{
    char url[400];
    assert_int_equal(RUN("init"), 0);
    snprintf(url, sizeof url, "sqlite://%s", in_dir("store.db"));
    assert_int_equal(chmod(in_dir("store.db"), 0444), 0);
    assert_int_equal(chmod(in_dir("."), 0777), 0);
    assert_int_not_equal(init_as_nobody(url, in_dir("words")), 0);
    assert_non_null(strstr(contents(in_dir("words")), "store.db: cannot be read and written"));
    assert_int_equal(chmod(in_dir("store.db"), 0666), 0);
    assert_int_equal(chmod(in_dir("."), 0555), 0);
    assert_int_not_equal(init_as_nobody(url, in_dir("words")), 0);
    assert_non_null(strstr(contents(in_dir("words")), "this folder cannot be written to"));
    assert_int_equal(chmod(in_dir("."), 0700), 0);
}

/* A ttl that no machine can keep to is found on any store, however fast it answers. */
static void doctor_finds_short_leases(void **state)
{
    static const char *const ttls[] = {"10ms", "100ms", "499ms"};
    unsetenv("SIMBA_URL");
    char url[400];
    snprintf(url, sizeof url, "sqlite://%s", in_dir("store.db"));
    for (size_t i = 0; i < COUNT_OF(ttls); i++) {
        assert_int_equal(RUN("doctor", "--url", url, "--ttl", ttls[i]), 0);
        assert_non_null(strstr(out_of(&last), "warning  ttl "));
        assert_null(strstr(out_of(&last), "warning  transition "));
    }
    assert_int_equal(RUN("doctor", "--url", url, "--ttl", "2s", "--transition", "100ms"), 0);
    assert_null(strstr(out_of(&last), "warning  ttl "));
    assert_non_null(strstr(out_of(&last), "warning  transition "));
}

/* Nobody finds a mutex in the store that no program of theirs has. */
static void doctor_leaves_nothing_behind(void **state)
{
    char url[400];
    snprintf(url, sizeof url, "sqlite://%s", in_dir("examined.db"));
    assert_int_equal(RUN("doctor", "--url", url), 0);
    assert_int_equal(RUN("list", "--url", url), 0);
    assert_null(strstr(out_of(&last), "simba-doctor"));
}

/* Whom the store keeps apart, and which file named it. */
static void doctor_says_where_it_looked(void **state)
{
    assert_int_equal(RUN("doctor"), 0);
    assert_non_null(strstr(out_of(&last), "This store covers the processes of user "));
    assert_int_equal(RUN("doctor", "--url", "memory://x"), 0);
    assert_non_null(strstr(out_of(&last), "This store covers one process only"));
    char text[600];
    snprintf(text, sizeof text, "simba.sqlite.url = sqlite://%s\n", in_dir("other.db"));
    write_file(in_dir("my.conf"), text);
    unsetenv("SIMBA_URL");
    assert_int_equal(RUN("doctor", "--config", in_dir("my.conf")), 0);
    snprintf(text, sizeof text, "from the configuration file %s.", in_dir("my.conf"));
    assert_non_null(strstr(out_of(&last), text));
}

/* All is well, something is doubtful, something is broken. */
static void doctor_finds_what_is_wrong(void **state)
{
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
    assert_non_null(strstr(out_of(&last), "`fuser` names the processes that have the file open."));
    end_process(freezer);
}

/* A store that cannot even be opened is a finding too, with a remedy, and no password in it. */
static void doctor_explains_what_cannot_be_opened(void **state)
{
    assert_int_equal(RUN("doctor", "--url", "redis://127.0.0.1:1"), 69);
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

/* A disk of its own over the folder "disk", which nobody else sees. Not everybody may have one. */
static bool mount_disk(void)
{
    assert_int_equal(mkdir(in_dir("disk"), 0700), 0);
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", in_dir("disk"), "tmpfs", 0, "size=400k") == 0;
}

static void fill_disk(void)
{
    static const char bytes[4096];
    const int fd = open(in_dir("disk/rest"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
    close(fd);
}

/* A file has neither an address nor a firewall before it. */
static void doctor_knows_a_full_disk(void **state)
{
    char url[400];
    if (!mount_disk())
        skip();
    snprintf(url, sizeof url, "sqlite://%s", in_dir("disk/store.db"));
    assert_int_equal(RUN("init", "--url", url), 0);
    fill_disk();
    for (int is_new = 0; is_new < 2; is_new++) {
        assert_int_equal(RUN("doctor", "--url", url), 69);
        assert_non_null(strstr(out_of(&last), "Make room on the disk of the store."));
        assert_null(strstr(out_of(&last), "firewall"));
        snprintf(url, sizeof url, "sqlite://%s", in_dir("disk/new.db"));
    }
    assert_int_equal(umount2(in_dir("disk"), MNT_DETACH), 0);
}

/* A store whose module is not there: which package brings it. */
static void a_missing_module_names_its_package(void **state)
{
    static const char *const stores[] = {"redis", "mysql", "postgresql", "zookeeper", "etcd", "kubernetes"};
    setenv("SIMBA_MODULE_PATH", "/nowhere", 1);
    for (size_t i = 0; i < COUNT_OF(stores); i++) {
        char url[64];
        char package[64];
        snprintf(url, sizeof url, "%s://127.0.0.1:1/x", stores[i]);
        snprintf(package, sizeof package, "Debian package simba-%s, ", stores[i]);
        const int code = RUN("list", "--url", url);
        if (code == 69 || strstr(err_of(&last), "was built without") != NULL)
            continue; /* this build has it in the library, or not at all */
        assert_int_equal(code, 78);
        assert_non_null(strstr(err_of(&last), package));
        assert_non_null(strstr(err_of(&last), " SIMBA_MODULE_PATH names."));
    }
    unsetenv("SIMBA_MODULE_PATH");
}

static void bench_prints_numbers(void **state)
{
    assert_int_equal(RUN("bench", "--for", "50ms", "--json"), 0);
    double rate = 0;
    assert_int_equal(sscanf(out_of(&last), "{\"pairs\":%*u,\"pairs_per_s\":%lf,", &rate), 1);
    assert_true(rate > 1);
    assert_int_equal(RUN("bench", "--for", "50ms"), 0);
    assert_non_null(strstr(out_of(&last), "median"));
}

/* Neither leaves a mutex in the store, also when somebody presses Ctrl-C; the name that bench was given is its owner's. */
static void bench_and_tck_tidy_up(void **state)
{
    assert_int_equal(RUN("bench", "--for", "10ms"), 0);
    process bench = START("bench", "--for", "1h");
    const int64_t end_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    do {
        assert_int_equal(RUN("list"), 0);
        assert_true(now_ns() < end_ns);
    } while (strstr(out_of(&last), "simba-bench") == NULL);
    kill(bench.pid, SIGINT);
    assert_int_equal(finish(&bench), 128 + SIGINT);
    assert_non_null(strstr(out_of(&bench), "median"));
    process tck = START("tck");
    await_text_in(tck.out_path, "ok 1 ");
    kill(tck.pid, SIGTERM);
    assert_int_equal(finish(&tck), 128 + SIGTERM);
    assert_non_null(strstr(out_of(&tck), "Bail out! interrupted"));
    assert_int_equal(RUN("list", "--json"), 0);
    assert_string_equal(out_of(&last), "[]\n");
    assert_int_equal(RUN("bench", "--for", "10ms", "theirs"), 0);
    assert_int_equal(RUN("list"), 0);
    assert_non_null(strstr(out_of(&last), "theirs"));
}

/* Every command explains itself within a screen. */
static void every_command_is_explained(void **state)
{
    const char *const commands[] = {"run",   "schedule", "elect", "list",     "watch", "release", "init",    "doctor",
                                    "bench", "demo",     "tck",   "timeline", "note",  "forget",  "torture", "hold"};
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        char page[64];
        assert_int_equal(RUN(commands[i], "--help"), 0);
        assert_in_range(lines_in(last.out_path), 5, 30);
        snprintf(page, sizeof page, "Usage: simba %s", commands[i]);
        assert_non_null(strstr(out_of(&last), page));
    }
}

#define MANUAL(page) contents(SIMBA_TEST_SOURCES "/../man/" page)

/* The synopsis of simba(1) has every command, in both of its forms, and --help has every exit code of simba(1). */
static void the_manual_has_every_command(void **state)
{
    const char *page = MANUAL("simba.1");
    const char *description = strstr(page, ".Sh DESCRIPTION");
    const char *codes = strstr(page, ".Sh EXIT STATUS");
    assert_non_null(description);
    assert_non_null(codes);
    assert_int_equal(RUN("help"), 0);
    const char *help = out_of(&last);
    char name[16];
    char line[32];
    unsigned commands = 0;
    for (const char *at = help; (at = strstr(at, "\n  ")) != NULL; at++) {
        if (sscanf(at, "\n  %15[a-z] ", name) != 1 || at[3] == ' ')
            continue;
        snprintf(line, sizeof line, "\n.Cm %s\n", name);
        const char *found = strstr(page, line);
        if (found == NULL || found > description)
            fail_msg("the synopsis of simba(1) lacks %s", name);
        commands++;
    }
    assert_in_range(commands, 18, 40);
    assert_non_null(strstr(page, ".Cm schedule\n.Fl Fl list\n"));
    unsigned code;
    for (const char *at = codes; (at = strstr(at, "\n.It ")) != NULL; at++) {
        if (sscanf(at, "\n.It %u", &code) != 1)
            continue;
        snprintf(line, sizeof line, "%u ", code);
        if (strstr(strstr(help, "Exit codes"), line) == NULL)
            fail_msg("--help lacks the exit code %u", code);
    }
}

/* simba-url(5) names all files that lie beside a SQLite database. */
static void the_manual_has_every_file(void **state)
{
    process holder = START("run", "m", "--", "sh", "-c", "echo x > \"$0\"; read line", in_dir("up"));
    await_file(in_dir("up"));
    process waiter = START("run", "m", "--", "true");
    const int64_t end_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    while (access(in_dir("store.db-wake"), F_OK) < 0)
        assert_true(now_ns() < end_ns);
    const char *page = MANUAL("simba-url.5");
    DIR *folder = opendir(in_dir(""));
    assert_non_null(folder);
    unsigned files = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char line[64];
        if (strncmp(entry->d_name, "store.db-", 9) != 0)
            continue;
        snprintf(line, sizeof line, ".Pa %.40s", entry->d_name + 8);
        if (strstr(page, line) == NULL)
            fail_msg("simba-url(5) lacks %s", entry->d_name);
        files++;
    }
    closedir(folder);
    assert_in_range(files, 3, 10);
    finish(&holder);
    finish(&waiter);
}

/* A store that is out of reach is reported at once, and not when a lock has waited for it in vain. */
static void bench_reports_a_dead_store(void **state)
{
    const int64_t start_ns = now_ns();
    assert_int_equal(RUN("bench", "--url", "redis://127.0.0.1:1"), 69);
    assert_true(now_ns() - start_ns < INT64_C(4000000000)); /* a lock would wait for five seconds */
    assert_non_null(strstr(err_of(&last), "cannot connect"));
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(init_needs_to_write),
        TEST(doctor_finds_short_leases),
        TEST(doctor_leaves_nothing_behind),
        TEST(doctor_says_where_it_looked),
        TEST(init_makes_the_store),
        TEST(doctor_finds_what_is_wrong),
        TEST(doctor_explains_what_cannot_be_opened),
        TEST(doctor_knows_a_full_disk),
        TEST(a_missing_module_names_its_package),
        TEST(bench_prints_numbers),
        TEST(bench_and_tck_tidy_up),
        TEST(bench_reports_a_dead_store),
        TEST(every_command_is_explained),
        TEST(the_manual_has_every_command),
        TEST(the_manual_has_every_file),
    };
    return cmocka_run_group_tests_name("tools", tests, NULL, NULL);
}
