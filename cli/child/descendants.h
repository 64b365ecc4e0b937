/* All that came from this process and still runs. A process that is a subreaper (PR_SET_CHILD_SUBREAPER) becomes the
 * parent of every descendant that loses its own, so that killing its children until it has none leaves none of their
 * children either. The functions may be called between fork and exec.
 *
 * A child keeps its process id until it is waited for, which only this process does: no signal can go to a stranger that
 * has got the same number since.
 *
 * Where this process may make a control group (cgroup v2), as root or below a delegated group, the kernel keeps every
 * process in it that the command starts, whatever these do to their parents, groups, sessions and users, and kills all of
 * them with one write. */
#ifndef SIMBA_CLI_DESCENDANTS_H
#define SIMBA_CLI_DESCENDANTS_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct cgroup {
    int folder; /* descriptor; -1: there is no such group */
    int kill;   /* descriptor of cgroup.kill */
    char path[1024];
} cgroup;

/* Make a group below that of this process. If that is not possible, the other functions do nothing. */
void cgroup_make(cgroup *ret_group);

/* _Fork(), with a child that is in the group from its first moment. If the kernel cannot do that, the child moves
 * itself, which waits until all processors have noticed, some 10 ms. If that fails too, the child is not in the
 * group. */
pid_t cgroup_fork(const cgroup *group);

/* Remove the group if it is empty, and close its descriptors. Each process that knows of it calls this at its end. */
void cgroup_remove(const cgroup *group);

/* Does the system list the children of a process? Without /proc it does not. */
bool descendants_are_known(void);

/* Send a signal to every child, and to the process group of each that leads one. */
void descendants_signal(int number);

/* The same for one child. */
void descendants_signal_one(pid_t child, int number);

/* Send SIGKILL to everything in the control group and to all children, again and again until there are none. When it
 * returns, no descendant is left. Returns the wait status of the child `first`, or -1 (also for 0, which is none). */
int descendants_kill(const cgroup *group, pid_t first);

#endif
