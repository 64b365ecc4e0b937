/* Passwords, with a server that wants one: from wherever they come they are used, and nobody else gets to see them. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/server.h"
#include "support.h"

#define PASSWORD "hush-hush"

static server redis;
static bool running;
static char bare_url[64], full_url[96];

static int group_setup(void **state)
{
    if (!server_has("redis-server"))
        return 0;
    server_init(&redis);
    running = server_start_redis(&redis, (const char *const[]){"--requirepass", PASSWORD, NULL});
    snprintf(bare_url, sizeof bare_url, "redis://127.0.0.1:%d?restart-wait=no", redis.port);
    snprintf(full_url, sizeof full_url, "redis://:" PASSWORD "@127.0.0.1:%d?restart-wait=no", redis.port);
    return running ? 0 : -1;
}

static int group_teardown(void **state)
{
    if (running)
        server_fini(&redis);
    return 0;
}

/* All that is in a file of /proc, whose words end with zeroes, as one text. */
static const char *proc_text(const char *process_id, const char *name)
{
    static char text[65536];
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/%s", process_id, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = 0;
    while (fd >= 0 && length < sizeof text - 1 && (got = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    text[length] = '\0';
    return text;
}

/* What `ps` would show of every process that there is. */
static void assert_not_in_process_list(void)
{
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (const struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || atoi(entry->d_name) == redis.pid)
            continue;
        const char *shown = proc_text(entry->d_name, "cmdline");
        /* Valgrind cannot hide what it runs. */
        if (strstr(shown, PASSWORD) != NULL && strncmp(shown, "valgrind", strlen("valgrind")) != 0)
            fail_msg("process %s shows it: %s", entry->d_name, shown);
    }
    closedir(processes);
}

static void assert_not_said(const process *p)
{
    assert_null(strstr(out_of(p), PASSWORD));
    assert_null(strstr(err_of(p), PASSWORD));
}

/* In the URL on the command line: gone from there as soon as the command runs, and no part of what the child inherits. */
static void a_url_on_the_command_line(void **state)
{
    if (!running)
        skip();
    process p = START("-v", "-v", "--url", full_url, "run", "m", "--", "sh", "-c",
                      "tr '\\0' '\\n' </proc/$$/environ; echo > \"$0\"; cat", in_dir("held"));
    await_file(in_dir("held"));
    assert_not_in_process_list();
    assert_int_equal(finish(&p), 0);
    assert_not_said(&p);
}

/* From a variable, from a file that one names, and from a file or a variable that the configuration names. */
static void from_elsewhere(void **state)
{
    if (!running)
        skip();
    char config[400];
    setenv("SIMBA_URL", bare_url, 1);
    write_file(in_dir("password"), PASSWORD "\n");
    setenv("SIMBA_PASSWORD", PASSWORD, 1);
    assert_int_equal(RUN("-v", "list"), 0);
    unsetenv("SIMBA_PASSWORD");
    setenv("SIMBA_PASSWORD_FILE", in_dir("password"), 1);
    assert_int_equal(RUN("-v", "list"), 0);
    assert_not_said(&last);
    unsetenv("SIMBA_PASSWORD_FILE");
    unsetenv("SIMBA_URL");
    snprintf(config, sizeof config, "simba.redis.url = %s\nsimba.redis.password-file = %s\n", bare_url,
             in_dir("password"));
    write_file(in_dir("simba.conf"), config);
    assert_int_equal(RUN("--config", in_dir("simba.conf"), "doctor"), 0);
    assert_not_said(&last);
}

/* A wrong one is named as the reason, without being shown; so is a missing one. */
static void a_wrong_one(void **state)
{
    if (!running)
        skip();
    char url[96];
    snprintf(url, sizeof url, "redis://:" PASSWORD "-not@127.0.0.1:%d?restart-wait=no", redis.port);
    assert_int_equal(RUN("-v", "-v", "--url", url, "run", "--wait", "5s", "m", "--", "true"), 77);
    assert_non_null(strstr(err_of(&last), "password"));
    assert_not_said(&last);
    assert_int_equal(RUN("--url", bare_url, "run", "--wait", "5s", "m", "--", "true"), 77);
    assert_non_null(strstr(err_of(&last), "password"));
    assert_int_equal(RUN("doctor", "--url", url), 77);
    assert_non_null(strstr(out_of(&last), "Check the user, the password"));
    assert_not_said(&last);
}

/* The supervisor of a run that was killed gives the mutex back, and for that has the password too. */
static void for_a_killed_run(void **state)
{
    if (!running)
        skip();
    process p =
        START("--url", full_url, "run", "killed", "--", "sh", "-c", "echo > \"$0\"; exec sleep 1000", in_dir("on"));
    await_file(in_dir("on"));
    const pid_t supervisor = child_of(p.pid);
    kill(p.pid, SIGKILL);
    assert_int_equal(finish(&p), 1000 + SIGKILL);
    assert_not_in_process_list();
    await_death(supervisor);
    assert_int_equal(RUN("--url", full_url, "run", "--no-wait", "killed", "--", "true"), 0);
    assert_not_said(&p);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {TEST(a_url_on_the_command_line), TEST(from_elsewhere), TEST(a_wrong_one),
                                       TEST(for_a_killed_run)};
    return cmocka_run_group_tests_name("secret", tests, group_setup, group_teardown);
}
