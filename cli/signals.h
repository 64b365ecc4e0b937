/* Signals as something to read. All that concern a command are blocked before the library makes its threads, and are
 * read from one descriptor by the one thread that knows what to do with them. What was ignored when we were started
 * (nohup, a shell's background job) stays ignored, for us and for the command. */
#ifndef SIMBA_CLI_SIGNALS_H
#define SIMBA_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

typedef struct cli_signals {
    int fd;            /* readable while a signal waits */
    sigset_t original; /* the mask to give back to a command */
} cli_signals;

/* Before any thread is made. Returns 0 or a negative errno. */
int signals_open(cli_signals *ret_signals);
void signals_close(cli_signals *signals);

/* The next signal that waits, or 0. */
int signals_read(const cli_signals *signals);

/* Does it ask a program to end, by custom? */
bool signals_is_ending(int number);

#endif
