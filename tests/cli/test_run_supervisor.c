/* The supervisor of `simba run`: whom it kills and whom not, with what means, and what it does when several things happen
 * at once. test_run_lost.c has the ends of leases. */
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* A process in a group of its own, in the session of the test. */
static pid_t start_bystander(void)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        for (;;)
            pause();
    }
    setpgid(pid, pid);
    return pid;
}

/* Something that the command left behind has joined the group of somebody else: it is killed, and that group is not. */
static void groups_of_others_are_left_alone(void **state)
{
    char group[16];
    int status;
    const pid_t bystander = start_bystander();
    snprintf(group, sizeof group, "%d", (int)bystander);
    process p = START("run", "--grace", "100ms", "m", "--", "sh", "-c", "\"$0\" intrude \"$1\" \"$2\" & cat", helper,
                      group, in_dir("intruder"));
    await_file(in_dir("intruder"));
    const pid_t intruder = (pid_t)number_in(in_dir("intruder"));
    assert_int_equal(finish(&p), 0);
    assert_non_null(strstr(err_of(&p), "left processes behind"));
    await_death(intruder);
    assert_int_equal(waitpid(bystander, &status, WNOHANG), 0);
    end_process(bystander);
}

/* A child that leads a group takes it along, as a shell with job control does. */
static void groups_of_its_own_are_ended(void **state)
{
    process p = START("run", "m", "--", "sh", "-c", "setsid sh -c 'sleep 1000 & echo $! > \"$0\"; wait' \"$0\" & cat",
                      in_dir("sleeper"));
    await_file(in_dir("sleeper"));
    const pid_t sleeper = (pid_t)number_in(in_dir("sleeper"));
    assert_int_equal(finish(&p), 0);
    await_death(sleeper);
    assert_null(strstr(err_of(&p), "SIGKILL")); /* SIGTERM reached all of the group */
}

/* --- means ------------------------------------------------------------------------------------------- */

/* Without its list of children a process cannot say what a command leaves behind: nothing is run. All of /proc cannot be
 * taken away here, because the sanitizers need it. */
static void without_a_list_of_children_nothing_runs(void **state)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char list[64];
        snprintf(list, sizeof list, "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("/dev/null", list, NULL, MS_BIND, NULL) < 0)
            _exit(99);
        execl(SIMBA_TEST_COMMAND, "simba", "run", "m", "--", "touch", in_dir("ran"), (char *)NULL);
        _exit(98);
    }
    process p = {.pid = pid, .in = -1, .err_path = "/dev/null"};
    const int code = finish(&p);
    if (code == 99)
        skip(); /* not allowed here */
    assert_int_equal(code, 71);
    assert_int_not_equal(access(in_dir("ran"), F_OK), 0);
}

/* The folder of the control group that a command runs in; "": none was made for it. */
static void find_control_group(const char *file, char *folder, size_t size)
{
    char line[600];
    snprintf(line, sizeof line, "%s", contents(file));
    line[strcspn(line, "\n")] = '\0';
    const char *path = strstr(line, "::/");
    const bool unified = access("/sys/fs/cgroup/cgroup.procs", F_OK) == 0;
    folder[0] = '\0';
    if (path != NULL && strstr(path, "/simba-") != NULL)
        snprintf(folder, size, "/sys/fs/cgroup%s%s", unified ? "" : "/unified", path + 2);
}

/* Where control groups can be made, the command runs in one, and it is removed however the run ends. */
static void a_control_group_comes_and_goes(void **state)
{
    char folder[700];
    for (int killed = 0; killed < 2; killed++) {
        process p = START("run", "m", "--", "sh", "-c", "grep ^0:: /proc/self/cgroup > \"$0\"; cat", in_dir("group"));
        await_file(in_dir("group"));
        find_control_group(in_dir("group"), folder, sizeof folder);
        if (folder[0] == '\0') {
            finish(&p);
            skip(); /* there is none to be had here */
        }
        assert_int_equal(access(folder, F_OK), 0);
        const pid_t supervisor = child_of(p.pid);
        if (killed)
            kill(p.pid, SIGKILL);
        assert_int_equal(finish(&p), killed ? 1000 + SIGKILL : 0);
        if (killed)
            await_death(supervisor);
        assert_int_not_equal(access(folder, F_OK), 0);
        remove(in_dir("group"));
    }
}

