/* A control group (cgroup v2) for one command, where this process may make one: as root, or below a delegated group.
 * The kernel keeps every process in it that the command starts, whatever these do to their parents, groups, sessions
 * and users, and kills all of them with one write. Where none can be made, the watchdog makes do without.
 *
 * All functions but the first may be called between fork and exec. */
#ifndef SIMBA_CLI_CGROUP_H
#define SIMBA_CLI_CGROUP_H

#include <stdbool.h>

typedef struct cgroup {
    int procs; /* descriptor of cgroup.procs; -1: there is no such group */
    int kill;  /* descriptor of cgroup.kill */
    char path[1024];
} cgroup;

/* Make one below that of this process. If that is not possible, the others do nothing. */
void cgroup_make(cgroup *ret_group);

/* Move this process into it. False: it is not in there. */
bool cgroup_enter(const cgroup *group);

/* SIGKILL to all that is in it. */
void cgroup_kill(const cgroup *group);

/* Remove it once it is empty. It may be removed by several processes that know of it. */
void cgroup_remove(const cgroup *group);

/* Let go of the descriptors. */
void cgroup_close(cgroup *group);

#endif
