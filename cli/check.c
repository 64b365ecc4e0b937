/* See check.h. */
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child/child.h"
#include "clock.h"

#define RUNS_TICK_MS 20 /* how often to look whether it has ended */

int check_options(const char *command, const check *c)
{
    if (c->every_ms > 0 && c->script == NULL)
        return cli_usage_error(command, "--check-every is for --check");
    return CLI_GO;
}

static int64_t period_ns(const check *c)
{
    return (c->every_ms > 0 ? c->every_ms : CHECK_EVERY_MS) * MS;
}

/* Between fork and exec. */
static void become_check(const check *c, pid_t parent, char *const *environment)
{
    char *argv[] = {"sh", "-c", (char *)c->script, NULL};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getppid() != parent || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(126);
    sigprocmask(SIG_SETMASK, &c->signals->original, NULL);
    execvpe(argv[0], argv, environment);
    _exit(127);
}

/* Print only changes. */
static void judge(check *c, bool good, const char *why)
{
    if (!good && (c->good || !c->done))
        cli_error(c->command, "the check failed: it %s.", why);
    else if (good && c->done && !c->good)
        cli_info(c->command, "the check succeeds again.");
    c->done = true;
    c->good = good;
}

static void begin(check *c)
{
    const pid_t parent = getpid();
    signal(SIGCHLD, SIG_DFL); /* the parent of this process may have ignored its children; here their ends matter */
    char **environment = child_environment(c->globals, &(child_facts){.mutex = c->mutex});
    c->pid = environment != NULL ? _Fork() : -1; /* see supervisor.c */
    if (c->pid == 0)
        become_check(c, parent, environment);
    free((void *)environment);
    if (c->pid > 0)
        setpgid(c->pid, c->pid); /* parent and child both do it: the group can be killed from now on */
    else
        judge(c, false, "could not be started");
    c->due_ns = clock_boot_ns() + period_ns(c);
}

static void take_result(check *c)
{
    char why[64] = "was ended by somebody else";
    int status = 0;
    const bool known = waitpid(c->pid, &status, 0) == c->pid;
    if (known && WIFEXITED(status))
        snprintf(why, sizeof why, "exited with %d", WEXITSTATUS(status));
    else if (known)
        snprintf(why, sizeof why, "was ended by signal %d", WTERMSIG(status));
    judge(c, known && WIFEXITED(status) && WEXITSTATUS(status) == 0, why);
    c->pid = 0;
    c->due_ns = clock_boot_ns() + period_ns(c);
}

bool check_look(check *c)
{
    if (c->script == NULL)
        return true;
    const int64_t now_ns = clock_boot_ns();
    if (c->pid <= 0) {
        if (now_ns >= c->due_ns)
            begin(c);
        return c->good;
    }
    /* Until it is waited for, nobody else gets its number. */
    siginfo_t info = {.si_pid = 0};
    const bool gone = waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0;
    const bool ended = info.si_pid == c->pid;
    const bool late = now_ns >= c->due_ns;
    if (ended || (late && !gone))
        kill(-c->pid, SIGKILL); /* and all that it has started */
    if (ended || gone)
        take_result(c);
    else if (late)
        judge(c, false, "took too long");
    return c->good;
}

int check_pause_ms(const check *c, int ms)
{
    if (c->script == NULL)
        return ms;
    const int64_t due_ms = max64(0, (c->due_ns - clock_boot_ns()) / MS + 1);
    const int64_t pause_ms = c->pid > 0 ? RUNS_TICK_MS : min64(due_ms, INT32_MAX);
    return ms < 0 || ms > pause_ms ? (int)pause_ms : ms;
}

void check_end(check *c)
{
    if (c->pid > 0 && kill(-c->pid, SIGKILL) == 0)
        waitpid(c->pid, NULL, 0);
    c->pid = 0;
}
