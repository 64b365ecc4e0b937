/* The configuration file: which store, and how long its leases are, for those who do not want to say so each time. It
 * is looked at only if neither --url nor SIMBA_URL names a store, or if --config asks for it. */
#ifndef SIMBA_CLI_CONFIG_H
#define SIMBA_CLI_CONFIG_H

#include "cli.h"

/* Fill in what the options left open. Once; later calls do nothing. Returns CLI_GO or an exit code, and then all has
 * been said, by file and line. */
int config_apply(const char *command, cli_globals *globals);

#endif
