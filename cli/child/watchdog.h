/* The watchdog: a process between us and the command. It starts the command in a process group of its own, is the
 * parent of all that the command starts (also of what detaches itself: it is their subreaper), and kills everything
 * when we are gone or when the deadline that we share with it has passed, whether or not we are able to run. So the
 * command does not outlive the lease even if this process is killed or frozen.
 *
 *     simba run ──▶ watchdog ──▶ command ──▶ …
 *          signals, "kill all" ▶   ◀ reports
 *
 * What it cannot reach: processes of another user (a setuid program) unless the command runs in a control group, those
 * that sleep in the kernel and take no signal, and those that were asked of somebody else (systemd-run, docker, at). It
 * is of no help if it and its owner are killed or stopped together. */
#ifndef SIMBA_CLI_WATCHDOG_H
#define SIMBA_CLI_WATCHDOG_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "child/cgroup.h"
#include "child/give_back.h"

/* The reports of the watchdog, in this order; after the last it ends. */
typedef enum watchdog_word {
    WATCHDOG_NO_EXEC, /* the command could not be started; value: errno */
    WATCHDOG_STARTED, /* value: its process id, which is its group's too */
    WATCHDOG_STOPPED, /* by job control; value: the signal. May come often */
    WATCHDOG_ENDED,   /* value: its wait status */
    WATCHDOG_LEFT,    /* it has ended, and left others behind */
    WATCHDOG_GONE,    /* nothing of it is left; value: 1 if the deadline had passed and it was killed for that */
} watchdog_word;

typedef struct watchdog_report {
    int word;
    int value;
} watchdog_report;

/* What to start, and how. */
typedef struct watchdog_plan {
    char *const *argv;
    char *const *envp;
    const sigset_t *mask; /* of the command */
    bool foreground;      /* it gets the terminal on standard input */
    int64_t deadline_ns;  /* on the boot-time clock */
    /* The mutex that the watchdog gives back if our side is gone when all is over. NULL: none. */
    const give_back *give_back;
} watchdog_plan;

typedef struct watchdog {
    pid_t pid;
    int orders;  /* we write */
    int reports; /* we read watchdog_report from it; the end: the watchdog is dead */
    _Atomic int64_t *deadline_ns;
    cgroup group; /* in which the command runs, if there can be one */
} watchdog;

/* Returns 0 or a negative errno. */
int watchdog_start(const watchdog_plan *plan, watchdog *ret_watchdog);

/* Everything is dead by then. Every renewal moves it. */
void watchdog_set_deadline(const watchdog *dog, int64_t deadline_ns);

/* Send a signal to the group of the command, or, after that has ended, to the processes that it left behind. */
void watchdog_signal(const watchdog *dog, int number);
/* SIGKILL to everything, now. */
void watchdog_kill(const watchdog *dog);

/* Its next report; false: there is none, because it is dead. Blocks. */
bool watchdog_read(const watchdog *dog, watchdog_report *ret_report);

/* Let go of it. If it still runs, it takes that for our end and kills everything. */
void watchdog_close(watchdog *dog);

#endif
