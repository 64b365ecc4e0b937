/* See cgroup.h. */
#include "child/cgroup.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

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
        cgroup_close(ret_group);
    }
}

static void enter(const cgroup *group)
{
    const int procs = openat(group->folder, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (procs < 0 || write(procs, "0", 1) < 0)
        return;
    close(procs);
}

pid_t cgroup_fork(const cgroup *group)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)(unsigned)group->folder};
    pid_t pid = group->folder < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid >= 0)
        return pid;
    pid = _Fork();
    if (pid == 0 && group->folder >= 0)
        enter(group);
    return pid;
}

void cgroup_kill(const cgroup *group)
{
    /* If it fails, the watchdog has other means. */
    if (group->kill >= 0 && write(group->kill, "1", 1) < 0)
        return;
}

void cgroup_remove(const cgroup *group)
{
    if (group->folder >= 0)
        rmdir(group->path);
}

void cgroup_close(cgroup *group)
{
    if (group->folder >= 0)
        close(group->folder);
    if (group->kill >= 0)
        close(group->kill);
    group->folder = group->kill = -1;
}
