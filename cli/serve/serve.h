/* `simba serve`: one thread answers HTTP out of a table of what the store has (table.h), another one asks the store
 * (looker.h). Nothing that a client of HTTP does reaches the store, but for a forced release where that is allowed; and
 * nothing that it does costs more than a bounded amount of memory: answers are written as fast as they are read, in pieces. */
#ifndef SIMBA_CLI_SERVE_H
#define SIMBA_CLI_SERVE_H

#include "cli.h"
#include "options.h"

/* Serve until a signal comes. Returns the exit code. */
int serve_run(cli_globals *globals, const serve_options *options);

#endif
