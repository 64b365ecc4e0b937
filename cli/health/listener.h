/* The HTTP listener of a process that has something more important to do. One descriptor stands for all of its
 * sockets; a turn reads and writes whatever is ready. There are few connections of bounded size, each has two
 * seconds, and if one too many comes, the oldest has to go: so a client that keeps connections open cannot keep
 * others from being answered. */
#ifndef SIMBA_CLI_HEALTH_LISTENER_H
#define SIMBA_CLI_HEALTH_LISTENER_H

#include "health/view.h"

/* `where` NULL: no listener is wanted. Returns CLI_GO, or an exit code after a message. */
int listener_open(const char *command, const char *where, void (*look)(health_view *ret_view));
void listener_close(void);
/* -1: there is none. */
int listener_fd(void);
void listener_turn(void);

#endif
