/* See descendants.h. */
#include "child/descendants.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the control group -------------------------------------------------------------------------- */

/* Where cgroup v2 is mounted: alone, or beside the older hierarchies. */
static const char *find_mount(void)
{
    static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    struct statfs info;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (statfs(places[i], &info) == 0 && info.f_type == CGROUP2_SUPER_MAGIC)
            return places[i];
    }
    return NULL;
}

/* The group of this process, below the mount: the line "0::/path". */
static bool find_own(char *path, size_t size)
{
    char line[1024];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        found = strncmp(line, "0::/", 4) == 0 && strchr(line, '\n') != NULL;
        if (found)
            snprintf(path, size, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    }
    if (file != NULL)
        fclose(file);
    return found;
}

void cgroup_make(cgroup *ret_group)
{
    char own[1024];
    const char *mount = find_mount();
    *ret_group = (cgroup){.folder = -1, .kill = -1};
    if (mount == NULL || !find_own(own, sizeof own))
        return;
    const int length = snprintf(ret_group->path, sizeof ret_group->path, "%s%s/simba-%d", mount,
                                strcmp(own, "/") == 0 ? "" : own, (int)getpid());
    if (length >= (int)sizeof ret_group->path)
        return;
    rmdir(ret_group->path); /* a killed process that had our number may have left it */
    if (mkdir(ret_group->path, 0755) < 0)
        return;
    ret_group->folder = open(ret_group->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ret_group->kill = openat(ret_group->folder, "cgroup.kill", O_WRONLY | O_CLOEXEC); /* since Linux 5.14 */
    if (ret_group->folder < 0 || ret_group->kill < 0) {
        rmdir(ret_group->path);
        cgroup_remove(ret_group);
        ret_group->folder = ret_group->kill = -1;
    }
}

pid_t cgroup_fork(const cgroup *group)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)(unsigned)group->folder};
    pid_t pid = group->folder < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid >= 0)
        return pid;
    pid = _Fork();
    if (pid == 0 && group->folder >= 0) {
        const int procs = openat(group->folder, "cgroup.procs", O_WRONLY | O_CLOEXEC);
        if (procs >= 0 && write(procs, "0", 1) >= 0)
            close(procs);
    }
    return pid;
}

void cgroup_remove(const cgroup *group)
{
    if (group->folder >= 0) {
        rmdir(group->path);
        close(group->folder);
    }
    if (group->kill >= 0)
        close(group->kill);
}

/* --- children ----------------------------------------------------------------------------------- */

/* The list is that of the calling thread. The other threads of this process have no children. */
static int open_list(void)
{
    return open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
}

bool descendants_are_known(void)
{
    struct statfs info;
    const int fd = open_list();
    const bool known = fd >= 0 && fstatfs(fd, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
    if (fd >= 0)
        close(fd);
    return known;
}

/* A group that the child does not lead may be anybody's: every process may join any group of its session. */
void descendants_signal_one(pid_t child, int number)
{
    if (getpgid(child) == child)
        kill(-child, number);
    else
        kill(child, number);
}

void descendants_signal(int number)
{
    char text[512];
    pid_t pid = 0;
    ssize_t got;
    const int fd = open_list();
    if (fd < 0)
        return;
    while ((got = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else if (pid > 0) {
                descendants_signal_one(pid, number);
                pid = 0;
            }
        }
    }
    close(fd);
}

int descendants_kill(const cgroup *group, pid_t first)
{
    int found = -1;
    for (;;) {
        int status;
        if (group->kill >= 0 && write(group->kill, "1", 1) < 0)
            errno = 0; /* the signals below are the other means */
        /* The group that it made, even if it has left that itself. The number stays taken until we wait for it. */
        if (first > 0 && found < 0)
            kill(-first, SIGKILL);
        descendants_signal(SIGKILL);
        /* A dying process leaves its children to us before we can wait for it: the next round has them. */
        const pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno != EINTR)
            return found;
        if (pid == first && first > 0)
            found = status;
    }
}
