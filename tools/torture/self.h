/* Starts this program again, as a process that does part of its work: `simba demo` and `simba torture` play several
 * contenders that way. */
#ifndef SIMBA_CLI_SELF_H
#define SIMBA_CLI_SELF_H

#include <sys/types.h>

/* Run `simba ARGUMENT…`, argv[0] being "simba". *ret_out is the reading end of its standard output. The kernel kills it when
 * this process ends, however it ends. It ignores the signals of the terminal, such as Ctrl-C, which this process handles.
 * Returns its process id or a negative errno. */
pid_t self_start(char *const argv[], int *ret_out);

#endif