/* In a mount namespace without control groups, if that is allowed; where it is not, there are none to be made either. */
static void hide_control_groups(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", "/sys/fs/cgroup", "tmpfs", 0, NULL) < 0)
        return;
}

/* Without them the supervisor, and the wrapper should that be killed, find what has detached itself all the same. */
static void without_control_groups_all_are_found(void **state)
{
    before_simba = hide_control_groups;
    for (int kill_supervisor = 0; kill_supervisor < 2; kill_supervisor++) {
        process p = START("run", "m", "--", helper, "family", in_dir("parent"), in_dir("child"));
        await_file(in_dir("parent"));
        await_file(in_dir("child"));
        const pid_t supervisor = child_of(p.pid);
        kill(kill_supervisor ? supervisor : p.pid, SIGKILL);
        assert_int_equal(finish(&p), kill_supervisor ? 79 : 1000 + SIGKILL);
        if (!kill_supervisor)
            await_death(supervisor);
        const int64_t dead_ns = now_ns();
        assert_int_equal(RUN("run", "m", "--", helper, "stamp", in_dir("next")), 0);
        assert_true(number_in(in_dir("parent")) < dead_ns);
        assert_true(number_in(in_dir("child")) < dead_ns);
        remove(in_dir("parent"));
        remove(in_dir("child"));
    }
}

/* Root, but not allowed to send signals to the processes of others: as for everybody else. */
static void give_up_killing(void)
{
    if (prctl(PR_CAPBSET_DROP, CAP_KILL) < 0)
        _exit(99);
}

/* A process of another user takes no signal from us. In a control group of its own it is killed all the same. */
static void processes_of_another_user_are_ended(void **state)
{
    char folder[700];
    if (geteuid() != 0)
        skip();
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "grep ^0:: /proc/self/cgroup > \"$0\"", in_dir("group")), 0);
    find_control_group(in_dir("group"), folder, sizeof folder);
    if (folder[0] == '\0')
        skip(); /* there is none to be had here */
    before_simba = give_up_killing;
    process p = START("run", "--grace", "100ms", "m", "--", "sh", "-c", "\"$0\" defect \"$1\" & cat", helper,
                      in_dir("defector"));
    await_file(in_dir("defector"));
    const pid_t defector = (pid_t)number_in(in_dir("defector"));
    assert_int_equal(finish(&p), 0);
    assert_non_null(strstr(err_of(&p), "left processes behind; they were ended with SIGKILL"));
    await_death(defector);
}

/* --- giving back -------------------------------------------------------------------------------------- */

/* The wrapper is killed: when all is dead, the supervisor gives the mutex back, and the next one gets it long before the
 * lease would have ended. */
static void a_killed_wrapper_gives_back(void **state)
{
    char url[500];
    snprintf(url, sizeof url, "sqlite://%s?ttl=1m&transition=1m", in_dir("store.db"));
    setenv("SIMBA_URL", url, 1);
    for (int schedule = 0; schedule < 2; schedule++) {
        process p = !schedule
                        ? START("run", "m", helper, "family", in_dir("parent"), in_dir("child"))
                        : START("schedule", "--every", "1h", "m", helper, "family", in_dir("parent"), in_dir("child"));
        await_file(in_dir("parent"));
        await_file(in_dir("child"));
        const pid_t supervisor = child_of(p.pid);
        kill(p.pid, SIGKILL);
        assert_int_equal(finish(&p), 1000 + SIGKILL);
        await_death(supervisor);
        assert_int_equal(lease_end_ns("m"), 0);
        assert_int_equal(RUN("run", "--no-wait", "m", "--", helper, "stamp", in_dir("next")), 0);
        assert_true(number_in(in_dir("parent")) < number_in(in_dir("next")));
        assert_true(number_in(in_dir("child")) < number_in(in_dir("next")));
        remove(in_dir("parent"));
        remove(in_dir("child"));
    }
}

