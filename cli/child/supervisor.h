/* The supervisor: a process between the wrapper (`simba run`) and the command. It starts the command in a process group
 * of its own, is the parent of all that the command starts (also of what detaches itself: it is their subreaper), and
 * kills everything when the wrapper is gone or when the deadline that they share has passed, whether or not the wrapper
 * is able to run. So the command does not outlive the lease even if the wrapper is killed or frozen.
 *
 *     simba run ──▶ supervisor ──▶ command ──▶ …
 *     deadline, signals ▶   ◀ reports
 *
 * A child keeps its process id until its parent waits for it: no signal can go to a stranger that has got the same
 * number since. Where the wrapper may make a control group (cgroup v2), as root or below a delegated group, the kernel
 * keeps every process in it that the command starts, whatever these do to their parents, groups, sessions and users, and
 * kills all of them with one write.
 *
 * What it cannot reach: processes of another user (a setuid program) unless the command runs in a control group, those
 * that sleep in the kernel and take no signal, and those that were asked of somebody else (systemd-run, docker, at). It
 * is of no help if it and the wrapper are killed or stopped together. */
#ifndef SIMBA_CLI_SUPERVISOR_H
#define SIMBA_CLI_SUPERVISOR_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "child/give_back.h"

/* The reports of the supervisor, in this order; after the last it ends. */
typedef enum supervisor_word {
    SUPERVISOR_NO_EXEC, /* the command could not be started; value: errno */
    SUPERVISOR_STARTED, /* value: its process id, which is its group's too */
    SUPERVISOR_STOPPED, /* by job control; value: the signal. May come often */
    SUPERVISOR_ENDED,   /* value: its wait status */
    SUPERVISOR_LEFT,    /* it has ended, and left others behind */
    SUPERVISOR_GONE,    /* nothing of it is left; value: one of supervisor_end */
} supervisor_word;

typedef enum supervisor_end {
    SUPERVISOR_ALL_ENDED, /* by themselves */
    SUPERVISOR_KILLED,    /* the deadline passed, after the wrapper had asked the command to stop */
    SUPERVISOR_TOO_LATE,  /* the deadline passed, and the wrapper had done nothing */
    SUPERVISOR_ORPHANED,  /* the wrapper is dead */
} supervisor_end;

typedef struct supervisor_report {
    int word;
    int value;
} supervisor_report;

/* What to start, and how. */
typedef struct supervisor_plan {
    char *const *argv;
    char *const *envp;
    const sigset_t *mask; /* of the command */
    bool foreground;      /* it gets the terminal on standard input */
    int64_t deadline_ns;  /* on the boot-time clock */
    /* The mutex that the supervisor gives back if the wrapper is gone when all is over. NULL: none. */
    const give_back *give_back;
} supervisor_plan;

/* In memory that the wrapper and the supervisor share. */
typedef struct supervisor_terms {
    _Atomic int64_t deadline_ns; /* everything is dead by then, and every renewal moves it */
    _Atomic bool stopping;       /* the wrapper has asked the command to stop */
} supervisor_terms;

typedef struct supervisor {
    pid_t pid;
    int orders;  /* the wrapper writes signals, a byte each */
    int reports; /* and reads supervisor_report; the end: the supervisor is dead */
    supervisor_terms *terms;
    int cgroup;      /* descriptor of the control group's folder; -1: there is none */
    int cgroup_kill; /* and of its file cgroup.kill */
    char cgroup_path[1024];
} supervisor;

/* Does the system list the children of a process? Without /proc it does not, and nothing can be supervised. */
bool supervisor_is_possible(void);

/* Returns 0 or a negative errno. */
int supervisor_start(const supervisor_plan *plan, supervisor *ret_supervisor);

/* Send a signal to the group of the command, or, after that has ended, to the processes that it left behind. The
 * supervisor then looks at the terms: one that brings the deadline forward needs a signal to follow. */
void supervisor_signal(const supervisor *s, int number);

/* Its next report; false: there is none, because it is dead. Blocks. */
bool supervisor_read(const supervisor *s, supervisor_report *ret_report);

/* Send SIGKILL to everything in the control group and to all children of this process, again and again until there are
 * none: when it returns, no descendant is left. The wrapper calls it if the supervisor was killed, and has left its
 * children to the wrapper. Returns the wait status of the child `command`, or -1 (also for 0, which is none). */
int supervisor_kill_all(const supervisor *s, pid_t command);

/* Let go of it. If it still runs, it takes that for the end of the wrapper and kills everything. */
void supervisor_close(supervisor *s);

#endif
