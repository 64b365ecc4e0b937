/* The supervisor: a process between us and the command. It starts the command in a process group of its own, is the
 * parent of all that the command starts (also of what detaches itself: it is their subreaper), and kills everything
 * when we are gone or when the deadline that we share with it has passed, whether or not we are able to run. So the
 * command does not outlive the lease even if this process is killed or frozen.
 *
 *     simba run ──▶ supervisor ──▶ command ──▶ …
 *          signals, "kill all" ▶   ◀ reports
 *
 * What it cannot reach: processes of another user (a setuid program) unless the command runs in a control group, those
 * that sleep in the kernel and take no signal, and those that were asked of somebody else (systemd-run, docker, at). It
 * is of no help if it and its owner are killed or stopped together. */
#ifndef SIMBA_CLI_SUPERVISOR_H
#define SIMBA_CLI_SUPERVISOR_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "child/descendants.h"
#include "child/give_back.h"

/* The reports of the supervisor, in this order; after the last it ends. */
typedef enum supervisor_word {
    SUPERVISOR_NO_EXEC, /* the command could not be started; value: errno */
    SUPERVISOR_STARTED, /* value: its process id, which is its group's too */
    SUPERVISOR_STOPPED, /* by job control; value: the signal. May come often */
    SUPERVISOR_ENDED,   /* value: its wait status */
    SUPERVISOR_LEFT,    /* it has ended, and left others behind */
    SUPERVISOR_GONE,    /* nothing of it is left; value: 1 if the deadline had passed and it was killed for that */
} supervisor_word;

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
    /* The mutex that the supervisor gives back if our side is gone when all is over. NULL: none. */
    const give_back *give_back;
} supervisor_plan;

typedef struct supervisor {
    pid_t pid;
    int orders;                   /* we write */
    int reports;                  /* we read supervisor_report from it; the end: the supervisor is dead */
    _Atomic int64_t *deadline_ns; /* shared: everything is dead by then, and every renewal moves it */
    cgroup group;                 /* in which the command runs, if there can be one */
} supervisor;

/* Returns 0 or a negative errno. */
int supervisor_start(const supervisor_plan *plan, supervisor *ret_supervisor);

/* Send a signal to the group of the command, or, after that has ended, to the processes that it left behind. SIGKILL goes
 * to everything, at once. */
void supervisor_signal(const supervisor *s, int number);

/* Its next report; false: there is none, because it is dead. Blocks. */
bool supervisor_read(const supervisor *s, supervisor_report *ret_report);

/* Let go of it. If it still runs, it takes that for our end and kills everything. */
void supervisor_close(supervisor *s);

#endif
