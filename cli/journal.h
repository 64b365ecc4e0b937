/* Where the library's log goes: lines for people to standard error, in the form of say.h, and the events of
 * contenders to the file of --event-log. */
#ifndef SIMBA_CLI_JOURNAL_H
#define SIMBA_CLI_JOURNAL_H

#include "cli.h"

/* Let the client that is opened with these options write its log here. Returns CLI_GO, or an exit code after a
 * message. */
int journal_open(const char *command, const cli_globals *globals, simba_client_options *options);

#endif
