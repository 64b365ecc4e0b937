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

/* Make one below that of this process. If that is not possible, the others do nothing. */
void cgroup_make(cgroup *ret_group);

/* _Fork(), with a child that is in the group from its first moment. Where the kernel cannot do that, the child moves itself, for
 * which it waits until all processors have noticed, some 10 ms. Should that fail too, it is not in the group. */
pid_t cgroup_fork(const cgroup *group);

/* SIGKILL to all that is in it. */
void cgroup_kill(const cgroup *group);

/* Remove it once it is empty. It may be removed by several processes that know of it. */
void cgroup_remove(const cgroup *group);

/* Let go of the descriptors. */
void cgroup_close(cgroup *group);

#endif
