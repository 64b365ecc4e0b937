/* The HTTP listener of a process that has something more important to do. One descriptor stands for all of its sockets; a turn
 * reads and writes what can be read and written at once. There are few connections of bounded size, each has two seconds, and if
 * one too many comes the oldest has to go: whoever keeps connections open keeps nobody else from being answered. */
#ifndef SIMBA_CLI_HEALTH_LISTENER_H
#define SIMBA_CLI_HEALTH_LISTENER_H

#include "health/view.h"

/* `where` NULL: nobody wants one. Returns CLI_GO or an exit code, and then all has been said. */
int listener_open(const char *command, const char *where, void (*look)(health_view *ret_view));
void listener_close(void);
/* -1: there is none. */
int listener_fd(void);
void listener_turn(void);

#endif
