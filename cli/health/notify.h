/* What systemd is told (sd_notify): that the service is ready, a sentence for `systemctl status`, and signs of life for its watchdog.
 * Those come from renewals while this process leads, and not from a timer: a process that lives and cannot renew is what a watchdog
 * is for. By hand, because it is one datagram, and libsystemd would be one more library in every container. */
#ifndef SIMBA_CLI_HEALTH_NOTIFY_H
#define SIMBA_CLI_HEALTH_NOTIFY_H

#include "health/view.h"

/* `when` is the argument of --notify; NULL: it is ready when it contends. Returns CLI_GO or an exit code, and then all has been
 * said. */
int notify_open(const char *command, const char *when);
void notify_close(void);
bool notify_is_wanted(void);
/* When to be called again although nothing happens; -1: that does not matter. */
int notify_pause_ms(void);
void notify_tell(const health_view *view);

/* Is the variable one of those by which systemd talks to the process that it has started, and not to commands of that? */
bool notify_is_variable(const cli_globals *globals, const char *variable);

#endif