/* Only its own grant: if somebody else has got the mutex meanwhile, that one keeps it. */
static void only_its_own_is_given_back(void **state)
{
    process p = START("run", "m", "--", "sh", "-c", "echo > \"$0\"; exec sleep 1000", in_dir("first"));
    await_file(in_dir("first"));
    const pid_t supervisor = child_of(p.pid);
    kill(p.pid, SIGSTOP);
    assert_int_equal(RUN("release", "--force", "--yes", "m"), 0);
    process other = START("--id", "other", "run", "m", "--", "sh", "-c", "echo > \"$0\"; cat", in_dir("second"));
    await_file(in_dir("second"));
    kill(p.pid, SIGKILL);
    assert_int_equal(finish(&p), 1000 + SIGKILL);
    await_death(supervisor);
    assert_int_equal(RUN("run", "--no-wait", "m", "--", "true"), 75);
    assert_non_null(strstr(err_of(&last), "other"));
    assert_int_equal(finish(&other), 0);
    assert_string_equal(err_of(&other), "");
}

/* The internal command takes nothing but what the supervisor writes, and shows no password. */
static void give_back_wants_a_grant(void **state)
{
    assert_int_equal(RUN("give-back"), 64);
    process p = START("give-back");
    assert_int_equal(write(p.in,
                           "memory://x\0m\0me\0"
                           "1\0"
                           "2",
                           19),
                     19);
    assert_int_equal(finish(&p), 64);
    p = START("give-back");
    assert_int_equal(write(p.in,
                           "memory://x\0m\0me\0"
                           "1\0"
                           "2\0",
                           20),
                     20);
    assert_int_equal(finish(&p), 1);
    assert_string_equal(err_of(&p), "");
}

/* --- together ---------------------------------------------------------------------------------------- */

/* The wrapper and the supervisor are killed at the same moment, so that neither can act for the other. The command dies with
 * its parent. */
static void both_killed_together(void **state)
{
    before_simba = hide_control_groups; /* nobody would be left to remove one */
    process p = START("run", "m", "--", "sh", "-c", "echo $$ > \"$0\"; exec sleep 1000", in_dir("command"));
    await_file(in_dir("command"));
    const pid_t command = (pid_t)number_in(in_dir("command"));
    const pid_t supervisor = child_of(p.pid);
    kill(p.pid, SIGSTOP);
    kill(supervisor, SIGSTOP);
    const int64_t end_ns = lease_end_ns("m");
    kill(supervisor, SIGKILL);
    kill(p.pid, SIGKILL);
    assert_int_equal(finish(&p), 1000 + SIGKILL);
    await_death(command);
    assert_true(now_ns() < end_ns);
}

/* A command that is stopped hears SIGTERM all the same, and can tidy up. */
static void a_stopped_command_is_woken(void **state)
{
    process p = START("run", "--max-hold", "1s", "--grace", "400ms", "m", "--", "sh", "-c",
                      "trap 'echo tidied; exit 3' TERM; echo $$ > \"$0\"; sleep 1000 & wait", in_dir("command"));
    await_file(in_dir("command"));
    kill(-(pid_t)number_in(in_dir("command")), SIGSTOP);
    assert_int_equal(finish(&p), 79);
    assert_string_equal(out_of(&p), "tidied\n");
}

/* The command is stopped, and then the wrapper is killed: the supervisor kills the command where it stands. */
static void a_stopped_command_dies_with_the_wrapper(void **state)
{
    process p = START("run", "m", "--", "sh", "-c", "echo $$ > \"$0\"; exec sleep 1000", in_dir("command"));
    await_file(in_dir("command"));
    const pid_t command = (pid_t)number_in(in_dir("command"));
    kill(command, SIGSTOP);
    const int64_t end_ns = lease_end_ns("m");
    kill(p.pid, SIGKILL);
    assert_int_equal(finish(&p), 1000 + SIGKILL);
    await_death(command);
    assert_true(now_ns() < end_ns);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(groups_of_others_are_left_alone),
        TEST(groups_of_its_own_are_ended),
        TEST(without_a_list_of_children_nothing_runs),
        TEST(a_control_group_comes_and_goes),
        TEST(without_control_groups_all_are_found),
        TEST(processes_of_another_user_are_ended),
        TEST(a_killed_wrapper_gives_back),
        TEST(only_its_own_is_given_back),
        TEST(give_back_wants_a_grant),
        TEST(both_killed_together),
        TEST(a_stopped_command_is_woken),
        TEST(a_stopped_command_dies_with_the_wrapper),
    };
    return cmocka_run_group_tests_name("run_supervisor", tests, NULL, NULL);
}
