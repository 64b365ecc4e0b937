/* All that came from this process and still runs. A process that is a subreaper (PR_SET_CHILD_SUBREAPER) becomes the
 * parent of every descendant that loses its own, so that killing its children until it has none leaves none of their
 * children either. The functions may be called between fork and exec.
 *
 * A child keeps its process id until it is waited for, which only this process does: no signal can go to a stranger that
 * has got the same number since. */
#ifndef SIMBA_CLI_DESCENDANTS_H
#define SIMBA_CLI_DESCENDANTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "child/cgroup.h"

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
