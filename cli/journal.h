/* Where the library's log goes: lines for people to standard error, as say.h writes them, and the events of contenders to the
 * file that --event-log names. */
#ifndef SIMBA_CLI_JOURNAL_H
#define SIMBA_CLI_JOURNAL_H

#include "cli.h"

/* Have the client that is opened with these options write its log here. Returns CLI_GO or an exit code, and then all has been
 * said. */
int journal_open(const char *command, const cli_globals *globals, simba_client_options *options);

#endif
