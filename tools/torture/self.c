/* See self.h. */
#include "torture/self.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

static const int from_terminal[] = {SIGINT, SIGQUIT, SIGHUP, SIGTSTP};

/* In the child: calls only functions that are safe after fork. */
static void become(pid_t parent, int out, char *const argv[])
{
    sigset_t none;
    /* Whatever becomes of the parent, this process does not outlive it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    dup2(out, STDOUT_FILENO);
    /* These are the parent's to handle, although the terminal sends them to all. */
    for (size_t i = 0; i < sizeof from_terminal / sizeof from_terminal[0]; i++)
        signal(from_terminal[i], SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* By its name where that can be had: as /proc/self/exe it would be the tool that runs us, under valgrind say. */
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = '\0';
        execv(self, argv);
    }
    execv("/proc/self/exe", argv);
    _exit(127);
}

pid_t self_start(char *const argv[], int *ret_out)
{
    const pid_t parent = getpid();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    const pid_t pid = fork();
    if (pid == 0)
        become(parent, ends[1], argv);
    const int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return -error;
    }
    *ret_out = ends[0];
    return pid;
}
