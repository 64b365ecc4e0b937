/* What others may ask, or are told, about the one mutex that this process contends for: an HTTP listener for load balancers and
 * probes (--status-listen), and systemd's notifications (--notify). Both judge by the lease as the client has it at that moment,
 * never by what was true before: when a renewal hangs, they turn red before the lease ends.
 *
 * A process has one of these, as it has one journal. It starts no thread. Whoever waits in the command's loop polls health_fd() and
 * calls health_turn(), which never blocks and does little at a time, so that neither a renewal nor the end of a command waits for
 * somebody who asks. */
#ifndef SIMBA_CLI_HEALTH_H
#define SIMBA_CLI_HEALTH_H

#include "health/view.h"

/* How things are, now. */
typedef void (*health_look_fn)(void *user, health_view *ret_view);

/* Before the store is opened, so that mistakes are told first. Returns CLI_GO or an exit code, and then all has been said. Does
 * nothing if nobody wants to know. */
int health_open(const char *command, const cli_globals *globals, health_look_fn look, void *user);
/* Leadership has been given back, or never came: nobody is told any more. */
void health_close(void);

/* To be polled for input; -1: nobody listens. */
int health_fd(void);
/* `ms` of a loop that would wait for so long (-1: for ever), or less if somebody has to be told something before. */
int health_pause_ms(int ms);
/* Once in every turn of the loop. */
void health_turn(void);

#endif
