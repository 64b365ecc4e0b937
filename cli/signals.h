/* Signals to read from a descriptor. All signals that concern a command are blocked, and the one thread that handles
 * them reads them. Until then, while a store is opened, which may take long, they act as in any process. A signal
 * that was ignored when this process was started (nohup, a shell's background job) stays ignored, also for the command. */
#ifndef SIMBA_CLI_SIGNALS_H
#define SIMBA_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

typedef struct cli_signals {
    int fd;            /* readable while a signal waits */
    sigset_t original; /* the mask to give back to a command */
} cli_signals;

/* Call this before any thread is made, except those of the library, which take no signals. Returns CLI_GO, or an
 * exit code after a message. */
int signals_open(const char *command, cli_signals *ret_signals);

/* The next signal that waits, or 0. */
int signals_read(const cli_signals *signals);

/* Does this signal, by custom, ask a program to end? */
bool signals_is_ending(int number);

#endif
