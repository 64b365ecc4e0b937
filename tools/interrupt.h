/* Signals by which a person ends a command that would otherwise leave something behind in the store. The first one is noted, and
 * the command tidies up; the second one ends the process. A signal that was ignored when this process was started stays ignored. */
#ifndef SIMBA_CLI_INTERRUPT_H
#define SIMBA_CLI_INTERRUPT_H

#include <signal.h>

/* The number of the signal that has come; 0: none. The kernel may run the handler on any thread: read it by interrupt_number(). */
extern volatile sig_atomic_t interrupt_signal;
int interrupt_number(void);

void interrupt_catch(void);

/* The exit code of a command that would have ended with this one. */
int interrupt_code(int code);

#endif
