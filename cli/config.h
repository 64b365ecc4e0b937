/* The configuration file: names the store and the length of its leases, for people who do not want to give them each
 * time. It is read only if neither --url nor SIMBA_URL names a store, or if --config asks for it. */
#ifndef SIMBA_CLI_CONFIG_H
#define SIMBA_CLI_CONFIG_H

#include "cli.h"

/* Fill in the settings that no option has set. Once. Returns CLI_GO, or an exit code after a message that names file and
 * line. */
int config_apply(const char *command, cli_globals *globals);

#endif
