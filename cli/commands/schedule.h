/* The two halves of `simba schedule`. */
#ifndef SIMBA_CLI_COMMANDS_SCHEDULE_H
#define SIMBA_CLI_COMMANDS_SCHEDULE_H

#include "cli.h"

/* Print the schedules of the mutexes whose names match the pattern; NULL: all. Returns the exit code. */
int schedule_list(cli_globals *globals, const char *pattern, bool json);

#endif
