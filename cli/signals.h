/* Signals as something to read. All that concern a command are blocked, and are read from one descriptor by the one thread that
 * knows what to do with them. Until then, while a store is opened, which may take long, they do what they do to any process. What was ignored when we were started
 * (nohup, a shell's background job) stays ignored, for us and for the command. */
#ifndef SIMBA_CLI_SIGNALS_H
#define SIMBA_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

typedef struct cli_signals {
    int fd;            /* readable while a signal waits */
    sigset_t original; /* the mask to give back to a command */
} cli_signals;

/* Before any thread is made but those of the library, which take no signals. Returns CLI_GO, or an exit code after having said
 * what is wrong. */
int signals_open(const char *command, cli_signals *ret_signals);

/* The next signal that waits, or 0. */
int signals_read(const cli_signals *signals);

/* Does it ask a program to end, by custom? */
bool signals_is_ending(int number);

#endif
