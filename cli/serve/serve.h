/* `simba serve`: one thread answers HTTP from a table of the store's mutexes (table.h), another one asks the store
 * (looker.h). No request of an HTTP client reaches the store, except an allowed forced release; and none costs more
 * than a bounded amount of memory: answers are written in pieces, as fast as they are read. */
#ifndef SIMBA_CLI_SERVE_H
#define SIMBA_CLI_SERVE_H

#include "cli.h"
#include "options.h"

/* Serve until a signal comes. Returns the exit code. */
int serve_run(cli_globals *globals, const serve_options *options);

#endif
