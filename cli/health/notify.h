/* Notifications to systemd (sd_notify): that the service is ready, a sentence for `systemctl status`, and signs of
 * life for its watchdog. While this process leads, renewals give these signs, not a timer: the watchdog has to find
 * a process that lives and cannot renew. By hand, because it is one datagram, and libsystemd would be one more
 * library in every container. */
#ifndef SIMBA_CLI_HEALTH_NOTIFY_H
#define SIMBA_CLI_HEALTH_NOTIFY_H

#include "health/health.h"

/* `when` is the argument of --notify; NULL: it is ready when it contends. Returns CLI_GO, or an exit code after a
 * message. */
int notify_open(const char *command, const char *when);
void notify_close(void);
bool notify_is_wanted(void);
/* When to call again although nothing happens; -1: no need to. */
int notify_pause_ms(void);
void notify_tell(const health_view *view);

/* Does systemd use this variable to talk to the process that it has started, and not to that process's commands? */
bool notify_is_variable(const cli_globals *globals, const char *variable);

#endif
