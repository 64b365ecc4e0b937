/* A control group (cgroup v2) for one command, where this process may make one: as root, or below a delegated group.
 * The kernel keeps every process in it that the command starts, whatever these do to their parents, groups, sessions
 * and users, and kills all of them with one write. Where none can be made, the watchdog makes do without.
 *
 * All functions but the first may be called between fork and exec. */
#ifndef SIMBA_CLI_CGROUP_H
#define SIMBA_CLI_CGROUP_H

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

/* Send SIGKILL to all processes of the group. */
void cgroup_kill(const cgroup *group);

/* Remove the group once it is empty. Several processes that know of it may call this. */
void cgroup_remove(const cgroup *group);

/* Close the descriptors. */
void cgroup_close(cgroup *group);

#endif
