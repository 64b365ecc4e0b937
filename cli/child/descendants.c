/* See descendants.h. */
#include "child/descendants.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

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
        cgroup_kill(group);
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
